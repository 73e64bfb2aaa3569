"""Curated records and one's own are layers: each row once, and an upgrade reaches everybody."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from registry.api import Registry
from registry.errors import StoreError, SubmissionError
from registry.store import curated as curated_module
from registry.store import read as read_module
from registry.store.add import add_submissions
from registry.store.build import build_tables, check_tables
from registry.store.check import check_registry
from registry.store.curated import MANIFEST, find_pending_sources, read_curated
from registry.store.curated_fold import file_submissions
from registry.store.folder import Folder, Location, create_registry, find_registry
from registry.store.ids import KnownIds
from registry.store.renamed import write_renamed
from registry.store.repair import repair
from tests.unit.store.registries import (
    add_numbers,
    build_document,
    count_runs,
    read_content,
    runs,
    write_source,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.store.derive_tables import Document
    from registry.store.fold import FoldResult


@pytest.fixture
def own(tmp_path: Path, records: Folder) -> Registry:
    """Return a registry of one's own over them."""
    return Registry(Location(create_registry(tmp_path / "own"), records))


def test_both_layers_are_read(own: Registry) -> None:
    add_numbers(own, 5)
    assert count_runs(own.location) == runs(0, 1, 5)
    own.fold()
    assert count_runs(own.location) == runs(0, 1, 5)
    assert len(read_content(own.location)["results"]) == 3


@pytest.mark.parametrize("is_folded", [True, False])
def test_rows_that_both_layers_hold_are_there_once(
    own: Registry, records: Folder, *, is_folded: bool
) -> None:
    before = read_content(Location(records))
    mine = Registry(Location(own.location.own))
    mine.add(build_document(1, source_id="src-1"))
    if is_folded:
        mine.fold()
    mixed = read_content(own.location)
    for table in ("observations", "measurements", "citations", "samples", "sources", "models"):
        assert mixed[table] == before[table], table
    assert len(mixed["results"]) == len(before["results"])


def test_a_folded_row_that_an_upgrade_brings_too_is_there_once(
    own: Registry, records: Folder
) -> None:
    own.add(build_document(2, source_id="src-2"))
    own.fold()
    write_source(records.path, 2)
    build_tables(records.path)
    mixed = read_content(own.location)
    assert count_runs(own.location) == runs(0, 1, 2)
    assert len(mixed["results"]) == len(mixed["observations"]) == 3


def find_id(location: Location, run_id: str) -> str:
    rows = [json.loads(text) for text in read_content(location)["observations"]]
    (found,) = [row["observation_id"] for row in rows if row["run_id"] == run_id]
    return str(found)


def results_of(db: Registry) -> list[str]:
    found = sorted(db.load("results")["observation_id"])
    assert found == sorted(
        json.loads(t)["observation_id"] for t in read_content(db.location)["results"]
    )
    return found


def correct_source(records: Folder) -> None:
    """Change what an observation states, and so its id."""
    change_source(records)
    build_tables(records.path)


@pytest.mark.parametrize("is_folded", [True, False])
def test_a_retraction_follows_an_observation_whose_id_an_upgrade_changed(
    own: Registry, records: Folder, *, is_folded: bool
) -> None:
    add_numbers(own, 5)
    own.retract(find_id(own.location, "run-1"), reason="another job")
    if is_folded:
        own.fold()
    before = results_of(own)
    assert len(before) == 2
    correct_source(records)
    assert results_of(own) == before
    report = check_registry(own.location)
    assert (report.problems, [hint for hint in report.hints if "retraction" in hint]) == ((), [])


def test_a_curated_retraction_of_an_id_that_changed_is_a_hint_of_the_check(records: Folder) -> None:
    """Following it would cost every query of the curated records an eighth of its time."""
    retract_source(records)
    build_tables(records.path)
    assert len(results_of(Registry(Location(records)))) == 1
    assert not any("retraction of" in hint for hint in check_registry(Location(records)).hints)
    correct_source(records)
    (hint,) = [h for h in check_registry(Location(records)).hints if "retraction of" in h]
    assert "no observation has this id today" in hint


def test_a_retraction_follows_from_one_layer_s_ids_to_the_other_s(
    own: Registry, records: Folder
) -> None:
    add_numbers(own, 5)
    withdrawn, other = (find_id(own.location, run) for run in ("run-5", "run-0"))
    own.retract(withdrawn, reason="another job")
    assert other in results_of(own)
    write_renamed(own.location.own, {withdrawn: "ab" * 16})
    write_renamed(records, {"ab" * 16: other})
    assert other not in results_of(own)


