"""A process that is killed at any write: nothing is lost, doubled or half after the next command.

A part of the writes is tried; all of them with REGISTRY_CRASH_POINTS=all.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.api import Registry
from registry.store import storage
from registry.store.check import check_registry
from registry.store.fold import fold
from registry.store.folder import find_registry
from registry.store.prune import prune
from registry.store.repair import repair
from registry.store.storage import Batch, LocalStorage
from tests.unit.store.registries import add_numbers, build_document, count_runs, make_registry, runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.store.folder import Location


#: Leaves tables out, so that a part has fewer files to be killed at.
SMALL: dict[str, Any] = {"samples": [], "citations": [], "environment": {}}


class Killed(BaseException):
    """The end of the process: nothing that it would still have done is done."""


class Crash:
    """Ends the process before its n-th change of the disk, or in the middle of it."""

    def __init__(self, patch: pytest.MonkeyPatch, after: int) -> None:
        self.left = after
        self.is_dead = False
        for owner, name in (
            (storage, "_name"),
            (storage, "_write_through"),
            (LocalStorage, "delete"),
            (LocalStorage, "move_aside"),
            (shutil, "rmtree"),
            (Path, "unlink"),
            (Path, "rename"),
        ):
            patch.setattr(owner, name, self.counted(getattr(owner, name)))
        # a killed process does not clean up
        patch.setattr(Batch, "__exit__", lambda *_: None)

    def counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def change(*arguments: Any, **options: Any) -> Any:
            if self.left == 0 or self.is_dead:
                self.die(original.__name__, arguments)
            self.left -= 1
            before, self.left = self.left, -1  # changes within this one are part of it
            done = original(*arguments, **options)
            self.left = before
            return done

        return change

    def die(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "_write_through" and not self.is_dead:
            path, data = arguments
            path.write_bytes(data[: len(data) // 2])
        self.is_dead = True
        raise Killed


NEVER = 10**6


def interrupt(work: Callable[[], object], after: int) -> int:
    """Kill some work after so many changes; return how many it made."""
    with pytest.MonkeyPatch.context() as patch:
        crash = Crash(patch, after)
        with contextlib.suppress(Killed):
            work()
        return after - max(crash.left, 0)


def choose_points(total: int) -> list[int]:
    """Return after which changes to kill: the last, which commit and remove, and some others."""
    if os.environ.get("REGISTRY_CRASH_POINTS") == "all":
        return list(range(total))
    return sorted({*range(0, total, 9), *range(max(total - 4, 0), total)})


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a registry with two versions, something pending, and a file that is no entry."""
    db = make_registry(tmp_path_factory.mktemp("crash") / "registry")
    for number in range(2):
        add_numbers(db, number, **SMALL)
        db.fold()
    add_numbers(db, 2, 3, **SMALL)
    (db.location.own.journal / f"{'0' * 64}.json").write_text("damaged", encoding="utf-8")
    return db.path


def work_fold(location: Location) -> None:
    fold(location)


def work_rebuild(location: Location) -> None:
    fold(location, rebuild=True)


def work_repair(location: Location) -> None:
    repair(location)


def work_prune(location: Location) -> None:
    prune(location.own)


@pytest.mark.parametrize("work", [work_fold, work_rebuild, work_repair, work_prune])
def test_killed_at_any_change_nothing_is_lost_doubled_or_half(
    template: Path, tmp_path: Path, work: Callable[..., None]
) -> None:
    def kill(after: int) -> tuple[Location, int]:
        place = tmp_path / str(after)
        shutil.copytree(template, place)
        location = find_registry(place)
        return location, interrupt(lambda: work(location), after)

    _, total = kill(NEVER)
    for number, after in enumerate(choose_points(total)):
        location, made = kill(after)
        assert made == after
        assert count_runs(location) == runs(0, 1, 2, 3), after
        next_command = (work_fold, work_repair)[number % 2]
        next_command(location)
        assert count_runs(location) == runs(0, 1, 2, 3), after
        if after == total - 1:
            assert check_registry(location).problems == ()


def test_an_addition_killed_at_any_change_is_there_or_not(tmp_path: Path) -> None:
    for after in range(3):
        db = make_registry(tmp_path / str(after))
        made = interrupt(lambda: add_numbers(db, 1), after)  # noqa: B023 - called at once
        assert made == min(after, 2)
        assert count_runs(db.location) == runs(*([1] if after == 2 else []))
        add_numbers(db, 1)
        assert count_runs(db.location) == runs(1)


@pytest.mark.parametrize("chunk", [2_000, 2])
def test_an_erasure_killed_at_any_change_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr("registry.store.fold._CHUNK_OBSERVATIONS", chunk)
    origin = make_registry(tmp_path / "origin")
    (first,) = origin.add(build_document(0, **SMALL)).observation_ids
    origin.fold()
    withdrawn = {"observation_id": first, "reason": "x", "retracted_at": "2026-01-01T00:00:00Z"}
    document = build_document(1, model_reported="secret-1", **SMALL)
    (identity,) = origin.add({**document, "retractions": [withdrawn]}).observation_ids
    origin.fold()
    add_numbers(origin, 2, **SMALL)
    origin.fold()

    def kill(after: int) -> tuple[Registry, int]:
        place = tmp_path / str(after)
        shutil.copytree(origin.path, place)
        db = Registry(find_registry(place))
        return db, interrupt(lambda: db.retract(identity, reason="private", erase=True), after)

    _, total = kill(NEVER)
    for after in choose_points(total):
        db, made = kill(after)
        assert made == after
        assert count_runs(db.location).keys() >= {"run-0", "run-2"}, after
        db.retract(identity, reason="private", erase=True)
        assert count_runs(db.location) == runs(0, 2), after
        assert not [p for p in db.path.rglob("*") if p.is_file() and b"secret-1" in p.read_bytes()]
    assert check_registry(db.location).problems == ()
