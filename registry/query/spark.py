"""The registry's relations and views in a Spark session: PySpark's, or one of Spark Connect."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from registry.errors import QueryError
from registry.query.reach import validate_contents, validate_files
from registry.store.read import DUCKDB_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa

    from registry.query.model import Dataset, Relation

#: Types of columns: DuckDB's name, that of Spark.
_SPARK_TYPES = {
    "VARCHAR": "string",
    "BIGINT": "bigint",
    "DOUBLE": "double",
    "BOOLEAN": "boolean",
    "TIMESTAMPTZ": "timestamp",
    "VARCHAR[]": "array<string>",
}

#: What Spark takes for a pattern in the name of a file.
_PATTERN_CHARACTERS = frozenset("*?[]{}\\")


def register_dataset(session: Any, dataset: Dataset) -> tuple[str, ...]:
    """Register relations and views as temporary views of the session; return their names.

    Files are read by the session when it is asked; pending rows are handed to it now. Raises
    QueryError for a file that is not as it was written or that Spark cannot be told of.
    """
    if not callable(getattr(session, "createDataFrame", None)):
        raise QueryError(
            f"session: found {type(session).__name__}, expected a SparkSession; make one with "
            "pyspark.sql.SparkSession.builder.getOrCreate()"
        )
    for relation in dataset.relations:
        validate_files(relation.files, dataset.readable)
        validate_contents(relation)
        _register_relation(session, relation)
    for view in dataset.views:
        session.sql(view.sql).createOrReplaceTempView(view.name)
    relations = (relation.name for relation in dataset.relations)
    return (*relations, *(view.name for view in dataset.views))


def _register_relation(session: Any, relation: Relation) -> None:
    frame = _build_frame(session, relation)
    if relation.where:
        unfiltered = f"all_{relation.name}"
        frame.createOrReplaceTempView(unfiltered)
        frame = session.sql(f"select * from {unfiltered} where {relation.where}")  # noqa: S608 - our own
    frame.createOrReplaceTempView(relation.name)


def _build_frame(session: Any, relation: Relation) -> Any:
    """Return the frame of the relation's rows, those of files and those of none."""
    if not relation.columns:  # all rows are in files, and all of these are of today's contract
        return _read_files(session, relation.files)
    names = [name for name, _ in relation.columns]
    schema = ", ".join(f"`{name}` {_SPARK_TYPES[kind]}" for name, kind in relation.columns)
    pending = _pending_table(relation) if relation.json_rows else []
    frame = session.createDataFrame(pending, schema=schema)
    for files in _files_read_at_once(relation):
        rows = _read_files(session, files)
        frame = frame.unionByName(rows, allowMissingColumns=relation.evolved)
    return frame.select(*names)


def _files_read_at_once(relation: Relation) -> list[tuple[Path, ...]]:
    if not relation.evolved:
        return [relation.files] if relation.files else []
    for path in relation.files:
        _validate_types(relation, path)
    return [(path,) for path in relation.files]


def _read_files(session: Any, files: Iterable[Path]) -> Any:
    names = [_name_file(path) for path in files]
    return session.read.parquet(*names)


def _name_file(path: Path) -> str:
    path = path.absolute()
    if _PATTERN_CHARACTERS & set(str(path)):
        raise QueryError(
            f"{path}: found one of {' '.join(sorted(_PATTERN_CHARACTERS))} in the path, expected "
            "none: Spark takes it for a pattern; move the registry to another folder"
        )
    return f"file://{path}"


def _validate_types(relation: Relation, path: Path) -> None:
    """Raise QueryError where a column of an earlier contract is of another type today."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - heavy

    written = pq.read_schema(path.absolute())
    types = _arrow_types()
    for name, kind in relation.columns:
        if name in written.names and written.field(name).type != types[kind]:
            raise QueryError(
                f"{path}: column {name!r}: found {written.field(name).type}, expected "
                f"{types[kind]}; `registry fold --all` rewrites the tables"
            )


def _pending_table(relation: Relation) -> pa.Table:
    """Return the rows that are in no file, of the types of the relation."""
    import pyarrow as pa  # noqa: PLC0415 - heavy

    rows = json.loads(relation.json_rows or b"")
    types = _arrow_types()
    return pa.table(
        {
            name: pa.array([_parse_value(row.get(name), kind) for row in rows], types[kind])
            for name, kind in relation.columns
        }
    )


def _parse_value(value: Any, kind: str) -> Any:
    if kind == "TIMESTAMPTZ" and value is not None:
        return datetime.fromisoformat(value)
    return value


def _arrow_types() -> dict[str, pa.DataType]:
    """Return the Arrow types by those that relations name."""
    from registry.contract.arrow import ARROW_TYPES  # noqa: PLC0415 - heavy

    return {DUCKDB_TYPES[kind]: found for kind, found in ARROW_TYPES.items()}
