"""The tables of a document as a list for whoever has no mapping yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.tables.guess import guess_columns
from registry.tables.inline import plain_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.tables.matching import TableDocument
    from registry.tables.raw_table import RawTable

_SHOWN_ROWS = 2
_LONGEST_CELL = 40
_LONGEST_PROSE = 300


def format_listing(document: TableDocument) -> Iterator[str]:
    """Yield lines that show each table: number, heading, columns, two rows, and the prose above."""
    for table in document.tables:
        yield from _format_table(table, document)


def _format_table(table: RawTable, document: TableDocument) -> Iterator[str]:
    heading = " / ".join(table.heading) or "no heading"
    file = f"{document.files[table.index - 1]}, " if document.files else ""
    yield f"table {table.index}: {heading} ({file}line {table.line}, {len(table.rows)} rows)"
    if table.problem:
        yield f"  cannot be read: {table.problem}"
        return
    for text in table.prose:
        yield f"  above: {_cut(text, _LONGEST_PROSE)}"
    for note in table.notes:
        yield f"  note: {note}"
    guesses = guess_columns(table)
    names = [repr(name) for name in table.columns]
    width = min(max(map(len, names), default=0), _LONGEST_CELL)
    guessed = [str(guesses[name]) for name in table.columns]
    guess_width = max(map(len, guessed), default=0)
    for place, (name, guess) in enumerate(zip(names, guessed, strict=True)):
        cells = [_cut(plain_text(row.cells[place].text)) for row in table.rows[:_SHOWN_ROWS]]
        yield f"  {name:<{width}}  {guess:<{guess_width}}  {' | '.join(cells)}".rstrip()
    yield ""


def _cut(text: str, width: int = _LONGEST_CELL) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"
