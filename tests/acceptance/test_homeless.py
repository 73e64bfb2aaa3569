"""A user without a home folder or an entry in passwd can read; other systems get a sentence."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    RunHomeless = Callable[..., subprocess.CompletedProcess[str]]

_HOMELESS = """
import os, pwd, sys
def unknown(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")
pwd.getpwuid = unknown
from registry_cli.main import main
sys.argv[0] = "registry"
main()
"""
_ELSEWHERE = """
import sys
sys.platform = "win32"
from registry_cli.main import main
main()
"""


@pytest.fixture
def run_homeless(environment: dict[str, str], work: Path) -> RunHomeless:
    """Return a function that runs the command as a user id that nobody entered anywhere."""
    kept = {k: v for k, v in environment.items() if k not in ("HOME", "XDG_DATA_HOME")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", _HOMELESS, *arguments],
            env=kept,
            cwd=work,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "select count(*) as n from results"],
        ["ls", "--limit", "1"],
        ["fit", "--model", "qwen-7b", "--gpu", "a100-80gb"],
        ["doctor"],
        ["check"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_user_without_a_home_can_read(run_homeless: RunHomeless, arguments: list[str]) -> None:
    done = run_homeless(*arguments)
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr
    assert done.stdout


def test_a_user_without_a_home_is_told_where_to_write(
    run_homeless: RunHomeless, write: Callable[..., Path], submission: Callable[..., object]
) -> None:
    write("a.json", submission())
    done = run_homeless("add", "a.json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "error: this user has no home folder (no HOME, no entry in passwd)"
    )
    assert run_homeless("init", "mine").returncode == 0
    assert run_homeless("add", "a.json", "--registry", "mine").returncode == 0


def test_another_system_gets_a_sentence(environment: dict[str, str], work: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE, "ls"],
        env=environment,
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        1,
        "error: registry needs Linux; on Windows, run it in WSL\n",
    )


@pytest.mark.parametrize("line", ["doctor", "sources", "ls", "query 'from results'", "--help"])
def test_a_reader_that_hangs_up_is_no_error(
    command: Path, environment: dict[str, str], work: Path, line: str
) -> None:
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} {line} | true"],
        env=environment,
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
