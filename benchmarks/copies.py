"""Tables of many observations: the curated ones, copied under other ids, with figures that vary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from registry.contract import TABLES, read_view, view_names
from registry.query.database import connect, set_limits
from registry.query.model import Dataset, Limits, Relation, View

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

#: Of each table that grows, the columns that differ in a copy. Ids are hashed with the copy's
#: number; a figure varies by up to ten per cent, its bounds with it.
_ID = "md5({0} || '-' || k) as {0}"
_SOURCE = "source_id || '-' || k as source_id"
_FIGURE = "{0} * (1 + hash(observation_id, metric, statistic, scope, k) % 1000 / 10000.0) as {0}"
_VARIED = {
    "sources": (_SOURCE,),
    "configurations": (_ID.format("configuration_id"),),
    "observations": (_ID.format("observation_id"), _ID.format("configuration_id"), _SOURCE),
    "measurements": (
        _ID.format("observation_id"),
        *map(_FIGURE.format, ("value", "low", "high")),
    ),
    "citations": (_ID.format("observation_id"), _SOURCE),
}


def write_copies(engine: ModuleType, tables: Path, folder: Path, n_observations: int) -> Dataset:
    """Write tables of about that many observations into a folder, from those in ``tables``.

    All views are computed, ``results`` as well.
    """
    with connect(engine) as connection:
        set_limits(connection, Limits())
        size = pq.read_metadata(tables / "observations.parquet").num_rows
        n_copies = max(round(n_observations / size), 1)
        for table in TABLES:
            connection.execute(
                f"copy ({_copied(tables, table, n_copies)}) to '{folder / table}.parquet' "
                "(format parquet, compression zstd)"
            )
    relations = tuple(Relation(table, (folder / f"{table}.parquet",)) for table in TABLES)
    views = tuple(View(name, read_view(name)) for name in view_names())
    return Dataset(relations, views, (folder,))


def _copied(tables: Path, table: str, n_copies: int) -> str:
    original = f"read_parquet('{tables / table}.parquet')"
    if table not in _VARIED:
        return f"from {original}"
    varied = ", ".join(_VARIED[table])
    return f"select * replace ({varied}) from {original}, range({n_copies}) as c(k)"  # noqa: S608 - our own
