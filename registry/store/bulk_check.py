"""Validate one batch of whole tables, and find out which of its rows are new."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from registry.bulk_facts import check_rules_table, collect_table_facts
from registry.bulk_identity import (
    NO_OBSERVATION,
    combined,
    figures_hashes,
    observation_index,
    row_ids,
)
from registry.contract import load_table
from registry.frames import MOST_NAMED, check_table
from registry.store.bundle import STREAMED, empty_table
from registry.store.dedupe import new_citations
from registry.store.ids import ID_BYTES, IdFiles, id_bytes
from registry.store.results import compute_results

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb
    import numpy.typing as npt

    from registry.bulk_identity import Index
    from registry.store.folder import Folder
    from registry.store.manifest import Manifest

#: Tables that observations refer to.
REFERRED = ("sources", "environments", "configurations")


@dataclass(frozen=True, slots=True)
class Context:
    """What the rows of a batch may refer to: the bundle's small tables and the registry's rows."""

    folder: Folder
    manifest: Manifest
    ids: IdFiles
    #: Whole tables: models, gpus, sources, environments, configurations.
    whole: Mapping[str, pa.Table]
    #: A database to compute in, where one is kept open.
    connection: duckdb.DuckDBPyConnection | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of a batch: what is wrong with it, or its new rows by table."""

    problems: list[str]
    fresh: dict[str, pa.Table] = field(default_factory=dict)
    n_observations: int = 0


def key_ids(table: str, keys: pa.Array) -> npt.NDArray[np.bytes_]:
    """Return the 16 bytes that stand for each row (``S16``), by its key."""
    if table == "sources":
        data = b"".join(id_bytes(table, key) for key in keys.to_pylist())
    else:
        digits = pc.utf8_slice_codeunits(keys, 0, 2 * ID_BYTES)
        data = bytes.fromhex("".join(digits.to_pylist()))
    return np.frombuffer(data, dtype=f"S{ID_BYTES}")


def check_identities(name: str, table: pa.Table) -> list[str]:
    """Return which rows carry another id than their content has."""
    identity = load_table(name).identity
    if identity is None:
        return []
    return _differing(name, table, identity, row_ids(name, table), "the hash of its other columns")


def check_figures(
    observations: pa.Table, measurements: pa.Table, index: Index | None = None
) -> list[str]:
    """Return which observations carry another hash than their measurements have."""
    ids = combined(observations.column("observation_id"))
    hashes = figures_hashes(ids, measurements, index)
    return _differing(
        "observations", observations, "figures_hash", hashes, "the hash of its measurements"
    )


def _differing(
    name: str, table: pa.Table, column: str, expected: pa.Array, meaning: str
) -> list[str]:
    stated = combined(table.column(column))
    if stated.equals(expected):
        return []
    keys = table.column(load_table(name).key[0])
    wrong = np.flatnonzero(pc.not_equal(stated, expected).to_numpy(zero_copy_only=False))
    problems = [
        f"{name}, {load_table(name).key[0]} = {keys[row].as_py()!r}: found {column} "
        f"{stated[row].as_py()!r}; expected {expected[row].as_py()!r}, {meaning}"
        for row in wrong[:MOST_NAMED].tolist()
    ]
    more = len(wrong) - len(problems)
    return [*problems, f"{name}: and {more} more with another {column}"] if more else problems


def check_references(
    name: str, table: pa.Table, column: str, known: pa.Array, ids: IdFiles | None = None
) -> list[str]:
    """Return which rows refer to what is neither among ``known`` nor in the registry."""
    values = combined(table.column(column))
    missing = values.filter(
        pc.invert(pc.or_(pc.is_in(values, value_set=known), pc.is_null(values)))
    )
    missing = missing.unique()
    target = load_table(name).column(column).references or ""
    if ids is not None and len(missing):
        missing = missing.filter(pa.array(~ids.contains_each(key_ids(target, missing))))
    problems = [
        f"{name}: found {column} {value!r}; expected a row of {target}; add it to the tables"
        for value in missing[:MOST_NAMED].to_pylist()
    ]
    more = len(missing) - len(problems)
    return [*problems, f"{name}: and {more} more unknown {column}"] if more else problems


