"""Tables of which every column after the first is an observation."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from registry.tables.inline import plain_text
from registry.tables.raw_table import BodyRow, Cell

if TYPE_CHECKING:
    from registry.tables.raw_table import RawTable


def transpose(table: RawTable) -> RawTable:
    """Return a table whose columns are the rows of another, named by that one's first column.

    The other's column names become the cells of a first column, under the first one's name.
    """
    if not table.columns:
        return table
    names = [table.columns[0]]
    seen: Counter[str] = Counter(names)
    for row in table.rows:
        name = plain_text(row.cells[0].text) or f"row {len(names)}"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    rows = tuple(
        BodyRow(table.line, (Cell(label), *(row.cells[place] for row in table.rows)))
        for place, label in enumerate(table.columns)
        if place
    )
    return replace(table, columns=tuple(names), rows=rows)
