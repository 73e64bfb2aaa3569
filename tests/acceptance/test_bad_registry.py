"""Registries and disks that cannot be used: one paragraph, exit 1, and nothing written."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]
    Write = Callable[[str, Any], Path]
    Submission = Callable[..., dict[str, Any]]
    Snapshot = Callable[[Path], dict[str, bytes | None]]

ALL = ("--registry", "mine")

_READING = (
    ["query", "select count(*) from results"],
    ["ls", "--model", "qwen-7b"],
    ["check"],
    ["export", "out"],
)
_WRITING = (["add", "a.json"], ["fold"], ["prune"])


@contextlib.contextmanager
def mounted(path: Path, size: str) -> Iterator[None]:
    """Mount a small file system in memory, where this machine and its user can."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def remount_read_only(path: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(path)], check=True, capture_output=True)


@pytest.fixture(autouse=True)
def document(write: Write, submission: Submission) -> Path:
    return write("a.json", submission())


def newest_manifest(registry: Path) -> Path:
    return max((registry / "tables").glob("manifest-*.json"))


@pytest.fixture
def read_only(curated: Path, work: Path) -> Iterator[Path]:
    """Return a registry on a disk that is mounted read-only."""
    place = work / "mine"
    place.mkdir()
    with mounted(place, "16m"):
        shutil.copytree(curated, place, dirs_exist_ok=True)
        remount_read_only(place)
        yield place


@pytest.mark.parametrize("arguments", [["add", "a.json"], ["fold"], ["prune"]])
def test_a_read_only_disk_is_one_error(
    run: Run, read_only: Path, snapshot: Snapshot, arguments: list[str]
) -> None:
    before = snapshot(read_only)
    done = run(*arguments, *ALL)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: mine/")
    assert done.stderr.endswith(
        ": cannot be written: Read-only file system; nothing was recorded; the disk is mounted "
        "read-only; name another folder with --registry\n"
    )
    assert done.stderr.count("\n") == 1
    assert snapshot(read_only) == before


@pytest.mark.parametrize("arguments", _READING)
def test_a_read_only_registry_can_be_read(run: Run, read_only: Path, arguments: list[str]) -> None:
    done = run(*arguments, *ALL)
    assert read_only.is_dir()
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.geteuid() == 0, reason="permission bits do not bind root")
def test_a_folder_without_permission_is_one_error(run: Run, registry: Path) -> None:
    (registry / "journal").chmod(0o500)
    done = run("add", "a.json", *ALL)
    (registry / "journal").chmod(0o700)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(
        ": cannot be written: Permission denied; nothing was recorded; make the folder writable, "
        "or name another with --registry\n"
    )


@pytest.fixture
def full(curated: Path, work: Path) -> Iterator[Path]:
    """Return a registry on a disk that is full."""
    place = work / "mine"
    place.mkdir()
    with mounted(place, "16m"):
        shutil.copytree(curated, place, dirs_exist_ok=True)
        with contextlib.suppress(OSError), (place / "filler").open("wb") as filler:
            while True:
                filler.write(b"x" * 4096)
                filler.flush()
        yield place


def test_a_full_disk_refuses_an_addition_and_takes_it_once_there_is_space(
    run: Run, full: Path, snapshot: Snapshot
) -> None:
    before = snapshot(full)
    done = run("add", "a.json", *ALL)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(
        ": cannot be written: No space left on device; nothing was recorded; free space on the "
        "disk, then repeat the command\n"
    )
    assert snapshot(full) == before
    assert run("query", "select 1", *ALL).returncode == 0
    (full / "filler").unlink()
    assert run("add", "a.json", *ALL).returncode == 0
    assert run("fold", *ALL).returncode == 0
    assert run("check", *ALL).returncode == 0


def test_a_disk_that_fills_up_between_submissions_records_none(
    run: Run, write: Write, full: Path, submission: Submission, snapshot: Snapshot
) -> None:
    with (full / "filler").open("r+b") as filler:
        filler.truncate((full / "filler").stat().st_size - 2 * 4096)
    names = [write(f"{number}.json", submission(number)).name for number in range(8)]
    before = snapshot(full)
    done = run("add", *names, *ALL)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert snapshot(full) == before


def test_a_full_disk_refuses_a_fold_and_leaves_the_pending_readable(
    run: Run, full: Path, snapshot: Snapshot
) -> None:
    (full / "filler").unlink()
    assert run("add", "a.json", *ALL).returncode == 0
    free = shutil.disk_usage(full).free
    (full / "filler").write_bytes(b"x" * (free - 3 * 4096))
    before = snapshot(full)
    done = run("fold", *ALL)
    assert (done.returncode, done.stdout) == (1, "")
    assert "No space left on device" in done.stderr
    assert {k for k in snapshot(full) if "/.tmp-" not in k} >= set(before)
    count = run("query", "select count(*) from observations where run_id = 'run-1'", *ALL)
    assert count.stdout.split()[1] == "1"
    (full / "filler").unlink()
    assert run("fold", *ALL).returncode == 0
    assert run("check", *ALL).stdout.startswith("mine: sound")


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("options", [[], ["-f", "csv"]])
def test_a_full_disk_leaves_no_half_export(run: Run, work: Path, options: list[str]) -> None:
    place = work / "disk"
    place.mkdir()
    with mounted(place, "64k"):
        done = run("export", "disk/out", *options, *ALL)
        assert (done.returncode, done.stdout) == (1, "")
        assert "No space left on device" in done.stderr
        assert list(place.iterdir()) == []


