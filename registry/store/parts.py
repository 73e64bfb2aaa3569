"""Write rows as a part: one sorted Parquet file per table, and the sorted ids of its rows."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from registry.arrow import sorted_table
from registry.contract import FORMAT_VERSION, load_table
from registry.store.files import explained, sync_file, write_atomically
from registry.store.ids import format_ids, id_bytes
from registry.store.manifest import File, PartFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from registry.store.folder import Folder

#: Tables whose rows are looked up by id; a row of any other table hangs on one of these.
IDENTIFIED = ("submissions", "observations", "configurations", "environments", "sources")

#: Files of a part that are computed from its tables.
DERIVED = ("results", "recited")

#: Rows per row group: small enough to skip, large enough to compress.
ROW_GROUP_ROWS = 131_072

_NAME_DIGITS = 16


def write_part(folder: Folder, tables: Mapping[str, pa.Table]) -> PartFiles:
    """Write the rows of a new part; nothing refers to the files until a manifest does."""
    ids = format_ids(collect_ids(tables))
    name = part_name(ids, {table: rows.num_rows for table, rows in tables.items()})
    files = {
        table: write_table(folder, f"{table}-{name}.parquet", order_table(table, rows))
        for table, rows in tables.items()
        if rows.num_rows
    }
    ids_name = f"ids-{name}.bin"
    write_atomically(folder.tables / ids_name, ids)
    return PartFiles(name, ids_name, files)


def order_table(name: str, table: pa.Table) -> pa.Table:
    """Return a table of a part in its one order."""
    if name in DERIVED:
        return table.sort_by("observation_id")
    return sorted_table(name, table)


def collect_ids(tables: Mapping[str, pa.Table]) -> Iterable[bytes]:
    """Yield the ids of all identified rows."""
    for table in IDENTIFIED:
        if table in tables:
            key = load_table(table).key[0]
            for value in tables[table].column(key).to_pylist():
                yield id_bytes(table, value)


def part_name(ids: bytes, sizes: Mapping[str, int], *, more: str = "") -> str:
    """Return the name of a part: a hash of its ids and sizes, so that like content is named alike.

    ``more`` stands for rows that have no id of their own.
    """
    counted = ",".join(f"{table}={rows}" for table, rows in sorted(sizes.items()))
    digest = hashlib.sha256(f"{FORMAT_VERSION};{counted};{more}".encode() + ids)
    return digest.hexdigest()[:_NAME_DIGITS]


def write_table(folder: Folder, name: str, table: pa.Table) -> File:
    """Write one Parquet file with bytes that depend on the rows alone, flushed to the disk."""
    path = folder.tables / name
    temporary = path.with_name(f".tmp-{name}")
    with explained(path):
        try:
            pq.write_table(
                table,
                temporary,
                compression="zstd",
                row_group_size=ROW_GROUP_ROWS,
                write_statistics=True,
            )
            sync_file(temporary)
            digest = hash_file(temporary)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    return File(name, table.num_rows, digest)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_part_table(folder: Folder, part: PartFiles, table: str) -> pa.Table | None:
    """Return the rows that a part holds of a table, or None."""
    file = part.tables.get(table)
    return None if file is None else pq.read_table(folder.tables / file.name)


def merge_parts(folder: Folder, parts: list[PartFiles]) -> PartFiles:
    """Write one part with the rows of several; their rows are distinct by construction."""
    names = sorted({table for part in parts for table in part.tables})
    merged = {}
    for table in names:
        pieces = [read_part_table(folder, part, table) for part in parts]
        merged[table] = pa.concat_tables([piece for piece in pieces if piece is not None])
    return write_part(folder, merged)
