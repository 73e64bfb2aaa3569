"""The result of a query as a notebook shows it."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

from registry.query.cells import format_for_people

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

#: Most rows that are shown.
MOST_ROWS = 50


def format_html(table: pa.Table) -> str:
    """Return the first rows of an Arrow table as an HTML table: units in its head, text escaped."""
    head = "".join(f"<th>{_format_head(field)}</th>" for field in table.schema)
    columns = [column.to_pylist() for column in table.slice(0, MOST_ROWS).columns]
    body = "".join(_format_rows(columns))
    left = table.num_rows - MOST_ROWS
    more = f"<p>… {left} more of {table.num_rows} rows</p>" if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _format_head(field: Any) -> str:
    metadata = field.metadata or {}
    unit = metadata.get(b"unit", b"").decode()
    meaning = escape(metadata.get(b"meaning", b"").decode(), quote=True)
    name = f'<span title="{meaning}">{escape(field.name)}</span>' if meaning else escape(field.name)
    return f"{name}<br><small>{escape(unit)}</small>" if unit else name


def _format_rows(columns: list[list[Any]]) -> Iterator[str]:
    for row in islice(zip(*columns, strict=True), MOST_ROWS):
        cells = "".join(f"<td>{escape(format_for_people(value))}</td>" for value in row)
        yield f"<tr>{cells}</tr>"
