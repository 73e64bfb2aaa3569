"""Progress: loops say how far they are, and a bar is drawn on a terminal alone."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import pytest

from registry.tracking import track, watched_by
from registry_cli import progress_bar
from registry_cli.progress_bar import show_progress

if TYPE_CHECKING:
    from collections.abc import Iterable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nobody_watches_unless_asked_to() -> None:
    items = [1, 2]
    assert track(items, "counting") is items


def test_a_watcher_is_told_what_is_done_and_how_much_there_is() -> None:
    told = []

    def watch(items: Iterable[Any], what: str, total: int | None) -> Iterable[Any]:
        told.append((what, total))
        return items

    with watched_by(watch):
        assert list(track(range(3), "counting", 3)) == [0, 1, 2]
    assert list(track(range(2), "afterwards", 2)) == [0, 1]
    assert told == [("counting", 3)]


@pytest.mark.parametrize("patience", [-1.0, 100.0])
def test_a_bar_is_drawn_where_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress_bar, "_PATIENCE_SECONDS", patience)
    assert list(show_progress(range(5), "counting", 5)) == [0, 1, 2, 3, 4]
    assert ("counting" in terminal.getvalue()) == (patience < 0)


def test_no_bar_is_drawn_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    monkeypatch.setattr(progress_bar, "_PATIENCE_SECONDS", -1.0)
    assert list(show_progress(iter("abc"), "counting", None)) == ["a", "b", "c"]
    assert pipe.getvalue() == ""