@pytest.mark.parametrize("is_folded", [True, False])
def test_an_erasure_is_no_retraction_that_leads_nowhere(own: Registry, *, is_folded: bool) -> None:
    add_numbers(own, 5)
    own.retract(find_id(own.location, "run-5"), reason="a customer asked", erase=True)
    if is_folded:
        own.fold()
    assert [text for text in check_registry(own.location).hints if "retraction of" in text] == []


@pytest.mark.parametrize("is_folded", [True, False])
def test_a_retraction_that_leads_nowhere_is_a_hint_of_the_check(
    own: Registry, records: Folder, *, is_folded: bool
) -> None:
    identity = find_id(own.location, "run-1")
    own.retract(identity, reason="another job")
    if is_folded:
        own.fold()
    remove_source(records)
    build_tables(records.path)
    report = check_registry(own.location)
    assert report.problems == ()
    (hint,) = [text for text in report.hints if "retraction" in text]
    assert hint.startswith(f"retraction of {identity[:12]}: no observation has this id today")


@pytest.mark.parametrize("shared", ["folded", "pending"])
def test_an_observation_that_was_shared_counts_once_after_its_id_changed_there(
    own: Registry, records: Folder, shared: str
) -> None:
    Registry(Location(own.location.own)).add(build_document(2, source_id="src-2"))
    if shared == "folded":
        own.fold()
    write_source(records.path, 2)
    build_tables(records.path)
    before = read_content(own.location)
    path = records.path / "sources" / "src-2" / "recorded.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"run-2"', '"run-8"'))
    build_tables(records.path)
    after = read_content(own.location)
    assert count_runs(own.location) == runs(0, 1, 8)
    for table in ("observations", "measurements", "citations", "samples", "results"):
        assert len(after[table]) == len(before[table]), table
    assert count_runs(Location(own.location.own)) == runs(2)
    assert check_registry(own.location).problems == ()


def test_the_curated_observations_can_be_left_out_and_their_models_stay(own: Registry) -> None:
    add_numbers(own, 5)
    alone = Location(own.location.own)
    assert count_runs(alone) == runs(5)
    content = read_content(alone)
    assert len(content["models"]) > 40
    assert len(content["results"]) == 1


def test_a_pending_description_of_a_known_gpu_doubles_nothing(own: Registry) -> None:
    document = build_document(5)
    document["observations"][0]["configuration"]["gpu_id"] = "rtx-3090"
    document["gpus"] = [{"gpu_id": "rtx-3090", "memory_bytes": 24 * 2**30}]
    own.add(document)
    for location in (own.location, Location(own.location.own)):
        content = read_content(location)
        assert len([text for text in content["gpus"] if '"rtx-3090"' in text]) == 1
        assert len([text for text in content["results"] if '"rtx-3090"' in text]) == 1


def test_what_both_layers_hold_is_counted_once_by_the_check(own: Registry) -> None:
    before = check_registry(own.location).counts
    document = build_document(5)
    document["observations"][0]["configuration"]["gpu_id"] = "rtx-3090"
    document["gpus"] = [{"gpu_id": "rtx-3090", "memory_bytes": 24 * 2**30}]
    own.add(document)
    own.fold()
    after = check_registry(own.location).counts
    assert after["gpus"] == before["gpus"] == len(read_content(own.location)["gpus"])
    assert after["observations"] == before["observations"] + 1


def test_an_upgrade_with_one_more_source_reaches_an_existing_registry(
    own: Registry, tmp_path: Path, records: Folder
) -> None:
    add_numbers(own, 5)
    own.fold()
    newer = tmp_path / "newer"
    shutil.copytree(records.path, newer)
    write_source(newer, 2)
    build_tables(newer)
    shutil.rmtree(newer / "sources")  # a wheel holds the tables alone
    upgraded = Location(own.location.own, Folder(newer))
    assert count_runs(upgraded) == runs(0, 1, 2, 5)
    assert check_registry(upgraded).problems == ()


@pytest.fixture
def curated(records: Folder) -> Location:
    return Location(records)


def add_source(records: Folder) -> None:
    write_source(records.path, 2)


def change_source(records: Folder) -> None:
    path = records.path / "sources" / "src-1" / "recorded.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"run-1"', '"run-9"'))


def remove_source(records: Folder) -> None:
    shutil.rmtree(records.path / "sources" / "src-1")


def key_of(document: Document) -> bytes:
    return bytes.fromhex(document.submission_id[:32])


def grow_source(records: Folder) -> None:
    document = build_document(9, source_id="src-1")
    path = records.path / "sources" / "src-1" / "more.json"
    path.write_text(json.dumps(document), encoding="utf-8")