def check_batch(context: Context, batch: dict[str, pa.Table]) -> Checked:
    """Validate the observations of a batch with all that hangs on them; return the new rows."""
    problems = [p for name in STREAMED for p in check_table(name, batch[name])]
    if problems:
        return Checked(problems)
    observations, measurements = batch["observations"], batch["measurements"]
    ids = combined(observations.column("observation_id"))
    index = {name: observation_index(ids, batch[name]) for name in STREAMED[1:]}
    problems = _check_batch_references(context, batch, index)
    problems += check_identities("observations", observations)
    problems += check_figures(observations, measurements, index["measurements"])
    if problems:
        return Checked(problems)
    configurations = _referred(context, observations, "configurations")
    facts = collect_table_facts(
        configurations,
        observations,
        measurements,
        context.whole["gpus"],
        index=index["measurements"],
    )
    problems = check_rules_table(ids, facts)
    if problems:
        return Checked(problems)
    return Checked([], _fresh_rows(context, batch, configurations), observations.num_rows)


def _check_batch_references(
    context: Context, batch: dict[str, pa.Table], index: Mapping[str, Index]
) -> list[str]:
    observation_ids = combined(batch["observations"].column("observation_id"))
    problems: list[str] = []
    for name in REFERRED:
        key = load_table(name).key[0]
        known = combined(context.whole[name].column(key))
        problems += check_references("observations", batch["observations"], key, known, context.ids)
    sources = combined(context.whole["sources"].column("source_id"))
    problems += check_references("citations", batch["citations"], "source_id", sources, context.ids)
    for name, places in index.items():
        if (places != NO_OBSERVATION).all():
            continue
        ids = context.ids if name == "citations" else None
        problems += check_references(name, batch[name], "observation_id", observation_ids, ids)
    return problems


def _referred(context: Context, observations: pa.Table, name: str) -> pa.Table:
    """Return the rows of a table that observations refer to: the bundle's and the registry's."""
    key = load_table(name).key[0]
    there = context.whole[name]
    wanted = combined(observations.column(key)).unique()
    missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=combined(there.column(key)))))
    rows = there.filter(pc.is_in(there.column(key), value_set=wanted))
    if not len(missing):
        return rows
    files = [str(context.folder.tables / file) for file in context.manifest.files(name)]
    found = ds.dataset(files).to_table(filter=pc.field(key).isin(missing))
    return pa.concat_tables([rows, found.cast(empty_table(name).schema)])


def _fresh_rows(
    context: Context, batch: dict[str, pa.Table], configurations: pa.Table
) -> dict[str, pa.Table]:
    """Return the rows of a batch that the registry does not hold, and what is computed of them."""
    ids = combined(batch["observations"].column("observation_id"))
    is_known = context.ids.contains_each(key_ids("observations", ids))
    new_ids = ids
    fresh = {name: batch[name] for name in STREAMED}
    if is_known.any():
        new_ids = ids.filter(pa.array(~is_known))
        for name in ("observations", "measurements", "samples"):
            is_new = pc.is_in(batch[name].column("observation_id"), value_set=new_ids)
            fresh[name] = batch[name].filter(is_new)
    fresh["citations"] = new_citations(
        context.folder, context.manifest, batch["citations"], new_ids
    )
    if not fresh["observations"].num_rows:
        return fresh
    inputs = {
        **{name: fresh[name] for name in ("observations", "measurements", "citations")},
        **{name: context.whole[name] for name in ("models", "gpus")},
        "configurations": configurations,
        "environments": _referred(context, batch["observations"], "environments"),
    }
    results = compute_results(inputs, threads=1, connection=context.connection)
    return {**fresh, "results": results}
