"""Add whole tables at once: validated batch by batch, committed together or not at all."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from registry.arrow import rows_table
from registry.bulk_identity import combined, row_texts
from registry.contract import load_table
from registry.errors import SubmissionError
from registry.frames import check_table
from registry.identity import document_id
from registry.promises import text_bytes
from registry.store.bulk_check import (
    REFERRED,
    Checked,
    Context,
    check_identities,
    check_references,
    key_ids,
)
from registry.store.bulk_pool import build_checker
from registry.store.bundle import STREAMED, Bundle, open_bundle
from registry.store.fold import catalogue_tables, commit, with_catalogue
from registry.store.ids import ID_BYTES, id_files
from registry.store.lock import fold_lock
from registry.store.manifest import Manifest, read_manifest
from registry.store.part_writer import PartWriter
from registry.store.rows import RowCollector
from registry.store.whole import read_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from registry.catalogue import Catalogue
    from registry.store.bulk_pool import Inline, Pool
    from registry.store.bundle import Tables
    from registry.store.folder import Folder

    Ids = npt.NDArray[np.bytes_]

#: Observations that are validated together.
BATCH_OBSERVATIONS = 65_536

#: From so many observations on, batches are validated in processes of their own.
POOL_OBSERVATIONS = 150_000

#: What numpy takes off the end of fixed-width bytes.
_NUL = b"\0"

#: Most problems that are reported together.
_MOST_PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What adding whole tables did."""

    version: int
    n_observations: int
    n_new: int


@dataclass(slots=True)
class _Covered:
    """The observations that documents give, as sorted ids, and which of them were added."""

    ids: Ids
    found: npt.NDArray[np.bool_]

    def take(self, new_ids: Ids) -> npt.NDArray[np.bool_]:
        """Tell of each new observation whether a document gives it, and note that it is there."""
        if not len(self.ids):
            return np.zeros(len(new_ids), dtype=np.bool_)
        places = np.minimum(np.searchsorted(self.ids, new_ids), len(self.ids) - 1)
        is_covered: npt.NDArray[np.bool_] = self.ids[places] == new_ids
        self.found[places[is_covered]] = True
        return is_covered


@dataclass(slots=True)
class _Added:
    """What was written so far."""

    writer: PartWriter
    documents: pa.Table
    covered: _Covered
    ids: list[Ids] = field(default_factory=list)
    uncovered: hashlib._Hash = field(default_factory=hashlib.sha256)
    n_uncovered: int = 0
    n_observations: int = 0
    n_new: int = 0
    recited: list[pa.Array] = field(default_factory=list)
    recited_texts: hashlib._Hash = field(default_factory=hashlib.sha256)

    def take(self, checked: Checked) -> None:
        """Write the new rows of a batch."""
        for name, rows in checked.fresh.items():
            self.writer.write(name, rows)
        self.n_observations += checked.n_observations
        ids = combined(checked.fresh["observations"].column("observation_id"))
        self.n_new += len(ids)
        self._take_ids(ids)
        self._take_recited(checked.fresh["citations"], ids)

    def _take_ids(self, new_ids: pa.Array) -> None:
        ids = key_ids("observations", new_ids)
        self.ids.append(ids)
        is_covered = self.covered.take(ids)
        if is_covered.any():
            new_ids = new_ids.filter(pa.array(~is_covered))
        self.n_uncovered += len(new_ids)
        self.uncovered.update(text_bytes(new_ids).data)

    def _take_recited(self, citations: pa.Table, new_ids: pa.Array) -> None:
        ids = combined(citations.column("observation_id"))
        is_recited = pc.invert(pc.is_in(ids, value_set=new_ids))
        if pc.any(is_recited).as_py():
            again = citations.filter(is_recited)
            self.recited.append(ids.filter(is_recited))
            self.recited_texts.update("".join(row_texts("citations", again).to_pylist()).encode())


