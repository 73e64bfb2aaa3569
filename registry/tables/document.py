r"""Read the tables of a Markdown, HTML, CSV or TSV document, cells as written.

>>> table, = read_document("| batch size | memory |\n| --- | --- |\n| 4 | 15.81GB |\n")
>>> table.columns, table.rows[0].cells[1].text
(('batch size', 'memory'), '15.81GB')
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from registry.errors import SourceError, did_you_mean
from registry.reading import read_text
from registry.tables.csv import is_csv, read_csv
from registry.tables.html import read_html
from registry.tables.markdown import has_html_table, has_pipe_table, read_markdown
from registry.tables.raw_table import (
    BodyRow,
    Cell,
    DraftTable,
    RawTable,
    build_table,
    format_csv,
    validate_cell_count,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

__all__ = [
    "LARGEST_DOCUMENT",
    "BodyRow",
    "Cell",
    "DocumentKind",
    "RawTable",
    "detect_kind",
    "format_csv",
    "parse_document",
    "read_document",
]

DocumentKind: TypeAlias = Literal["csv", "tsv", "markdown", "html"]

#: Largest document that is read, in bytes: a hundred times the longest published page that was
#: read for the records.
LARGEST_DOCUMENT: Final = 16 * 2**20

#: What the reading of a file calls a document in its messages.
WHAT: Final = "a document of tables"

_READERS: dict[DocumentKind, Callable[[str], list[DraftTable]]] = {
    "csv": read_csv,
    "tsv": partial(read_csv, delimiter="\t"),
    "markdown": read_markdown,
    "html": read_html,
}
_SUFFIXES: dict[str, DocumentKind] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
}


def read_document(
    source: Path | str,
    kind: DocumentKind | None = None,
    *,
    header_rows: Mapping[int, int] | None = None,
    only: Collection[int] | None = None,
) -> list[RawTable]:
    """Return the tables of a document in order of appearance, numbered from 1.

    A Path is a file to read, a str is the document's text itself. Without `kind` the suffix
    decides, else the content. `header_rows` gives a table's number of header rows where the
    document does not show it; the other tables keep what the reader finds. With `only`, just the
    tables of these numbers are built and checked, so a malformed table elsewhere does no harm.

    Raises:
        ReadingError: the file cannot be read, is too large or not UTF-8.
        SourceError: the document is empty, a table is no rectangle or too large, a CSV's column
            names repeat, or there is no such table; names document, table and line.
    """
    if isinstance(source, Path):
        text = read_text(source, limit=LARGEST_DOCUMENT, what=WHAT)
        return parse_document(text, kind, path=source, header_rows=header_rows, only=only)
    tables = parse_document(source, kind, header_rows=header_rows, only=only)
    _validate_is_no_path(source, len(tables))
    return tables


def parse_document(
    text: str,
    kind: DocumentKind | None = None,
    *,
    path: Path | None = None,
    header_rows: Mapping[int, int] | None = None,
    only: Collection[int] | None = None,
) -> list[RawTable]:
    """Return the tables of a document's text as :func:`read_document` does.

    ``path`` is where it was read: its suffix gives the kind, and messages name it.
    """
    origin = str(path) if path else "text"
    header_rows = header_rows or {}
    try:
        kind = kind or detect_kind(text, path)
        drafts = _reader(kind)(_normalize(text, kind))
        _validate_numbers({*header_rows, *(only or ())}, len(drafts))
    except SourceError as error:
        raise SourceError(f"{origin}: {error}") from error
    wanted = range(1, len(drafts) + 1) if only is None else sorted(set(only))
    tables: list[RawTable] = []
    n_cells = 0
    for number in wanted:
        try:
            table = build_table(drafts[number - 1], number, header_rows.get(number))
            n_cells += len(table.rows) * len(table.columns)
            validate_cell_count(n_cells, table.line)
        except SourceError as error:
            raise SourceError(f"{origin}, table {number}, {error}") from error
        tables.append(table)
    return tables


def detect_kind(text: str, path: Path | None = None) -> DocumentKind:
    """Return the kind that the path's suffix names, else the one that the text looks like.

    A page is HTML, text with pipe or HTML tables is Markdown (which reads both), even records are
    CSV, and all else is Markdown without tables.
    """
    suffix = path.suffix.lower() if path else ""
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if text.lstrip("\ufeff \t\r\n")[:15].lower().startswith(("<!doctype html", "<html")):
        return "html"
    if has_pipe_table(text) or has_html_table(text) or not is_csv(text):
        return "markdown"
    return "csv"


def _reader(kind: str) -> Callable[[str], list[DraftTable]]:
    for known in get_args(DocumentKind):
        if kind == known:
            return _READERS[known]
    known_kinds = ", ".join(_READERS)
    raise SourceError(
        f"found kind {kind!r}, expected one of {known_kinds}{did_you_mean(kind, _READERS)}"
    )


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


def _validate_is_no_path(text: str, n_tables: int) -> None:
    if n_tables == 0 and "\n" not in text:
        raise SourceError(
            f"text: found {text[:80]!r} and no table, expected a document's text; "
            "pass a pathlib.Path to read a file"
        )


def _validate_numbers(numbers: Collection[int], n_tables: int) -> None:
    unknown = sorted(number for number in numbers if not 1 <= number <= n_tables)
    if unknown:
        raise SourceError(
            f"found {n_tables} tables, expected a table {unknown[0]}; "
            "tables count from 1 in order of appearance"
        )
