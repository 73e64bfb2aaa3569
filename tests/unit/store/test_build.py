"""The curated tables: a build says what it changes, and a check what is other than the sources."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.errors import StoreError
from registry.store.build import build_tables, check_tables
from registry.store.check import check_registry
from registry.store.curated import find_pending_sources, hash_sources, read_curated
from registry.store.folder import Folder, Location
from tests.unit.store.registries import read_content, write_catalogue, write_entry, write_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REBUILD = "run `registry build`, which makes the tables from the sources"
REINSTALL = "install the package again, or in a checkout run `registry build`"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return curated records with one source, built once for all tests."""
    records = tmp_path_factory.mktemp("built")
    write_catalogue(records)
    write_source(records, 0)
    build_tables(records)
    return records


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Folder:
    """Return a copy of them to change."""
    return Folder(shutil.copytree(built, tmp_path / "records"))


def change_manifest(folder: Folder, edit: Callable[[Any], object]) -> None:
    document = json.loads(folder.storage.get("tables/manifest.json"))
    edit(document)
    folder.storage.put("tables/manifest.json", json.dumps(document).encode())


def put_table(folder: Folder, name: str, table: pa.Table) -> None:
    """Replace a table and its hash."""
    path = folder.tables / name
    pq.write_table(table, path, compression="none")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    change_manifest(folder, lambda document: document["files"][name].update(sha256=digest))


def problems(folder: Folder) -> list[str]:
    return [str(problem) for problem in check_registry(Location(folder)).problems]


def test_beside_a_new_source_the_models_that_others_describe_are_known(tmp_path: Path) -> None:
    write_catalogue(tmp_path)
    write_source(tmp_path, 0)
    path = tmp_path / "sources" / "src-0" / "recorded.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["models"] = [{"model_id": "of-source-0", "source": "README of source 0"}]
    document["observations"][0]["configuration"]["model_id"] = "of-source-0"
    path.write_text(json.dumps(document), encoding="utf-8")
    build_tables(tmp_path)
    write_source(tmp_path, 1)
    found = read_curated(Folder(tmp_path))
    assert (found.pending_sources, found.problems) == (("src-1",), ())
    assert found.catalogue.resolve_model("of-source-0") == "of-source-0"


def test_a_first_build_makes_every_file(tmp_path: Path) -> None:
    write_catalogue(tmp_path)
    write_source(tmp_path, 0)
    assert find_pending_sources(Folder(tmp_path)) == ("catalogue.json", "src-0")
    result = build_tables(tmp_path)
    there = {path.name for path in (tmp_path / "tables").iterdir() if path.name != ".lock"}
    assert set(result.changed) == there
    assert list(result.changed) == sorted(there)
    assert result.pending == ("catalogue.json", "src-0")
    assert (result.n_submissions, result.n_observations) == (1, 1)
    again = build_tables(tmp_path)
    assert (again.changed, again.pending, again.n_submissions) == ((), (), 1)


def test_the_file_of_results_holds_what_the_view_answers(folder: Folder) -> None:
    write_source(folder.path, 1)
    build_tables(folder.path)
    results = pq.read_table(folder.tables / "results.parquet")
    first, second = results["observation_id"].to_pylist()
    moment = "2026-01-02T03:04:05Z"
    row = {"observation_id": first, "reason": "the card was shared", "retracted_at": moment}
    withdrawn = folder.path / "sources" / "src-1" / "retraction.json"
    withdrawn.write_text(json.dumps({"retractions": [row]}), encoding="utf-8")
    assert "results.parquet" in build_tables(folder.path).changed
    results = pq.read_table(folder.tables / "results.parquet")
    assert results["observation_id"].to_pylist() == [second]
    assert len(read_content(Location(folder))["results"]) == 1
    assert pq.read_metadata(folder.tables / "observations.parquet").num_rows == 2
    assert check_tables(folder.path).changed == ()
    assert problems(folder) == []


