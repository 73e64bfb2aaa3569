"""Compute the wide ``results`` of some rows, with the view's own SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from registry.contract import read_view
from registry.contract.arrow import rows_table, table_schema
from registry.store.derive_tables import (
    CATALOGUE_TABLES,
    FRESH_INPUTS,
    SHARED_INPUTS,
    count_later_citations,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.catalogue import Catalogue
    from registry.store.derive_tables import Rows


def compute_tables(
    rows: Rows, fresh: Rows, catalogue: Catalogue, *, complete: bool = False
) -> dict[str, pa.Table]:
    """Return the computed tables of new rows.

    ``rows`` are all that follow from the documents, ``fresh`` those that no part holds.
    ``results`` has a row for each new observation; ``later_citations`` counts the new citations of
    observations of earlier parts. Withdrawn rows are left out where the tables are ``complete``,
    which people read without us; parts hold them, as a later one may withdraw any row.
    """
    inputs = {name: rows_table(name, fresh[name]) for name in FRESH_INPUTS}
    inputs |= {name: rows_table(name, rows[name]) for name in SHARED_INPUTS}
    inputs |= {name: rows_table(name, catalogue.rows(name)) for name in CATALOGUE_TABLES}
    if complete:
        inputs["retractions"] = rows_table("retractions", rows["retractions"])
    later = pa.Table.from_pylist(count_later_citations(fresh), schema=_LATER_CITATIONS)
    return {"results": compute_results(inputs), "later_citations": later}


#: Observations that one thread computes as fast as several.
_FEW = 1000

_LATER_CITATIONS = pa.schema([("observation_id", pa.string()), ("n", pa.int64())])


def compute_results(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Return the rows of the view ``results`` over these tables, sorted by observation_id.

    Without ``retractions`` among them, withdrawn rows are there too, to be left out when reading.
    """
    is_small = tables["observations"].num_rows <= _FEW
    config: dict[str, Any] = {"threads": 1} if is_small else {}  # starting more takes longer
    with duckdb.connect(":memory:", config=config) as database:
        database.execute("set timezone = 'UTC'")
        for name in (*FRESH_INPUTS, *SHARED_INPUTS, *CATALOGUE_TABLES):
            database.register(name, tables[name])
        none = table_schema("retractions").empty_table()
        database.register("retractions", tables.get("retractions", none))
        rows = database.execute(read_view("results")).to_arrow_table()
    return rows.sort_by("observation_id")
