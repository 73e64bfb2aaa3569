"""Find the tables of a document, or of a folder of CSV files, that a mapping is about."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from registry.errors import SourceError, did_you_mean
from registry.reading.patterns import compile_pattern
from registry.tables.document import LARGEST_DOCUMENT, read_document
from registry.tables.inline import plain_text
from registry.tables.mapping import Match
from registry.tables.problems import Place
from registry.tables.raw_table import BodyRow, Cell
from registry.tables.values import target_columns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path as FilePath

    from registry.reading.yaml_reader import Path
    from registry.tables.column_spec import ColumnSpec
    from registry.tables.mapping import Pivot, SourceMapping, TableSpec
    from registry.tables.problems import Problems
    from registry.tables.raw_table import RawTable

#: Files of a folder that hold its tables.
TABLE_SUFFIXES = (".csv", ".tsv")

#: What stands under ``ignore`` for all columns that are not mapped.
REST = "rest"


@dataclass(frozen=True)
class FoundTable:
    """A table of the document and how the mapping reads it; ``number`` counts from 1.

    ``place`` is that of the entry among the mapping's tables; ``ignored`` are the columns that are
    not read. ``is_complete`` says whether each of the others has a meaning.
    """

    number: int
    table: RawTable
    spec: TableSpec
    columns: dict[str, ColumnSpec]
    place: int
    ignored: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def title(self) -> str | None:
        """The heading under which the table stands: the mapping's, else the document's last."""
        return self.spec.title or (self.table.heading[-1] if self.table.heading else None)

    @property
    def path(self) -> Path:
        """Where the mapping describes the table."""
        return ("tables", self.place)

    def path_of(self, column: str) -> Path:
        """Return where the mapping describes a column."""
        if column in self.spec.columns:
            return (*self.path, "columns", column)
        if column in self.columns:
            return ("columns", column)
        return (*self.path, "pivot")


@dataclass(frozen=True)
class TableDocument:
    """The tables of a document in order, the file names where it is a folder, and its hash."""

    tables: tuple[RawTable, ...]
    files: tuple[str, ...]
    sha256: str


def read_tables(path: FilePath, mapping: SourceMapping | None = None) -> TableDocument:
    """Return the tables of a file, or of the CSV and TSV files of a folder in order of names.

    Raises:
        SourceError: the document cannot be read, or a folder holds no such file.
    """
    return _read_folder(path) if path.is_dir() else _read_file(path, mapping)


def _read_folder(folder: FilePath) -> TableDocument:
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in TABLE_SUFFIXES)
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
        hashed.update(path.name.encode(errors="surrogateescape") + b"\0" + data)
    return TableDocument(tuple(tables), tuple(path.name for path in paths), hashed.hexdigest())


def _read_file(path: FilePath, mapping: SourceMapping | None) -> TableDocument:
    header_rows = _header_rows(mapping) if mapping else {}
    tables, data = read_document(path, header_rows=header_rows)
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


def match_tables(
    document: TableDocument, mapping: SourceMapping, problems: Problems
) -> list[FoundTable]:
    """Return the tables that the mapping reads, in order, each with all its columns' meanings.

    Where an entry of the mapping matches no table, two match the same, a table cannot be read, a
    column that the mapping names is in no table, or a table has a column without a meaning, that is
    a problem.
    """
    found: dict[int, FoundTable] = {}
    for place, spec in enumerate(mapping.tables):
        matching = [table for table in document.tables if _matches(spec.match, table, document)]
        if not matching:
            problems.add(_no_match(document), Place(), path=("tables", place, "match"))
        for table in matching:
            if table.index in found:
                problems.add(
                    "two entries read it, expected one entry for each table; say more in match",
                    Place(table.index),
                    path=("tables", place, "match"),
                )
            elif table.problem:
                problems.add(table.problem, Place(table.index))
            else:
                found[table.index] = _describe(table, spec, mapping, place, problems)
    _check_common(mapping, list(found.values()), problems)
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
        conditions.append(_search(match.heading, " / ".join(table.heading)))
    is_unconditional = match == Match()
    return is_unconditional or (bool(conditions) and all(conditions))


def _search(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).search(text) is not None


def _no_match(document: TableDocument) -> str:
    if not document.tables:
        return "found no table in the document, expected one"
    listed = "; ".join(
        f"{table.index}: {' / '.join(table.heading) or 'no heading'} ({', '.join(table.columns)})"
        for table in document.tables[:10]
    )
    return f"found no such table, expected one of the document's {len(document.tables)}: {listed}"


def _describe(
    table: RawTable, spec: TableSpec, mapping: SourceMapping, place: int, problems: Problems
) -> FoundTable:
    """Return a table with the meaning of each of its columns; what lacks one is a problem."""
    if spec.transposed:
        table = transpose(table)
    where = Place(table.index)
    columns = {
        name: meaning
        for name, meaning in {**mapping.columns, **spec.columns}.items()
        if name in table.columns
    }
    pivoted = {name for pivot in spec.pivot for name in pivot_labels(table, pivot)}
    by = {c.figures_by.column for c in columns.values() if c.figures_by}
    ignored = {*mapping.ignore, *spec.ignore}
    without = [n for n in table.columns if n not in columns and n not in pivoted and n not in by]
    left = [n for n in without if n in ignored or REST in ignored]
    unknown = [n for n in without if n not in ignored] if REST not in ignored else []
    found = FoundTable(table.index, table, spec, columns, place, tuple(left), not unknown)
    _check_named(found, by, problems)
    for name in unknown:
        problems.add(
            "found no meaning, expected one for each column; map it, or leave it out with `ignore`",
            where,
            column=name,
            path=(*found.path, "columns"),
        )
    return found


def _check_named(found: FoundTable, by: set[str], problems: Problems) -> None:
    """Note the columns that the mapping of a table names and that it does not have."""
    table, spec = found.table, found.spec
    named: list[tuple[Path, str]] = [(("columns", name), name) for name in spec.columns]
    named += [(("columns",), name) for name in by]
    named += [(("ignore",), name) for name in spec.ignore if name != REST]
    named += [(("model_reported",), name) for name in spec.model_reported]
    for place, runs in enumerate(spec.glued_runs):
        named += [(("glued_runs", place), name) for name in (*runs.when, *runs.columns)]
    for place, skip in enumerate(spec.skip):
        named += [(("skip", place), name) for name in skip.when]
    for place, rule in enumerate(spec.rules):
        names = [name for name in rule.when if name not in target_columns()]
        named += [(("rules", place), name) for name in names]
    for path, name in named:
        if name not in table.columns:
            problems.add(_no_column(name, table), Place(table.index), path=(*found.path, *path))
    for place, pivot in enumerate(spec.pivot):
        if not pivot_labels(table, pivot):
            problems.add(
                _no_column(pivot.columns, table),
                Place(table.index),
                path=(*found.path, "pivot", place),
            )


def pivot_labels(table: RawTable, pivot: Pivot) -> dict[str, str]:
    """Return the pivoted columns of a table: name to label."""
    pattern = compile_pattern(pivot.columns)
    matches = {name: pattern.fullmatch(name) for name in table.columns}
    return {
        name: (match[1] or "") if pattern.groups else name
        for name, match in matches.items()
        if match
    }


def _no_column(name: str, table: RawTable) -> str:
    return (
        f"found {name!r} in the mapping{did_you_mean(name, table.columns)}; expected a column of "
        f"the table: {', '.join(repr(column) for column in table.columns)}"
    )


def _check_common(mapping: SourceMapping, tables: Sequence[FoundTable], problems: Problems) -> None:
    """Note a common column that no table has: most likely it is misspelt."""
    known = {name for entry in tables for name in entry.table.columns}
    named: list[tuple[Path, str]] = [(("columns", name), name) for name in mapping.columns]
    named += [(("ignore",), name) for name in mapping.ignore if name != REST]
    named += [(("model_reported",), name) for name in mapping.model_reported]
    named += [(("unite", name), name) for name in mapping.unite if name not in target_columns()]
    for place, rule in enumerate(mapping.rules):
        names = [name for name in rule.when if name not in target_columns()]
        named += [(("rules", place), name) for name in names]
    for path, name in named:
        if name not in known and tables:
            problems.add(
                f"found {name!r} in the mapping{did_you_mean(name, known)}; expected a column of "
                f"the tables: {', '.join(repr(column) for column in sorted(known))}",
                Place(),
                path=path,
            )


# Tables of which every column after the first is an observation.


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
