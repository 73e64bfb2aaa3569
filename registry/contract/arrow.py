"""Arrow schemas of the tables, derived from the contract, and rows as Arrow tables."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from registry.contract import TABLES, load_table
from registry.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.contract import Column

ARROW_TYPES = {
    "string": pa.string(),
    "json": pa.string(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "list<string>": pa.list_(pa.string()),
}


@lru_cache(maxsize=len(TABLES))
def table_schema(name: str) -> pa.Schema:
    """Return the Arrow schema of a table; units and meanings are in the fields' metadata."""
    table = load_table(name)
    fields = [_field(column) for column in table.columns]
    return pa.schema(fields, metadata={"table": table.name, "meaning": table.meaning})


def _field(column: Column) -> pa.Field:
    metadata = {"meaning": column.meaning}
    if column.unit:
        metadata["unit"] = column.unit
    return pa.field(
        column.name, ARROW_TYPES[column.type], nullable=not column.required, metadata=metadata
    )


def rows_table(name: str, rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Return rows of a table as Arrow; columns that a row leaves out are null.

    Raises ContractError where a column's type was changed to one that its values cannot have.
    """
    schema = table_schema(name)
    try:
        return pa.Table.from_pylist(list(rows), schema=schema)
    except (pa.ArrowTypeError, pa.ArrowInvalid):  # recorded under another contract
        return pa.table([_cast_column(name, field, rows) for field in schema], schema=schema)


def _cast_column(name: str, field: pa.Field, rows: Sequence[dict[str, Any]]) -> pa.Array:
    try:
        return pa.array([row.get(field.name) for row in rows]).cast(field.type)
    except pa.ArrowException as error:
        raise ContractError(
            f"schemas/tables/{name}.yaml, {field.name}: recorded values cannot be of type "
            f"{field.type} ({str(error).splitlines()[0]}); expected a type that they can have; "
            "give the column another name"
        ) from None


def sorted_table(name: str, table: pa.Table) -> pa.Table:
    """Return a table sorted by its key, nulls last, so that its bytes depend on content alone."""
    keys = [(column, "ascending") for column in load_table(name).key]
    return table.sort_by([*keys]) if table.num_rows else table