def add_tables(
    folder: Folder, source: Path | str | Tables, *, wait_seconds: float = 60.0
) -> BulkResult:
    """Add whole tables: a folder as ``registry export`` writes it, or Arrow tables by name.

    Rows that are there already are left out, so adding the same tables twice changes nothing.
    Documents of submissions are kept where given, and taken apart one by one. Raises
    SubmissionError with what is wrong, and StoreError where the registry cannot be written; nothing
    is recorded then.
    """
    folder.require()
    with (
        fold_lock(folder, wait_seconds=wait_seconds),
        open_bundle(source) as bundle,
        build_checker(bundle.n_observations, fewest=POOL_OBSERVATIONS) as checker,
    ):
        return _add_bundle(folder, bundle, checker)


def _add_bundle(folder: Folder, bundle: Bundle, checker: Inline | Pool) -> BulkResult:
    manifest = read_manifest(folder)
    catalogue = _extended_catalogue(folder, manifest, bundle)
    context = _build_context(folder, manifest, bundle, catalogue)
    checker.set_context(context)
    writer = PartWriter(folder)
    try:
        added = _Added(writer, *_read_documents(context, bundle))
        _add_batches(checker, bundle, added)
        _check_covered(context, bundle, added)
        bundle.require_integrity()
        return _commit_added(context, catalogue, added)
    except BaseException:
        writer.discard()
        raise


def _raise_any(bundle: Bundle, problems: list[str]) -> None:
    if len(problems) > _MOST_PROBLEMS:
        more = len(problems) - _MOST_PROBLEMS
        problems = [*problems[:_MOST_PROBLEMS], f"and {more} more problems"]
    if problems:
        raise SubmissionError(problems, origin=bundle.origin)


def _extended_catalogue(folder: Folder, manifest: Manifest, bundle: Bundle) -> Catalogue:
    tables = {name: bundle.whole(name) for name in ("models", "gpus")}
    _raise_any(bundle, [p for name, table in tables.items() for p in check_table(name, table)])
    known = read_catalogue(folder, manifest)
    return known.extended(tables["models"].to_pylist(), tables["gpus"].to_pylist())


def _build_context(
    folder: Folder, manifest: Manifest, bundle: Bundle, catalogue: Catalogue
) -> Context:
    whole = {**catalogue_tables(catalogue), **{name: bundle.whole(name) for name in REFERRED}}
    problems = []
    for name in REFERRED:
        found = check_table(name, whole[name])
        problems += found or check_identities(name, whole[name])
    for column, target in (("model_id", "models"), ("gpu_id", "gpus")):
        known = combined(whole[target].column(column))
        problems += check_references("configurations", whole["configurations"], column, known)
    _raise_any(bundle, problems)
    return Context(folder, manifest, id_files(folder, manifest), whole)


def _read_documents(context: Context, bundle: Bundle) -> tuple[pa.Table, _Covered]:
    """Return the new documents, and the observations that documents give."""
    table = bundle.whole("submissions")
    table = table.filter(pc.is_valid(table.column("document")))
    _raise_any(bundle, check_table("submissions", table))
    problems: list[str] = []
    covered: set[str] = set()
    for row in table.to_pylist():
        found = document_id(row["document"])
        if found != row["submission_id"]:
            problems.append(
                f"submissions, submission_id = {row['submission_id']!r}: found a document whose "
                f"SHA-256 is {found}; expected the id to be that"
            )
        else:
            covered.update(_given_observations(row))
    _raise_any(bundle, problems)
    ids = combined(table.column("submission_id"))
    is_new = ~context.ids.contains_each(key_ids("submissions", ids))
    given = key_ids("observations", pa.array(sorted(covered), pa.string()))
    return table.filter(pa.array(is_new)), _Covered(given, np.zeros(len(given), dtype=np.bool_))


def _given_observations(row: dict[str, str]) -> Iterator[str]:
    """Yield the ids of the observations that a document gives."""
    collector = RowCollector()
    collector.add(row["submission_id"], json.loads(row["document"]), row["document"])
    return (observation["observation_id"] for observation in collector.tables["observations"])


def _add_batches(checker: Inline | Pool, bundle: Bundle, added: _Added) -> None:
    """Validate batches side by side and write them in order; stop at the first that is wrong."""
    for batch in read_batches(bundle):
        checker.submit(batch)
        if checker.n_running >= checker.most_running:
            _take_next(bundle, checker, added)
    while checker.n_running:
        _take_next(bundle, checker, added)


