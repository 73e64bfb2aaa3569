"""Tables for people: aligned columns, within the width of a terminal where one is known.

Nothing is wrapped in mid-word: where not all columns fit, those that matter most are shown and the
others are counted; a long text ends in an ellipsis, a column of prose continues on the next line.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain, count, zip_longest
from typing import TYPE_CHECKING, Any

from registry.query.cells import cut_text, format_for_people, text_width
from registry.query.model import Layout

if TYPE_CHECKING:
    from registry.query.output import Output

Row = Sequence[Any]
Batches = Iterator[Sequence[Row]]

_GAP = "  "
_TEXT_CELLS = 40
#: The least that is shown of a text, and of one that is continued on the next line.
_LEAST_TEXT, _LEAST_PROSE = 13, 24
#: Nobody names so many columns: whoever gets more has asked for all of them.
_NAMED_AT_MOST = 20


@dataclass(frozen=True)
class _ShownColumn:
    """One column: its place in a row, and how many cells of the terminal it is given."""

    place: int
    name: str
    natural: int
    is_figure: bool
    is_empty: bool
    is_key: bool
    is_prose: bool
    width: int

    @property
    def least(self) -> int:
        """The least width in which it can be read; its name and its figures are never cut."""
        if self.is_figure:
            return self.natural
        least = _LEAST_TEXT
        if self.is_key or self.is_prose:
            least = _TEXT_CELLS if self.is_key else _LEAST_PROSE
        return max(text_width(self.name), min(self.natural, least))


def write_table(
    columns: Sequence[str], batches: Batches, output: Output, layout: Layout | None = None
) -> None:
    """Write aligned columns; the first batch decides which are shown, and how wide each is."""
    for text in format_table(columns, batches, layout or Layout()):
        output.write_text(text)


def format_table(columns: Sequence[str], batches: Batches, layout: Layout) -> Iterator[str]:
    """Yield the text of aligned columns, as `write_table` writes it."""
    first = next(batches, [])
    texts = _format_cells(first, layout)
    found = _describe_columns(columns, first, texts, layout)
    shown = _fit(found, layout) if layout.width else found
    yield _format_head(shown)
    for cells in chain([texts], (_format_cells(rows, layout) for rows in batches)):
        yield "".join(_format_row(row, shown, layout) for row in cells)
    if n_hidden := len(found) - len(shown):
        noun = "column" if n_hidden == 1 else "columns"
        yield f"… {n_hidden} more {noun} ({layout.way_out})\n"


def _format_cells(rows: Sequence[Row], layout: Layout) -> list[list[str]]:
    """Return the texts of rows; without a width, long ones are cut here."""
    limit = None if layout.width else _TEXT_CELLS
    return [[format_for_people(value, limit) for value in row] for row in rows]


def is_figure_column(values: Sequence[Any]) -> bool:
    """Return whether a column holds figures, which are aligned on the right."""
    return any(isinstance(v, int | float | Decimal) and not isinstance(v, bool) for v in values)


def _describe_columns(
    columns: Sequence[str], rows: Sequence[Row], texts: Sequence[Sequence[str]], layout: Layout
) -> list[_ShownColumn]:
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    cells = list(zip(*texts, strict=True)) or [()] * len(columns)
    return [_describe_column(*each, layout) for each in zip(count(), columns, values, cells)]


def _describe_column(
    place: int, name: str, values: Row, cells: Sequence[str], layout: Layout
) -> _ShownColumn:
    head = format_for_people(name)
    natural = max(map(text_width, (head, *cells)))
    return _ShownColumn(
        place,
        head,
        natural,
        is_figure=is_figure_column(values),
        is_empty=all(value is None for value in values),
        is_key=name == layout.key,
        is_prose=name in layout.prose,
        width=natural,
    )


def _fit(columns: Sequence[_ShownColumn], layout: Layout) -> list[_ShownColumn]:
    """Return the columns to show, with their widths, in the order of the query."""
    width = layout.width or 0
    if _total(column.natural for column in columns) <= width:
        return list(columns)
    ranked = _rank(columns, layout.first)
    kept = [ranked[0]]
    for column in ranked[1:]:
        if _total(each.least for each in (*kept, column)) > width:
            break
        kept.append(column)
    return sorted(_widen(kept, width), key=lambda column: column.place)


def _rank(columns: Sequence[_ShownColumn], first: Sequence[str]) -> list[_ShownColumn]:
    """Return columns by how much they matter: those of ``first``, and none without a value."""
    if len(columns) <= _NAMED_AT_MOST and not {column.name for column in columns} >= {*first}:
        first = ()
    places = {name: place for place, name in enumerate(first)}
    return sorted(
        columns,
        key=lambda column: (column.is_empty, places.get(column.name, len(places)), column.place),
    )


def _widen(columns: Sequence[_ShownColumn], width: int) -> Iterator[_ShownColumn]:
    """Yield the columns with their widths: what is left over goes to those that matter first."""
    left = width - _total(column.least for column in columns)
    given = {column.place: min(column.least, width) for column in columns}
    for limit in (_TEXT_CELLS, width):
        for column in columns:
            more = max(0, min(left, min(column.natural, limit) - given[column.place]))
            given[column.place] += more
            left -= more
    return (replace(column, width=given[column.place]) for column in columns)


def _total(widths: Iterator[int]) -> int:
    found = list(widths)
    return sum(found) + len(_GAP) * (len(found) - 1)


def _format_head(columns: Sequence[_ShownColumn]) -> str:
    rule = _GAP.join("─" * column.width for column in columns) + "\n"
    return _format_line([cut_text(column.name, column.width) for column in columns], columns) + rule


def _format_row(texts: Sequence[str], columns: Sequence[_ShownColumn], layout: Layout) -> str:
    if not layout.width:
        return _format_line(texts, columns)
    cells = [_fit_cell(texts[column.place], column) for column in columns]
    return "".join(_format_line(line, columns) for line in zip_longest(*cells, fillvalue=""))


def _fit_cell(text: str, column: _ShownColumn) -> list[str]:
    """Return the lines of a cell: prose continues on the next line, all else is cut."""
    if column.is_prose and text_width(text) > column.width:
        lines = textwrap.wrap(text, column.width, break_long_words=False, break_on_hyphens=False)
        return [cut_text(line, column.width) for line in lines]
    return [cut_text(text, column.width)]


def _format_line(texts: Sequence[str], columns: Sequence[_ShownColumn]) -> str:
    return _GAP.join(map(_pad, texts, columns)).rstrip() + "\n"


def _pad(text: str, column: _ShownColumn) -> str:
    space = " " * (column.width - text_width(text))
    return space + text if column.is_figure else text + space
