"""Compute the wide ``results`` of some rows, with the view's own SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.contract import read_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

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


def compute_results(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Return the rows of the view ``results`` over these tables, sorted by observation_id."""
    import duckdb  # noqa: PLC0415 - heavy, only while folding

    with duckdb.connect(":memory:") as connection:
        connection.execute("set timezone = 'UTC'")
        for name in INPUTS:
            connection.register(name, tables[name])
        sql = read_view("results")
        return connection.execute(f"from ({sql}) order by observation_id").to_arrow_table()  # noqa: S608 - the contract's own SQL
