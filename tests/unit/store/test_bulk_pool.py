"""Whole tables validated in processes of their own, and exports held against their manifest."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.check import check_registry
from registry.contract import TABLES
from registry.errors import StoreError, SubmissionError
from registry.store import bulk, bulk_pool
from registry.store.bulk import add_tables
from registry.store.bulk_check import Context
from registry.store.bulk_pool import Inline, Pool, build_checker
from registry.store.bundle import STREAMED
from registry.store.export import export_folder
from registry.store.fold import find_leftovers, fold
from registry.store.folder import Folder
from registry.store.ids import IdFiles
from registry.store.manifest import Manifest, read_manifest
from registry.store.parts import hash_file
from registry.store.shared_tables import read_shared, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from registry.store.bulk_check import Checked

    Tables = dict[str, pa.Table]

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="workers are for Linux alone")


@pytest.fixture
def exported(folder: Folder, add: Callable[..., str], tmp_path: Path) -> Path:
    """Return an export of a registry with six observations."""
    for number in range(6):
        add(folder, number)
    fold(folder)
    export_folder(folder, tmp_path / "export")
    return tmp_path / "export"


@pytest.fixture
def tables(exported: Path) -> Tables:
    """Return the tables of the export, without the documents."""
    names = [name for name in TABLES if name != "submissions"]
    return {name: pq.read_table(exported / f"{name}.parquet") for name in names}


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Pool]]:
    """Have every batch of two observations validated in a process; return the pools used."""
    made = []

    def build(*_: Any, **__: Any) -> Pool:
        made.append(Pool())
        return made[-1]

    monkeypatch.setattr(bulk, "BATCH_OBSERVATIONS", 2)
    monkeypatch.setattr(bulk, "build_checker", build)
    yield made
    for pool in made:
        assert_ended(pool)


def assert_ended(pool: Pool) -> None:
    """Assert that neither the first process nor a worker of its group is left."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            os.killpg(pool._workers.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise AssertionError("a worker is left")


def make_folder(path: Path) -> Folder:
    folder = Folder(path)
    folder.tables.mkdir(parents=True)
    folder.journal.mkdir()
    return folder


