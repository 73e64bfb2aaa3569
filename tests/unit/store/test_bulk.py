"""Whole tables: exported, added elsewhere, refused where anything is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from registry.bulk_identity import row_ids
from registry.check import check_registry
from registry.contract import TABLES, vocabulary
from registry.errors import StoreError, SubmissionError
from registry.store import bulk
from registry.store.bulk import add_tables
from registry.store.export import export_folder
from registry.store.fold import find_leftovers, fold
from registry.store.folder import Folder
from registry.store.manifest import read_manifest
from registry.store.parts import hash_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Tables = dict[str, pa.Table]


def make_folder(path: Path) -> Folder:
    folder = Folder(path)
    folder.tables.mkdir(parents=True)
    folder.journal.mkdir()
    return folder


def read_tables(folder: Path) -> Tables:
    return {name: pq.read_table(folder / f"{name}.parquet") for name in TABLES}


@pytest.fixture
def exported(folder: Folder, add: Callable[..., str], tmp_path: Path) -> Path:
    """Return an export of a registry with six observations, one of them pending."""
    for number in range(5):
        add(folder, number)
    fold(folder)
    add(folder, 5)
    export_folder(folder, tmp_path / "export")
    return tmp_path / "export"


@pytest.fixture
def tables(exported: Path) -> Tables:
    """Return the tables of the export, without the documents."""
    tables = read_tables(exported)
    del tables["submissions"]
    return tables


@pytest.fixture
def other(tmp_path: Path) -> Folder:
    """Return another, empty registry."""
    return make_folder(tmp_path / "other")


def replaced(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    """Return a table with one value replaced."""
    values = table.column(column).to_pylist()
    values[row] = value
    place = table.schema.get_field_index(column)
    field = pa.field(column, table.schema.field(column).type)
    return table.set_column(place, field, pa.array(values, field.type))


def refused(folder: Folder, tables: Any) -> list[str]:
    """Return what is said of tables that are refused, after seeing that nothing was recorded."""
    with pytest.raises(SubmissionError) as caught:
        add_tables(folder, tables)
    assert read_manifest(folder).version == 0
    assert find_leftovers(folder) == []
    return caught.value.problems


def test_an_export_names_its_tables_rows_and_hashes(exported: Path) -> None:
    manifest = json.loads((exported / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["registry_version"] == 1
    assert manifest["contract"] == 1
    assert list(manifest["tables"]) == list(TABLES)
    observations = manifest["tables"]["observations"]
    assert observations["rows"] == 6
    assert observations["sha256"] == hash_file(exported / "observations.parquet")


def test_an_export_as_of_a_version_leaves_later_rows_out(
    folder: Folder, exported: Path, tmp_path: Path
) -> None:
    assert exported.is_dir()
    assert export_folder(folder, tmp_path / "then", at=1)["observations"] == 5


def test_an_export_never_overwrites(folder: Folder, exported: Path) -> None:
    with pytest.raises(StoreError) as caught:
        export_folder(folder, exported)
    assert str(caught.value) == (
        f"{exported}: found something there already; expected no such folder, or an empty one; "
        "name another, or remove it"
    )


def test_an_export_added_elsewhere_is_the_same_registry(other: Folder, exported: Path) -> None:
    result = add_tables(other, exported)
    assert (result.version, result.n_observations, result.n_new) == (1, 6, 6)
    report = check_registry(other)
    assert report.problems == ()
    assert report.counts["submissions"] == 6
    again = exported.with_name("again")
    export_folder(other, again)
    for name in TABLES:
        assert pq.read_table(again / f"{name}.parquet").equals(
            pq.read_table(exported / f"{name}.parquet")
        )


def test_adding_the_same_export_twice_changes_nothing(other: Folder, exported: Path) -> None:
    add_tables(other, exported)
    before = sorted(path.name for path in other.tables.iterdir())
    result = add_tables(other, exported)
    assert (result.version, result.n_observations, result.n_new) == (1, 6, 0)
    assert sorted(path.name for path in other.tables.iterdir()) == before


def test_a_registry_knows_its_own_export(folder: Folder, exported: Path) -> None:
    fold(folder)
    result = add_tables(folder, exported)
    assert (result.version, result.n_new) == (2, 0)


def test_only_rows_that_are_new_are_added(
    other: Folder, exported: Path, add: Callable[..., str]
) -> None:
    add(other, 1)
    add(other, 2)
    fold(other)
    assert add_tables(other, exported).n_new == 4
    assert read_manifest(other).rows("observations") == 6
    assert check_registry(other).problems == ()


def test_tables_without_documents_get_one_row_that_says_so(other: Folder, tables: Tables) -> None:
    add_tables(other, tables)
    name = read_manifest(other).files("submissions")[0]
    rows = pq.read_table(other.tables / name).to_pylist()
    assert [(row["n_observations"], row["document"]) for row in rows] == [(6, None)]
    assert check_registry(other).problems == ()


def test_a_journal_entry_of_a_bulk_observation_is_folded_once(
    other: Folder, tables: Tables, add: Callable[..., str]
) -> None:
    add_tables(other, tables)
    add(other, 1)
    assert fold(other).n_observations == 0
    assert check_registry(other).problems == ()


def test_a_further_citation_is_counted(other: Folder, tables: Tables) -> None:
    add_tables(other, tables)
    citations = replaced(tables["citations"], "locator", 0, "another place")
    result = add_tables(other, {**tables, "citations": citations})
    assert (result.version, result.n_new) == (2, 0)
    assert read_manifest(other).rows("citations") == 7
    assert read_manifest(other).rows("recited") == 1
    assert check_registry(other).problems == ()


def test_two_further_citations_in_turn_do_not_share_a_file(other: Folder, tables: Tables) -> None:
    add_tables(other, tables)
    for place in ("second", "third"):
        citations = replaced(tables["citations"], "locator", 0, place)
        add_tables(other, {**tables, "citations": citations})
    assert read_manifest(other).rows("citations") == 8
    assert check_registry(other).problems == ()


def test_bulk_and_folded_parts_merge(
    other: Folder, tables: Tables, add: Callable[..., str]
) -> None:
    add(other, 100)
    fold(other)
    add_tables(other, tables)
    fold(other, merge_all=True)
    assert len(read_manifest(other).parts) == 1
    assert read_manifest(other).rows("observations") == 7
    assert check_registry(other).problems == ()


def test_batches_do_not_change_what_is_added(
    tmp_path: Path, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = []
    for size in (2, 1000):
        monkeypatch.setattr(bulk, "BATCH_OBSERVATIONS", size)
        folder = make_folder(tmp_path / f"by-{size}")
        add_tables(folder, tables)
        assert check_registry(folder).problems == ()
        folders.append(read_manifest(folder))
    first, second = folders
    assert [part.name for part in first.parts] == [part.name for part in second.parts]


def test_unsorted_tables_are_sorted(other: Folder, tables: Tables) -> None:
    mixed = {
        name: table.take(list(reversed(range(table.num_rows)))) for name, table in tables.items()
    }
    assert add_tables(other, mixed).n_new == 6
    assert check_registry(other).problems == ()


def test_a_reader_of_batches_is_as_good_as_a_table(other: Folder, tables: Tables) -> None:
    readers = {
        name: pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))
        for name, table in tables.items()
    }
    assert add_tables(other, readers).n_new == 6


def test_a_reader_out_of_order_is_refused(other: Folder, tables: Tables) -> None:
    table = tables["observations"].take([1, 0])
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    assert refused(other, {**tables, "observations": reader}) == [
        (
            "observations: found rows that are not in the order of observation_id; expected "
            "that of "
            "more than 500000 rows; sort the table"
        )
    ]


def test_another_id_than_the_hash_is_refused(other: Folder, tables: Tables) -> None:
    wrong = tables["configurations"].column("configuration_id")[0].as_py()
    changed = replaced(tables["configurations"], "lora_alpha", 0, 3.0)
    right = row_ids("configurations", changed)[0].as_py()
    assert refused(other, {**tables, "configurations": changed}) == [
        (
            f"configurations, configuration_id = {wrong!r}: found configuration_id {wrong!r}; "
            f"expected {right!r}, the hash of its other columns"
        )
    ]


def test_a_changed_figure_is_refused(other: Folder, tables: Tables) -> None:
    changed = replaced(tables["measurements"], "value", 0, 1.0)
    (problem,) = refused(other, {**tables, "measurements": changed})
    assert "found figures_hash" in problem
    assert "the hash of its measurements" in problem


def test_a_figure_of_no_observation_is_refused(other: Folder, tables: Tables) -> None:
    changed = replaced(tables["samples"], "observation_id", 11, "f" * 32)
    assert refused(other, {**tables, "samples": changed}) == [
        (
            f"samples: found observation_id '{'f' * 32}'; expected a row of observations; "
            f"add it to "
            "the tables"
        )
    ]


def test_a_missing_configuration_is_refused(other: Folder, tables: Tables) -> None:
    missing = tables["configurations"].column("configuration_id")[0].as_py()
    problems = refused(other, {**tables, "configurations": tables["configurations"].slice(1)})
    assert problems == [
        (
            f"observations: found configuration_id {missing!r}; expected a row of "
            f"configurations; add "
            "it to the tables"
        )
    ]


def test_an_unknown_model_is_refused(other: Folder, tables: Tables) -> None:
    problems = refused(other, {**tables, "models": tables["models"].slice(1)})
    assert problems == [
        "configurations: found model_id 'tiny'; expected a row of models; add it to the tables"
    ]


def test_a_value_outside_the_vocabulary_is_refused(other: Folder, tables: Tables) -> None:
    changed = replaced(tables["observations"], "outcome", 2, "fine")
    key = tables["observations"].column("observation_id")[2].as_py()
    assert refused(other, {**tables, "observations": changed}) == [
        (
            f"observations, row 2 (observation_id = {key!r}): found outcome = 'fine'; "
            f"expected one of "
            f"{', '.join(vocabulary('outcome'))}"
        )
    ]


def test_an_observation_that_stands_twice_is_refused(other: Folder, tables: Tables) -> None:
    twice = tables["observations"].take([0, 0, 1, 2, 3, 4, 5])
    problems = refused(other, {**tables, "observations": twice})
    assert problems[0].endswith("expected each key once")


def test_an_observation_that_stands_in_two_batches_is_refused(
    other: Folder, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BATCH_OBSERVATIONS", 1)
    twice = tables["observations"].take([0, 0, 1, 2, 3, 4, 5])
    key = twice.column("observation_id")[0].as_py()
    problems = refused(other, {**tables, "observations": twice})
    assert problems == [f"observations: found {key!r} twice; expected each key once"]


def test_a_broken_rule_is_refused(other: Folder, tables: Tables) -> None:
    from registry.bulk_identity import figures_hashes  # noqa: PLC0415 - for this test alone

    rows = tables["measurements"]
    is_peak = pc.equal(rows.column("metric"), "peak_memory")
    huge = pc.if_else(is_peak, 1e12, rows.column("value"))
    measurements = rows.set_column(rows.schema.get_field_index("value"), "value", huge)
    observations, order = with_hashes(tables["observations"], measurements, figures_hashes)
    children = {
        name: renamed(table, order)
        for name, table in {**tables, "measurements": measurements}.items()
        if name in ("measurements", "citations", "samples")
    }
    problems = refused(other, {**tables, "observations": observations, **children})
    assert len(problems) == 6
    assert problems[0].endswith(
        "found peak_memory_bytes_per_gpu = 1000000000000, gpu_memory_bytes = 25769803776, "
        "peak_over_capacity_flagged = false; expected that a peak does not exceed the memory of "
        "the cards it ran on; check the unit (GB is not GiB) and the GPU; where the source really "
        "says so, add the flag peak_over_capacity"
    )


def with_hashes(
    observations: pa.Table, measurements: pa.Table, figures_hashes: Any
) -> tuple[pa.Table, dict[str, str]]:
    """Return observations with the ids their content has, and the new id of each old one."""
    old = observations.column("observation_id").combine_chunks()
    place = observations.schema.get_field_index("figures_hash")
    observations = observations.set_column(place, "figures_hash", figures_hashes(old, measurements))
    new = row_ids("observations", observations)
    renamed_ids = dict(zip(old.to_pylist(), new.to_pylist(), strict=True))
    return observations.set_column(0, "observation_id", new), renamed_ids


def renamed(table: pa.Table, ids: dict[str, str]) -> pa.Table:
    values = [ids[value] for value in table.column("observation_id").to_pylist()]
    return table.set_column(0, "observation_id", pa.array(values))


def test_a_document_of_another_hash_is_refused(other: Folder, exported: Path) -> None:
    tables = read_tables(exported)
    changed = replaced(tables["submissions"], "submission_id", 0, "0" * 64)
    (problem,) = refused(other, {**tables, "submissions": changed})
    assert problem.startswith(f"submissions, submission_id = '{'0' * 64}': found a document whose")


def test_an_unknown_table_gets_a_suggestion(other: Folder, tables: Tables) -> None:
    (problem,) = refused(other, {**tables, "observation": tables["observations"]})
    assert problem.startswith(
        "unknown table 'observation'; did you mean 'observations'?; expected one of models,"
    )


def test_an_unknown_column_gets_a_suggestion(other: Folder, tables: Tables) -> None:
    names = ["model_idd", *tables["models"].column_names[1:]]
    problems = refused(other, {**tables, "models": tables["models"].rename_columns(names)})
    assert problems == [
        "models: unknown column 'model_idd'; did you mean 'model_id'?",
        "models: column 'model_id' is missing; expected it",
    ]


def test_a_folder_without_tables_is_refused(other: Folder, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(StoreError) as caught:
        add_tables(other, empty)
    assert str(caught.value) == f"{empty}: found no Parquet files; expected one for each table"


def test_a_damaged_file_is_refused(other: Folder, exported: Path) -> None:
    path = exported / "observations.parquet"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StoreError, match="expected a Parquet file; export it again"):
        add_tables(other, exported)
    assert find_leftovers(other) == []