def _take_next(bundle: Bundle, checker: Inline | Pool, added: _Added) -> None:
    checked = checker.take()
    _raise_any(bundle, checked.problems)
    added.take(checked)


def _check_covered(context: Context, bundle: Bundle, added: _Added) -> None:
    """Raise where a document gives an observation that neither bundle nor registry holds."""
    missing = added.covered.ids[~added.covered.found]
    missing = missing[~context.ids.contains_each(missing)]
    problems = [
        f"submissions: found a document that gives the observation {id_.hex()!r}; expected a row "
        "of observations; add it to the tables"
        for id_ in (key.ljust(ID_BYTES, _NUL) for key in missing.tolist())
    ]
    _raise_any(bundle, problems)


def read_batches(bundle: Bundle) -> Iterator[dict[str, pa.Table]]:
    """Yield batches of observations, each with the rows of the other tables that hang on them."""
    cursors = {name: bundle.cursor(name) for name in STREAMED}
    last = ""
    while True:
        observations = cursors["observations"].take_rows(BATCH_OBSERVATIONS)
        until = None
        if observations.num_rows:
            _check_ascending(bundle, observations, last)
            last = until = observations.column("observation_id")[-1].as_py()
        batch = {name: cursors[name].take_until(until) for name in STREAMED[1:]}
        if until is None and not any(table.num_rows for table in batch.values()):
            return
        yield {"observations": observations, **batch}


def _check_ascending(bundle: Bundle, observations: pa.Table, last: str) -> None:
    first = observations.column("observation_id")[0].as_py()
    if first is not None and first == last:
        _raise_any(bundle, [f"observations: found {first!r} twice; expected each key once"])


def _commit_added(context: Context, catalogue: Catalogue, added: _Added) -> BulkResult:
    """Commit what was written as one new part; do nothing where nothing is new."""
    folder, manifest = context.folder, context.manifest
    _write_referred(context, added)
    _write_submissions(added)
    state = with_catalogue(folder, manifest, catalogue)
    if not added.writer.is_empty:
        more = _write_recited(added)
        ids = np.sort(np.concatenate(added.ids), kind="stable")  # fast on what is sorted piecewise
        part = added.writer.finish(ids.tobytes(), more=more)
        state = replace(state, parts=(*state.parts, part))
    if state is manifest:
        return BulkResult(manifest.version, added.n_observations, 0)
    commit(folder, manifest, state)
    return BulkResult(manifest.version + 1, added.n_observations, added.n_new)


def _write_referred(context: Context, added: _Added) -> None:
    """Write the sources, environments and configurations that the registry does not hold."""
    for name in REFERRED:
        table = context.whole[name]
        ids = key_ids(name, combined(table.column(load_table(name).key[0])))
        is_new = ~context.ids.contains_each(ids)
        added.ids.append(ids[is_new])
        keys = [(column, "ascending") for column in load_table(name).key]
        added.writer.write(name, table.filter(pa.array(is_new)).sort_by(keys))


def _write_submissions(added: _Added) -> None:
    """Write the new documents, and one row for all observations that none covers."""
    tables = [added.documents]
    if added.n_uncovered:
        row = {
            "submission_id": added.uncovered.hexdigest(),
            "n_observations": added.n_uncovered,
        }
        tables.append(rows_table("submissions", [row]).cast(added.documents.schema))
    submissions = pa.concat_tables(tables).sort_by("submission_id")
    added.ids.append(key_ids("submissions", combined(submissions.column("submission_id"))))
    added.writer.write("submissions", submissions)


def _write_recited(added: _Added) -> str:
    """Write how many citations earlier observations gained; return what tells them apart."""
    if not added.recited:
        return ""
    ids = pa.table({"observation_id": pa.concat_arrays(added.recited)})
    counts = ids.group_by("observation_id").aggregate([([], "count_all")])
    counts = counts.rename_columns(["observation_id", "n"]).sort_by("observation_id")
    added.writer.write("recited", counts)
    return added.recited_texts.hexdigest()
