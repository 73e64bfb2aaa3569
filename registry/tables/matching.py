"""Find the tables of a document, or of a folder of CSV files, that a mapping is about."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from registry.errors import SourceError, did_you_mean
from registry.tables.document import LARGEST_DOCUMENT, read_document
from registry.tables.mapping import Match
from registry.tables.values import target_columns

if TYPE_CHECKING:
    from pathlib import Path

    from registry.tables.mapping import ColumnSpec, SourceMapping, TableSpec
    from registry.tables.raw_table import RawTable

_SUFFIXES = (".csv", ".tsv")


@dataclass(frozen=True)
class FoundTable:
    """A table of the document and how the mapping reads it; ``number`` counts from 1."""

    number: int
    table: RawTable
    spec: TableSpec
    columns: dict[str, ColumnSpec]

    @property
    def title(self) -> str | None:
        """The heading under which the table stands: the mapping's, else the document's last."""
        return self.spec.title or (self.table.heading[-1] if self.table.heading else None)


@dataclass(frozen=True)
class TableDocument:
    """The tables of a document in order, the file names where it is a folder, and its hash."""

    tables: tuple[RawTable, ...]
    files: tuple[str, ...]
    sha256: str


def read_tables(path: Path, mapping: SourceMapping) -> TableDocument:
    """Return the tables of a file, or of the CSV and TSV files of a folder in order of names.

    Raises:
        SourceError: the document cannot be read, or a folder holds no such file.
    """
    return _read_folder(path) if path.is_dir() else _read_file(path, mapping)


def _read_folder(folder: Path) -> TableDocument:
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
    except OSError as error:
        raise SourceError(
            f"{folder}: cannot be read: {error.strerror}; expected a readable folder"
        ) from error
    if not paths:
        raise SourceError(f"{folder}: found no .csv or .tsv file, expected the tables of a source")
    hashed = hashlib.sha256()
    tables: list[RawTable] = []
    n_left = LARGEST_DOCUMENT  # the files of a folder are one document
    for path in paths:
        (table,), data = read_document(path, limit=n_left)
        n_left -= len(data)
        tables.append(replace(table, index=len(tables) + 1))
        hashed.update(path.name.encode() + b"\0" + data)
    return TableDocument(tuple(tables), tuple(path.name for path in paths), hashed.hexdigest())


def _read_file(path: Path, mapping: SourceMapping) -> TableDocument:
    tables, data = read_document(path, header_rows=_header_rows(mapping))
    return TableDocument(tuple(tables), (), hashlib.sha256(data).hexdigest())


def _header_rows(mapping: SourceMapping) -> dict[int, int]:
    """Return the header rows that the mapping states, by number of the table.

    A folder's CSV files have one line of names each, whatever the document's header was.
    """
    stated = {}
    for spec in mapping.tables:
        if spec.header_rows is not None:
            if spec.match.table is None:
                raise SourceError(
                    f"{mapping.origin}: found header_rows without the table's number, "
                    "expected match: {table: …} beside it"
                )
            stated.update(dict.fromkeys(_numbers(spec.match), spec.header_rows))
    return stated


def _numbers(match: Match) -> list[int]:
    if match.table is None:
        return []
    return match.table if isinstance(match.table, list) else [match.table]


def match_tables(document: TableDocument, mapping: SourceMapping) -> list[FoundTable]:
    """Return the tables that the mapping reads, in order, each with all its columns' meanings.

    Raises:
        SourceError: an entry of the mapping matches no table, two match the same, a column that
            the mapping names is in no table, or a table has a column without a meaning.
    """
    found: dict[int, FoundTable] = {}
    for place, spec in enumerate(mapping.tables):
        where = f"{mapping.origin}: tables[{place}]"
        matching = [table for table in document.tables if _matches(spec.match, table, document)]
        if not matching:
            raise SourceError(_no_match(document, where))
        for table in matching:
            if table.index in found:
                raise SourceError(
                    f"{where}.match: found table {table.index}, which another entry reads "
                    "already, expected one entry for each table; say more in match"
                )
            columns = _collect_columns(table, spec, mapping, where)
            found[table.index] = FoundTable(table.index, table, spec, columns)
    _validate_common(mapping, [entry.table for entry in found.values()])
    return [found[number] for number in sorted(found)]


def _matches(match: Match, table: RawTable, document: TableDocument) -> bool:
    """Return whether all conditions hold that mean something for this kind of document."""
    conditions = []
    if match.table is not None:
        conditions.append(table.index in _numbers(match))
    if match.columns:
        conditions.append(set(match.columns) <= set(table.columns))
    if match.file is not None and document.files:
        conditions.append(fnmatchcase(document.files[table.index - 1], match.file))
    if match.heading is not None and not document.files:
        conditions.append(re.search(match.heading, " / ".join(table.heading)) is not None)
    is_unconditional = match == Match()
    return is_unconditional or (bool(conditions) and all(conditions))


def _no_match(document: TableDocument, where: str) -> str:
    if not document.tables:
        return f"{where}.match: found no table in the document, expected one"
    listed = "; ".join(
        f"{table.index}: {' / '.join(table.heading) or 'no heading'} ({', '.join(table.columns)})"
        for table in document.tables[:10]
    )
    return (
        f"{where}.match: found no such table, expected one of the document's "
        f"{len(document.tables)}: {listed}"
    )


def _collect_columns(
    table: RawTable, spec: TableSpec, mapping: SourceMapping, where: str
) -> dict[str, ColumnSpec]:
    for key, names in _named_columns(spec):
        for name in names:
            if name not in table.columns and not (key == "rules" and name in target_columns()):
                raise SourceError(_no_column(name, table, f"{where}.{key}"))
    columns = {
        name: meaning
        for name, meaning in {**mapping.columns, **spec.columns}.items()
        if name in table.columns
    }
    pivoted = pivot_labels(table, spec)
    if spec.pivot is not None and not pivoted:
        raise SourceError(_no_column(spec.pivot.columns, table, f"{where}.pivot"))
    without = [name for name in table.columns if name not in columns and name not in pivoted]
    if without:
        raise SourceError(
            f"{where}.columns: found no meaning of column {without[0]!r} of table {table.index}, "
            "expected one for each column; map it, or write `ignore` and why"
        )
    return columns


def pivot_labels(table: RawTable, spec: TableSpec) -> dict[str, str]:
    """Return the pivoted columns of a table: name to label."""
    if spec.pivot is None:
        return {}
    matches = {name: re.fullmatch(spec.pivot.columns, name) for name in table.columns}
    return {name: match[1] if match.re.groups else name for name, match in matches.items() if match}


def _named_columns(spec: TableSpec) -> list[tuple[str, list[str]]]:
    """Return the names that an entry of the mapping uses, by the key under which they stand."""
    glued = [name for runs in spec.glued_runs for name in (*runs.when, *runs.columns)]
    in_rules = [name for rule in spec.rules for name in rule.when]
    return [("columns", list(spec.columns)), ("glued_runs", glued), ("rules", in_rules)]


def _no_column(name: str, table: RawTable, where: str) -> str:
    return (
        f"{where}: found {name!r}{did_you_mean(name, table.columns)}; expected a column of table "
        f"{table.index}: {', '.join(repr(column) for column in table.columns)}"
    )


def _validate_common(mapping: SourceMapping, tables: list[RawTable]) -> None:
    """Refuse a common column that no table has: most likely it is misspelt."""
    known = {name for table in tables for name in table.columns}
    in_rules = [name for rule in mapping.rules for name in rule.when]
    named = [("columns", name) for name in mapping.columns]
    named += [("rules", name) for name in in_rules if name not in target_columns()]
    for key, name in named:
        if name not in known:
            raise SourceError(
                f"{mapping.origin}: {key}: found {name!r}{did_you_mean(name, known)}; expected a "
                f"column of the tables: {', '.join(repr(column) for column in sorted(known))}"
            )
