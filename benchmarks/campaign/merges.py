"""Two clones of a repository that holds a registry: each adds and folds, then they merge."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.campaign.operations import locate
from benchmarks.campaign.truth import Verdict, ask_query, build_document, judge
from registry.errors import RegistryError
from registry.store.add import add_submissions
from registry.store.check import check_registry
from registry.store.fold import fold
from registry.store.folder import create_registry
from registry.store.prune import prune
from registry.store.repair import repair

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: How a conflict is left: with one side's files, or with git's markers in them.
RESOLUTIONS = ("ours", "theirs", "markers")

_SHARED, _LEFT, _RIGHT = range(4), range(10, 14), range(20, 26)

#: A document that both add, and what lies in the journal when the clones are made.
_BOTH, _PENDING = range(30, 31), range(40, 43)


@dataclass(frozen=True, slots=True)
class Merge:
    """What a merge left: before `registry repair`, and after it."""

    name: str
    n_conflicts: int
    #: An answer before the repair that was not refused and not right.
    is_silently_wrong: bool
    verdict: Verdict
    problems: tuple[str, ...]


def run_merges(folder: Path) -> list[Merge]:
    """Merge either way, with every resolution, with and without a prune on one side."""
    return [
        _merge(folder, into, resolution, pruned=pruned)
        for into in ("left", "right")
        for resolution in RESOLUTIONS
        for pruned in (False, True)
    ]


def _merge(folder: Path, into: str, resolution: str, *, pruned: bool) -> Merge:
    shutil.rmtree(folder, ignore_errors=True)
    _make_clones(folder, pruned=pruned)
    here, there = folder / into, folder / ("right" if into == "left" else "left")
    n_conflicts = _pull(here, there, resolution)
    location = locate(here / "registry")
    must = {*_SHARED, *_LEFT, *_RIGHT, *_BOTH, *_PENDING}
    try:
        is_wrong = not judge(ask_query(location), must).is_right
    except RegistryError:
        is_wrong = False
    repair(location)
    verdict = judge(ask_query(location), must)
    problems = tuple(str(problem) for problem in check_registry(location).problems)
    name = f"into {into}, {resolution}{', left pruned' if pruned else ''}"
    return Merge(name, n_conflicts, is_wrong, verdict, problems)


def _make_clones(folder: Path, *, pruned: bool) -> None:
    base = folder / "base"
    base.mkdir(parents=True)
    _git(base, "init", "-q", "-b", "main")
    create_registry(base / "registry", curated=False)
    _add(base, _SHARED)
    fold(locate(base / "registry"))
    _add(base, _PENDING)
    _commit(base)
    for name, numbers in (("left", _LEFT), ("right", _RIGHT)):
        clone = folder / name
        _git(folder, "clone", "-q", str(base), str(clone))
        _add(clone, numbers)
        _add(clone, _BOTH)
        fold(locate(clone / "registry"))
        if pruned and name == "left":
            prune(locate(clone / "registry").own)
        _commit(clone)


def _add(clone: Path, numbers: Iterable[int]) -> None:
    documents = [(str(number), build_document(number)) for number in numbers]
    add_submissions(locate(clone / "registry"), documents)


def _pull(here: Path, there: Path, resolution: str) -> int:
    """Merge another clone's main; return how many files conflicted."""
    _git(here, "fetch", "-q", str(there), "main")
    _git(here, "merge", "-q", "--no-edit", "FETCH_HEAD", check=False)
    unmerged = _git(here, "diff", "--name-only", "--diff-filter=U").splitlines()
    for name in unmerged:
        if resolution != "markers":
            # a file that one side deleted has no such version: what lies there stays
            _git(here, "checkout", f"--{resolution}", "--", name, check=False)
    _commit(here)
    return len(unmerged)


def _commit(clone: Path) -> None:
    _git(clone, "add", "-A")
    _git(clone, "commit", "-q", "--allow-empty", "-m", "state")


def _git(folder: Path, *arguments: str, check: bool = True) -> str:
    identity = ("-c", "user.name=campaign", "-c", "user.email=campaign@example.org")
    done = subprocess.run(
        ["git", *identity, *arguments],  # noqa: S607 - the user's git
        cwd=folder,
        check=check,
        capture_output=True,
        text=True,
    )
    return done.stdout
