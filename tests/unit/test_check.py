"""`registry check`: every edit of a registry is named, also one whose hashes were made right."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.api import Registry
from registry.store.check import check_registry
from registry.store.fold import fold
from registry.store.folder import Folder, Location, curated_dir, find_registry
from registry.store.manifest import Manifest, manifest_name
from registry.store.parts import PartFile, describe_part, part_name
from registry.store.prune import prune
from registry.store.repair import repair
from registry.store.state import read_state
from tests.unit.store.registries import add_numbers, build_document, make_registry, read_content

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a sound registry: two folded observations, one pending. Nobody writes there."""
    made = make_registry(tmp_path_factory.mktemp("sound") / "registry")
    add_numbers(made, 0, 1)
    made.fold()
    add_numbers(made, 2)
    return made.path


@pytest.fixture
def db(sound: Path, tmp_path: Path) -> Registry:
    """Return a copy of it to edit."""
    return Registry(find_registry(shutil.copytree(sound, tmp_path / "registry")))


def rewrite(db: Registry, name: str, data: bytes, rows: int | None = None) -> None:
    """Replace a file of the part, and make every hash and name right again."""
    folder = db.location.own
    (part,) = read_state(folder).parts
    file = PartFile(len(data), hashlib.sha256(data).hexdigest(), rows)
    description = describe_part(part.contract, part.catalogue, {**part.files, name: file})
    (part.path / name).write_bytes(data)
    (part.path / "part.json").write_bytes(description)
    part.path.rename(folder.parts / part_name(description))
    manifest = Manifest(1, (part_name(description),))
    folder.storage.put(manifest_name(1), manifest.format_text().encode())


