r"""Read the tables of a document in any of the formats of ``SUFFIXES``, cells as written.

>>> table, = parse_document("| batch size | memory |\n| --- | --- |\n| 4 | 15.81GB |\n")
>>> table.columns, table.rows[0].cells[1].text
(('batch size', 'memory'), '15.81GB')
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from registry.errors import SourceError
from registry.reading import decode_text, read_bytes
from registry.tables.csv import is_csv, read_csv
from registry.tables.excel import read_excel
from registry.tables.html import read_html
from registry.tables.inline import plain_text
from registry.tables.markdown import has_html_table, has_pipe_table, read_markdown
from registry.tables.notebook import read_notebook
from registry.tables.raw_table import (
    TooManyCellsError,
    broken_table,
    build_table,
    validate_cell_count,
)
from registry.tables.records import read_json, read_jsonl, read_yaml
from registry.tables.restructured import read_restructured

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from registry.tables.raw_table import DraftRow, DraftTable, RawTable

DocumentKind: TypeAlias = Literal[
    "csv", "tsv", "markdown", "html", "rst", "notebook", "json", "jsonl", "yaml", "excel"
]

#: Largest document that is read, in bytes: a hundred times the longest published page that was
#: read for the records.
LARGEST_DOCUMENT: Final = 16 * 2**20

_READERS: Final[dict[DocumentKind, Callable[[str], list[DraftTable]]]] = {
    "csv": read_csv,
    "tsv": partial(read_csv, delimiter="\t"),
    "markdown": read_markdown,
    "html": read_html,
    "rst": read_restructured,
    "notebook": read_notebook,
    "json": read_json,
    "jsonl": read_jsonl,
    "yaml": read_yaml,
}

#: Formats by the endings of names.
SUFFIXES: Final[dict[str, DocumentKind]] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".html": "html",
    ".htm": "html",
    ".rst": "rst",
    ".ipynb": "notebook",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".xlsx": "excel",
    ".xlsm": "excel",
}


#: Kinds of documents whose tables people lay out.
_WRITTEN: Final = ("markdown", "html", "rst", "notebook")


def read_document(
    path: Path, *, limit: int = LARGEST_DOCUMENT, header_rows: Mapping[int, int] | None = None
) -> tuple[list[RawTable], bytes]:
    """Return the tables of a file in order of appearance, numbered from 1, and its bytes.

    The suffix decides how it is read, else the content. `header_rows` gives a table's number of
    header rows where the document does not show it; the other tables keep what the reader finds.

    Raises:
        ReadingError: the file cannot be read, is longer than `limit` bytes or not UTF-8.
        SourceError: the document is empty, a table is no rectangle or too large, a CSV's column
            names repeat, or there is no such table; names document, table and line.
    """
    data = read_bytes(path, limit=limit, what="a document of tables")
    if SUFFIXES.get(path.suffix.lower()) == "excel":
        drafts = _read(partial(read_excel, data), str(path))
        return _build_tables(drafts, str(path), header_rows or {}), data
    text = decode_text(data, origin=str(path))
    return parse_document(text, path=path, header_rows=header_rows), data


def parse_document(
    text: str,
    kind: DocumentKind | None = None,
    *,
    path: Path | None = None,
    header_rows: Mapping[int, int] | None = None,
) -> list[RawTable]:
    """Return the tables of a document's text as :func:`read_document` does.

    ``path`` is where it was read: its suffix gives the kind, and messages name it.
    """
    origin = str(path) if path else "text"
    kind = kind or detect_kind(text, path)
    if kind == "excel":
        raise SourceError(f"{origin}: found text, expected the bytes of a workbook")
    drafts = _read(lambda: _READERS[kind](_normalize(text, kind)), origin)
    if kind in _WRITTEN:
        drafts = [part for draft in drafts for part in _split_at_headers(draft)]
    return _build_tables(drafts, origin, header_rows or {})


def _read(read: Callable[[], list[DraftTable]], origin: str) -> list[DraftTable]:
    try:
        return read()
    except SourceError as error:
        raise SourceError(f"{origin}: {error}") from error


def _build_tables(
    drafts: list[DraftTable], origin: str, header_rows: Mapping[int, int]
) -> list[RawTable]:
    _validate_numbers(header_rows, len(drafts), origin)
    tables: list[RawTable] = []
    n_cells = 0
    for number, draft in enumerate(drafts, start=1):
        try:
            table = _build_or_break(draft, number, header_rows.get(number))
            n_cells += len(table.rows) * len(table.columns)
            validate_cell_count(n_cells, table.line)
        except SourceError as error:
            raise SourceError(f"{origin}, table {number}, {error}") from error
        tables.append(table)
    return tables


def _build_or_break(draft: DraftTable, number: int, n_header_rows: int | None) -> RawTable:
    """Return a table; one that cannot be read is a problem only where a mapping names it."""
    try:
        return build_table(draft, number, n_header_rows)
    except TooManyCellsError:
        raise
    except SourceError as error:
        return broken_table(draft, number, str(error))


def detect_kind(text: str, path: Path | None = None) -> DocumentKind:
    """Return the kind that the path's suffix names, else the one that the text looks like.

    A page is HTML, text with pipe or HTML tables is Markdown (which reads both), even records are
    CSV, and all else is Markdown without tables.
    """
    suffix = path.suffix.lower() if path else ""
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    if text.lstrip("\ufeff \t\r\n")[:15].lower().startswith(("<!doctype html", "<html")):
        return "html"
    if has_pipe_table(text) or has_html_table(text) or not is_csv(text):
        return "markdown"
    return "csv"


def _normalize(text: str, kind: DocumentKind) -> str:
    """Return the text without byte order mark, its line breaks as line feeds.

    CSV keeps its own: they are part of quoted cells, and the csv module reads all of them.
    """
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise SourceError("found no text, expected tables; the document is empty")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise SourceError(
            f"line {line}: found a NUL character, expected text; save the document as UTF-8"
        )
    return text if kind in ("csv", "tsv") else text.replace("\r\n", "\n").replace("\r", "\n")


def _validate_numbers(numbers: Collection[int], n_tables: int, origin: str) -> None:
    unknown = sorted(number for number in numbers if not 1 <= number <= n_tables)
    if unknown:
        raise SourceError(
            f"{origin}: found {n_tables} tables, expected a table {unknown[0]}; "
            "tables count from 1 in order of appearance"
        )


# Tables that stand in one another's rows: a row amid them names the columns anew.

#: Fewest cells by which a row repeats the header, and the share of those that it says anything in.
_FEWEST_REPEATED: Final = 2
_MOST: Final = 0.5


def _split_at_headers(draft: DraftTable) -> Iterator[DraftTable]:
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
