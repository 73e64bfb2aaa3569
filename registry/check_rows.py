"""Check the folded rows: contract, ids, references, rules, keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from registry.bulk_facts import check_rules_table, collect_table_facts
from registry.bulk_identity import combined
from registry.bulk_order import find_repeated
from registry.check import RESTORE, Problem
from registry.contract import TABLES, load_table
from registry.frames import MOST_NAMED, check_table
from registry.store.bulk import read_batches
from registry.store.bulk_check import (
    check_figures,
    check_identities,
    check_references,
)
from registry.store.bundle import STREAMED, Bundle, empty_table, file_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.store.folder import Folder
    from registry.store.manifest import Manifest, PartFiles

    Batch = dict[str, pa.Table]

#: Tables of a part that are small enough to be checked whole.
_WHOLE = ("sources", "environments", "configurations", "submissions")


def read_columns(folder: Folder, manifest: Manifest, table: str, columns: list[str]) -> pa.Table:
    """Return some columns of all folded rows of a table."""
    files = [str(folder.tables / name) for name in manifest.files(table)]
    if not files:
        return empty_table(table).select(columns)
    return ds.dataset(files).to_table(columns=columns)


def read_referred(folder: Folder, manifest: Manifest, table: str, keys: pa.Array) -> pa.Table:
    """Return the rows of a table that have one of these keys, from all parts."""
    files = [str(folder.tables / name) for name in manifest.files(table)]
    schema = empty_table(table).schema
    if not files:
        return schema.empty_table()
    wanted = pc.field(load_table(table).key[0]).isin(keys)
    return ds.dataset(files).to_table(filter=wanted).cast(schema)


def part_batches(folder: Folder, part: PartFiles) -> Iterator[Batch]:
    """Yield the observations of a part in batches, each with the rows that hang on them."""
    batches = {
        name: file_batches(name, [str(folder.tables / part.tables[name].name)])
        for name in STREAMED
        if name in part.tables
    }
    return read_batches(Bundle(part.name, batches))


def check_part_rows(folder: Folder, manifest: Manifest) -> Iterator[Problem]:
    """Yield rows that break the contract, carry a wrong id, refer to nothing or break a rule."""
    keys = {
        table: combined(read_columns(folder, manifest, table, [load_table(table).key[0]]).column(0))
        for table in TABLES
        if len(load_table(table).key) == 1
    }
    for name in manifest.whole:
        table = pq.read_table(folder.tables / manifest.whole[name].name)
        yield from _problems("contract", manifest.whole[name].name, check_table(name, table))
    for part in manifest.parts:
        for name in _WHOLE:
            if name in part.tables:
                yield from _check_whole(folder, part, name, keys)
        for batch in part_batches(folder, part):
            yield from _check_batch(folder, manifest, part, batch, keys)


def _problems(promise: str, place: str, found: list[str]) -> Iterator[Problem]:
    for text in found:
        yield Problem(promise, f"tables/{place}", f"{text}; {RESTORE}")


def _check_whole(
    folder: Folder, part: PartFiles, name: str, keys: dict[str, pa.Array]
) -> Iterator[Problem]:
    place = part.tables[name].name
    table = pq.read_table(folder.tables / place)
    found = check_table(name, table)
    yield from _problems("contract", place, found)
    if found:
        return
    yield from _problems("identity", place, check_identities(name, table))
    yield from _check_all_references(place, name, table, keys)


def _check_all_references(
    place: str, name: str, table: pa.Table, keys: dict[str, pa.Array]
) -> Iterator[Problem]:
    for column in load_table(name).columns:
        if column.references:
            known = keys[column.references]
            found = check_references(name, table, column.name, known)
            yield from _problems("references", place, found)


def _check_batch(
    folder: Folder,
    manifest: Manifest,
    part: PartFiles,
    batch: Batch,
    keys: dict[str, pa.Array],
) -> Iterator[Problem]:
    places = {name: part.tables[name].name for name in STREAMED if name in part.tables}
    found = [
        problem
        for name, place in places.items()
        for problem in _problems("contract", place, check_table(name, batch[name]))
    ]
    yield from found
    if found or "observations" not in places:
        return
    for name, place in places.items():
        yield from _check_all_references(place, name, batch[name], keys)
    observations, place = batch["observations"], places["observations"]
    yield from _problems("identity", place, check_identities("observations", observations))
    yield from _problems("identity", place, check_figures(observations, batch["measurements"]))
    yield from _problems("rules", place, _check_rules(folder, manifest, batch))


def _check_rules(folder: Folder, manifest: Manifest, batch: Batch) -> list[str]:
    observations = batch["observations"]
    wanted = combined(observations.column("configuration_id")).unique()
    configurations = read_referred(folder, manifest, "configurations", wanted)
    gpus = read_columns(folder, manifest, "gpus", ["gpu_id", "memory_bytes"])
    facts = collect_table_facts(configurations, observations, batch["measurements"], gpus)
    return check_rules_table(combined(observations.column("observation_id")), facts)


def check_keys(folder: Folder, manifest: Manifest) -> Iterator[Problem]:
    """Yield keys that several parts hold."""
    if len(manifest.parts) < 2:  # noqa: PLR2004 - within one part the contract's check sees them
        return
    for name in TABLES:
        key = load_table(name).key
        if name in manifest.whole:
            continue
        keys = read_columns(folder, manifest, name, list(key))
        repeated = find_repeated(keys, key)
        for row in repeated[:MOST_NAMED].tolist():
            found = ", ".join(str(value) for value in keys.slice(row, 1).to_pylist()[0].values())
            message = f"found {', '.join(key)} = {found} in two parts; expected it once; {RESTORE}"
            yield Problem("keys", f"table {name}", message)