def test_the_manifest_describes_each_file(folder: Folder) -> None:
    document = json.loads(folder.storage.get("tables/manifest.json"))
    assert list(document) == [
        *("format", "contract", "catalogue", "curated_ids", "sources", "documents", "files")
    ]
    assert document["format"] == 2
    for table, key in (("models", "model_id"), ("gpus", "gpu_id")):
        ids = pq.read_table(folder.tables / f"{table}.parquet")[key].to_pylist()
        assert document["curated_ids"][table] == sorted({*ids} - {"tiny", "gpu-a"})
    submissions = pq.read_table(folder.tables / "submissions.parquet")["submission_id"]
    assert document["documents"].keys() == document["sources"].keys() - {"catalogue.json"}
    named = [one for each in document["documents"].values() for one in each]
    assert sorted(named) == sorted(submissions.to_pylist())
    assert document["sources"] == hash_sources(folder.path)
    assert list(document["files"]) == sorted(document["files"])
    for name, entry in document["files"].items():
        data = folder.storage.get(f"tables/{name}")
        rows = {"rows": pq.read_metadata(folder.tables / name).num_rows} if "parq" in name else {}
        assert entry == {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), **rows}


def test_a_build_removes_what_is_no_table_of_today(folder: Folder) -> None:
    (folder.tables / "old.parquet").touch()
    (folder.tables / ".hidden").touch()
    (folder.tables / "folder").mkdir()
    assert build_tables(folder.path).changed == ("folder", "old.parquet")
    names = folder.storage.list("tables")
    assert "old.parquet" not in names
    assert {".hidden", "folder", "manifest.json", "catalogue.json"} <= set(names)


@pytest.mark.parametrize("made", [build_tables, check_tables])
def test_a_folder_without_sources_cannot_be_built(
    tmp_path: Path, made: Callable[[Path], object]
) -> None:
    with pytest.raises(StoreError) as caught:
        made(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: no folder sources/; expected the curated records of a checkout; run the "
        "command in a checkout, or name its records/ with --registry"
    )


def test_a_check_of_sound_tables_changes_nothing(folder: Folder) -> None:
    result = check_tables(folder.path)
    assert (result.n_submissions, result.n_observations) == (1, 1)
    assert (result.changed, result.pending) == ((), ())
    assert problems(folder) == []


def test_rows_count_and_not_the_bytes_of_their_file(folder: Folder) -> None:
    table = pq.read_table(folder.tables / "samples.parquet")
    put_table(folder, "samples.parquet", table)
    assert check_tables(folder.path).changed == ()
    assert problems(folder) == []
    put_table(folder, "samples.parquet", table.slice(1))
    put_table(folder, "citations.parquet", table)
    assert check_tables(folder.path).changed == ("citations.parquet", "samples.parquet")
    assert problems(folder) == [
        f"tables: {folder.tables / name}: not what the sources give; {REBUILD}"
        for name in ("citations.parquet", "samples.parquet")
    ]


def test_a_table_that_the_manifest_leaves_out_is_named(folder: Folder) -> None:
    change_manifest(folder, lambda document: document["files"].pop("samples.parquet"))
    assert check_tables(folder.path).changed == ("manifest.json", "samples.parquet")


@pytest.mark.parametrize("harm", [lambda path: path.unlink(), lambda path: path.write_bytes(b"x")])
def test_a_damaged_table_is_named(folder: Folder, harm: Callable[[Path], object]) -> None:
    path = folder.tables / "samples.parquet"
    harm(path)
    assert check_tables(folder.path).changed == ("samples.parquet",)
    assert problems(folder) == [
        f"files: {path}: missing, or not as `registry build` wrote it; {REBUILD}"
    ]


def test_other_ids_are_other_content(folder: Folder) -> None:
    path = folder.tables / "observations.ids"
    path.write_bytes(b"0" * 16)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    change_manifest(folder, lambda d: d["files"][path.name].update(sha256=digest))
    assert check_tables(folder.path).changed == ("observations.ids",)