def test_an_export_into_a_registry_is_refused(run: Run, registry: Path) -> None:
    done = run("export", "mine/journal", *ALL)
    assert done.returncode == 2
    assert "lies in the registry" in done.stderr
    assert not [path for path in registry.rglob("*.parquet") if path.parent.name == "journal"]


def test_a_full_disk_leaves_no_half_registry(run: Run, full: Path, snapshot: Snapshot) -> None:
    before = snapshot(full)
    done = run("init", "mine/new")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: mine/new: cannot be written: No space left on device; nothing was "
        "written; free space on the disk, then repeat the command\n"
    )
    assert snapshot(full) == before


def test_a_full_disk_leaves_no_half_output(run: Run, work: Path) -> None:
    place = work / "full"
    place.mkdir()
    with mounted(place, "64k"):
        done = run("query", "from measurements", "-o", "full/x.csv")
        assert (done.returncode, done.stdout) == (1, "")
        assert "No space left on device" in done.stderr
        assert list(place.iterdir()) == []


@pytest.mark.parametrize("arguments", [*_READING, *_WRITING, ["show", "abcdef"]])
def test_a_registry_of_a_newer_release_is_refused(
    run: Run, registry: Path, snapshot: Snapshot, arguments: list[str]
) -> None:
    path = newest_manifest(registry)
    path.write_text(json.dumps({"format": 99, "rows": "in a layout of the future"}))
    before = snapshot(registry.parent)
    done = run(*arguments, *ALL)
    assert done.returncode == 1
    assert (
        f"mine/tables/{path.name}: found format 99; expected at most 2: a newer release wrote this "
        "registry; upgrade with `pip install -U peft-registry`"
    ) in done.stdout + done.stderr
    assert snapshot(registry.parent) == before


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 1}',
        '{"format": "one"}',
        '{"format": 1, "parts": 3}',
        "\xff",
    ],
)
def test_a_damaged_manifest_is_refused(
    run: Run, registry: Path, snapshot: Snapshot, damage: str
) -> None:
    path = newest_manifest(registry)
    path.write_bytes(damage.encode("latin-1"))
    before = snapshot(registry.parent)
    for arguments in (["query", "select 1"], ["add", "a.json"], ["fold"]):
        done = run(*arguments, *ALL)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"error: mine/tables/{path.name}: damaged manifest (")
        assert "run `registry repair`" in done.stderr
        assert snapshot(registry.parent) == before
    assert run("repair", *ALL).stdout == "version 2: 1 submissions, 1 observations\n"
    assert run("check", *ALL).returncode == 0


@pytest.mark.parametrize("name", ["part.json", "submissions.ids"])
def test_a_missing_file_is_named_when_adding(
    run: Run, registry: Path, snapshot: Snapshot, name: str
) -> None:
    path = next((registry / "tables" / "parts").glob(f"*/{name}"))
    path.unlink()
    before = snapshot(registry)
    done = run("add", "a.json", *ALL)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert path.name in done.stderr
    assert snapshot(registry) == before


@pytest.mark.parametrize("is_there", [True, False])
def test_a_part_that_cannot_be_read_is_named(run: Run, registry: Path, *, is_there: bool) -> None:
    path = next((registry / "tables" / "parts").glob("*/observations.parquet"))
    path.unlink()
    if is_there:
        path.write_bytes(b"not a Parquet file")
    done = run("query", "select count(*) from observations", *ALL)
    assert (done.returncode, done.stdout) == (1, "")
    assert path.name in done.stderr
    assert run("check", *ALL).returncode == 1


def test_a_damaged_journal_entry_is_warned_of_and_the_others_are_read(
    run: Run, registry: Path, write: Write, submission: Submission
) -> None:
    run("add", "a.json", *ALL)
    write("b.json", submission(2))
    run("add", "b.json", *ALL)
    path = min((registry / "journal").iterdir())
    path.write_text(path.read_text()[:100])
    done = run("query", "select count(*) from observations where source_id = 'my-runs'", *ALL)
    assert done.stdout.split()[1] == "1"
    assert done.stderr.startswith(
        f"warning: journal/{path.name}: its content does not match its name; it is left out "
    )
    assert run("check", *ALL).returncode == 1
    fold = run("fold", *ALL)
    assert fold.returncode == 1
    assert fold.stdout.startswith("folded 1 submission, 1 new observation;")
    assert (registry / "quarantine" / path.name).is_file()
    assert run("check", *ALL).returncode == 0


def test_a_registry_that_another_process_folds_is_waited_for_so_long(
    run: Run, registry: Path
) -> None:
    with (registry / "tables" / ".lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run("fold", "--wait", "0.1", *ALL)
        assert run("add", "a.json", *ALL).returncode == 0
        assert run("query", "select 1", *ALL).returncode == 0
    assert (done.returncode, done.stdout) == (1, "")
    assert "is folding; expected it to finish in time; wait for it, or end it" in done.stderr
