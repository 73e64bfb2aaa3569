"""Fork the query's child at once, so that it loads the engine while options are parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from registry.query.process import Worker

#: Commands that run a query.
QUERYING = ("query", "ls", "show", "compare")

_waiting: list[Worker] = []


def start_early(arguments: list[str]) -> None:
    """Start the child where the command line is a query's."""
    if not _is_query(arguments):
        return
    from registry.query.process import start_worker  # noqa: PLC0415 - only queries pay for it

    _waiting.append(start_worker("fork"))


def _is_query(arguments: list[str]) -> bool:
    command = next((word for word in arguments if not word.startswith("-")), "")
    return command in QUERYING and "--help" not in arguments


def take() -> Worker:
    """Return the child that waits, or a new one."""
    if _waiting:
        return _waiting.pop()
    from registry.query.process import start_worker  # noqa: PLC0415 - only queries pay for it

    return start_worker()


def close() -> None:
    """End the child that was not needed."""
    while _waiting:
        _waiting.pop().close()
