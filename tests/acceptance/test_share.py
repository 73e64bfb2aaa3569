"""Giving back: from one's own observations to a patch that a clone of the repository takes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.store.add import Added

    Run = Callable[..., subprocess.CompletedProcess[str]]

AUTHOR = ("--author", "Ada Example <ada@example.org>")

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(folder: Path, *arguments: str) -> str:
    """Run git as Grace, with nobody's settings; return what it prints."""
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    named = ("-c", "user.name=Grace", "-c", "user.email=grace@example.org")
    done = subprocess.run(
        ["git", *named, *arguments],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def clone(work: Path, few_records: Path) -> Path:
    """Return a repository with some of the records of this checkout."""
    path = work / "clone"
    shutil.copytree(few_records, path / "records", ignore=shutil.ignore_patterns(".lock"))
    git(path, "init", "--quiet", "--initial-branch=main")
    git(path, "add", "--all")
    git(path, "commit", "--quiet", "--message", "records")
    return path


@pytest.fixture
def add(
    record: Callable[..., list[Added]], submission: Callable[..., dict[str, Any]]
) -> Callable[..., str]:
    """Return a function that adds a run to the user's own registry and returns its id."""

    def add_one(number: int = 1, **stated: str) -> str:
        document = submission(number)
        document["observations"][0].update(stated)
        return record(document)[0].observation_ids[0]

    return add_one


def test_a_patch_applies_to_a_clone_and_its_rows_answer_there(
    run: Run, clone: Path, work: Path, add: Callable[..., str]
) -> None:
    ids = sorted(add(number) for number in (1, 2))
    done = run("share", "--plan", "my-runs", "-o", "out", *AUTHOR)
    assert done.returncode == 0, done.stderr
    git(clone, "am", "--quiet", str(work / "out" / "share-my-runs.patch"))
    assert git(clone, "log", "-1", "--format=%an %s") == (
        "Ada Example Add 2 observations of my-runs (rtx-3090)\n"
    )
    changed = git(clone, "diff", "--name-only", "HEAD~1").splitlines()
    assert {str(Path(name).parent) for name in changed} == {"records/sources/my-runs"}
    statement = (
        "select r.observation_id, r.peak_memory_bytes, s.licence, s.publisher from results r "
        "join sources s using (source_id) where r.source_id = 'my-runs' order by 1"
    )
    there = run("query", statement, "-f", "json", "--registry", "records", cwd=clone)
    rows = json.loads(there.stdout)
    assert [row["observation_id"] for row in rows] == ids
    assert {tuple(row.values())[1:] for row in rows} == {
        (20 * 2**30, "CC-BY-4.0", "Ada Example"),
    }
    assert run("check", "--registry", "records", cwd=clone).returncode == 0


def test_what_is_written_is_what_was_shown(run: Run, work: Path, add: Callable[..., str]) -> None:
    add()
    shown = run("share", "--last", "--dry-run", *AUTHOR)
    assert shown.returncode == 1  # it has no date, and --last asks for the newest
    assert "no dated observation" in shown.stderr
    identity = add(2, observed_at="2026-11-22T10:00:00Z")
    shown = run("share", "--last", "--dry-run", *AUTHOR)
    assert shown.returncode == 0, shown.stderr
    assert "observations[].run_id: run-2" in shown.stdout
    assert "run-1" not in shown.stdout
    assert identity[:12] in shown.stdout
    assert not list(work.glob("share-*"))
    run("share", "--last", *AUTHOR)
    patch = (work / "share-my-runs.patch").read_text(encoding="utf-8")
    assert "run-2" in patch
    assert "run-1" not in patch
    again = run("share", "--last", *AUTHOR)
    assert again.returncode == 1
    assert "exists already" in again.stderr


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("with hf_abcdefghijkl", "hf_abcdefghijkl"),
        ("in /home/ada/secret", "/home/ada/secret"),
        ("ask ada@example.com", "ada@example.com"),
        ("from https://ada:pw@example.com/x", "://ada:pw@"),
    ],
)
def test_what_looks_private_stops_it(
    run: Run,
    work: Path,
    add: Callable[..., str],
    text: str,
    named: str,
) -> None:
    identity = add(outcome_detail=text)
    done = run("share", identity[:12], *AUTHOR)
    assert done.returncode == 1
    assert named in done.stderr
    assert not list(work.glob("share-*"))
    allowed = run("share", identity[:12], "--allow", named, *AUTHOR)
    assert (allowed.returncode == 0) == ("@example.com/" not in text), allowed.stderr


def test_withdrawn_and_curated_observations_stay_at_home(run: Run, add: Callable[..., str]) -> None:
    add(1)
    withdrawn = add(2)
    assert run("retract", withdrawn, "--reason", "card was shared").returncode == 0
    assert run("share", withdrawn, *AUTHOR).returncode == 1
    curated = run("query", "select min(observation_id) from results", "-f", "csv").stdout.split()[1]
    done = run("share", curated, *AUTHOR)
    assert done.returncode == 1
    assert "hold all 1 of these observations already" in done.stderr
    done = run("share", "--plan", "my-run", *AUTHOR)
    assert done.returncode == 1
    assert "did you mean 'my-runs'?" in done.stderr


