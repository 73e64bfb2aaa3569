"""Fold: turn what is pending into normalized Parquet parts, committed by one rename.

A crash at any instant leaves the state before or the state after. What a killed fold wrote and no
manifest names is removed by the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from registry.contract import TABLES
from registry.store.files import TEMPORARY_PREFIX, sync_folder
from registry.store.ids import id_files
from registry.store.journal import (
    Entry,
    read_journal,
    remove_entries,
    remove_leftovers,
    unfolded_entries,
)
from registry.store.lock import fold_lock
from registry.store.manifest import (
    Manifest,
    PartFiles,
    list_versions,
    manifest_path,
    read_manifest,
    write_manifest,
)
from registry.store.rows import collect_rows
from registry.store.whole import read_catalogue, write_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pyarrow as pa

    from registry.catalogue import Catalogue
    from registry.store.folder import Folder

#: Parts of like size that are merged into one of the next size.
FAN_OUT = 8

#: Parts beyond this many observations are not merged any more.
LARGEST_MERGED = 4_000_000

#: Age at which a temporary file in the journal counts as left behind by a killed writer.
_LEFTOVER_SECONDS = 3600.0

Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class FoldResult:
    """What a fold did."""

    version: int
    n_submissions: int
    n_observations: int
    #: Journal entries that could not be folded, and why.
    problems: tuple[str, ...] = ()


def fold(folder: Folder, *, merge_all: bool = False, wait_seconds: float = 60.0) -> FoldResult:
    """Fold what is pending; with ``merge_all``, merge everything into one part.

    Raises StoreError where another process folds for longer than ``wait_seconds``, or the folder
    cannot be written.
    """
    folder.require()
    with fold_lock(folder, wait_seconds=wait_seconds):
        remove_leftovers(folder.journal, older_than_seconds=_LEFTOVER_SECONDS)
        journal = read_journal(folder)
        manifest = read_manifest(folder)
        _remove_garbage(folder)
        new = unfolded_entries(journal.entries, id_files(folder, manifest))
        state = _with_entries(folder, manifest, new)
        state = _merged(folder, state, merge_all=merge_all)
        if state is not manifest:
            commit(folder, manifest, state)
        remove_entries(folder, [entry.submission_id for entry in journal.entries])
        _remove_garbage(folder)
        n_observations = state.rows("observations") - manifest.rows("observations")
        version = manifest.version + (state is not manifest)
        return FoldResult(version, len(new), n_observations, journal.problems)


def _with_entries(folder: Folder, manifest: Manifest, entries: Sequence[Entry]) -> Manifest:
    if not entries:
        return manifest
    return _with_rows(
        folder, manifest, collect_rows((e.submission_id, e.document, e.text) for e in entries)
    )


def build_state(
    folder: Folder, catalogue: Catalogue, submissions: Iterable[tuple[str, dict[str, Any], str]]
) -> Manifest:
    """Return the state of an empty folder with submissions, given as (id, document, text)."""
    state = with_catalogue(folder, Manifest(), catalogue)
    return _with_rows(folder, state, collect_rows(submissions))


def _with_rows(folder: Folder, manifest: Manifest, rows: Rows) -> Manifest:
    catalogue = read_catalogue(folder, manifest).extended(rows["models"], rows["gpus"])
    state = with_catalogue(folder, manifest, catalogue)
    part = _write_new_part(folder, manifest, rows, catalogue)
    return replace(state, parts=(*state.parts, part))


def with_catalogue(folder: Folder, manifest: Manifest, catalogue: Catalogue) -> Manifest:
    """Return a state with these models and GPUs; their files are written."""
    name = write_catalogue(folder, catalogue)
    if name == manifest.catalogue:
        return manifest
    from registry.store.parts import write_table  # noqa: PLC0415 - loads pyarrow

    digest = name.removeprefix("catalogue-").removesuffix(".json")
    tables = catalogue_tables(catalogue)
    whole = {
        table: write_table(folder, f"{table}-{digest}.parquet", rows)
        for table, rows in tables.items()
    }
    return replace(manifest, catalogue=name, whole=whole)


def catalogue_tables(catalogue: Catalogue) -> dict[str, pa.Table]:
    """Return the tables ``models`` and ``gpus`` of a catalogue."""
    from registry.arrow import rows_table, sorted_table  # noqa: PLC0415 - loads pyarrow

    rows = {"models": catalogue.models, "gpus": catalogue.gpus}
    return {
        name: sorted_table(name, rows_table(name, list(by_id.values())))
        for name, by_id in rows.items()
    }


def _write_new_part(
    folder: Folder, manifest: Manifest, rows: Rows, catalogue: Catalogue
) -> PartFiles:
    from registry.store.parts import write_part  # noqa: PLC0415 - loads pyarrow

    tables = arrow_tables(rows)
    fresh = keep_new(folder, manifest, tables)
    results = new_results(tables, fresh, catalogue)
    return write_part(folder, {**fresh, **results})


def arrow_tables(rows: Rows) -> dict[str, pa.Table]:
    """Return collected rows as Arrow tables; the models and GPUs are left out."""
    from registry.arrow import rows_table  # noqa: PLC0415 - loads pyarrow

    names = [name for name in TABLES if name not in ("models", "gpus")]
    return {name: rows_table(name, rows[name]) for name in names}


def keep_new(
    folder: Folder, manifest: Manifest, tables: dict[str, pa.Table]
) -> dict[str, pa.Table]:
    """Return of each table the rows that no part holds yet."""
    from registry.store.dedupe import only_new  # noqa: PLC0415 - loads pyarrow

    return only_new(folder, manifest, id_files(folder, manifest), tables)


def new_results(
    tables: dict[str, pa.Table], fresh: dict[str, pa.Table], catalogue: Catalogue
) -> dict[str, pa.Table]:
    """Return the computed tables of a new part.

    ``results`` of its observations; ``recited``, the number of new citations of observations that
    earlier parts hold.
    """
    from registry.store.dedupe import recited_counts  # noqa: PLC0415 - loads pyarrow
    from registry.store.results import compute_results  # noqa: PLC0415 - loads DuckDB

    inputs = {
        **catalogue_tables(catalogue),
        "configurations": tables["configurations"],
        "environments": tables["environments"],
        **{name: fresh[name] for name in ("observations", "measurements", "citations")},
    }
    return {"results": compute_results(inputs), "recited": recited_counts(fresh)}


def _merged(folder: Folder, state: Manifest, *, merge_all: bool) -> Manifest:
    """Merge parts of like size, smallest first, until fewer than the fan-out are alike."""
    from registry.store.parts import merge_parts  # noqa: PLC0415 - loads pyarrow

    while group := _mergeable(state.parts, merge_all=merge_all):
        merged = merge_parts(folder, group)
        names = {part.name for part in group}
        kept = [part for part in state.parts if part.name not in names]
        state = replace(state, parts=(merged, *kept))
    return state


def _mergeable(parts: Sequence[PartFiles], *, merge_all: bool) -> list[PartFiles]:
    if merge_all:
        return list(parts) if len(parts) > 1 else []
    tiers: dict[int, list[PartFiles]] = {}
    for part in parts:
        if part.n_observations <= LARGEST_MERGED:
            tiers.setdefault(_tier(part.n_observations), []).append(part)
    full = [tier for tier, group in tiers.items() if len(group) >= FAN_OUT]
    return tiers[min(full)] if full else []


def _tier(n_observations: int) -> int:
    tier = 0
    while n_observations >= FAN_OUT:
        n_observations //= FAN_OUT
        tier += 1
    return tier


def commit(folder: Folder, before: Manifest, state: Manifest) -> None:
    """Make a state the registry's, under the next version; its files are written."""
    sync_folder(folder.tables)
    write_manifest(folder, replace(state, version=before.version + 1))


def _remove_garbage(folder: Folder) -> None:
    """Remove files that no manifest names: what a killed fold or a pruned version left."""
    for path in find_leftovers(folder):
        path.unlink(missing_ok=True)


def find_leftovers(folder: Folder) -> list[Path]:
    """Return the files of ``tables/`` that no version at hand names."""
    named: set[str] = set()
    for version in list_versions(folder):
        named |= read_manifest(folder, version).all_files()
        named.add(manifest_path(folder, version).name)
    paths = sorted(folder.tables.iterdir()) if folder.tables.is_dir() else []
    return [path for path in paths if _is_ours(path) and path.name not in named]


def _is_ours(path: Path) -> bool:
    return path.suffix in (".parquet", ".bin", ".json") or path.name.startswith(TEMPORARY_PREFIX)


def prune(folder: Folder, *, keep: int = 1, wait_seconds: float = 60.0) -> list[int]:
    """Remove all but the newest ``keep`` versions and the files only they name; return them."""
    folder.require()
    with fold_lock(folder, wait_seconds=wait_seconds):
        removed = list_versions(folder)[:-keep]
        for version in removed:
            manifest_path(folder, version).unlink()
        sync_folder(folder.tables)
        _remove_garbage(folder)
    return removed
