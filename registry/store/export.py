"""Write a registry out as a folder of plain Parquet files, which can be added to another one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from registry.arrow import table_schema
from registry.contract import FORMAT_VERSION, TABLES, load_table
from registry.store.files import filled_folder, require_empty, sync_file
from registry.store.fold import arrow_tables, catalogue_tables, keep_new
from registry.store.ids import id_files
from registry.store.journal import read_journal, unfolded_entries
from registry.store.manifest import Manifest, read_manifest
from registry.store.parts import ROW_GROUP_ROWS, hash_file
from registry.store.rows import collect_rows
from registry.store.whole import read_catalogue

if TYPE_CHECKING:
    from pathlib import Path

    from registry.store.folder import Folder

#: The file of an export that names the others.
EXPORT_MANIFEST = "manifest.json"


def export_folder(folder: Folder, target: Path, at: int | None = None) -> dict[str, int]:
    """Write all tables to the folder ``target``, one file each, sorted by key; return their rows.

    What is pending is part of it, unless a version is named by ``at``. The folder appears under
    its name when it is complete. Raises StoreError where ``target`` exists and is not empty, or
    cannot be written.
    """
    folder.require()
    require_empty(target)
    manifest = read_manifest(folder, at)
    pending = _pending_tables(folder, manifest) if at is None else {}
    with filled_folder(target, last=EXPORT_MANIFEST) as temporary:
        counts = _write_tables(folder, manifest, pending, temporary)
        _write_export_manifest(temporary, manifest.version, counts)
    return counts


def _pending_tables(folder: Folder, manifest: Manifest) -> dict[str, pa.Table]:
    """Return the rows that the journal holds and no part does."""
    entries = unfolded_entries(read_journal(folder).entries, id_files(folder, manifest))
    if not entries:
        return {}
    rows = collect_rows((e.submission_id, e.document, e.text) for e in entries)
    catalogue = read_catalogue(folder, manifest).extended(rows["models"], rows["gpus"])
    return {**keep_new(folder, manifest, arrow_tables(rows)), **catalogue_tables(catalogue)}


def _write_tables(
    folder: Folder, manifest: Manifest, pending: dict[str, pa.Table], target: Path
) -> dict[str, int]:
    counts = {}
    for name in TABLES:
        files = [str(folder.tables / file) for file in manifest.files(name)]
        if name in manifest.whole and name in pending:
            files = []  # models and GPUs are written whole: the pending ones hold the folded ones
        counts[name] = _write_sorted(name, files, pending.get(name), target / f"{name}.parquet")
    return counts


def _write_sorted(name: str, files: list[str], pending: pa.Table | None, path: Path) -> int:
    """Write the rows of some files and a table by key; rows are sorted on disk where they must."""
    schema = table_schema(name)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in _sorted_batches(name, files, pending):
            rows = pa.Table.from_batches([batch]).cast(schema)
            writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
    sync_file(path)
    return int(pq.read_metadata(path).num_rows)


def _sorted_batches(name: str, files: list[str], pending: pa.Table | None) -> Any:
    import duckdb  # noqa: PLC0415 - heavy, only while exporting

    if not files:
        rows = pending if pending is not None else table_schema(name).empty_table()
        keys = [(column, "ascending") for column in load_table(name).key]
        yield from rows.sort_by(keys).to_batches(max_chunksize=ROW_GROUP_ROWS)
        return
    with duckdb.connect(":memory:") as connection:
        connection.execute("set timezone = 'UTC'")
        relation = connection.read_parquet(files)
        if pending is not None:
            connection.register("pending", pending)
            relation = relation.union(connection.table("pending"))
        order = ", ".join(f'"{column}" nulls last' for column in load_table(name).key)
        yield from relation.order(order).to_arrow_reader(ROW_GROUP_ROWS)


def _write_export_manifest(target: Path, version: int, counts: dict[str, int]) -> None:
    tables = {}
    for name, rows in counts.items():
        file = f"{name}.parquet"
        tables[name] = {"file": file, "rows": rows, "sha256": hash_file(target / file)}
    document = {"contract": FORMAT_VERSION, "registry_version": version, "tables": tables}
    path = target / EXPORT_MANIFEST
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sync_file(path)