def retract_source(records: Folder) -> None:
    sql = "select observation_id from observations where run_id = 'run-1'"
    found = Registry(Location(records)).query(sql).df()["observation_id"].item()
    moment = "2026-01-02T03:04:05Z"
    row = {"observation_id": found, "reason": "another job", "retracted_at": moment}
    path = records.path / "sources" / "src-1" / "retraction.json"
    path.write_text(json.dumps({"retractions": [row]}), encoding="utf-8")


def forget_documents(records: Folder) -> None:
    """Make the manifest one of a build that did not say which documents a source has."""
    built = json.loads(records.storage.get(MANIFEST))
    del built["documents"]
    records.storage.put(MANIFEST, json.dumps(built).encode())


@pytest.mark.parametrize(
    ("change", "expected", "source"),
    [
        (add_source, runs(0, 1, 2), "src-2"),
        (grow_source, runs(0, 1, 9), "src-1"),
        (retract_source, runs(0, 1), "src-1"),
        (change_source, runs(0, 9), "src-1"),
        (remove_source, runs(0), "src-1"),
    ],
)
def test_a_checkout_answers_from_sources_that_are_not_built_yet(
    own: Registry,
    records: Folder,
    change: Callable[[Folder], None],
    expected: dict[str, int],
    source: str,
) -> None:
    change(records)
    assert count_runs(Location(records)) == expected
    assert count_runs(own.location) == expected
    assert find_pending_sources(records) == (source,)
    report = check_registry(Location(records))
    assert report.problems == ()
    assert report.hints == (
        (
            f"{source}: not in the tables yet; run `registry build`, which makes the tables from "
            "the sources"
        ),
    )
    assert check_tables(records.path).changed == ()
    pending = read_content(Location(records))
    assert build_tables(records.path).pending == (source,)
    assert find_pending_sources(records) == ()
    assert read_content(Location(records)) == pending
    assert check_registry(Location(records)) == check_registry(Location(records))
    assert check_registry(Location(records)).hints == ()


@pytest.mark.parametrize(
    ("change", "rows"), [(grow_source, {"run-9"}), (change_source, {"run-0", "run-9"})]
)
def test_of_a_source_that_only_grew_nothing_else_is_derived(
    records: Folder, change: Callable[[Folder], None], rows: set[str]
) -> None:
    change(records)
    found = read_curated(records)
    assert (found.part is None) == (change is change_source)
    known = KnownIds([found.part.ids] if found.part else [])
    new = [one for one in found.pending if not known.contains("submissions", key_of(one))]
    assert {one.plain["observations"][0]["run_id"] for one in new} == rows


def test_where_an_earlier_build_made_the_tables_a_source_that_grew_is_read_with_all_others(
    records: Folder,
) -> None:
    forget_documents(records)
    grow_source(records)
    assert read_curated(records).part is None
    assert count_runs(Location(records)) == runs(0, 1, 9)


