"""CSV and TSV documents: one table, whose first record names the columns."""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from itertools import islice

from registry.errors import SourceError
from registry.tables.raw_table import DraftCell, DraftRow, DraftTable, validate_cell_count

DELIMITERS = (",", ";", "\t")
_SNIFFED_RECORDS = 20


def read_csv(text: str, delimiter: str | None = None) -> list[DraftTable]:
    """Return the document's one table; without `delimiter` it is found among comma, semicolon, tab.

    A quoted line break stays in its cell and the row's line is the one where the record begins.
    Raises SourceError for quotes that do not close and for a field over the csv module's limit.
    """
    delimiter = delimiter or detect_delimiter(text) or ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    records: list[tuple[int, list[str]]] = []
    line, n_cells = 1, 0
    try:
        for record in reader:
            n_cells += len(record) or 1  # a blank line costs as much
            validate_cell_count(n_cells, line)
            records.append((line, record))
            line = reader.line_num + 1
    except csv.Error as error:
        raise SourceError(
            f"line {line}: {error}; expected fields separated by {delimiter!r}, quotes that close "
            f"and at most {csv.field_size_limit()} characters in a field"
        ) from error
    rows = [
        DraftRow(at, tuple(DraftCell(field.strip()) for field in record)) for at, record in records
    ]
    first = next((row.line for row in rows if any(cell.text for cell in row.cells)), 1)
    return [DraftTable((), tuple(rows), line=first, names_may_repeat=False)]


def detect_delimiter(text: str) -> str | None:
    """Return the delimiter that gives the first records one and the same width, the widest first.

    Where no delimiter gives an even width, the one that splits the header most; None where nothing
    splits it.
    """
    found = []
    for rank, delimiter in enumerate(DELIMITERS):
        widths = _collect_widths(text, delimiter)
        if widths and widths[0] > 1:
            found.append((len(set(widths)) == 1, widths[0], -rank, delimiter))
    return max(found)[-1] if found else None


def is_csv(text: str) -> bool:
    """Return whether the first records, two at least, have one width of two or more fields."""
    delimiter = detect_delimiter(text)
    widths = _collect_widths(text, delimiter) if delimiter else []
    return len(widths) > 1 and len(set(widths)) == 1


def _collect_widths(text: str, delimiter: str) -> list[int]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    widths: list[int] = []
    with suppress(csv.Error):  # the reading itself reports it, with its line
        widths.extend(len(record) for record in islice(reader, _SNIFFED_RECORDS) if record)
    return widths
