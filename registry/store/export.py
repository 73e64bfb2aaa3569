"""Write a registry out as a folder of plain Parquet files, each row once, documents included."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from registry.contract import FORMAT_VERSION, TABLES, load_table
from registry.contract.arrow import table_schema
from registry.query.database import create_objects
from registry.store.files import filled_folder, require_free
from registry.store.parquet import ROW_GROUP_ROWS
from registry.store.parts import hash_file
from registry.store.read import read_dataset

if TYPE_CHECKING:
    from pathlib import Path

    from registry.store.folder import Location

#: The file of an export that names the others.
EXPORT_MANIFEST = "manifest.json"


def export_folder(location: Location, target: Path, at: int | None = None) -> dict[str, int]:
    """Write all tables to the folder ``target``, one file each, sorted by key; return their rows.

    What is pending is included, unless ``at`` names a version. The folder appears under
    its name when it is complete. Raises StoreError where ``target`` exists and is not empty, or
    cannot be written.
    """
    require_free(target)
    dataset, _ = read_dataset(location, at)
    counts: dict[str, int] = {}
    wanted = {*TABLES, *(relation.name for relation in dataset.relations)}
    with filled_folder(target, last=EXPORT_MANIFEST) as temporary:
        with duckdb.connect(":memory:", config={"temp_directory": str(temporary)}) as connection:
            connection.execute("set timezone = 'UTC'")
            create_objects(connection, dataset, wanted)
            for name in TABLES:
                counts[name] = _write_table(connection, name, temporary / f"{name}.parquet")
        _write_manifest(temporary, counts)
    return counts


def _write_table(connection: duckdb.DuckDBPyConnection, name: str, path: Path) -> int:
    schema = table_schema(name)
    columns = ", ".join(f'"{column}"' for column in schema.names)
    order = ", ".join(f'"{column}" nulls last' for column in load_table(name).key)
    sql = f'select {columns} from "{name}" order by {order}'  # noqa: S608 - names of the contract
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in connection.execute(sql).to_arrow_reader(ROW_GROUP_ROWS):
            writer.write_table(pa.Table.from_batches([batch]).cast(schema))
            rows += batch.num_rows
    return rows


def _write_manifest(target: Path, counts: dict[str, int]) -> None:
    tables = {
        name: {
            "file": f"{name}.parquet",
            "rows": rows,
            "sha256": hash_file(target / f"{name}.parquet"),
        }
        for name, rows in counts.items()
    }
    document = {"format": FORMAT_VERSION, "tables": tables}
    text = json.dumps(document, indent=1) + "\n"
    (target / EXPORT_MANIFEST).write_text(text, encoding="utf-8")
