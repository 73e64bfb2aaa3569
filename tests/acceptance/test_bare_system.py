"""Queries need neither /proc nor a folder that can be written to."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    RunBare = Callable[..., subprocess.CompletedProcess[bytes]]

_BARE = """
mount --make-rprivate / || exit 99
for place in / /tmp /var/tmp /dev/shm; do
    ! mountpoint -q $place || mount -o remount,bind,ro $place || exit 99
done
umount -l /proc || exit 99
exec "$@"
"""


@pytest.fixture
def run_bare(environment: dict[str, str]) -> RunBare:
    """Return a function that runs a command where all is read-only and /proc is empty."""

    def run(*command: str) -> subprocess.CompletedProcess[bytes]:
        # nothing can be written, so a measurement of coverage cannot either
        unmeasured = {k: v for k, v in environment.items() if not k.startswith("COV")}
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", _BARE, "sh", *command],
            env=unmeasured,
            cwd="/",
            capture_output=True,
            timeout=300,
            check=False,
        )

    try:
        tried = run("sh", "-c", "! touch /tmp/x && ! ls /proc/self")
    except FileNotFoundError:
        pytest.skip("needs the command unshare")
    if tried.returncode:
        pytest.skip(f"cannot unmount /proc here: {tried.stderr.decode().strip()}")
    return run


@pytest.mark.parametrize(
    ("name", "start"),
    [("csv", b"n\n"), ("table", b"n\n"), ("parquet", b"PAR1"), ("arrow", b"\xff")],
)
def test_a_query_is_answered(
    run_bare: RunBare, command: Path, curated: Path, name: str, start: bytes
) -> None:
    sql = "select count(*) as n from results"
    done = run_bare(str(command), "query", sql, "-f", name, "--registry", str(curated))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.lstrip(b" ").startswith(start)  # the table's name is right-aligned


def test_a_query_is_still_confined(run_bare: RunBare, command: Path, curated: Path) -> None:
    done = run_bare(
        str(command), "query", "from read_text('/etc/passwd')", "--registry", str(curated)
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"error: query: reaches for file '/etc/passwd', but a query")


def test_memory_is_still_limited(run_bare: RunBare, command: Path, curated: Path) -> None:
    sql = "select list(s) from (select repeat('x', 1000000) || range as s from range(100000))"
    done = run_bare(str(command), "query", sql, "--memory", "256MiB", "--registry", str(curated))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"error: query: needs more than the 256 MiB of memory")


def test_a_program_is_answered(run_bare: RunBare, curated: Path) -> None:
    program = (
        "import registry, sys; print(registry.open(sys.argv[1]).query('select 1 as a').rows())"
    )
    done = run_bare(sys.executable, "-c", program, str(curated))
    assert (done.stdout, done.stderr) == (b"[{'a': 1}]\n", b"")
