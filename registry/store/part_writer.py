"""Write a part of many rows as they come: each table on a thread of its own, nothing kept whole."""

from __future__ import annotations

import secrets
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from registry.arrow import table_schema
from registry.contract import TABLES
from registry.store.files import TEMPORARY_PREFIX, explained, sync_file, write_atomically
from registry.store.manifest import File, PartFiles
from registry.store.parts import ROW_GROUP_ROWS, hash_file, part_name

if TYPE_CHECKING:
    from pathlib import Path

    from registry.store.folder import Folder

#: Tables of a batch that may wait for their writer.
_MOST_WAITING = 2


class TableWriter:
    """Writes one table of a part under a temporary name, on a thread of its own."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.rows = 0
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._waiting: list[Future[None]] = []
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")

    def write(self, table: pa.Table) -> None:
        """Append rows; wait where the writer is behind."""
        self.rows += table.num_rows
        self._waiting.append(self._pool.submit(self._write, table))
        while len(self._waiting) > _MOST_WAITING:
            self._waiting.pop(0).result()

    def _write(self, table: pa.Table) -> None:
        self._writer.write_table(table.cast(self._schema), row_group_size=ROW_GROUP_ROWS)

    def close(self) -> None:
        """Wait for all rows, then flush the file to the disk."""
        try:
            for future in self._waiting:
                future.result()
        finally:
            self._pool.shutdown()
            self._writer.close()
        sync_file(self.path)

    def discard(self) -> None:
        """Remove the file."""
        self._pool.shutdown(cancel_futures=True)
        self._writer.close()
        self.path.unlink(missing_ok=True)


class PartWriter:
    """Writes the tables of a new part; their names are known when all ids are."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._token = secrets.token_hex(4)
        self._writers: dict[str, TableWriter] = {}

    def write(self, name: str, table: pa.Table) -> None:
        """Append rows to a table of the part."""
        if not table.num_rows:
            return
        if name not in self._writers:
            path = self._folder.tables / f"{TEMPORARY_PREFIX}{self._token}-{name}.parquet"
            with explained(path):
                schema = table_schema(name) if name in TABLES else table.schema
                self._writers[name] = TableWriter(path, schema)
        with explained(self._writers[name].path):
            self._writers[name].write(table)

    @property
    def is_empty(self) -> bool:
        """Whether no row was written."""
        return not self._writers

    def finish(self, ids: bytes, *, more: str = "") -> PartFiles:
        """Give the files their names; ``ids`` is the content of the part's id file."""
        for writer in self._writers.values():
            with explained(writer.path):
                writer.close()
        name = part_name(ids, {table: w.rows for table, w in self._writers.items()}, more=more)
        files = {table: self._named(table, name) for table in self._writers}
        ids_name = f"ids-{name}.bin"
        write_atomically(self._folder.tables / ids_name, ids)
        return PartFiles(name, ids_name, files)

    def _named(self, table: str, part: str) -> File:
        writer = self._writers[table]
        path = writer.path.with_name(f"{table}-{part}.parquet")
        digest = hash_file(writer.path)
        with explained(path):
            writer.path.replace(path)
        return File(path.name, writer.rows, digest)

    def discard(self) -> None:
        """Remove what was written."""
        for writer in self._writers.values():
            writer.discard()
