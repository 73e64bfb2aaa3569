"""States that no command of ours makes: merges without a conflict, lost files, foreign parts."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from registry.api import Registry
from registry.catalogue import Catalogue
from registry.errors import RegistryError, StoreError
from registry.store import parts, storage
from registry.store.build import build_tables
from registry.store.check import check_registry
from registry.store.fold import fold
from registry.store.folder import Folder, Location, find_registry
from registry.store.parquet import ordered_table
from registry.store.parts import write_part
from registry.store.prune import prune
from registry.store.renamed import RENAMED, read_folder
from registry.store.repair import repair
from registry.store.state import read_state
from registry.submission.identity import document_id
from registry.submission.prepare import prepare_submission
from tests.unit.store.registries import (
    RECORDS,
    add_numbers,
    build_document,
    count_runs,
    fold_texts,
    make_registry,
    read_content,
    runs,
    write_catalogue,
    write_source,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NO_JSON = "documents are nowhere else"


def test_parts_without_any_description_are_neither_overlooked_nor_removed(
    folded: Registry, folder: Folder
) -> None:
    for path in list(folder.tables.rglob("*.json")):
        path.unlink()
    with pytest.raises(StoreError, match=NO_JSON):
        read_content(folded.location)
    with pytest.raises(StoreError, match=NO_JSON):
        prune(folder)
    assert [p.kind for p in check_registry(folded.location).problems] == ["state"]
    repair(folded.location)
    assert count_runs(folded.location) == runs(0, 1, 2)
    prune(folder)
    assert check_registry(folded.location).problems == ()


@pytest.mark.parametrize("is_pruned", [True, False])
def test_two_histories_that_git_merges_without_a_conflict_are_told_apart(
    tmp_path: Path, *, is_pruned: bool
) -> None:
    ours = make_registry(tmp_path / "ours")
    add_numbers(ours, 0)
    ours.fold()
    theirs = Registry(find_registry(shutil.copytree(ours.path, tmp_path / "theirs")))
    add_numbers(theirs, 1)
    theirs.fold()
    for number in (2, 3):
        add_numbers(ours, number)
        ours.fold()
    if is_pruned:
        prune(ours.location.own)
    else:  # `git checkout --theirs` of the one manifest that both have
        (ours.path / "tables" / "manifest-000002.json").unlink()
    for path in theirs.path.rglob("*"):
        mine = ours.path / path.relative_to(theirs.path)
        if path.is_file() and not mine.exists() and path.name != "manifest-000001.json":
            mine.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, mine)
    with pytest.raises(StoreError, match="expected one history; run `registry repair`"):
        read_content(ours.location)
    repair(ours.location)
    assert count_runs(ours.location) == runs(0, 1, 2, 3)
    assert check_registry(ours.location).problems == ()


def merge_with_a_longer_history(
    ours: Registry, change: Callable[[Registry], object], *, rebuild: bool
) -> None:
    """Change and fold a registry, and merge it with a copy that folded twice, as git does."""
    add_numbers(ours, 0)
    ours.fold()
    theirs = Registry(find_registry(shutil.copytree(ours.path, ours.path.with_name("theirs"))))
    base = list_files(ours)
    change(ours)
    ours.fold()
    for number in (1, 2):
        add_numbers(theirs, number)
        fold(theirs.location, rebuild=rebuild)
    prune(theirs.location.own)
    removed = base - (list_files(ours) & list_files(theirs))
    for name in list_files(theirs) - base:
        (ours.path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(theirs.path / name, ours.path / name)
    for name in removed:
        (ours.path / name).unlink(missing_ok=True)


def list_files(db: Registry) -> set[str]:
    return {str(path.relative_to(db.path)) for path in db.path.rglob("*") if path.is_file()}


def retract(db: Registry) -> None:
    (row,) = read_content(db.location)["observations"]
    db.retract(json.loads(row)["observation_id"], reason="oops")


def erase(db: Registry) -> None:
    (row,) = read_content(db.location)["observations"]
    db.retract(json.loads(row)["observation_id"], reason="oops", erase=True)


def add_a_citation(db: Registry) -> None:
    add_numbers(db, 0, locator="another row")


def describe_a_model(db: Registry) -> None:
    source, model = (build_document()[name] for name in ("source", "models"))
    db.add({"source": source, "models": [{**model[0], "model_id": "alone"}]})


@pytest.mark.parametrize(
    ("change", "table", "n"),
    [
        (retract, "retractions", 1),
        (erase, "observations", 2),
        (add_a_citation, "citations", 4),
        (describe_a_model, "submissions", 4),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_nothing_of_a_merged_history_is_dropped_silently(
    change: Callable[[Registry], object], table: str, n: int, db: Registry, *, is_named: bool
) -> None:
    # an erasure removes the part that the versions of a longer history name
    merge_with_a_longer_history(db, change, rebuild=change is erase)
    if not is_named:  # of two manifests with one number only theirs was kept
        (db.path / "tables" / "manifest-000002.json").unlink()
    for refused in (read_content, fold):
        with pytest.raises(StoreError, match="run `registry repair`"):
            refused(db.location)
    repair(db.location)
    assert len(read_content(db.location)[table]) == n
    assert check_registry(db.location).problems == ()


def test_a_merged_history_of_which_the_rest_was_erased_answers(db: Registry) -> None:
    document = build_document(0)
    document["observations"] += build_document(1)["observations"]
    first, _ = db.add(document).observation_ids
    db.fold()
    named = list_files(db)
    shutil.copytree(db.path, db.path.with_name("before"))
    for number in (2, 3):
        add_numbers(db, number)
        db.fold()
    db.retract(first, reason="private", erase=True)
    for name in named - list_files(db):  # as an old branch has it
        (db.path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(db.path.with_name("before") / name, db.path / name)
    assert count_runs(db.location) == runs(1, 2, 3)
    assert check_registry(db.location).problems == ()


@pytest.mark.parametrize(
    "text",
    [
        *("[1]", "null", '"x"', "{", '{"a":1}', '{"source":[]}', "[" * 100_000),
        '{"schema_version":1,"observations":[{}]}',
    ],
    ids=lambda text: text[:40],
)
def test_a_foreign_part_with_documents_that_are_none_is_set_aside(
    text: str, folded: Registry, folder: Folder
) -> None:
    row = {
        "submission_id": document_id(text),
        "source_id": "x",
        "n_observations": 0,
        "document": text,
    }
    write_part(folder, {"submissions": ordered_table("submissions", [row])}, "x")
    with pytest.raises(StoreError, match=NO_JSON):
        read_content(folded.location)
    result = repair(folded.location)
    assert any("kept as quarantine/" in note for note in result.notes)
    assert count_runs(folded.location) == runs(0, 1, 2)
    assert check_registry(folded.location).problems == ()


@pytest.mark.parametrize("contract", ["today's", "another"])
@pytest.mark.parametrize(
    "text",
    ['{"source":[]}', '{"observations":[{"configuration":{}}],"source":{}}'],
)
def test_folded_documents_that_no_rows_follow_from_are_named_and_set_aside(
    text: str, contract: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = make_registry(tmp_path / "db")
    good = prepare_submission(build_document(1), Catalogue(), origin="").text
    with monkeypatch.context() as patched:
        if contract == "another":
            patched.setattr(parts, "contract_stamp", lambda: "0" * 64)
        fold_texts(db.location.own, text, good)
    [problem] = check_registry(db.location).problems
    found = f"submission {document_id(text)[:12]}: found a document that `registry add` does not"
    assert problem.kind == "documents"
    assert found in problem.message
    with pytest.raises(StoreError, match=re.escape(found)):
        fold(db.location, rebuild=True)
    repair(db.location)
    assert count_runs(db.location) == runs(1)
    assert check_registry(db.location).problems == ()


def test_a_valid_submission_in_another_form_is_no_journal_entry(
    db: Registry, folder: Folder
) -> None:
    document = build_document(1)
    for figure in document["observations"][0]["measurements"]:
        figure.pop("statistic", None)
    text = json.dumps(document)
    folder.storage.put(f"journal/{document_id(text)}.json", text.encode())
    (problem,) = check_registry(db.location).problems
    assert "it is not in the form in which `registry add` records it" in str(problem)
    db.fold()
    assert check_registry(db.location).problems == ()
    assert db.add(document).is_new


def test_what_was_retracted_can_still_be_erased(db: Registry) -> None:
    add_numbers(db, 0)
    add_numbers(db, 1, model_reported="secret-1")
    db.fold()
    rows = [json.loads(text) for text in read_content(db.location)["observations"]]
    (identity,) = [row["observation_id"] for row in rows if row["run_id"] == "run-1"]
    db.retract(identity, reason="shared card")
    db.fold()
    db.retract(identity, reason="private", erase=True)
    files = [path for path in db.path.rglob("*") if path.is_file()]
    assert not [path for path in files if b"secret-1" in path.read_bytes()]
    assert count_runs(db.location) == runs(0)
    assert check_registry(db.location).problems == ()


def test_an_erasure_from_elsewhere_is_carried_out_at_the_fold(
    folded: Registry, folder: Folder
) -> None:
    rows = [json.loads(text) for text in read_content(folded.location)["observations"]]
    identity = rows[0]["observation_id"]
    row = {
        "erased": True,
        "observation_id": identity,
        "reason": "r",
        "retracted_at": "2024-01-01T00:00:00Z",
    }
    text = json.dumps({"retractions": [row]}, separators=(",", ":"))
    folder.storage.put(f"journal/{document_id(text)}.json", text.encode())
    (hint,) = check_registry(folded.location).hints
    assert hint == (
        f"journal/{document_id(text)}.json: 1 erasure is pending: {identity} (r); `registry fold` "
        "removes the content for good; to keep it, move the file out of the registry"
    )
    assert folded.fold().erased == (f"erased {identity} for good: r",)
    assert len(read_content(folded.location)["observations"]) == 2
    assert check_registry(folded.location).hints == ()
    assert folded.fold().erased == ()
    assert check_registry(folded.location).problems == ()


@pytest.mark.parametrize("name", ["results", "observations", "measurements", "submissions"])
@pytest.mark.parametrize("how", ["gone", "changed", "pipe"])
def test_a_fold_does_not_go_on_over_damaged_parts(
    name: str, how: str, folded: Registry, folder: Folder
) -> None:
    path = next(folder.parts.glob(f"*/{name}.parquet"))
    data = bytearray(path.read_bytes())
    path.unlink()
    if how == "changed":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif how == "pipe":
        os.mkfifo(path)
    add_numbers(folded, 7)
    with pytest.raises(StoreError, match="run `registry repair`"):
        folded.fold()
    repair(folded.location)
    assert check_registry(folded.location).problems == ()
    assert count_runs(folded.location) == runs(0, 1, 2, 7)


def test_a_source_that_cannot_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    write_catalogue(tmp_path)
    write_source(tmp_path, 0)
    build_tables(tmp_path)
    write_source(tmp_path, 1)
    (tmp_path / "sources" / "bad").mkdir()
    (tmp_path / "sources" / "bad" / "submissions.jsonl").write_text('{"a":1}\n')
    location = Location(Folder(tmp_path))
    assert len(read_content(location)["observations"]) == 2
    (problem,) = check_registry(location).problems
    assert str(problem).startswith("source: source bad: ")
    with pytest.raises(RegistryError):
        build_tables(tmp_path)


def test_a_source_is_read_from_regular_files_alone(tmp_path: Path) -> None:
    write_catalogue(tmp_path)
    write_source(tmp_path, 0)
    build_tables(tmp_path)
    (tmp_path / "sources" / "endless").mkdir()
    (tmp_path / "sources" / "endless" / "mapping.yaml").symlink_to("/dev/zero")
    with pytest.raises(StoreError, match=r"mapping.yaml: found no regular file"):
        read_content(Location(Folder(tmp_path)))


def build_and_correct(records: Path) -> tuple[Location, set[str]]:
    """Build tables of a source and correct a figure, which two tables report; return the ids."""
    write_catalogue(records)
    source = records / "sources" / "llama2-lora-3090"
    shutil.copytree(RECORDS / "sources" / "llama2-lora-3090", source)
    build_tables(records)
    location = Location(Folder(records))
    before = {json.loads(t)["observation_id"] for t in read_content(location)["observations"]}
    for table in source.glob("*.csv"):  # one figure, which two tables report
        table.write_text(table.read_text().replace("15.81GB", "15.83GB"))
    return location, before


def test_a_corrected_reading_keeps_its_old_id_findable(tmp_path: Path) -> None:
    location, before = build_and_correct(tmp_path)
    result = build_tables(tmp_path)
    after = {json.loads(t)["observation_id"] for t in read_content(location)["observations"]}
    assert result.renamed == read_folder(location.own)
    assert set(result.renamed) == before - after
    assert set(result.renamed.values()) == after - before
    assert check_registry(location).problems == ()


@pytest.mark.parametrize("last", ["citations.parquet", "observations.parquet", "manifest.json"])
def test_a_build_that_is_killed_and_repeated_loses_no_old_id(
    last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location, before = build_and_correct(tmp_path)

    def name_until(temporary: Path, path: Path, **_: bool) -> bool:
        temporary.replace(path)
        if path == tmp_path / "tables" / last:
            raise KeyboardInterrupt
        return True

    with monkeypatch.context() as patch:
        patch.setattr(storage, "_name", name_until)
        with pytest.raises(KeyboardInterrupt):
            build_tables(tmp_path)
    build_tables(tmp_path)
    after = {json.loads(t)["observation_id"] for t in read_content(location)["observations"]}
    renamed = read_folder(location.own)
    assert (set(renamed), set(renamed.values())) == (before - after, after - before)
    assert before - after
    (tmp_path / RENAMED).write_text(f"old_id,new_id\n{'a' * 32},{'b' * 32}\n")
    (problem,) = check_registry(location).problems
    assert "old id aaaaaaaaaaaa leads to bbbbbbbbbbbb, which no observation has" in str(problem)


@pytest.mark.parametrize("is_described", [True, False])
def test_a_part_that_is_a_link_is_set_aside_and_never_read(
    tmp_path: Path, folded: Registry, *, is_described: bool
) -> None:
    other = make_registry(tmp_path / "other")
    add_numbers(other, 7)
    other.fold()
    (part,) = read_state(other.location.own).parts
    if not is_described:
        (part.path / "part.json").unlink()
    there = {path.name: path.read_bytes() for path in part.path.iterdir()}
    link = folded.location.own.parts / part.name
    link.symlink_to(part.path)
    with pytest.raises(StoreError) as caught:
        read_state(folded.location.own)
    assert str(caught.value) == (
        f"{link}: found a link; expected a folder of the registry; run `registry repair`, which "
        "rebuilds it from the parts and documents that are there"
    )
    assert repair(folded.location).notes == (
        f"{link}: found a link, which is not read; moved to quarantine/{part.name}",
    )
    assert count_runs(folded.location) == runs(0, 1, 2)
    assert check_registry(folded.location).problems == ()
    assert (folded.path / "quarantine" / part.name).readlink() == part.path
    assert {path.name: path.read_bytes() for path in part.path.iterdir()} == there


def test_of_several_parts_that_are_links_each_is_set_aside(
    tmp_path: Path, folded: Registry
) -> None:
    links = [folded.location.own.parts / (letter * 24) for letter in "0f"]
    for link in links:
        link.symlink_to(tmp_path)
    assert len(repair(folded.location).notes) == len(links)
    assert not any(link.is_symlink() for link in links)
    assert count_runs(folded.location) == runs(0, 1, 2)


@pytest.mark.parametrize("table", ["results", "submissions", "observations"])
def test_a_folder_in_the_place_of_a_parts_file_is_set_aside(folded: Registry, table: str) -> None:
    (folded.location.own.parts / "a file").touch()
    path = read_state(folded.location.own).parts[0].path / f"{table}.parquet"
    path.unlink()
    path.mkdir()
    (path / "a note").touch()
    assert check_registry(folded.location).problems != ()
    assert repair(folded.location).notes[0] == (
        f"{path}: found a folder; expected a file; moved to quarantine/{path.name}"
    )
    assert count_runs(folded.location) == runs(0, 1, 2)
    assert check_registry(folded.location).problems == ()
    assert (folded.path / "quarantine" / path.name / "a note").exists()


def test_a_part_of_the_registry_that_became_a_link_is_not_written_through(
    tmp_path: Path, db: Registry
) -> None:
    (identity,) = add_numbers(db, 1)
    text = (db.path / "journal" / f"{identity}.json").read_bytes()
    db.fold()
    (part,) = read_state(db.location.own).parts
    elsewhere = part.path.rename(tmp_path / "elsewhere")
    part.path.symlink_to(elsewhere)
    db.location.own.storage.put(f"journal/{identity}.json", text)
    (elsewhere / "results.parquet").unlink()
    repair(db.location)
    assert not (elsewhere / "results.parquet").exists()
    assert count_runs(db.location) == runs(1)
    assert check_registry(db.location).problems == ()


@pytest.mark.parametrize("name", ["journal", "tables"])
def test_a_file_in_place_of_a_folder_is_no_empty_folder(db: Registry, name: str) -> None:
    add_numbers(db, 1)
    (db.path / name).rename(db.path.with_name("aside"))
    (db.path / name).write_text("x")
    with pytest.raises(StoreError, match=f"{name}: found a file; expected a folder"):
        count_runs(db.location)


def test_runs_that_are_a_link_are_not_followed(db: Registry, tmp_path: Path) -> None:
    (db.path / "runs").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="runs: found a link"):
        count_runs(db.location)