def replaced(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    values = table.column(column).to_pylist()
    values[row] = value
    place = table.schema.get_field_index(column)
    return table.set_column(place, column, pa.array(values, table.schema.field(column).type))


def refused(folder: Folder, source: Any) -> list[str]:
    """Return what is said of tables that are refused, after seeing that nothing was recorded."""
    with pytest.raises(SubmissionError) as caught:
        add_tables(folder, source)
    assert read_manifest(folder).version == 0
    assert find_leftovers(folder) == []
    return caught.value.problems


def test_tables_and_a_note_arrive_as_they_were_shared(tables: Tables) -> None:
    sent = {"observations": tables["observations"].slice(1, 3), "samples": tables["samples"]}
    descriptor = share(("a note", 1), sent)
    note, found = read_shared(descriptor)
    os.close(descriptor)
    assert note == ("a note", 1)
    assert {name: table.to_pylist() for name, table in found.items()} == {
        name: table.to_pylist() for name, table in sent.items()
    }


@needs_linux
def test_processes_write_the_same_bytes_as_one(
    tmp_path: Path, tables: Tables, pools: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [make_folder(tmp_path / name) for name in ("pool", "inline")]
    assert add_tables(folders[0], tables).n_new == 6
    monkeypatch.setattr(bulk, "build_checker", lambda *_, **__: Inline())
    monkeypatch.setattr(bulk, "BATCH_OBSERVATIONS", 5)
    assert add_tables(folders[1], tables).n_new == 6
    assert len(pools) == 1
    assert read_manifest(folders[0]) == read_manifest(folders[1])
    assert check_registry(folders[0]).problems == ()


@needs_linux
def test_what_a_process_finds_wrong_is_told(
    tmp_path: Path, tables: Tables, pools: list[Pool]
) -> None:
    changed = replaced(tables["measurements"], "value", 11, 1.0)
    (problem,) = refused(make_folder(tmp_path / "other"), {**tables, "measurements": changed})
    assert problem.endswith("the hash of its measurements")
    assert len(pools) == 1


@needs_linux
def test_an_interrupt_leaves_no_process_and_no_file(
    tmp_path: Path, tables: Tables, pools: list[Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: Any, checked: Checked) -> None:
        assert checked.problems == []
        raise KeyboardInterrupt

    monkeypatch.setattr(bulk._Added, "take", interrupt)
    other = make_folder(tmp_path / "other")
    with pytest.raises(KeyboardInterrupt):
        add_tables(other, tables)
    assert find_leftovers(other) == []
    assert_ended(pools[0])


@needs_linux
def test_workers_that_are_gone_are_an_error_not_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_pool, "_POLL_SECONDS", 0.05)
    with Pool() as pool:
        os.killpg(pool._workers.pid, signal.SIGKILL)
        with pytest.raises(StoreError) as caught:
            submit_and_take(pool)
    assert str(caught.value) == (
        "found that a process that validates rows ended early; expected it to answer; nothing was "
        "recorded; see whether memory ran out, then repeat the command"
    )
    assert_ended(pool)


def submit_and_take(pool: Pool) -> None:
    pool.submit({})
    pool.take()


@needs_linux
def test_what_goes_wrong_in_a_worker_is_raised_here(folder: Folder, tables: Tables) -> None:
    with Pool() as pool:
        pool.set_context(Context(folder, Manifest(), IdFiles([]), {}))
        pool.submit({name: tables[name] for name in STREAMED})
        with pytest.raises(RuntimeError, match="KeyError: 'sources'"):
            pool.take()
    assert_ended(pool)


def test_few_observations_start_no_process() -> None:
    assert isinstance(
        build_checker(bulk.POOL_OBSERVATIONS - 1, fewest=bulk.POOL_OBSERVATIONS), Inline
    )


def test_another_hash_than_the_manifest_has_is_refused(exported: Path, tmp_path: Path) -> None:
    path = exported / "samples.parquet"
    expected = hash_file(path)
    pq.write_table(pq.read_table(path), path, compression="gzip")
    (problem,) = refused(make_folder(tmp_path / "other"), exported)
    assert problem == (
        f"samples.parquet: found SHA-256 {hash_file(path)}; expected {expected}, as in "
        "manifest.json; export it again"
    )


def test_another_number_of_rows_than_the_manifest_has_is_refused(
    exported: Path, tmp_path: Path
) -> None:
    path = exported / "samples.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    assert refused(make_folder(tmp_path / "other"), exported) == [
        "samples.parquet: found 11 rows; expected 12, as in manifest.json; export it again"
    ]


def test_a_file_that_the_manifest_names_must_be_there(exported: Path, tmp_path: Path) -> None:
    (exported / "samples.parquet").unlink()
    assert refused(make_folder(tmp_path / "other"), exported) == [
        "found no samples.parquet; expected it, because manifest.json names it; export it again"
    ]


def test_a_file_that_the_manifest_does_not_name_is_refused(exported: Path, tmp_path: Path) -> None:
    manifest = json.loads((exported / "manifest.json").read_text(encoding="utf-8"))
    del manifest["tables"]["samples"]
    (exported / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    (problem,) = refused(make_folder(tmp_path / "other"), exported)
    assert problem == (
        "found samples.parquet; expected only the files that manifest.json names; remove it, or "
        "manifest.json"
    )


def test_a_damaged_manifest_is_refused(exported: Path, tmp_path: Path) -> None:
    (exported / "manifest.json").write_text("{}", encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        add_tables(make_folder(tmp_path / "other"), exported)
    assert str(caught.value) == (
        f"{exported / 'manifest.json'}: cannot be read (KeyError('tables')); expected the manifest "
        "of `registry export`: for each table its file, rows and sha256; export it again"
    )


def test_a_folder_without_a_manifest_is_taken_as_it_is(exported: Path, tmp_path: Path) -> None:
    (exported / "manifest.json").unlink()
    assert add_tables(make_folder(tmp_path / "other"), exported).n_new == 6


def test_a_document_whose_observation_is_missing_is_refused(
    exported: Path, tables: Tables, tmp_path: Path
) -> None:
    missing = tables["observations"].column("observation_id")[2].as_py()
    kept = {
        name: rows.filter(pa.array([key != missing for key in rows.column(0).to_pylist()]))
        for name, rows in tables.items()
    }
    kept["submissions"] = pq.read_table(exported / "submissions.parquet")
    (problem,) = refused(make_folder(tmp_path / "other"), kept)
    assert problem == (
        f"submissions: found a document that gives the observation {missing!r}; expected a row of "
        "observations; add it to the tables"
    )
