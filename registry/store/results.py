"""Compute the wide ``results`` of some rows, with the view's own SQL."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from registry.bulk_identity import combined, observation_index
from registry.bulk_order import is_sorted
from registry.contract import read_view

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import duckdb

#: Tables that the view reads.
INPUTS = (
    "observations",
    "configurations",
    "environments",
    "models",
    "gpus",
    "measurements",
    "citations",
)


def compute_results(
    tables: Mapping[str, pa.Table],
    *,
    threads: int | None = None,
    connection: duckdb.DuckDBPyConnection | None = None,
) -> pa.Table:
    """Return the rows of the view ``results`` over these tables, sorted by observation_id.

    Observations are distinct. ``threads`` limits how many of the machine's cores are used;
    ``connection`` is used where given, because opening one is dear beside a small batch.
    """
    ids = combined(tables["observations"].column("observation_id"))
    with _opened(connection) as database:
        database.execute("set timezone = 'UTC'")
        if threads is not None:
            database.execute("set threads = ?", [threads])
        rows = _run_view(database, _numbered(tables, ids))
    rows = rows.set_column(0, "observation_id", ids.take(combined(rows.column(0))))
    # Rows mostly come out in order; sorting so many columns is dear where they do.
    in_order = is_sorted(rows, ("observation_id",))
    return rows if in_order else rows.sort_by("observation_id")


@contextlib.contextmanager
def _opened(
    connection: duckdb.DuckDBPyConnection | None,
) -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb  # noqa: PLC0415 - heavy, only while folding

    if connection is not None:
        yield connection
        return
    with duckdb.connect(":memory:") as opened:
        yield opened


def _run_view(database: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table]) -> pa.Table:
    for name, table in tables.items():
        database.register(name, table)
    try:
        return database.execute(read_view("results")).to_arrow_table()
    finally:
        for name in tables:
            database.unregister(name)


def _numbered(tables: Mapping[str, pa.Table], ids: pa.Array) -> dict[str, pa.Table]:
    """Return the tables with positions in place of long ids, over which joins are much cheaper."""
    observations = _replaced(
        tables["observations"], "observation_id", pa.array(np.arange(len(ids)))
    )
    numbered = {name: tables[name] for name in INPUTS}
    for name in ("measurements", "citations"):
        places = pa.array(observation_index(ids, tables[name]))
        numbered[name] = _replaced(tables[name], "observation_id", places)
    for name, column in (
        ("configurations", "configuration_id"),
        ("environments", "environment_id"),
    ):
        known = combined(tables[name].column(column))
        places = pc.index_in(combined(observations.column(column)), value_set=known)
        observations = _replaced(observations, column, places)
        own = pa.array(np.arange(len(known), dtype=np.int32))
        numbered[name] = _replaced(tables[name], column, own)
    return {**numbered, "observations": observations}


def _replaced(table: pa.Table, column: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(column), column, values)
