"""Validate whole tables against the contract, with pandera schemas derived from it.

The schemas check types, nullability, vocabularies, ranges, patterns and keys on pandas frames that
share Arrow's memory. What they find is then told in the user's words: row, key, column, found,
expected.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from registry.arrow import ARROW_TYPES, table_schema
from registry.bulk_order import find_repeated
from registry.contract import TABLES, Column, load_table
from registry.errors import excerpt
from registry.promises import column_promises, is_null, metric_range_kept, table_promises

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    import pandas as pd
    from pandera.api.pandas.container import DataFrameSchema

    from registry.promises import Promise

    Mask = npt.NDArray[np.bool_]

#: Most rows that are named of those that break one promise.
MOST_NAMED = 20


@lru_cache(maxsize=2 * len(TABLES))
def frame_schema(name: str, *, unique: bool = True) -> DataFrameSchema:
    """Return the pandera schema of a table, derived from the contract.

    It validates frames whose columns are Arrow-backed (``ArrowDtype``). With ``unique``, keys that
    stand twice fail too.
    """
    import pandera.pandas as pandera  # noqa: PLC0415 - heavy, only where tables are validated

    columns = {column.name: _frame_column(column) for column in load_table(name).columns}
    checks = []
    if unique:
        checks.append(pandera.Check(partial(_keys_are_unique, name), name="unique"))
    if name == "measurements":
        checks.append(pandera.Check(_metric_ranges_hold, name="metric_range"))
    return pandera.DataFrameSchema(columns, checks=checks, strict=True, name=name)


def _frame_column(column: Column) -> Any:
    import pandas as pd  # noqa: PLC0415 - heavy
    import pandera.pandas as pandera  # noqa: PLC0415 - heavy

    checks = [
        pandera.Check(
            partial(_series_kept, promise),
            name=promise.name,
            error=promise.expected,
            ignore_na=False,
            n_failure_cases=1,
        )
        for promise in column_promises(column)
    ]
    dtype = pd.ArrowDtype(ARROW_TYPES[column.type])
    return pandera.Column(dtype, checks=checks, nullable=not column.required)


def arrow_values(series: pd.Series[Any]) -> pa.Array:
    """Return the Arrow array behind an Arrow-backed series."""
    values = series.array.__arrow_array__()
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _series_kept(promise: Promise, series: pd.Series[Any]) -> pd.Series[bool]:
    import pandas as pd  # noqa: PLC0415 - heavy

    return pd.Series(promise.kept(arrow_values(series)), index=series.index)


def _keys_are_unique(name: str, frame: pd.DataFrame) -> pd.Series[bool]:
    import pandas as pd  # noqa: PLC0415 - heavy

    key = load_table(name).key
    keys = pa.table({column: arrow_values(frame[column]) for column in key})
    return pd.Series(_unique_kept(keys, key), index=frame.index)


def _unique_kept(table: pa.Table, key: tuple[str, ...]) -> Mask:
    kept = np.ones(table.num_rows, dtype=np.bool_)
    kept[find_repeated(table, key)] = False
    return kept


def _metric_ranges_hold(frame: pd.DataFrame) -> pd.Series[bool]:
    import pandas as pd  # noqa: PLC0415 - heavy

    kept = metric_range_kept(arrow_values(frame["metric"]), arrow_values(frame["value"]))
    return pd.Series(kept, index=frame.index)


def check_table(
    name: str, table: pa.Table, *, unique: bool = True, first_row: int = 0
) -> list[str]:
    """Return what the contract finds wrong with a table, at most 20 rows of each kind.

    Rows are counted from ``first_row``. With ``unique`` false, keys may stand twice: the caller
    checks them, because the table is a piece of a larger one.
    """
    problems = check_columns(name, table.schema)
    if problems or not table.num_rows:
        return problems
    whole = table.select(load_table(name).names).combine_chunks()
    if _is_valid(name, whole, unique=unique):
        return []
    return [
        line
        for found in _broken(name, whole, unique=unique)
        for line in _format_broken(name, whole, found, first_row)
    ]


def _is_valid(name: str, table: pa.Table, *, unique: bool) -> bool:
    import pandas as pd  # noqa: PLC0415 - heavy
    from pandera.errors import SchemaError  # noqa: PLC0415 - heavy

    frame = table.to_pandas(types_mapper=pd.ArrowDtype)
    try:
        frame_schema(name, unique=unique).validate(frame)
    except SchemaError:
        return False
    return True


def check_columns(name: str, schema: pa.Schema) -> list[str]:
    """Return what the contract finds wrong with the columns of a table and their types."""
    expected = table_schema(name)
    problems = [
        f"{name}: unknown column {column!r}; expected the columns of the contract "
        f"({', '.join(expected.names)}); remove it"
        for column in schema.names
        if column not in expected.names
    ]
    for field in expected:
        if field.name not in schema.names:
            problems.append(f"{name}: column {field.name!r} is missing; expected {field.type}")
        elif schema.field(field.name).type != field.type:
            found = schema.field(field.name).type
            problems.append(f"{name}.{field.name}: found type {found}; expected {field.type}")
    return problems


def _broken(
    name: str, table: pa.Table, *, unique: bool
) -> Iterator[tuple[tuple[str, ...], str, Mask]]:
    """Yield columns, what is expected of them, and which rows keep it."""
    for column, promises in table_promises(name):
        values = table.column(column.name).combine_chunks()
        if column.required:
            yield (column.name,), "a value", ~is_null(values)
        for promise in promises:
            yield (column.name,), promise.expected, promise.kept(values)
    if name == "measurements":
        metrics, values = (table.column(c).combine_chunks() for c in ("metric", "value"))
        expected = "a value in the range of the metric"
        yield ("metric", "value"), expected, metric_range_kept(metrics, values)
    if unique:
        key = load_table(name).key
        yield key, "each key once", _unique_kept(table, key)


def _format_broken(
    name: str, table: pa.Table, found: tuple[tuple[str, ...], str, Mask], first_row: int
) -> list[str]:
    columns, expected, kept = found
    rows = np.flatnonzero(~kept)
    key = load_table(name).key
    lines = [
        f"{name}, row {first_row + row} ({_format_row(table, key, row)}): "
        f"found {_format_row(table, columns, row)}; expected {expected}"
        for row in rows[:MOST_NAMED].tolist()
    ]
    if len(rows) > MOST_NAMED:
        more = len(rows) - MOST_NAMED
        lines.append(f"{name}: and {more} more rows whose {', '.join(columns)} is not {expected}")
    return lines


def _format_row(table: pa.Table, columns: tuple[str, ...], row: int) -> str:
    values = ((name, table.column(name)[row].as_py()) for name in columns)
    return ", ".join(
        f"{name} = {excerpt(value)}"
        for name, value in values
        if value is not None or len(columns) == 1
    )