@pytest.fixture
def add_from(run: Run, work: Path, submission: Callable[..., dict[str, Any]]) -> Callable[..., str]:
    """Return a function that adds a run of a source that states more, and returns its id."""

    def add_one(number: int, *, evidence: str = "measured", **source: str) -> str:
        document = submission(number)
        document["source"].update(source)
        document["observations"][0]["evidence"] = evidence
        path = work / "submission.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        added = run("add", str(path))
        assert added.returncode == 0, added.stderr
        statement = "select observation_id from observations where run_id = $run"
        found = run("query", statement, "--param", f"run=run-{number}", "-f", "csv")
        return found.stdout.split()[1]

    return add_one


PUBLISHED: list[dict[str, str]] = [
    {"kind": "document", "publisher": "hiyouga", "licence": "Apache-2.0"},
    {"kind": "document"},
    {"kind": "document", "publisher": "Ada Example"},
    {"kind": "log", "publisher": "hiyouga"},
    {"kind": "benchmark", "publisher": "hiyouga"},
    {"publisher": "hiyouga"},
]


@pytest.mark.parametrize("source", PUBLISHED)
def test_what_others_published_is_not_given_as_ones_own(
    run: Run, work: Path, add_from: Callable[..., str], source: dict[str, str]
) -> None:
    theirs = add_from(1, source_id="theirs", **source)
    for chosen in (("--plan", "theirs"), (theirs,)):
        done = run("share", *chosen, *AUTHOR)
        assert done.returncode == 1
        assert f"theirs ({', '.join(f'{name} {text}' for name, text in source.items())})" in (
            done.stderr
        )
        assert "registry source new DOC" in done.stderr
    assert not list(work.glob("share-*"))


def test_what_others_published_is_left_out_until_it_is_said_to_be_ones_own(
    run: Run, work: Path, add_from: Callable[..., str]
) -> None:
    theirs = add_from(1, source_id="theirs", kind="log", publisher="hiyouga")
    ours = add_from(2)
    done = run("share", theirs, ours, *AUTHOR)
    assert done.returncode == 0, done.stderr
    assert "left out: 1 that others published: theirs (" in done.stderr
    patch = (work / "share-my-runs.patch").read_text(encoding="utf-8")
    assert "run-2" in patch
    assert "run-1" not in patch
    again = add_from(1, source_id="theirs", kind="person")  # the way out that the refusal names
    assert again == theirs
    done = run("share", "--plan", "theirs", "-o", "out", *AUTHOR)
    assert done.returncode == 0, done.stderr
    assert "Measured by the person" in (work / "out" / "share-theirs.md").read_text("utf-8")
    assert "hiyouga" not in (work / "out" / "share-theirs.patch").read_text("utf-8")


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"kind": "log", "publisher": "ada example"}, "licensed under LICENSE-DATA (CC-BY-4.0)."),
        ({"kind": "person", "licence": "MIT"}, "sends this, and licensed under MIT."),
        ({"kind": "benchmark"}, "my-runs (kind benchmark): did the person who sends this"),
        ({"url": "https://example.org/a"}, "url https://example.org/a): did the person"),
        ({"evidence": "claimed"}, "not measured, but claimed"),
        ({"evidence": "claimed"}, "Reported by the person who sends this"),
    ],
)
def test_a_request_says_where_figures_come_from(
    run: Run, work: Path, add_from: Callable[..., str], stated: dict[str, str], said: str
) -> None:
    add_from(1, **stated)
    done = run("share", "--plan", "my-runs", *AUTHOR)
    assert done.returncode == 0, done.stderr
    assert said in (work / "share-my-runs.md").read_text(encoding="utf-8")


def test_nothing_is_pushed_without_a_yes(
    clone: Path,
    work: Path,
    environment: dict[str, str],
    command: Path,
    add: Callable[..., str],
) -> None:
    identity = add()
    remote = work / "remote.git"
    git(work, "init", "--quiet", "--bare", str(remote))
    git(clone, "remote", "add", "origin", str(remote))
    before = git(clone, "status", "--porcelain", "--branch")
    words = ["share", identity, *AUTHOR, "--clone", str(clone), "--push", "origin"]

    def answer(text: str, folder: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [command, *words, "-o", folder],
            input=text,
            cwd=work,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    refused = answer("n\n", "first")
    assert refused.returncode == 0, refused.stderr
    assert "not pushed" in refused.stderr
    assert git(remote, "branch") == ""
    branch = f"share-my-runs-{identity[:8]}"
    assert git(clone, "log", "-1", "--format=%an", branch) == "Ada Example\n"
    assert git(clone, "status", "--porcelain", "--branch") == before
    twice = answer("y\n", "second")
    assert twice.returncode == 1
    assert f"has a branch {branch} already" in twice.stderr
    git(clone, "branch", "-D", branch)
    pushed = answer("y\n", "third")
    assert pushed.returncode == 0, pushed.stderr
    assert branch in git(remote, "branch")


def test_misuse_is_named(run: Run, add: Callable[..., str]) -> None:
    assert run("share").returncode == 2
    assert run("share", "--last", "--plan", "x").returncode == 2
    assert run("share", "--last", "--push", "origin").returncode == 2
    add()
    done = run("share", "--plan", "my-runs", "--author", "Ada")
    assert done.returncode == 1
    assert "expected 'Name <name@example.org>'" in done.stderr
    done = run("share", "--plan", "my-runs", *AUTHOR, "--clone", ".")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
