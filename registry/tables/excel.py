"""Tables of an Excel workbook: in each sheet, the blocks of rows between empty ones.

openpyxl knows merged cells and how numbers are shown, which readers that only stream do not.
"""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from typing import TYPE_CHECKING, Any

from registry.errors import SourceError
from registry.tables.raw_table import MOST_CELLS, DraftCell, DraftRow, DraftTable

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Most bytes of a workbook's parts once unpacked; openpyxl takes fifty times as much memory.
_MOST_BYTES = 8 * 2**20

Span = tuple[int, int]


def read_excel(data: bytes) -> list[DraftTable]:
    """Return the tables of a workbook; raise SourceError where it is none, or is too large."""
    workbook = _open(data)
    tables = []
    for sheet in workbook.worksheets:
        if sheet.max_row * sheet.max_column > MOST_CELLS:
            raise SourceError(
                f"sheet {sheet.title!r}: found {sheet.max_row} rows of {sheet.max_column} cells, "
                f"expected at most {MOST_CELLS} cells; delete the empty ones, or split the sheet"
            )
        tables += list(_read_sheet(sheet))
    return tables


def _open(data: bytes) -> Any:
    try:
        import openpyxl  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        raise SourceError(
            "found an Excel workbook, expected the package openpyxl to read it; "
            "pip install 'peft-registry[excel]', or save the sheets as CSV"
        ) from None
    try:
        size = sum(part.file_size for part in zipfile.ZipFile(io.BytesIO(data)).infolist())
        workbook = None
        if size <= _MOST_BYTES:
            workbook = openpyxl.load_workbook(io.BytesIO(data), data_only=True)
    except Exception as error:  # noqa: BLE001 - whatever a broken archive makes of openpyxl
        raise SourceError(
            f"found a file that openpyxl cannot read ({type(error).__name__}), expected an Excel "
            "workbook (.xlsx); save it again, or as CSV"
        ) from None
    if workbook is None:
        raise SourceError(
            f"found {size} bytes once unpacked, expected at most {_MOST_BYTES}; save the sheets as "
            "CSV"
        )
    return workbook


def _read_sheet(sheet: Any) -> Iterator[DraftTable]:
    """Yield the tables of a sheet; a row of one cell above a wider one is a heading."""
    spans, covered = _merged(sheet)
    block: list[DraftRow] = []
    heading = ""
    for number, cells in enumerate(sheet.iter_rows(), start=1):
        texts = [_format(cell) for cell in cells]
        filled = [text for text in texts if text]
        if len(filled) == 1 and not block and not any((number, c) in spans for c in (1,)):
            heading = filled[0]
        elif filled:
            drafts = (
                _cell(text, spans.get((number, column)))
                for column, text in enumerate(texts, start=1)
                if (number, column) not in covered
            )
            block.append(DraftRow(number, tuple(drafts)))
        elif block:
            yield _table(sheet, block, heading)
            block, heading = [], ""
    if block:
        yield _table(sheet, block, heading)


def _table(sheet: Any, rows: list[DraftRow], heading: str) -> DraftTable:
    path = tuple(filter(None, (sheet.title, heading)))
    return DraftTable(path, tuple(rows), line=rows[0].line)


def _merged(sheet: Any) -> tuple[dict[tuple[int, int], Span], set[tuple[int, int]]]:
    """Return the spans of merged cells by their first cell, and the cells that they cover."""
    spans, covered = {}, set()
    n_cells = 0
    for merged in sheet.merged_cells.ranges:
        n_rows, n_columns = merged.size["rows"], merged.size["columns"]
        n_cells += n_rows * n_columns
        if n_cells > MOST_CELLS:
            raise SourceError(
                f"sheet {sheet.title!r}: found more than {MOST_CELLS} merged cells, expected fewer"
            )
        first = (merged.min_row, merged.min_col)
        spans[first] = (n_rows, n_columns)
        covered |= {
            (first[0] + down, first[1] + right)
            for down in range(n_rows)
            for right in range(n_columns)
            if down or right
        }
    return spans, covered


def _cell(text: str, span: Span | None) -> DraftCell:
    rowspan, colspan = span or (1, 1)
    return DraftCell(text, rowspan=rowspan, colspan=colspan)


def _format(cell: Any) -> str:
    """Return a cell's value as the sheet shows it, as far as that matters for figures."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        is_percent = "%" in (cell.number_format or "")
        return f"{value * 100:.15g}%" if is_percent else f"{value:.15g}"
    if isinstance(value, dt.timedelta):
        return str(value)
    return str(value).strip()