def test_a_document_that_the_tables_know_to_be_valid_and_new_reads_no_source(
    own: Registry, records: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_source(records.path, 2)
    listed: list[str] = []
    list_files = curated_module._list_files

    def listing(folder: Path | str) -> list[tuple[str, int, int]]:
        listed.append(str(folder))
        return list_files(folder)

    monkeypatch.setattr(curated_module, "_list_files", listing)
    own.add(build_document(5))
    assert listed == []
    with pytest.raises(SubmissionError):  # the sources might know what it lacks
        own.add({**build_document(6), "observations": 6})
    assert listed != []


@pytest.mark.parametrize("change", [change_source, remove_source])
def test_a_document_that_the_sources_no_longer_hold_is_new(
    records: Folder, change: Callable[[Folder], None]
) -> None:
    document = build_document(1, source_id="src-1")
    curated = Registry(Location(records))
    added = curated.add(document)
    assert (added.is_new, added.is_curated) == (False, False)  # it is beside nothing
    change(records)
    assert curated.add(document).is_new
    assert count_runs(curated.location)["run-1"] == 1


@pytest.mark.parametrize("is_folded", [True, False])
def test_what_the_curated_records_hold_is_written_all_the_same_and_outlasts_them(
    own: Registry, records: Folder, *, is_folded: bool
) -> None:
    document = build_document(1, source_id="src-1")
    added = own.add(document)
    assert (added.is_new, added.is_curated) == (True, True)
    if is_folded:
        own.fold()
    again = own.add(document)
    assert (again.is_new, again.is_curated) == (False, True)
    assert count_runs(own.location) == runs(0, 1)
    assert check_registry(own.location).problems == ()
    remove_source(records)
    build_tables(records.path)
    assert count_runs(own.location) == runs(0, 1)
    assert check_registry(own.location).problems == ()


def test_a_new_document_that_names_a_curated_source_says_so(own: Registry, records: Folder) -> None:
    joining, apart = build_document(5, source_id="src-1"), build_document(6)
    assert [own.add(document).joins for document in (joining, apart)] == ["src-1", None]
    assert own.add(joining).joins is None  # it is there already
    curated = Registry(Location(records))
    assert curated.add(build_document(7, source_id="src-1")).joins is None  # it is one of them


def test_of_an_export_what_the_curated_records_hold_is_left_to_them(own: Registry) -> None:
    documents = [("a", build_document(1, source_id="src-1")), ("b", build_document(5))]
    found = add_submissions(own.location, documents, leaves_curated=True)
    assert [(added.is_new, added.is_curated) for added in found] == [(False, True), (True, False)]
    assert len(own.location.own.storage.list("journal")) == 1


def test_building_twice_changes_nothing(records: Folder) -> None:
    assert build_tables(records.path).changed == ()


def test_a_table_without_rows_has_a_file_with_its_columns(records: Folder) -> None:
    retractions = pq.read_table(records.tables / "retractions.parquet")
    assert (retractions.num_rows, "reason" in retractions.column_names) == (0, True)


@pytest.mark.parametrize("name", ["observations.parquet", "observations.ids", "manifest.json"])
def test_damaged_curated_tables_are_named_and_built_anew(records: Folder, name: str) -> None:
    before = read_content(Location(records))
    (records.tables / name).write_bytes(b"damaged")
    problem = str(check_registry(Location(records)).problems[0])
    assert str(records.tables / name) in problem
    assert "run `registry build`" in problem
    (records.tables / name).unlink()
    build_tables(records.path)
    assert read_content(Location(records)) == before
    assert check_registry(Location(records)).problems == ()


def test_curated_models_that_change_after_they_were_read_are_seen(records: Folder) -> None:
    read_content(Location(records))
    (records.tables / "catalogue.json").write_bytes(b"damaged")
    with pytest.raises(StoreError, match=r"catalogue\.json"):
        read_content(Location(records))


def file_numbers(records: Folder, *numbers: int) -> FoldResult:
    """Do as `registry add` and `registry fold` with ``--registry records`` do."""
    db = Registry(Location(records))
    for number in numbers:
        db.add(build_document(number, source_id="measured"))
    return file_submissions(records)


def test_folding_curated_records_files_text_under_the_source(records: Folder) -> None:
    filed = file_numbers(records, 7)
    assert (filed.n_submissions, filed.n_observations, filed.problems) == (1, 1, ())
    assert records.storage.list("journal") == []
    (path,) = (records.path / "sources" / "measured").iterdir()
    assert json.loads(path.read_text(encoding="utf-8"))["source"]["source_id"] == "measured"
    assert count_runs(Location(records)) == runs(0, 1, 7)
    build_tables(records.path)
    assert count_runs(Location(records)) == runs(0, 1, 7)


def git(folder: Path, *arguments: str) -> None:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def test_two_clones_that_both_file_submissions_merge_without_a_conflict(
    records: Folder,
) -> None:
    root = records.path.parent
    git(root, "init", "--initial-branch=main", ".")
    git(root, "add", "records")
    git(root, "commit", "-m", "start")
    for name, numbers in (("ours", (7, 8)), ("theirs", (8, 9))):
        git(root, "clone", ".", name)
        clone = Folder(root / name / "records")
        file_numbers(clone, *numbers)
        write_source(clone.path, 20 + numbers[0])
        git(root / name, "add", "records/sources")
        git(root / name, "commit", "-m", name)
    ours = root / "ours"
    git(ours, "pull", "--no-rebase", "--no-edit", "../theirs", "main")
    merged = Location(Folder(ours / "records"))
    assert count_runs(merged) == runs(0, 1, 7, 8, 9, 27, 28)
    assert check_registry(merged).problems == ()


def test_a_checkout_is_written_only_where_it_is_named(
    records: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(records.path.parent)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("REGISTRY_PATH", raising=False)
    location = find_registry()
    assert location.curated == Folder(Path("records"))
    assert location.own.path == tmp_path / "data" / "peft-registry" / "records"
    add_numbers(Registry(location), 5)
    assert records.storage.list("journal") == []
    assert count_runs(location) == runs(0, 1, 5)
    assert find_registry("records") == Location(Folder(Path("records")))
    assert find_registry(curated=False) == Location(location.own)


def test_a_package_without_tables_reads_as_no_curated_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: Folder
) -> None:
    monkeypatch.setattr("registry.store.folder.curated_dir", lambda: records.path)
    create_registry(tmp_path / "alone", curated=False)
    db = Registry(find_registry(tmp_path / "alone"))
    assert count_runs(db.location) == {}
    assert read_module.read_dataset(db.location)[1] == ()


def upgraded(own: Registry, change: Callable[[str], str], part: str = "gpus") -> Location:
    """Return a registry over curated records of which a later release changed the catalogue."""
    records = own.location.curated
    assert records is not None
    path = records.path / "catalogue" / f"{part}.yaml"
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    build_tables(records.path)
    return own.location


def with_new_card(catalogue: str) -> str:
    return f"{catalogue}\n- {{gpu_id: neo-card, memory_bytes: {16 * 2**30}, verified: false}}\n"


def with_known_card(catalogue: str) -> str:
    """Describe in the catalogue the card that the documents describe."""
    return f"{catalogue}\n- {{gpu_id: gpu-a, memory_bytes: {16 * 2**30}, verified: false}}\n"


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        (with_new_card, True),
        (lambda text: text.replace("memory_bytes: ", "memory_bytes: 1"), False),
        (lambda _text: "[]", False),
        (with_known_card, False),
    ],
    ids=["new", "changed", "removed", "described"],
)
def test_of_a_catalogue_that_only_grew_the_tables_hold(
    records: Folder, change: Callable[[str], str], *, stays: bool
) -> None:
    path = records.path / "catalogue" / "gpus.yaml"
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    assert (read_curated(records).part is not None) == stays
    location = Location(records)
    assert count_runs(location) == runs(0, 1)
    named = Registry(location).query("select gpu_id, memory_bytes from gpus order by 1").rows()
    build_tables(records.path)
    assert read_curated(records).pending_sources == ()
    built = Registry(location).query("select gpu_id, memory_bytes from gpus order by 1").rows()
    assert named == built
    assert {row["gpu_id"] for row in named} >= ({"neo-card"} if stays else set())


