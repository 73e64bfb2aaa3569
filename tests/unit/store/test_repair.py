"""Whatever happened to a registry: it says so and names `registry repair`, which loses nothing."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.errors import StoreError
from registry.store.check import check_registry
from registry.store.documents import holds_documents
from registry.store.fold import fold
from registry.store.folder import Folder, find_registry
from registry.store.journal import list_entries
from registry.store.manifest import Manifest, list_versions, manifest_name, read_manifest
from registry.store.prune import prune
from registry.store.repair import repair
from registry.store.state import read_state
from tests.unit.store.registries import (
    add_numbers,
    build_document,
    count_runs,
    make_registry,
    read_content,
    runs,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.api import Registry

    Damage = Callable[[Folder], None]


def path_of(folder: Folder, version: int) -> Path:
    return folder.storage.path(manifest_name(version))


def damage_newest_manifest(folder: Folder) -> None:
    path_of(folder, 3).write_text("{", encoding="utf-8")


def empty_newest_manifest(folder: Folder) -> None:
    path_of(folder, 3).write_bytes(b"")


def leave_conflict_markers(folder: Folder) -> None:
    text = path_of(folder, 3).read_text(encoding="utf-8")
    path_of(folder, 3).write_text(f"<<<<<<< ours\n{text}=======\n{text}>>>>>>> theirs\n")


def remove_all_manifests(folder: Folder) -> None:
    for version in list_versions(folder):
        path_of(folder, version).unlink()


def remove_newest_manifest(folder: Folder) -> None:
    path_of(folder, 3).unlink()


def copy_old_manifest_to_a_higher_number(folder: Folder) -> None:
    shutil.copy(path_of(folder, 1), path_of(folder, 4))


def edit_version(folder: Folder) -> None:
    document = json.loads(path_of(folder, 3).read_text(encoding="utf-8"))
    path_of(folder, 3).write_text(json.dumps({**document, "version": 7}), encoding="utf-8")


def list_a_part_twice(folder: Folder) -> None:
    write_parts(folder, (*read_manifest(folder).parts, read_manifest(folder).parts[0]))


def leave_parts_out(folder: Folder) -> None:
    write_parts(folder, read_manifest(folder).parts[2:])


def name_a_part_outside(folder: Folder) -> None:
    write_parts(folder, ("../../x",))


def write_parts(folder: Folder, parts: tuple[str, ...]) -> None:
    """Write other parts into the newest manifest, with the hash that it then has."""
    manifest = Manifest(3, parts, read_manifest(folder, 2).content_hash)
    path_of(folder, 3).write_text(manifest.format_text(), encoding="utf-8")


def nest_manifest_deep(folder: Folder) -> None:
    path_of(folder, 3).write_text("[" * 100_000, encoding="utf-8")


def remove_part_description(folder: Folder) -> None:
    (read_state(folder).parts[0].path / "part.json").unlink()


def edit_part_description(folder: Folder) -> None:
    path = read_state(folder).parts[0].path / "part.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"rows":1', '"rows":2'))


def empty_an_ids_file(folder: Folder) -> None:
    (read_state(folder).parts[0].path / "observations.ids").write_bytes(b"")


def empty_the_submissions_ids(folder: Folder) -> None:
    (read_state(folder).parts[0].path / "submissions.ids").write_bytes(b"")


REFUSED = [
    damage_newest_manifest,
    empty_newest_manifest,
    leave_conflict_markers,
    remove_all_manifests,
    remove_newest_manifest,
    copy_old_manifest_to_a_higher_number,
    edit_version,
    list_a_part_twice,
    leave_parts_out,
    name_a_part_outside,
    nest_manifest_deep,
    remove_part_description,
    edit_part_description,
]


def by_name(function: Callable[..., object]) -> str:
    return function.__name__


def lose_documents(registry: Registry, place: int) -> None:
    """Remove the documents of one part."""
    path = read_state(registry.location.own).parts[place].file("submissions")
    assert path
    path.unlink()


@pytest.mark.parametrize("damage", REFUSED, ids=by_name)
def test_a_damaged_state_is_refused_by_all_and_repair_brings_everything_back(
    folded: Registry, damage: Damage
) -> None:
    folder = folded.location.own
    add_numbers(folded, 9)
    before = read_content(folded.location)
    damage(folder)
    files = sorted(folder.path.rglob("*"))
    for refused in (read_content, fold, lambda location: prune(location.own)):
        with pytest.raises(StoreError, match="registry repair"):
            refused(folded.location)
    with pytest.raises(StoreError, match="registry repair"):
        add_numbers(folded, 10)
    assert any("registry repair" in str(p) for p in check_registry(folded.location).problems)
    assert [p for p in sorted(folder.path.rglob("*")) if p.name != ".lock"] == [
        p for p in files if p.name != ".lock"
    ]
    result = repair(folded.location)
    assert (result.n_submissions, result.n_observations) == (4, 4)
    assert read_content(folded.location) == before
    assert check_registry(folded.location).problems == ()


@pytest.mark.parametrize("table", ["observations", "submissions"])
@pytest.mark.parametrize("harm", [lambda path: path.write_bytes(b""), lambda path: path.unlink()])
def test_ids_that_were_cut_or_removed_double_nothing(
    folded: Registry, table: str, harm: Callable[[Path], None]
) -> None:
    before = read_content(folded.location)
    retracted = json.loads(before["observations"][1])["observation_id"]
    path = read_state(folded.location.own).parts[0].path / f"{table}.ids"
    harm(path)
    if table == "submissions":
        with pytest.raises(StoreError, match="registry repair"):
            add_numbers(folded, 9)
    else:
        add_numbers(folded, 0)  # its document is known, so that nothing is written
    with pytest.raises(StoreError, match="registry repair"):
        folded.retract(retracted, reason="none")
    assert str(path) in str(check_registry(folded.location).problems[0])
    repair(folded.location)
    assert not folded.add(build_document(0)).is_new
    assert read_content(folded.location) == before


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("table", ["observations", "measurements", "samples", "results"])
@pytest.mark.parametrize("harm", [flip_a_byte, lambda path: path.unlink()], ids=["flip", "unlink"])
def test_a_damaged_table_is_named_and_made_anew_from_the_documents(
    folded: Registry, table: str, harm: Callable[[Path], None]
) -> None:
    before = read_content(folded.location)
    path = read_state(folded.location.own).parts[1].file(table)
    assert path
    harm(path)
    (problem,) = check_registry(folded.location).problems
    assert str(problem).startswith(f"files: {path}: found ")
    assert "run `registry repair`" in str(problem)
    repair(folded.location)
    assert read_content(folded.location) == before
    assert check_registry(folded.location).problems == ()


@pytest.mark.parametrize("harm", [lambda path: path.write_bytes(b"?"), lambda path: path.unlink()])
def test_where_the_documents_are_lost_the_rows_give_the_observations(
    folded: Registry, harm: Callable[[Path], None]
) -> None:
    before = read_content(folded.location)
    path = read_state(folded.location.own).parts[1].file("submissions")
    assert path
    harm(path)
    assert repair(folded.location).notes[-4:] == (
        (
            f"{path.parent}: documents damaged or missing; their observations are composed from "
            "the rows"
        ),
        (
            "tables/manifest-000002.json: names a damaged part; moved to quarantine/"
            "manifest-000002.json"
        ),
        (
            "tables/manifest-000003.json: names a damaged part; moved to quarantine/"
            "manifest-000003.json"
        ),
        f"{path.parent}: damaged; moved to quarantine/{path.parent.name}",
    )
    after = read_content(folded.location)
    same = set(before) - {"submissions"}
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert check_registry(folded.location).problems == ()


def test_a_damaged_part_that_no_manifest_names_is_repaired_once(folded: Registry) -> None:
    path = read_state(folded.location.own).parts[1].file("submissions")
    assert path
    path.write_bytes(b"?")
    remove_all_manifests(folded.location.own)
    repair(folded.location)
    assert count_runs(folded.location) == runs(0, 1, 2)
    assert check_registry(folded.location).problems == ()


def test_a_lost_configuration_is_named_and_the_rest_goes_on(folded: Registry) -> None:
    part = read_state(folded.location.own).parts[1]
    for table in ("submissions", "configurations"):
        (part.path / f"{table}.parquet").unlink()
    notes = repair(folded.location).notes
    assert any(
        note.startswith(f"{part.path}: observation ") and note.endswith("; it is left out")
        for note in notes
    )
    assert count_runs(folded.location) == runs(0, 2)


def test_repairing_a_sound_registry_changes_nothing_twice(folded: Registry) -> None:
    before = read_content(folded.location)
    first = repair(folded.location)
    assert repair(folded.location).version == first.version
    assert read_content(folded.location) == before


def test_damaged_manifests_are_moved_to_quarantine(folded: Registry) -> None:
    folder = folded.location.own
    damage_newest_manifest(folder)
    notes = repair(folded.location).notes
    assert (folder.path / "quarantine" / "manifest-000003.json").read_text() == "{"
    assert notes[0].endswith("moved to quarantine/manifest-000003.json")


def test_after_a_repair_that_failed_no_number_is_given_twice(
    folded: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage_newest_manifest(folded.location.own)

    def fail(*_: object) -> None:
        raise StoreError("no space")

    with monkeypatch.context() as patch:
        patch.setattr("registry.store.repair.map_ids", fail)
        with pytest.raises(StoreError):
            repair(folded.location)
    assert repair(folded.location).version == 4


@pytest.mark.parametrize("number", ["999999999999", "9" * 40, "1000000000"])
def test_a_manifest_with_a_number_beyond_belief_is_named_and_set_aside(
    folded: Registry, number: str
) -> None:
    folder = folded.location.own
    before = read_content(folded.location)
    foreign = Manifest(int(number), read_manifest(folder, 3).parts)
    name = f"manifest-{number}.json"
    folder.storage.put(f"tables/{name}", foreign.format_text().encode())
    assert read_content(folded.location) == before
    (problem,) = check_registry(folded.location).problems
    assert "damaged manifest (no version has so high a number)" in str(problem)
    result = repair(folded.location)
    assert (result.version, folder.storage.list("quarantine")) == (4, [name])
    add_numbers(folded, 7)
    assert folded.fold().version == 5
    assert check_registry(folded.location).problems == ()


def test_beyond_the_highest_number_nothing_is_written_and_the_way_out_works(
    folded: Registry,
) -> None:
    folder = folded.location.own
    newest = read_manifest(folder, 3)
    last = folder.storage.path("tables/manifest-999999999.json")
    foreign = Manifest(999_999_999, newest.parts)
    last.write_text(foreign.format_text(), encoding="utf-8")
    add_numbers(folded, 7)
    with pytest.raises(StoreError, match="move the file out of the registry, then run"):
        folded.fold()
    last.unlink()
    repair(folded.location)
    assert count_runs(folded.location) == runs(0, 1, 2, 7)
    assert check_registry(folded.location).problems == ()


def test_a_damaged_old_manifest_is_named_and_stops_nobody(folded: Registry) -> None:
    folder = folded.location.own
    before = read_content(folded.location)
    path_of(folder, 1).write_text("{", encoding="utf-8")
    assert read_content(folded.location) == before
    assert [p.kind for p in check_registry(folded.location).problems] == ["manifest"]
    repair(folded.location)
    assert read_content(folded.location) == before
    assert check_registry(folded.location).problems == ()


def test_an_old_manifest_of_another_history_is_named(folded: Registry) -> None:
    folder = folded.location.own
    manifest = read_manifest(folder, 2)
    other = Manifest(2, manifest.parts[:1], manifest.previous)
    path_of(folder, 2).write_text(other.format_text(), encoding="utf-8")
    (problem,) = check_registry(folded.location).problems
    assert "version 2 is not the one it was made from" in str(problem)
    repair(folded.location)
    assert check_registry(folded.location).problems == ()


def test_a_registry_of_a_newer_release_is_left_alone(folded: Registry) -> None:
    folder = folded.location.own
    path_of(folder, 4).write_text(json.dumps({"format": 99}), encoding="utf-8")
    for refused in (read_content, fold, repair):
        with pytest.raises(StoreError) as caught:
            refused(folded.location)
        assert str(caught.value) == (
            f"{path_of(folder, 4)}: found format 99; expected at most 2: a newer release wrote "
            "this registry; upgrade with `pip install -U peft-registry`"
        )
    assert path_of(folder, 4).is_file()


def test_a_part_left_out_of_a_manifest_with_the_right_hash_is_named(folded: Registry) -> None:
    before = read_content(folded.location)
    folder = folded.location.own
    write_parts(folder, read_manifest(folder).parts[1:])
    (problem,) = check_registry(folded.location).problems
    assert str(problem) == (
        f"state: {path_of(folder, 3)}: lacks 1 of the documents of the version before; expected "
        "all of them; run `registry repair`, which rebuilds it from the parts and documents that "
        "are there"
    )
    repair(folded.location)
    assert read_content(folded.location) == before


def copy(db: Registry, target: Path) -> Registry:
    shutil.copytree(db.path, target)
    return type(db)(find_registry(target))


@pytest.fixture
def branches(tmp_path: Path, folded: Registry) -> tuple[Registry, Registry]:
    """Return two copies of a registry to each of which something was added and folded."""
    ours, theirs = (copy(folded, tmp_path / name) for name in ("ours", "theirs"))
    for branch, numbers in ((ours, (10, 11)), (theirs, (10, 20))):
        for number in numbers:
            add_numbers(branch, number)
            branch.fold()
    return ours, theirs


def merge(ours: Registry, theirs: Registry) -> Registry:
    """Bring the files of one copy into the other as git does: those of both stay as they are."""
    for path in theirs.path.rglob("*"):
        target = ours.path / path.relative_to(theirs.path)
        if path.is_file() and not target.exists() and path.name != ".lock":
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return ours


@pytest.mark.parametrize("taken", ["ours", "theirs", "conflict markers"])
def test_two_branches_that_both_folded_become_their_union(
    branches: tuple[Registry, Registry], taken: str
) -> None:
    ours, theirs = branches if taken != "theirs" else branches[::-1]
    version = list_versions(ours.location.own)[-1]
    texts = [path_of(db.location.own, version).read_text() for db in (ours, theirs)]
    assert texts[0] != texts[1]
    merged = merge(ours, theirs)
    if taken == "conflict markers":
        text = f"<<<<<<< ours\n{texts[0]}=======\n{texts[1]}>>>>>>> theirs\n"
        path_of(merged.location.own, version).write_text(text, encoding="utf-8")
    with pytest.raises(StoreError, match="registry repair"):
        read_content(merged.location)
    repair(merged.location)
    assert count_runs(merged.location) == runs(0, 1, 2, 10, 11, 20)
    assert check_registry(merged.location).problems == ()
    fold(merged.location)
    prune(merged.location.own)
    assert count_runs(merged.location) == runs(0, 1, 2, 10, 11, 20)


def test_branches_that_folded_the_same_are_one_without_a_repair(
    tmp_path: Path, folded: Registry
) -> None:
    ours, theirs = (copy(folded, tmp_path / name) for name in ("ours", "theirs"))
    for branch in (ours, theirs):
        add_numbers(branch, 10)
        branch.fold()
    merged = merge(ours, theirs)
    assert count_runs(merged.location) == runs(0, 1, 2, 10)
    assert check_registry(merged.location).problems == ()


def test_an_unnamed_part_whose_documents_are_elsewhere_is_a_hint_that_prune_takes(
    folded: Registry,
) -> None:
    folder = folded.location.own
    part = read_state(folder).parts[0]
    fold(folded.location, rebuild=True)
    for version in list_versions(folder)[:-1]:
        path_of(folder, version).unlink()
    report = check_registry(folded.location)
    assert report.problems == ()
    assert (
        f"{part.path}: no version names this part, and all its documents are elsewhere; "
        "`registry prune` removes it"
    ) in report.hints
    prune(folder)
    assert check_registry(folded.location).hints == ()


def test_curated_records_are_not_repaired_but_built(tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "tables").mkdir()
    with pytest.raises(StoreError, match="run `registry build`"):
        repair(find_registry(tmp_path))


def test_repair_takes_up_the_journal_too(db: Registry) -> None:
    add_numbers(db, 1)
    assert repair(db.location).n_submissions == 1
    assert list_entries(db.location.own) == []
    assert not db.add(build_document(1)).is_new


def test_a_registry_of_another_folder_is_repaired_on_its_own(tmp_path: Path) -> None:
    db = make_registry(tmp_path / "r")
    assert repair(db.location).n_submissions == 0
    assert read_content(db.location)["observations"] == []


def test_one_repair_suffices_where_a_version_between_others_is_gone(folded: Registry) -> None:
    folder = folded.location.own
    add_numbers(folded, 7)
    path_of(folder, 2).unlink()
    folded.fold()
    repair(folded.location)
    assert check_registry(folded.location).problems == ()
    assert count_runs(folded.location) == runs(0, 1, 2, 7)
    fold(folded.location)
    assert check_registry(folded.location).problems == ()


@pytest.fixture
def merged(folded: Registry) -> Registry:
    """Return a registry whose last fold merged all parts, which earlier versions name."""
    for number in range(3, 8):
        add_numbers(folded, number)
        folded.fold()
    return folded


@pytest.mark.parametrize("table", ["submissions", "results"])
def test_one_repair_suffices_where_a_part_of_earlier_versions_is_damaged(
    merged: Registry, table: str
) -> None:
    folder = merged.location.own
    before = read_content(merged.location)
    path = folder.parts / read_manifest(folder, 7).parts[3] / f"{table}.parquet"
    path.unlink()
    (problem,) = check_registry(merged.location).problems
    assert str(problem).startswith(f"files: {path}: found no such file; run `registry repair`")
    repair(merged.location)
    assert check_registry(merged.location).problems == ()
    assert read_content(merged.location) == before
    assert list_versions(folder) == [1, 2, 3, 9]


def test_a_citation_of_a_damaged_part_stays_where_another_part_reports_the_observation(
    folded: Registry,
) -> None:
    add_numbers(folded, 0, locator="another row")
    folded.fold()
    before = read_content(folded.location)
    lose_documents(folded, 0)
    repair(folded.location)
    assert read_content(folded.location)["citations"] == before["citations"]
    assert check_registry(folded.location).problems == ()


@pytest.mark.parametrize("erase", [True, False])
def test_a_retraction_whose_document_is_lost_stays(folded: Registry, *, erase: bool) -> None:
    (first, *_) = read_content(folded.location)["observations"]
    folded.retract(json.loads(first)["observation_id"], reason="oops", erase=erase)
    folded.fold()
    before = read_content(folded.location)
    lose_documents(folded, -1)
    repair(folded.location)
    after = read_content(folded.location)
    assert after["retractions"] == before["retractions"]
    assert after["results"] == before["results"]
    assert check_registry(folded.location).problems == ()


@pytest.mark.parametrize("kind", ["citation", "model"])
def test_a_citation_or_a_model_that_came_alone_stays_where_its_document_is_lost(
    folded: Registry, kind: str
) -> None:
    if kind == "citation":
        add_numbers(folded, 0, locator="another row")
    else:
        source = build_document()["source"]
        folded.add({"source": source, "models": [{"model_id": "alone", "n_params": 7}]})
    folded.fold()
    before = read_content(folded.location)
    lose_documents(folded, -1)
    repair(folded.location)
    after = read_content(folded.location)
    same = set(before) - {"submissions"}
    assert {name: after[name] for name in same} == {name: before[name] for name in same}
    assert check_registry(folded.location).problems == ()


@pytest.mark.parametrize("columns", [["submission_id"], ["document"]])
def test_a_part_without_the_texts_of_its_documents_is_not_whole(
    folded: Registry, columns: list[str]
) -> None:
    part, *_ = read_state(folded.location.own).parts
    path = part.path / "submissions.parquet"
    table = pq.read_table(path, partitioning=None)
    assert holds_documents(part)
    pq.write_table(table.drop(columns), path)
    assert not holds_documents(part)
    empty = pa.nulls(table.num_rows, pa.string())
    pq.write_table(table.set_column(table.column_names.index("document"), "document", empty), path)
    assert not holds_documents(part)