def rewrite_table(db: Registry, table: str, new: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(new, sink)
    rewrite(db, f"{table}.parquet", sink.getvalue().to_pybytes(), new.num_rows)


def read_part_table(db: Registry, table: str) -> pa.Table:
    (part,) = read_state(db.location.own).parts
    return pq.read_table(part.file(table), partitioning=None)


def edit(db: Registry, table: str, column: str, value: Any) -> None:
    """Set one value of the first row of a table."""
    old = read_part_table(db, table)
    rows = old.to_pylist()
    rows[0][column] = value
    rewrite_table(db, table, pa.Table.from_pylist(rows, schema=old.schema))


def found(db: Registry) -> list[str]:
    """Return what kinds of problems a check finds, each once."""
    return list(dict.fromkeys(problem.kind for problem in check_registry(db.location).problems))


def test_a_sound_registry_has_no_problems(db: Registry) -> None:
    report = check_registry(db.location)
    assert report.problems == ()
    assert report.is_sound
    assert report.hints == ()
    assert report.counts == {
        "citations": 2,
        "configurations": 2,
        "environments": 1,
        "gpus": 1,
        "journal": 1,
        "measurements": 6,
        "models": 1,
        "observations": 2,
        "samples": 4,
        "sources": 1,
        "submissions": 2,
    }


def test_an_empty_registry_is_sound(tmp_path: Path) -> None:
    assert check_registry(make_registry(tmp_path / "r").location).problems == ()


def test_before_the_first_addition_it_is_told_what_is_read(tmp_path: Path) -> None:
    report = check_registry(Location(Folder(tmp_path / "own"), Folder(curated_dir())))
    assert (report.counts, report.problems) == ({}, ())
    assert report.hints == ("nothing has been added yet; the curated records are in use",)


EDITS = [
    ("samples", "seconds", 9.0),
    ("citations", "row", 9),
    ("sources", "title", "another title"),
    ("configurations", "lora_rank", 5),
    ("measurements", "value", 1.0),
    ("measurements", "reason", "because"),
    ("observations", "outcome", "oom"),
    ("observations", "source_id", "src-z"),
    ("models", "n_params", 2_000),
    ("gpus", "memory_bytes", 10**9),
    ("environments", "os", "Linux"),
    ("submissions", "n_observations", 3),
]


@pytest.mark.parametrize(("table", "column", "value"), EDITS)
def test_a_value_other_than_its_document_gives_is_named_and_repaired(
    db: Registry, table: str, column: str, value: Any
) -> None:
    before = read_content(db.location)
    edit(db, table, column, value)
    problems = [str(problem) for problem in check_registry(db.location).problems]
    assert any(
        text.startswith(f"rows: table {table}: row ") and f"found {column} = " in text
        for text in problems
    )
    assert all("run `registry repair`" in text for text in problems)
    repair(db.location)
    assert found(db) == []
    assert read_content(db.location)[table] == before[table]


def test_a_value_outside_the_contract_is_named(db: Registry) -> None:
    edit(db, "samples", "seconds", -1.0)
    problem = str(check_registry(db.location).problems[0])
    assert problem.startswith("contract: samples, row 0 (observation_id = ")
    assert "found seconds = -1.0; expected at least 0" in problem


def test_a_lost_row_is_named(db: Registry) -> None:
    rewrite_table(db, "citations", read_part_table(db, "citations").slice(1))
    problem = str(check_registry(db.location).problems[0])
    assert problem.startswith("rows: table citations: found no row ")


def test_a_row_of_no_document_is_named(db: Registry) -> None:
    old = read_part_table(db, "samples").to_pylist()
    schema = read_part_table(db, "samples").schema
    rewrite_table(db, "samples", pa.Table.from_pylist([*old, {**old[0], "step": 77}], schema))
    problem = str(check_registry(db.location).problems[0])
    assert problem.startswith("rows: table samples: found a row ")
    assert " that no document gives; expected what the documents give" in problem


def test_a_row_that_is_there_twice_is_named(db: Registry) -> None:
    rewrite_table(db, "samples", read_part_table(db, "samples").take([0, 0, 1, 2, 3]))
    problem = str(check_registry(db.location).problems[0])
    assert problem.endswith(
        "expected each key once; run `registry repair`, which rebuilds it from the parts and "
        "documents that are there"
    )


def test_a_document_of_another_hash_is_named(db: Registry) -> None:
    old = read_part_table(db, "submissions").to_pylist()[0]
    edit(db, "submissions", "document", old["document"].replace("2.5.1", "2.5.2"))
    (problem,) = check_registry(db.location).problems
    assert problem.kind == "documents"
    assert "does not match its id" in problem.message


@pytest.mark.parametrize(("column", "value"), [("seconds_per_step", 99.0), ("n_citations", 5)])
def test_results_that_the_view_does_not_give_are_named(
    db: Registry, column: str, value: Any
) -> None:
    edit(db, "results", column, value)
    (problem,) = check_registry(db.location).problems
    assert str(problem).startswith(
        f"results: table results: found values of {column} that are not the view's; run "
    )
    repair(db.location)
    assert found(db) == []


def test_ids_other_than_those_of_the_rows_are_named(db: Registry) -> None:
    (part,) = read_state(db.location.own).parts
    rewrite(db, "observations.ids", (part.path / "observations.ids").read_bytes()[16:])
    (problem,) = check_registry(db.location).problems
    assert problem.kind == "ids"
    assert "observations.ids: found ids that differ from those of the rows" in problem.message


def test_a_further_file_in_a_part_is_named(db: Registry) -> None:
    (part,) = read_state(db.location.own).parts
    (part.path / "notes.txt").write_text("mine", encoding="utf-8")
    (problem,) = check_registry(db.location).problems
    assert str(problem) == (
        f"files: {part.path / 'notes.txt'}: found a file that the part does not name; expected "
        "none; remove it"
    )
    (part.path / "notes.txt").unlink()
    assert found(db) == []


def test_another_contract_is_a_hint_that_a_fold_of_all_takes(
    db: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.contract.fingerprint.contract_hash", lambda: "0" * 16)
    monkeypatch.setattr("registry.contract.fingerprint._hash_schemas", lambda: "0" * 16)
    before = read_content(db.location)
    report = check_registry(db.location)
    assert report.problems == ()
    assert report.hints == (
        (
            "some tables were written under another contract or with other models: `results` is "
            "computed on every read; `registry fold --all` rewrites them for good"
        ),
    )
    fold(db.location, rebuild=True)
    prune(db.location.own)
    assert check_registry(db.location).hints == ()
    assert read_content(db.location) == before


def test_a_damaged_table_of_old_ids_is_named(db: Registry) -> None:
    path = db.path / "ids.csv"
    path.write_text(json.dumps({}), encoding="utf-8")
    (problem,) = check_registry(db.location).problems
    assert str(problem) == (
        f"state: {path}: found no table of old ids; expected CSV with the columns old_id, new_id; "
        "restore the file, or run `registry repair`, which keeps the lines that can be read"
    )


@pytest.mark.parametrize("name", ["results.parquet", "submissions.parquet", "notes.txt"])
def test_edits_of_a_part_that_only_an_earlier_version_names_are_named(
    db: Registry, name: str
) -> None:
    (part,) = read_state(db.location.own).parts
    fold(db.location, rebuild=True)
    db.add(build_document(3))
    db.fold()
    fold(db.location, rebuild=True)
    path = part.path / name
    path.unlink() if path.exists() else path.touch()
    (problem,) = check_registry(db.location).problems
    assert str(problem).startswith(f"files: {path}: found ")