def test_nothing_is_compared_before_a_build_that_is_to_come(folder: Folder) -> None:
    change_manifest(folder, lambda document: document.update(contract="0"))
    assert check_tables(folder.path).pending == ("schemas",)
    report = check_registry(Location(folder))
    assert report.problems == ()
    assert report.hints == (f"the tables were made under another contract; {REBUILD}",)
    write_source(folder.path, 1)
    result = check_tables(folder.path)
    assert (result.changed, result.pending) == ((), ("src-1",))
    assert (result.n_submissions, result.n_observations) == (2, 2)


def test_the_check_of_curated_records_counts_rows_and_names_bad_entries(folder: Folder) -> None:
    name = write_entry(folder, [1])
    report = check_registry(Location(folder))
    (problem,) = map(str, report.problems)
    assert problem.startswith(f"journal: journal/{name}.json: the document: found [1]; expected ")
    assert report.counts["observations"] == 1
    assert report.counts["journal"] == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ("{}", "'sources'"),
        ('{"sources": {}}', "'files'"),
        ('{"sources": {}, "files": 1}', "no sources or files"),
        ('{"sources": [], "files": {}}', "no sources or files"),
        ('{"sources": {}, "files": {}, "documents": 1}', "no sources or files"),
        ('{"sources": {}, "files": {}, "documents": {"a": 1}}', "no lists of documents"),
        ('{"sources": {}, "files": {}, "curated_ids": {"gpus": 1}}', "no lists of curated_ids"),
        pytest.param(
            "[" * 100_000,
            "maximum recursion depth exceeded while decoding a JSON array from a unicode string",
            id="nested",
        ),
    ],
)
def test_a_damaged_manifest_is_named(folder: Folder, text: str, reason: str) -> None:
    (folder.tables / "manifest.json").write_text(text, encoding="utf-8")
    expected = (
        f"{folder.tables / 'manifest.json'}: damaged manifest ({reason}); expected it as "
        f"`registry build` writes it; {REINSTALL}"
    )
    assert problems(folder) == [f"curated: {expected}"]
    with pytest.raises(StoreError) as caught:
        read_curated(folder)
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "it differs from what was written"),
        (None, "[Errno 2] No such file or directory: '{path}'"),
    ],
)
def test_a_damaged_catalogue_is_named(folder: Folder, text: str | None, reason: str) -> None:
    path = folder.tables / "catalogue.json"
    path.unlink()
    if text:
        path.write_text(text, encoding="utf-8")
    assert problems(folder) == [
        (
            f"curated: {path}: cannot be read ({reason.format(path=path)}); expected models "
            f"and GPUs as they were written; {REINSTALL}"
        )
    ]


def test_the_hash_of_a_source_is_that_of_its_names_and_contents(tmp_path: Path) -> None:
    source = tmp_path / "sources" / "a" / "sub"
    source.mkdir(parents=True)
    (tmp_path / "sources" / "notes.txt").touch()
    (tmp_path / "catalogue").mkdir()
    (source / "x.csv").write_text("12", encoding="utf-8")
    (source.parent / "y.csv").write_text("3", encoding="utf-8")
    expected = hashlib.sha256(b"sub/x.csv\n2\n12" + b"y.csv\n1\n3").hexdigest()
    assert hash_sources(tmp_path) == {
        "a": expected,
        "catalogue.json": hashlib.sha256(b"").hexdigest(),
    }
    (source / ".#x.csv").symlink_to("user@host.1:2")  # an editor's lock
    (source / ".DS_Store").write_bytes(b"\0")
    (source / "x.csv~").write_text("11", encoding="utf-8")
    (source / "#x.csv#").write_text("111", encoding="utf-8")
    assert hash_sources(tmp_path)["a"] == expected
    (source / "x.csv").write_text("21 ", encoding="utf-8")
    assert hash_sources(tmp_path)["a"] != expected
