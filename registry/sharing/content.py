"""What a contribution says, leaf by leaf, and what in it looks private."""

from __future__ import annotations

import getpass
import re
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from registry.store.derive_tables import Document

#: Most different values of one place that are listed; of more, numbers are shown as a range.
_MOST_VALUES = 6

#: What credentials of common services begin with, addresses, and folders of people. A safety net:
#: the recorder writes settings of an allow-list only. Scanners by entropy (detect-secrets) were
#: weighed: every id and hash of a record looks like a key to them.
_PRIVATE = {
    "a token": re.compile(
        r"\b(hf_[A-Za-z0-9]{8,}|sk-[A-Za-z0-9_-]{8,}|gh[opsu]_[A-Za-z0-9]{8,}|github_pat_\w{8,}"
        r"|glpat-[\w-]{8,}|xox[abpr]-[\w-]{8,}|AKIA[A-Z0-9]{12,}|ey[JK][\w-]{10,}\.[\w-]{10,})"
    ),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY"),
    "a password in an address": re.compile(r"://[^/\s:@]+:[^/\s@]+@"),
    "an e-mail address": re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+\w"),
    "a personal folder": re.compile(r"(/home/|/Users/|/root/|[A-Za-z]:\\Users\\)[^\s\"',;]*"),
}

#: Names of people and machines shorter than this are words of other meanings too often.
_SHORTEST_NAME = 4


def collect_leaves(documents: Iterable[Document]) -> dict[str, list[Any]]:
    """Return the different values at each place of documents: ``observations[].outcome``."""
    found: dict[str, dict[str, Any]] = {}
    for document in documents:
        for place, value in _walk(document.plain, ""):
            found.setdefault(place, {})[repr(value)] = value
    return {place: list(values.values()) for place, values in sorted(found.items())}


def _walk(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _walk(each, f"{place}.{name}" if place else str(name))
    elif isinstance(value, list):
        for each in value:
            yield from _walk(each, f"{place}[]")
    else:
        yield place, value


def format_leaves(leaves: Mapping[str, list[Any]]) -> Iterator[str]:
    """Yield a line for each place: all its texts; of many numbers how many and their range."""
    for place, values in leaves.items():
        numbers = [one for one in values if isinstance(one, int | float)]
        if len(numbers) == len(values) > _MOST_VALUES:
            yield f"{place}: {len(values)} numbers from {min(numbers):.6g} to {max(numbers):.6g}"
        else:
            yield f"{place}: {', '.join(map(_format, values))}"


def _format(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def find_private(leaves: Mapping[str, list[Any]], allowed: Iterable[str] = ()) -> list[str]:
    """Return what in texts looks like a secret, or names a person or this machine.

    A text that stands in ``allowed`` was looked at and may go out.
    """
    permitted = set(allowed)
    found = []
    for place, values in leaves.items():
        for text in (value for value in values if isinstance(value, str)):
            found += [
                f"{place}: found {what} ({match!r})"
                for what, match in _search(text)
                if match not in permitted
            ]
    return found


def _search(text: str) -> Iterator[tuple[str, str]]:
    for what, pattern in _PRIVATE.items():
        if match := pattern.search(text):
            yield what, match.group()
    for what, name in _names_here():
        if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE):
            yield what, name


def _names_here() -> Iterator[tuple[str, str]]:
    """Yield the names of this user and this machine that are long enough to be told from words."""
    names = {"the name of this machine": socket.gethostname()}
    with suppress(OSError, KeyError):  # a user without an entry
        names["your user name"] = getpass.getuser()
    for what, name in names.items():
        if len(name) >= _SHORTEST_NAME and name not in ("root", "user", "localhost"):
            yield what, name
