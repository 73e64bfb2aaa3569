"""What interrupted removals left among the parts: it stops nobody, and `prune` takes it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.errors import StoreError
from registry.store.check import check_registry
from registry.store.fold import FAN_OUT, fold
from registry.store.prune import prune
from registry.store.repair import repair
from tests.unit.store.registries import add_numbers, count_runs, runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.api import Registry
    from registry.store.folder import Folder, Location

NAME = ".tmp-left"


def leave_link(folder: Folder) -> None:
    elsewhere = folder.path.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / "mine.txt").write_text("mine", encoding="utf-8")
    (folder.parts / NAME).symlink_to(elsewhere)


def leave_file(folder: Folder) -> None:
    (folder.parts / NAME).write_text("half", encoding="utf-8")


def leave_folder(folder: Folder) -> None:
    (folder.parts / NAME).mkdir()


@pytest.fixture
def stuck(folded: Registry, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Return a registry of which no folder can be removed, as where it is another user's."""
    remove = shutil.rmtree

    def refuse(path: Path, **how: Any) -> None:
        if Path(path).is_relative_to(folded.path):
            raise PermissionError(13, "Permission denied", str(path))
        remove(path, **how)

    monkeypatch.setattr(shutil, "rmtree", refuse)
    return folded


@pytest.mark.parametrize("leave", [leave_link, leave_file, leave_folder])
@pytest.mark.parametrize("work", [fold, repair])
def test_what_cannot_be_removed_stops_no_fold_and_no_repair(
    stuck: Registry, leave: Callable[[Folder], None], work: Callable[[Location], object]
) -> None:
    leave(stuck.location.own)
    add_numbers(stuck, 9)
    work(stuck.location)
    work(stuck.location)
    assert count_runs(stuck.location) == runs(0, 1, 2, 9)
    assert check_registry(stuck.location).problems == ()
    assert stuck.location.own.storage.list("journal") == []
    assert (stuck.location.own.parts / NAME).exists()


def test_a_fold_that_cannot_remove_what_it_merged_is_done_all_the_same(
    stuck: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.store.fold._CHUNK_OBSERVATIONS", 2)
    add_numbers(stuck, *range(3, FAN_OUT + 3))
    stuck.fold()
    folder = stuck.location.own
    assert list(folder.parts.glob(".tmp-*"))
    assert folder.storage.list("journal") == []
    assert count_runs(stuck.location) == runs(*range(FAN_OUT + 3))
    assert check_registry(stuck.location).problems == ()


@pytest.mark.parametrize("leave", [leave_link, leave_file, leave_folder])
def test_prune_removes_what_is_left_and_follows_no_link(
    folded: Registry, leave: Callable[[Folder], None]
) -> None:
    folder = folded.location.own
    leave(folder)
    prune(folder)
    assert [path.name for path in folder.parts.glob(".tmp-*")] == []
    mine = folder.path.with_name("elsewhere") / "mine.txt"
    assert mine.is_file() == (leave is leave_link)


def test_prune_says_what_it_cannot_remove(stuck: Registry) -> None:
    folder = stuck.location.own
    leave_folder(folder)
    with pytest.raises(StoreError) as caught:
        prune(folder, keep=3)
    assert str(caught.value) == (
        f"{folder.parts / NAME}: cannot be removed: Permission denied; no answer needs it; remove "
        "it otherwise, as its owner can, then repeat the command"
    )
    assert count_runs(stuck.location) == runs(0, 1, 2)


def test_a_temporary_file_that_cannot_be_removed_stops_no_fold(
    db: Registry, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_numbers(db, 1)
    left = folder.journal / NAME
    left.write_text("another user's", encoding="utf-8")
    os.utime(left, (0, 0))
    unlink = Path.unlink

    def refuse(path: Path, **options: Any) -> None:
        if path == left:
            raise PermissionError(13, "Permission denied", str(path))
        unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", refuse)
    db.fold()
    assert (left.exists(), len(db.query("from observations").rows())) == (True, 1)
