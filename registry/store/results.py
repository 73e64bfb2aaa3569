"""Compute the wide ``results`` of some rows, with the view's own SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.bulk_order import is_sorted
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


def compute_results(tables: Mapping[str, pa.Table], *, threads: int | None = None) -> pa.Table:
    """Return the rows of the view ``results`` over these tables, sorted by observation_id.

    ``threads`` limits how many of the machine's cores are used.
    """
    import duckdb  # noqa: PLC0415 - heavy, only while folding

    with duckdb.connect(":memory:") as connection:
        connection.execute("set timezone = 'UTC'")
        if threads is not None:
            connection.execute("set threads = ?", [threads])
        for name in INPUTS:
            connection.register(name, tables[name])
        rows = connection.execute(read_view("results")).to_arrow_table()
    # Rows mostly come out in order; sorting so many columns is dear where they do.
    in_order = is_sorted(rows, ("observation_id",))
    return rows if in_order else rows.sort_by("observation_id")
