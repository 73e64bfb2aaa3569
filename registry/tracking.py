"""How far long work is: loops say it, and whoever runs them may show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Item = TypeVar("Item")

#: Gets the items, what is done with them, and how many there are where that is known; returns them.
Watcher = Callable[[Iterable[Any], str, int | None], Iterable[Any]]

_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def track(items: Iterable[Item], what: str, total: int | None = None) -> Iterable[Item]:
    """Return the items, watched where somebody watches."""
    watcher = _WATCHER.get()
    return items if watcher is None else watcher(items, what, total)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Have a watcher see the loops that run within the context."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)
