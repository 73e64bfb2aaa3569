r"""Read the tables of a Markdown, HTML, CSV or TSV document, cells as written.

>>> table, = read_document("| batch size | memory |\n| --- | --- |\n| 4 | 15.81GB |\n")
>>> table.columns, table.rows[0].cells[1].text
(('batch size', 'memory'), '15.81GB')
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from registry.documents.csv_reader import is_csv, read_csv
from registry.documents.html_reader import read_html
from registry.documents.markdown_reader import has_html_table, has_pipe_table, read_markdown
from registry.documents.table import Cell, DraftTable, RawTable, Row, build_table, format_csv
from registry.errors import SourceError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

__all__ = [
    "DOCUMENT_LIMIT_BYTES",
    "Cell",
    "DocumentKind",
    "RawTable",
    "Row",
    "detect_kind",
    "format_csv",
    "read_document",
]

DocumentKind: TypeAlias = Literal["csv", "tsv", "markdown", "html"]

DOCUMENT_LIMIT_BYTES = 64 * 2**20
"""A larger document is no document of tables for people; bulk data has other ways in."""

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

    A Path is a file to read, a str is the document's text itself. Without `kind` the suffix tells
    it, else the content. `header_rows` gives a table's number of header rows where the document
    does not show it; the other tables keep what the reader finds. With `only`, just the tables of
    these numbers are built and checked, so a malformed table elsewhere does no harm.

    Raises SourceError, naming document, table and line: the file is missing, empty, too large or
    not UTF-8, a table is no rectangle, a CSV's column names repeat, or there is no such table.
    """
    origin = str(source) if isinstance(source, Path) else "text"
    header_rows = header_rows or {}
    try:
        text = _read_text(source) if isinstance(source, Path) else source
        kind = kind or detect_kind(text, source if isinstance(source, Path) else None)
        drafts = _reader(kind)(_normalize(text, kind))
        if isinstance(source, str):
            _validate_is_no_path(source, len(drafts))
        _validate_numbers({*header_rows, *(only or ())}, len(drafts))
    except SourceError as error:
        raise SourceError(f"{origin}: {error}") from error
    wanted = range(1, len(drafts) + 1) if only is None else sorted(set(only))
    return [_build(drafts[n - 1], n, header_rows.get(n), origin) for n in wanted]


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


def _build(draft: DraftTable, number: int, n_header_rows: int | None, origin: str) -> RawTable:
    try:
        return build_table(draft, number, n_header_rows)
    except SourceError as error:
        raise SourceError(f"{origin}, table {number}, {error}") from error


def _reader(kind: str) -> Callable[[str], list[DraftTable]]:
    for known in get_args(DocumentKind):
        if kind == known:
            return _READERS[known]
    known_kinds = ", ".join(_READERS)
    raise SourceError(
        f"found kind {kind!r}, expected one of {known_kinds}{did_you_mean(kind, _READERS)}"
    )


def _read_text(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > DOCUMENT_LIMIT_BYTES:
            raise SourceError(
                f"found {size} bytes, expected at most {DOCUMENT_LIMIT_BYTES}; split the document"
            )
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror}; give a readable file") from error
    except UnicodeDecodeError as error:
        raise SourceError(
            f"found byte 0x{error.object[error.start]:02x} at position {error.start}, "
            "expected UTF-8; save the document as UTF-8"
        ) from error


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
            f"found {text[:80]!r} and no table, expected a document's text; "
            "pass a pathlib.Path to read a file"
        )


def _validate_numbers(numbers: Collection[int], n_tables: int) -> None:
    unknown = sorted(number for number in numbers if not 1 <= number <= n_tables)
    if unknown:
        raise SourceError(
            f"found {n_tables} tables, expected a table {unknown[0]}; "
            "tables count from 1 in order of appearance"
        )
