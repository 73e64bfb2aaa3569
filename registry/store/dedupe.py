"""Keep each row once: drop from new tables what the folded parts hold already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from registry.arrow import sorted_table
from registry.contract import load_table
from registry.store.ids import IdFiles, id_bytes
from registry.store.parts import IDENTIFIED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.store.folder import Folder
    from registry.store.manifest import Manifest

_CITATION_KEY = ("observation_id", "source_id", "locator")


def only_new(
    folder: Folder, manifest: Manifest, ids: IdFiles, tables: Mapping[str, pa.Table]
) -> dict[str, pa.Table]:
    """Return of each table the rows that no part holds.

    Measurements and samples go with their observation; a further citation of an observation that
    is there already is new.
    """
    fresh = dict(tables)
    for name in IDENTIFIED:
        fresh[name] = _unknown_rows(name, tables[name], ids)
    new_observations = fresh["observations"].column("observation_id")
    for name in ("measurements", "samples"):
        is_new = pc.is_in(tables[name].column("observation_id"), value_set=new_observations)
        fresh[name] = tables[name].filter(is_new)
    fresh["citations"] = new_citations(folder, manifest, tables["citations"], new_observations)
    return fresh


def _unknown_rows(name: str, table: pa.Table, ids: IdFiles) -> pa.Table:
    key = load_table(name).key[0]
    mask = [not ids.contains(id_bytes(name, value)) for value in table.column(key).to_pylist()]
    return table if all(mask) else table.filter(pa.array(mask, pa.bool_()))


def new_citations(
    folder: Folder,
    manifest: Manifest,
    citations: pa.Table,
    new_observations: pa.Array | pa.ChunkedArray,
) -> pa.Table:
    """Return the citations that no part holds: all of new observations, and further ones."""
    of_new = pc.is_in(citations.column("observation_id"), value_set=new_observations)
    known = citations.filter(pc.invert(of_new))
    files = [str(folder.tables / name) for name in manifest.files("citations")]
    if not known.num_rows or not files:
        return citations
    wanted = pc.field("observation_id").isin(known.column("observation_id").combine_chunks())
    there = ds.dataset(files).to_table(columns=list(_CITATION_KEY), filter=wanted)
    unseen = known.join(there, keys=list(_CITATION_KEY), join_type="left anti")
    unseen = unseen.select(citations.column_names).cast(citations.schema)
    return sorted_table("citations", pa.concat_tables([citations.filter(of_new), unseen]))


def recited_counts(fresh: Mapping[str, pa.Table]) -> pa.Table:
    """Return how many citations a part adds to observations of earlier parts."""
    observations = fresh["observations"].column("observation_id")
    ids = fresh["citations"].column("observation_id")
    earlier = ids.filter(pc.invert(pc.is_in(ids, value_set=observations)))
    counts = pa.table({"observation_id": earlier}).group_by("observation_id")
    return counts.aggregate([([], "count_all")]).rename_columns(["observation_id", "n"])
