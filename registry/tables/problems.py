"""What is wrong with a document under a mapping: each problem once, with all its places."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from registry.errors import UnitError
    from registry.reading.yaml_reader import Path
    from registry.tables.mapping import SourceMapping

#: What a reader puts between the place of a row and a problem in one of its columns.
_IN_COLUMN = re.compile(r", column '(?P<column>.+?)': (?P<text>.*)", re.DOTALL)

#: Most rows that a message names.
_MOST_ROWS = 5


@dataclass(frozen=True)
class Place:
    """Where something stands: a table and a row of it, both from 1, or somewhere in the prose."""

    table: int | None = None
    row: int | None = None
    locator: str | None = None


@dataclass(frozen=True)
class _Key:
    """What makes two problems the same one: the text, the column and the part of the mapping."""

    text: str
    column: str | None
    path: Path | None


@dataclass
class Problems:
    """Collects problems; ``origin`` is the document, ``mapping`` says on which line a part stands.

    A problem that many rows have is one problem with many places.
    """

    origin: str
    mapping: SourceMapping
    _places: dict[_Key, list[Place]] = field(default_factory=dict)
    _at: set[Place] = field(default_factory=set)

    def __len__(self) -> int:
        """Return how many distinct problems there are."""
        return len(self._places)

    def has(self, place: Place) -> bool:
        """Return whether something is wrong at a place."""
        return place in self._at

    def add(
        self, text: str, place: Place, *, column: str | None = None, path: Path | None = None
    ) -> None:
        """Add a problem; ``path`` is the part of the mapping that is to be changed."""
        self._at.add(place)
        places = self._places.setdefault(_Key(text, column, path), [])
        if place not in places[-1:]:
            places.append(place)

    def add_error(
        self, error: UnitError, where: str, place: Place, *, column: str | None, path: Path | None
    ) -> None:
        """Add what a reader found wrong with the text that stands at ``where``."""
        rest = str(error).removeprefix(where)
        inner = _IN_COLUMN.match(rest)
        if inner is not None and column is None:
            column, rest = inner["column"], inner["text"]
        self.add(rest.lstrip(",: "), place, column=column, path=path)

    def format(self) -> tuple[str, ...]:
        """Return one message for each problem."""
        return tuple(self._format(key, places) for key, places in self._places.items())

    def _format(self, key: _Key, places: list[Place]) -> str:
        where = [part for part in (self.origin, format_places(places)) if part]
        if key.column is not None:
            where.append(f"column {key.column!r}")
        line = None if key.path is None else self.mapping.line_of(key.path)
        change = "" if line is None else f" ({self.mapping.origin}, line {line})"
        return f"{', '.join(where)}: {key.text}{change}"


def format_places(places: Iterable[Place]) -> str:
    """Return places as people name them.

    >>> format_places([Place(1, 1), Place(1, 2), Place(3, 7)])
    'table 1, rows 1 and 2; table 3, row 7'
    """
    by_table = groupby(places, key=lambda place: (place.table, place.locator))
    return "; ".join(
        filter(None, (_format_table(*key, [p.row for p in inner]) for key, inner in by_table))
    )


def _format_table(table: int | None, locator: str | None, rows: list[int | None]) -> str:
    if locator is not None or table is None:
        return locator or ""
    numbers = [str(row) for row in rows if row is not None]
    if not numbers:
        return f"table {table}"
    shown = numbers[:_MOST_ROWS]
    if len(numbers) > _MOST_ROWS:
        return f"table {table}, rows {', '.join(shown)} and {len(numbers) - _MOST_ROWS} more"
    if len(shown) == 1:
        return f"table {table}, row {shown[0]}"
    return f"table {table}, rows {', '.join(shown[:-1])} and {shown[-1]}"