def add_own_card(own: Registry) -> None:
    """Add runs on a card of 48 GiB that only the first document describes."""
    for number in (5, 6):
        document = build_document(number)
        document["gpus"] = [{"gpu_id": "neo-card", "memory_bytes": 48 * 2**30}][: 6 - number]
        document["observations"][0]["configuration"]["gpu_id"] = "neo-card"
        document["observations"][0]["measurements"][0]["value"] = 45 * 2**30
        own.add(document)


@pytest.mark.parametrize("is_folded", [True, False])
def test_an_upgrade_that_describes_a_card_of_ones_own_otherwise_loses_nothing(
    own: Registry, *, is_folded: bool
) -> None:
    add_own_card(own)
    if is_folded:
        own.fold()
    location = upgraded(own, with_new_card)
    assert count_runs(location) == runs(0, 1, 5, 6)
    report = check_registry(location)
    assert report.is_sound
    assert any(
        f"gpu 'neo-card': memory_bytes is {16 * 2**30} in the catalogue and {48 * 2**30} in one of "
        "your documents" in hint
        for hint in report.hints
    )
    repair(location)
    Registry(location).fold()
    assert count_runs(location) == runs(0, 1, 5, 6)
    assert check_registry(location).is_sound


@pytest.mark.parametrize("is_folded", [True, False])
def test_an_upgrade_that_calls_a_model_otherwise_loses_nothing(
    own: Registry, *, is_folded: bool
) -> None:
    document = build_document(5)
    document["observations"][0]["configuration"]["model_id"] = "llama-2-7b"
    own.add(document)
    if is_folded:
        own.fold()
    old, new = (f'model_id: "llama-2-7b{end}"\n' for end in ("", "-base"))
    location = upgraded(own, lambda text: text.replace(old, new), "models")
    assert count_runs(location) == runs(0, 1, 5)
    report = check_registry(location)
    assert report.is_sound
    assert any("model 'llama-2-7b' is" in hint for hint in report.hints)
    repair(location)
    assert count_runs(location) == runs(0, 1, 5)


def test_what_was_set_aside_is_named(own: Registry) -> None:
    add_numbers(own, 5)
    quarantine = own.location.own.path / "quarantine"
    quarantine.mkdir()
    (quarantine / "x.json").write_text("{}", encoding="utf-8")
    (hint,) = [hint for hint in check_registry(own.location).hints if "quarantine" in hint]
    assert "holds 1 file that could not be read" in hint
