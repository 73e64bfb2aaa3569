"""Tables that stand in one another's rows: a row amid them names the columns anew."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from registry.tables.inline import plain_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.tables.raw_table import DraftRow, DraftTable

#: Fewest cells by which a row repeats the header, and the share of those that it says anything in.
_FEWEST_REPEATED: Final = 2
_MOST: Final = 0.5


def split_at_headers(draft: DraftTable) -> Iterator[DraftTable]:
    """Yield a table in parts, each with the header that stands above its rows.

    Below a header of its own a column may measure something else.
    """
    rows = draft.rows
    header = rows[0] if rows and draft.n_header_rows == 1 else None
    starts = [place for place, row in enumerate(rows) if header and place and _repeats(row, header)]
    for start, end in zip([0, *starts], [*starts, len(rows)], strict=True):
        part = rows[start:end]
        yield replace(draft, rows=part, line=part[0].line if start else draft.line)


def _repeats(row: DraftRow, header: DraftRow) -> bool:
    """Return whether a row names the columns as the header does, most of them alike."""
    is_spanned = any((cell.rowspan, cell.colspan) != (1, 1) for cell in row.cells)
    if len(row.cells) != len(header.cells) or is_spanned:
        return False
    names, texts = (
        [plain_text(cell.text).casefold() for cell in cells] for cells in (header.cells, row.cells)
    )
    said = [text for text in texts if text]
    alike = [text for text, name in zip(texts, names, strict=True) if text and text == name]
    is_named = not any(text[0].isdigit() or not any(map(str.isalpha, text)) for text in said)
    is_repeated = len(set(alike)) >= _FEWEST_REPEATED and len(alike) >= _MOST * len(said)
    return is_named and is_repeated
