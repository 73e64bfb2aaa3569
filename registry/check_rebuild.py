"""Check that documents and tables say the same, and that ``results`` is what the view gives."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from registry.arrow import rows_table
from registry.bulk_identity import combined, row_texts
from registry.check import RESTORE, Problem
from registry.check_rows import part_batches, read_columns, read_referred
from registry.contract import load_table
from registry.frames import MOST_NAMED
from registry.identity import document_id, row_text
from registry.store.bundle import empty_table
from registry.store.results import INPUTS, compute_results
from registry.store.rows import RowCollector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.store.folder import Folder
    from registry.store.manifest import Manifest, PartFiles

#: Tables whose key is the hash of their rows, so that equal keys are equal rows.
_HASHED = ("configurations", "environments", "observations")


def check_documents(folder: Folder, manifest: Manifest) -> Iterator[Problem]:
    """Yield documents of another hash than their id, and rows that follow from no document."""
    submissions = read_columns(
        folder, manifest, "submissions", ["submission_id", "n_observations", "document"]
    )
    documents, n_uncovered = [], 0
    for row in submissions.to_pylist():
        if row["document"] is None:
            n_uncovered += row["n_observations"]
        elif document_id(row["document"]) != row["submission_id"]:
            place = f"submission {row['submission_id']}"
            message = f"found a document of another SHA-256; expected the id to be it; {RESTORE}"
            yield Problem("documents", place, message)
        else:
            documents.append(row)
    yield from _check_rebuilt(folder, manifest, documents, n_uncovered)


def _check_rebuilt(
    folder: Folder, manifest: Manifest, documents: list[dict[str, Any]], n_uncovered: int
) -> Iterator[Problem]:
    collector = RowCollector()
    given: Counter[str] = Counter()
    every: dict[str, set[str]] = {"citations": set(), "samples": set(), "sources": set()}
    for row in documents:
        alone = RowCollector()
        for one in (collector, alone):
            one.add(row["submission_id"], json.loads(row["document"]), row["document"])
        given.update(one["observation_id"] for one in alone.tables["observations"])
        for table, texts in every.items():
            texts.update(row_text(table, one) for one in alone.tables[table])
    for table in (*_HASHED, "models", "gpus"):
        yield from _check_present(folder, manifest, table, collector.tables[table])
    covered = pa.array(sorted(given), pa.string())
    yield from _check_uncovered(manifest, len(covered), n_uncovered)
    for table in ("citations", "samples"):
        yield from _check_children(folder, manifest, table, covered, every[table])
        rows = [
            row
            for row in collector.tables[table]
            if table == "citations" or given[row["observation_id"]] == 1
        ]
        yield from _check_present(folder, manifest, table, rows)
    yield from _check_sources(folder, manifest, collector, every["sources"], n_uncovered)


def _check_present(
    folder: Folder, manifest: Manifest, table: str, rows: list[dict[str, Any]]
) -> Iterator[Problem]:
    """Yield keys that the documents give and the table does not hold."""
    if not rows:
        return
    key = list(load_table(table).key)
    there = read_columns(folder, manifest, table, key)
    expected = rows_table(table, rows).select(key)
    stated = set(_key_texts(there))
    missing = [text for text in _key_texts(expected) if text not in stated]
    for text in missing[:MOST_NAMED]:
        message = f"found no row {text}; expected the one its document gives; {RESTORE}"
        yield Problem("rebuild", f"table {table}", message)


def _key_texts(keys: pa.Table) -> list[str]:
    columns = [combined(column).cast(pa.string()) for column in keys.columns]
    texts: list[str] = pc.binary_join_element_wise(
        *columns, " ", null_handling="replace"
    ).to_pylist()
    return texts


def _check_uncovered(manifest: Manifest, n_covered: int, n_uncovered: int) -> Iterator[Problem]:
    """Yield where there are more or fewer observations than were handed in.

    One that came in a whole table and later in a document counts in both.
    """
    found = manifest.rows("observations")
    if not max(n_covered, n_uncovered) <= found <= n_covered + n_uncovered:
        message = (
            f"found {found} observations; expected {n_covered} that documents give and "
            f"{n_uncovered} that were handed in as whole tables; {RESTORE}"
        )
        yield Problem("rebuild", "table observations", message)


def _check_children(
    folder: Folder, manifest: Manifest, table: str, covered: pa.Array, expected: set[str]
) -> Iterator[Problem]:
    """Yield rows of covered observations that no document gives."""
    rows = read_columns(folder, manifest, table, list(load_table(table).names))
    by_table = pc.invert(pc.is_in(rows.column("observation_id"), value_set=covered))
    texts = row_texts(table, rows.filter(pc.invert(by_table)))
    strange = [text for text in texts.to_pylist() if text not in expected]
    if strange and _has_whole_tables(folder, manifest):
        return  # whole tables may add citations and samples that no document gives
    for text in strange[:MOST_NAMED]:
        message = f"found {text[:200]!r}; expected only rows that a document gives; {RESTORE}"
        yield Problem("rebuild", f"table {table}", message)


def _has_whole_tables(folder: Folder, manifest: Manifest) -> bool:
    """Tell whether some rows came as whole tables, without a document."""
    documents = read_columns(folder, manifest, "submissions", ["document"])
    return bool(documents.column(0).null_count)


def _check_sources(
    folder: Folder,
    manifest: Manifest,
    collector: RowCollector,
    expected: set[str],
    n_uncovered: int,
) -> Iterator[Problem]:
    yield from _check_present(folder, manifest, "sources", collector.tables["sources"])
    if n_uncovered:
        return
    rows = read_columns(folder, manifest, "sources", list(load_table("sources").names))
    for text in row_texts("sources", rows).to_pylist():
        if text not in expected:
            message = f"found {text[:200]!r}; expected only rows that a document gives; {RESTORE}"
            yield Problem("rebuild", "table sources", message)


def check_results(folder: Folder, manifest: Manifest) -> Iterator[Problem]:
    """Yield rows of ``results`` that are not what the view gives over the tables."""
    for part in manifest.parts:
        if "observations" in part.tables:
            yield from _check_part_results(folder, manifest, part)
    yield from _check_citation_counts(folder, manifest)


def _check_part_results(folder: Folder, manifest: Manifest, part: PartFiles) -> Iterator[Problem]:
    place = f"tables/results-{part.name}.parquet"
    stored = pq.read_table(folder.tables / part.tables["results"].name)
    start = 0
    for batch in part_batches(folder, part):
        size = batch["observations"].num_rows
        expected = compute_results(_inputs(folder, manifest, batch))
        yield from _compare_results(place, stored.slice(start, size), expected)
        start += size
    if start != stored.num_rows:
        yield Problem(
            "results", place, f"found {stored.num_rows} rows; expected {start}; {RESTORE}"
        )


def _inputs(folder: Folder, manifest: Manifest, batch: dict[str, pa.Table]) -> dict[str, pa.Table]:
    inputs = {name: batch.get(name, empty_table(name)) for name in INPUTS}
    for name in ("configurations", "environments"):
        keys = combined(batch["observations"].column(load_table(name).key[0])).unique()
        inputs[name] = read_referred(folder, manifest, name, keys)
    for name in ("models", "gpus"):
        inputs[name] = read_columns(folder, manifest, name, list(load_table(name).names))
    return inputs


def _compare_results(place: str, stored: pa.Table, expected: pa.Table) -> Iterator[Problem]:
    for name in expected.column_names:
        if name == "n_citations":
            continue  # counted over all parts, see _check_citation_counts
        if name not in stored.column_names:
            yield Problem("results", place, f"found no column {name!r}; {RESTORE}")
            continue
        found, wanted = combined(stored.column(name)), combined(expected.column(name))
        if not found.cast(wanted.type).equals(wanted):
            message = f"found values of {name!r} other than the view gives; {RESTORE}"
            yield Problem("results", place, message)


def _check_citation_counts(folder: Folder, manifest: Manifest) -> Iterator[Problem]:
    cited = _sum_by_observation(_read(folder, manifest, "citations", ["observation_id"]), None)
    counted = _sum_by_observation(
        _read(folder, manifest, "results", ["observation_id", "n_citations"]), "n_citations"
    )
    counted += _sum_by_observation(_read(folder, manifest, "recited", ["observation_id", "n"]), "n")
    wrong = sorted(key for key in cited.keys() | counted.keys() if cited[key] != counted[key])
    for key in wrong[:MOST_NAMED]:
        message = f"found n_citations {counted[key]}; expected {cited[key]}; {RESTORE}"
        yield Problem("results", f"observation {key}", message)


def _read(folder: Folder, manifest: Manifest, table: str, columns: list[str]) -> pa.Table | None:
    files = [folder.tables / name for name in manifest.files(table)]
    tables = [pq.read_table(file, columns=columns) for file in files]
    return pa.concat_tables(tables) if tables else None


def _sum_by_observation(table: pa.Table | None, column: str | None) -> Counter[str]:
    if table is None:
        return Counter()
    ones = pa.array(np.ones(table.num_rows, dtype=np.int64))
    values = ones if column is None else table.column(column)
    rows = pa.table({"id": table.column("observation_id"), "n": values})
    sums = rows.group_by("id").aggregate([("n", "sum")])
    return Counter(dict(zip(sums["id"].to_pylist(), sums["n_sum"].to_pylist(), strict=True)))
