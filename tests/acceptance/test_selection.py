"""Which registry is used, and what reading and writing without any set-up do."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]
    Write = Callable[[str, Any], Path]

COUNT = "select count(*) as n from observations"


def count(run: Run, *arguments: str, **variables: str) -> int:
    done = run("query", COUNT, *arguments, "-f", "csv", **variables)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[1])


def test_the_option_goes_first_then_the_variable_then_the_folder_records(
    run: Run, write: Write, submission: Callable[..., Any]
) -> None:
    for number, name in enumerate(("opt", "env", "records"), start=1):
        run("init", name, "--empty")
        names = [write(f"{one}.json", submission(one)).name for one in range(number)]
        assert run("add", *names, "--registry", name).returncode == 0
        run("fold", "--registry", name)
    assert count(run, "--registry", "opt", REGISTRY_PATH="env") == 1
    assert count(run, REGISTRY_PATH="env") == 2
    assert count(run) == 3


def test_a_folder_records_that_is_no_registry_is_left_alone(run: Run, work: Path) -> None:
    (work / "records").mkdir()
    (work / "records" / "notes.txt").write_text("mine")
    assert count(run) > 200
    assert [path.name for path in (work / "records").iterdir()] == ["notes.txt"]


def test_reading_needs_no_set_up_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    for arguments in (["query", COUNT], ["ls"], ["check"], ["doctor"], ["fold"], ["prune"]):
        assert run(*arguments).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"tmp", "work"}  # both of the fixture
    assert not list((tmp_path / "tmp").iterdir())


def test_the_first_write_creates_the_users_own_beside_the_curated_records(
    run: Run, tmp_path: Path, write: Write, submission: Callable[..., Any]
) -> None:
    before = count(run)
    write("a.json", submission())
    assert run("add", "a.json").returncode == 0
    own = tmp_path / "data" / "peft-registry" / "records"
    names = sorted(path.name for path in own.iterdir())
    assert names == [".gitignore", "journal", "registry.json", "tables"]
    assert count(run) == before + 1
    assert run("check").stdout.startswith(f"{own}: sound")


def test_a_dry_run_does_not_create_the_users_own(
    run: Run, tmp_path: Path, write: Write, submission: Callable[..., Any]
) -> None:
    write("a.json", submission())
    assert run("add", "a.json", "--dry-run").returncode == 0
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "select 1"],
        ["query", "--schema"],
        ["add", "a.json"],
        ["add", "a.json", "--dry-run"],
        ["import", "a.json", "--mapping", "a.json"],
        ["show", "abcdef"],
        ["ls"],
        ["check"],
        ["fold"],
        ["export", "out"],
        ["export", "out", "-f", "csv"],
        ["prune"],
        ["build", "--check"],
    ],
)
@pytest.mark.parametrize(
    ("place", "found", "free"),
    [
        ("nowhere", "no such folder", "nowhere"),
        ("file", "not a folder", "file-registry"),
        ("folder", "a folder without tables/ or journal/", "folder"),
    ],
)
def test_a_registry_that_is_missing_is_a_wrong_call(  # noqa: PLR0913 - four are parameters
    run: Run,
    work: Path,
    snapshot: Callable[[Path], dict[str, bytes | None]],
    *,
    arguments: list[str],
    place: str,
    found: str,
    free: str,
) -> None:
    for name in ("a.json", "file"):
        (work / name).write_text("x")
    (work / "folder").mkdir()
    before = snapshot(work)
    done = run(*arguments, "--registry", place)
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        (
            f"error: {place}: {found}; expected a registry; create one with "
            f"`registry init {free}`, or name another with --registry or REGISTRY_PATH\n"
        ),
    )
    assert snapshot(work) == before


def test_the_environment_variable_may_begin_with_a_tilde(
    run: Run, work: Path, registry: Path
) -> None:
    shutil.move(registry, work / "home-registry")
    assert count(run, HOME=str(work), REGISTRY_PATH="~/home-registry") > 200
