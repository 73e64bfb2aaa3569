"""Write a registry out as a folder of plain Parquet files, each row once, documents included."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from registry.contract import FORMAT_VERSION, TABLES, load_table
from registry.contract.arrow import ARROW_TYPES, table_schema
from registry.contract.descriptions import describe_column, describe_relation, format_metadata
from registry.errors import StoreError
from registry.query.database import create_objects
from registry.store.files import filled_folder, require_free
from registry.store.manifest import REPAIR
from registry.store.parquet import ROW_GROUP_ROWS
from registry.store.parts import hash_file
from registry.store.published import Exported, format_companions
from registry.store.read import read_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from registry.store.folder import Location

#: The file of an export that names the others.
EXPORT_MANIFEST = "manifest.json"


#: The view that is written as a file too: what most people want, in one table.
WIDE = "results"


def export_folder(
    location: Location, target: Path, at: int | None = None, *, url: str | None = None
) -> dict[str, int]:
    """Write all tables to the folder ``target``, one file each, sorted by key; return their rows.

    ``results`` is a file as well. Beside them lie a dataset card, Croissant metadata and how to
    cite; ``url`` says where the export will be found. What is pending is included, unless ``at``
    names a version. The folder appears under its name when it is complete. Raises StoreError where
    ``target`` exists and is not empty, or cannot be written.
    """
    require_free(target)
    dataset, _ = read_dataset(location, at)
    wanted = {*TABLES, *(relation.name for relation in dataset.relations), WIDE}
    with (
        filled_folder(target, last=EXPORT_MANIFEST) as temporary,
        _explained_tables(location),
    ):
        with duckdb.connect(":memory:", config={"temp_directory": str(temporary)}) as connection:
            connection.execute("set timezone = 'UTC'")
            create_objects(connection, dataset, wanted)
            schemas = {name: table_schema(name) for name in TABLES}
            schemas[WIDE] = _wide_schema(connection)
            counts = {
                name: _write_table(connection, name, schema, temporary / f"{name}.parquet")
                for name, schema in schemas.items()
            }
            sources = _read_sources(connection)
        digests = {name: hash_file(temporary / f"{name}.parquet") for name in schemas}
        day = datetime.now(UTC).date().isoformat()
        exported = Exported(schemas, counts, digests, sources, day, url)
        for name, text in format_companions(exported).items():
            (temporary / name).write_text(text, encoding="utf-8")
        _write_manifest(temporary, counts, digests)
    return counts


@contextmanager
def _explained_tables(location: Location) -> Iterator[None]:
    """Turn what the engine says of tables that nobody can have written into a StoreError."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, ArithmeticError, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the system, not the engine
            raise
        reason = str(error).partition("\n")[0]
        raise StoreError(
            f"{location.own.name}: found tables that cannot be read as their columns say "
            f"({reason}); expected them as `registry fold` writes them; {REPAIR}"
        ) from None


def _wide_schema(connection: duckdb.DuckDBPyConnection) -> pa.Schema:
    """Return the schema of ``results`` with units and meanings."""
    found = connection.execute(f"from {WIDE} limit 0").to_arrow_table().schema
    fields = []
    for field in found:
        described = describe_column(WIDE, field.name)
        metadata = format_metadata(described) if described else None
        fields.append(pa.field(field.name, _plain_type(field.type), metadata=metadata))
    return pa.schema(fields, metadata={"table": WIDE, "meaning": describe_relation(WIDE)})


def _plain_type(found: pa.DataType) -> pa.DataType:
    """Return the type that the tables have for what DuckDB gives: its lists name their items."""
    if pa.types.is_timestamp(found):
        return ARROW_TYPES["timestamp"]
    return ARROW_TYPES["list<string>"] if pa.types.is_list(found) else found


def _read_sources(connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = connection.execute(_SOURCES).to_arrow_table().to_pylist()
    return rows


_SOURCES = """
select source_id, any_value(url) as url, any_value(licence) as licence, count(*) as n
from observations
inner join sources using (source_id)
group by source_id
"""


def _write_table(
    connection: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, path: Path
) -> int:
    columns = ", ".join(f'"{column}"' for column in schema.names)
    key = load_table(name).key if name in TABLES else ("observation_id",)
    order = ", ".join(f'"{column}" nulls last' for column in key)
    sql = f'select {columns} from "{name}" order by {order}'  # noqa: S608 - names of the contract
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in connection.execute(sql).to_arrow_reader(ROW_GROUP_ROWS):
            writer.write_table(pa.Table.from_batches([batch]).cast(schema))
            rows += batch.num_rows
    return rows


def _write_manifest(target: Path, counts: dict[str, int], digests: dict[str, str]) -> None:
    tables = {
        name: {"file": f"{name}.parquet", "rows": rows, "sha256": digests[name]}
        for name, rows in counts.items()
    }
    document = {"format": FORMAT_VERSION, "tables": tables}
    text = json.dumps(document, indent=1) + "\n"
    (target / EXPORT_MANIFEST).write_text(text, encoding="utf-8")
