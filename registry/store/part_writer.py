"""Write a part of many rows as they come: each table on a thread of its own, nothing kept whole."""

from __future__ import annotations

import hashlib
import io
import secrets
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from registry.arrow import table_schema
from registry.contract import TABLES
from registry.store.files import TEMPORARY_PREFIX, explained, sync_file, write_atomically
from registry.store.manifest import File, PartFiles
from registry.store.parts import ROW_GROUP_ROWS, part_name

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import ReadableBuffer

    from registry.store.folder import Folder

#: Tables of a batch that may wait for their writer.
_MOST_WAITING = 2

#: Columns whose values hardly repeat: a dictionary of them is built in vain.
_DISTINCT = frozenset({"observation_id", "figures_hash", "locator", "cells", "run_id"})


class _HashedFile(io.FileIO):
    """A new file that knows the hash of what was written to it, in order."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "xb")
        self.sha256 = hashlib.sha256()

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of the data."""
        rest = memoryview(data)
        self.sha256.update(rest)
        size = len(rest)
        while rest:
            rest = rest[super().write(rest) :]
        return size


class TableWriter:
    """Writes one table of a part under a temporary name, on a thread of its own.

    Rows are gathered to whole row groups, so that the bytes do not depend on the pieces in which
    the rows came.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.rows = 0
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._waiting: list[Future[None]] = []
        self._gathered = schema.empty_table()
        self._file = _HashedFile(path)
        dictionaries = [name for name in schema.names if name not in _DISTINCT]
        self._writer = pq.ParquetWriter(
            self._file, schema, compression="zstd", use_dictionary=dictionaries
        )

    def write(self, table: pa.Table) -> None:
        """Append rows; wait where the writer is behind."""
        self.rows += table.num_rows
        self._waiting.append(self._pool.submit(self._gather, table))
        while len(self._waiting) > _MOST_WAITING:
            self._waiting.pop(0).result()

    def _gather(self, table: pa.Table) -> None:
        schema = self._gathered.schema
        self._gathered = pa.concat_tables([self._gathered, table.cast(schema)])
        while self._gathered.num_rows >= ROW_GROUP_ROWS:
            self._write_group(self._gathered.slice(0, ROW_GROUP_ROWS))
            self._gathered = self._gathered.slice(ROW_GROUP_ROWS)

    def _write_group(self, rows: pa.Table) -> None:
        self._writer.write_table(rows.combine_chunks(), row_group_size=ROW_GROUP_ROWS)

    def finish(self) -> Future[str]:
        """Write the last rows and flush the file to the disk; return its SHA-256, once done."""
        return self._pool.submit(self._finish)

    def _finish(self) -> str:
        for future in self._waiting:
            future.result()
        if self._gathered.num_rows:
            self._write_group(self._gathered)
        self._writer.close()
        self._file.close()
        sync_file(self.path)
        self._pool.shutdown(wait=False)
        return self._file.sha256.hexdigest()

    def discard(self) -> None:
        """Remove the file."""
        self._pool.shutdown(cancel_futures=True)
        self._writer.close()
        self._file.close()
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
        name = part_name(ids, {table: w.rows for table, w in self._writers.items()}, more=more)
        digests = {table: writer.finish() for table, writer in self._writers.items()}
        files = {table: self._named(table, name, digest) for table, digest in digests.items()}
        ids_name = f"ids-{name}.bin"
        write_atomically(self._folder.tables / ids_name, ids)
        return PartFiles(name, ids_name, files)

    def _named(self, table: str, part: str, digest: Future[str]) -> File:
        writer = self._writers[table]
        path = writer.path.with_name(f"{table}-{part}.parquet")
        with explained(path):
            sha256 = digest.result()
            writer.path.replace(path)
        return File(path.name, writer.rows, sha256)

    def discard(self) -> None:
        """Remove what was written."""
        for writer in self._writers.values():
            writer.discard()
