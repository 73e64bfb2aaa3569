"""Draft the folder of a new source: tables as CSV or logs, and a mapping of them."""

from __future__ import annotations

import csv
import io
import re
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from registry.contract import load_table
from registry.errors import SourceError
from registry.importers import ImportOptions, read_files
from registry.importers.shared.loading import LARGEST_LOG, walk_files
from registry.reading import read_bytes
from registry.sources.packed import PACKED, pack_files
from registry.store.files import filled_folder, require_free
from registry.submission.messages import check_row
from registry.tables.curated import MAPPING_NAME
from registry.tables.draft import draft_mapping, format_source, slug_of, title_of
from registry.tables.look import measured_tables
from registry.tables.matching import read_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from registry.catalogue import Catalogue
    from registry.importers import Imported
    from registry.tables.matching import TableDocument
    from registry.tables.raw_table import RawTable

#: What a contributor is asked for: the columns of a source that no document tells by itself.
ASKED = ("title", "url", "publisher", "published_on", "licence")


def read_logs(path: Path, catalogue: Catalogue) -> Imported | None:
    """Return what importers take from a log or a folder of logs; None where that is nothing."""
    imported = read_files([path], options=ImportOptions(catalogue=catalogue))
    return imported if imported.submissions else None


def propose_source(path: Path, document: TableDocument | None) -> dict[str, str]:
    """Return the id and the title that a document, or the name of logs, suggests."""
    title = title_of(path, document) if document else path.name
    return {"source_id": slug_of(path), "title": title}


def check_stated(name: str, text: str) -> list[str]:
    """Return what the contract finds wrong with one column of a source."""
    return list(check_row(load_table("sources"), {name: text}))


def choose_tables(
    path: Path, document: TableDocument, catalogue: Catalogue, numbers: Sequence[int] = ()
) -> TableDocument:
    """Return a document with some of its tables alone: those of the ``numbers``.

    Without numbers, these are the tables in which something looks measured.

    Raises:
        SourceError: there is no such table, or it cannot be read; or in none something looks
            measured.
    """
    by_number = {table.index: table for table in document.tables}
    for number in numbers:
        problem = by_number[number].problem if number in by_number else "there is no such table"
        if problem is not None:
            raise SourceError(
                f"{path}, table {number}: {problem}; expected one that "
                f"`registry import {shlex.quote(str(path))}` lists"
            )
    tables = [by_number[number] for number in sorted(set(numbers))]
    tables = tables or measured_tables(document, catalogue)
    if not tables and any(table.rows for table in document.tables):
        raise SourceError(
            f"{path}: found no table in which something looks measured; expected one, or its "
            f"number with --table, as `registry import {shlex.quote(str(path))}` lists it"
        )
    if not tables:
        raise SourceError(f"{path}: found no table with rows; expected a document with tables")
    return replace(document, tables=tuple(tables))


def write_source(
    sources: Path,
    path: Path,
    document: TableDocument,
    catalogue: Catalogue,
    stated: Mapping[str, str | None],
) -> Path:
    """Write ``sources/<source_id>/`` and return it; it appears whole or not at all.

    The ``document`` has the tables that are meant, as `choose_tables` finds them; ``stated`` are
    columns of the source, None for what is open.

    Raises:
        SourceError: a table cannot be said as CSV.
        StoreError: the folder is there already, or cannot be written.
    """
    folder = sources / str(stated["source_id"])
    require_free(folder)
    tables = list(document.tables)
    named = {_file_name(number, table): table for number, table in enumerate(tables, start=1)}
    copied = replace(
        document,
        tables=tuple(replace(table, index=n) for n, table in enumerate(tables, start=1)),
        files=tuple(named),
    )
    with filled_folder(folder, last=MAPPING_NAME) as temporary:
        for name, table in named.items():
            (temporary / name).write_text(format_csv(table), encoding="utf-8", newline="")
        _validate_copies(temporary, path, tables)
        text = draft_mapping(path, copied, catalogue, stated)
        (temporary / MAPPING_NAME).write_text(text, encoding="utf-8")
    return folder


def _file_name(number: int, table: RawTable) -> str:
    heading = table.heading[-1] if table.heading else ""
    slug = re.sub(r"[^a-z0-9]+", "-", heading.lower())[:40].strip("-")
    return f"{number:02}-{slug or 'table'}.csv"


def format_csv(table: RawTable) -> str:
    """Return a table as CSV: the names of its columns, then its cells as written."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([cell.text for cell in row.cells] for row in table.rows)
    return text.getvalue()


def _validate_copies(folder: Path, path: Path, tables: list[RawTable]) -> None:
    """Raise SourceError where a copy does not read back as the table that it was made from."""
    for table, copy in zip(tables, read_tables(folder).tables, strict=True):
        if copy.problem or (copy.columns, _texts(copy)) != (table.columns, _texts(table)):
            raise SourceError(
                f"{path}, table {table.index}: found cells that read differently from CSV"
                f"{f' ({copy.problem})' if copy.problem else ''}; expected the same cells; "
                "copy the table by hand"
            )


def _texts(table: RawTable) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in table.rows]


def write_log_source(
    sources: Path,
    path: Path,
    imported: Imported,
    stated: Mapping[str, str | None],
    *,
    keep: str | None = None,
) -> Path:
    """Write ``sources/<source_id>/`` of logs that were recognized; it appears whole or not at all.

    Args:
        sources: where the folder is to be.
        path: a log, or a folder of logs.
        imported: what importers took from it.
        stated: columns of the source, None for what is open.
        keep: of logs that are no JSON, only the lines stay in which this pattern is found.

    Raises:
        StoreError: the folder is there already, or cannot be written.
    """
    folder = sources / str(stated["source_id"])
    require_free(folder)
    refused = {refusal.path for refusal in imported.refused}
    files = [file for file in walk_files(path) if file not in refused]
    root = path if path.is_dir() else path.parent
    named = {file.relative_to(root).as_posix(): _read_log(file) for file in files}
    with filled_folder(folder, last=MAPPING_NAME) as temporary:
        for number, text in enumerate(pack_files(named, keep=keep), start=1):
            name = PACKED.replace("*", f"-{number}")
            (temporary / name).write_text(text, encoding="utf-8", newline="")
        mapping = _draft_log_mapping(imported, stated)
        (temporary / MAPPING_NAME).write_text(mapping, encoding="utf-8")
    return folder


def _draft_log_mapping(imported: Imported, stated: Mapping[str, str | None]) -> str:
    told = {"kind": "benchmark", **stated}
    lines = ["source:", *format_source(told, is_final=True), "logs:"]
    lines += [f"  - importer: {name}" for name in _find_importers(imported)]
    return "\n".join(lines) + "\n"


def _find_importers(imported: Imported) -> Iterator[str]:
    """Yield the names of the importers that took something, each once."""
    named = (
        row.get("provenance", {}).get("importer")
        for submission in imported.submissions
        for row in submission["observations"]
    )
    yield from dict.fromkeys(filter(None, named))


def _read_log(path: Path) -> str:
    return read_bytes(path, limit=LARGEST_LOG, what="a log").decode("utf-8-sig")
