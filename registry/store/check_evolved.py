"""Check the rows of parts that another contract wrote, in what both contracts have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from registry.contract import TABLES, load_table
from registry.contract.arrow import rows_table, table_schema
from registry.contract.frames import MOST_NAMED
from registry.errors import excerpt
from registry.store.files import for_engine
from registry.store.parquet import READ_ERRORS, read_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from registry.store.derive_tables import Rows
    from registry.store.parts import Part

Keyed = dict[tuple[Any, ...], dict[str, Any]]


def check_evolved(parts: Sequence[Part], rows: Rows, hints: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (kind, message) of rows that are not what the documents of their parts state.

    Another contract may give other keys, columns and derived rows: what has no counterpart today is
    not wrong; that it was not compared is added to ``hints``.
    """
    uncompared = []
    for name in TABLES:
        files = [file for part in parts if (file := part.file(name))]
        try:
            stored = _keyed(name, read_table(name, files))
            wanted = _keyed(name, rows_table(name, rows[name]))
            columns = _shared_columns(name, files)
        except (*READ_ERRORS, TypeError):
            uncompared.append(name)
            continue
        yield from _describe(name, stored, wanted, columns)
        if not _is_all_compared(stored, wanted, columns):
            uncompared.append(name)
    if uncompared:
        hints.append(
            f"rows of parts that another contract wrote were not all compared with their documents "
            f"({', '.join(uncompared)}); `registry fold --all` derives them again, so "
            "that they can be",
        )


def _keyed(name: str, table: pa.Table) -> Keyed:
    return {tuple(row[key] for key in load_table(name).key): row for row in table.to_pylist()}


def _shared_columns(name: str, files: Sequence[Path]) -> set[str]:
    """Return the columns that all files have, in the type of today."""
    found = [pq.read_schema(for_engine(file)) for file in files]
    return {
        field.name
        for field in table_schema(name)
        if all(field.name in s.names and s.field(field.name).type == field.type for s in found)
    }


def _describe(
    name: str, stored: Keyed, wanted: Keyed, columns: set[str]
) -> Iterator[tuple[str, str]]:
    lines = [
        f"row {' '.join(map(str, key))}: found {column} = {excerpt(stored[key][column])}"
        for key in stored.keys() & wanted.keys()
        if not _is_derived(wanted[key])
        for column in columns
        if stored[key][column] != wanted[key][column]
    ]
    for line in sorted(lines)[:MOST_NAMED]:
        yield "rows", f"table {name}: {line}; expected what the documents give"


def _is_all_compared(stored: Keyed, wanted: Keyed, columns: set[str]) -> bool:
    """Return whether each row has its counterpart, and nothing is beyond the shared columns."""
    return stored.keys() == wanted.keys() and not any(
        (column not in columns and row[column] is not None)
        or (_is_derived(row) and stored[key][column] != row[column])
        for key, row in wanted.items()
        for column in row
    )


def _is_derived(row: Mapping[str, Any]) -> bool:
    return row.get("origin") == "derived"
