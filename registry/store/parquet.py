"""Rows as Parquet: one order, zstd, bytes that depend on the rows alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from registry.contract import TABLES
from registry.contract.arrow import rows_table, sorted_table, table_schema
from registry.store.files import for_engine, require_regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from registry.store.derive_tables import Row
    from registry.store.parts import Part

#: What reading a Parquet file raises that somebody else wrote, be it damaged or odd: names that are
#: no UTF-8, a type that pyarrow does not know, a time beyond the year 9999.
READ_ERRORS: Final = (OSError, pa.ArrowException, ArithmeticError, LookupError, ValueError)

#: Rows per row group: small enough to skip, large enough to compress.
ROW_GROUP_ROWS = 131_072

#: Rows that are unpacked together.
_BATCH_ROWS = 64

_POINTER_BYTES = 8


def ordered_table(name: str, rows: list[Row]) -> pa.Table:
    """Return rows as an Arrow table in the order of its key; documents keep theirs."""
    table = rows_table(name, rows)
    return table if name == "submissions" else sorted_table(name, table)


def format_parquet(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", row_group_size=ROW_GROUP_ROWS)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def merge_tables(parts: Sequence[Part]) -> dict[str, pa.Table]:
    """Return the tables of several parts together; documents stay in the order of the parts."""
    names = {name.removesuffix(".parquet") for part in parts for name in part.files}
    merged = {}
    for name in sorted(names & {*TABLES, "results", "later_citations"}):
        table = read_table(name, [file for part in parts if (file := part.file(name))])
        if name in TABLES and name != "submissions":
            table = sorted_table(name, table)
        merged[name] = table if name in TABLES else table.sort_by("observation_id")
    return merged


def read_table(name: str, files: Iterable[Path]) -> pa.Table:
    """Return the rows of a table in some files, with the columns of today's contract.

    A column that a file does not have is null; one that the contract no longer has is left out.
    Raises pyarrow.ArrowInvalid where a value cannot be of its column's type today.
    """
    schema = table_schema(name) if name in TABLES else None
    files = list(files)
    for file in files:
        require_regular(file)
    tables = [pq.read_table(for_engine(file), partitioning=None) for file in files]
    if schema is None:
        return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})
    return pa.concat_tables(
        [conformed(table, schema) for table in tables] or [schema.empty_table()]
    )


def read_rows(file: Path, largest: int) -> list[Row] | None:
    """Return the rows of a file, or None where they come to more than ``largest`` bytes.

    What is of any length is read as a dictionary: a small file may repeat it for ever, and what
    that comes to is known before it is written out. Raises pyarrow.ArrowInvalid where it is no
    Parquet.
    """
    long = [field.name for field in pq.read_schema(for_engine(file)) if _is_long(field.type)]
    rows: list[Row] = []
    size = 0
    read = pq.ParquetFile(for_engine(file), read_dictionary=long)
    for batch in read.iter_batches(batch_size=_BATCH_ROWS):
        size += sum(map(_unpacked_size, batch.columns))
        if size > largest:
            return None
        rows += batch.to_pylist()
    return rows


def is_text(found: pa.DataType) -> bool:
    """Return whether values of a type are texts, written out or as a dictionary."""
    found = found.value_type if pa.types.is_dictionary(found) else found
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found))


def _is_long(found: pa.DataType) -> bool:
    """Return whether values of a type may be of any length."""
    found = found.value_type if pa.types.is_dictionary(found) else found
    return is_text(found) or bool(pa.types.is_binary(found) or pa.types.is_large_binary(found))


def _unpacked_size(column: pa.Array) -> int:
    """Return the bytes of a column's values, each of which takes at least a pointer as a row's."""
    size = _POINTER_BYTES * len(column)
    if not (pa.types.is_dictionary(column.type) and _is_long(column.type)):
        return size + int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return size + int(pc.sum(lengths).as_py() or 0)


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns and types of a schema."""
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
