"""Folding: what is pending becomes Parquet parts, by one commit."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from registry.errors import StoreError
from registry.store.check import check_registry
from registry.store.fold import FAN_OUT, fold
from registry.store.folder import Folder, Location
from registry.store.journal import list_entries
from registry.store.lock import table_lock
from registry.store.manifest import list_versions, read_manifest
from registry.store.prune import prune
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
    from registry.api import Registry


def table_bytes(folder: Folder) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder.tables)): path.read_bytes()
        for path in folder.tables.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def problems(db: Registry) -> tuple[str, ...]:
    return tuple(map(str, check_registry(db.location).problems))


def test_fold_moves_the_journal_into_the_tables(db: Registry) -> None:
    add_numbers(db, 1, 2)
    pending = read_content(db.location)
    result = db.fold()
    assert (result.version, result.n_submissions, result.n_observations) == (1, 2, 2)
    assert list_entries(db.location.own) == []
    assert read_content(db.location) == pending
    assert problems(db) == ()


def test_each_version_but_the_first_names_the_one_before(folder: Folder, db: Registry) -> None:
    for number in (1, 2):
        add_numbers(db, number)
        db.fold()
    first, second = read_manifest(folder, 1), read_manifest(folder, 2)
    assert (first.previous, second.previous) == (None, first.content_hash)


def test_handing_in_the_same_thing_twice_changes_nothing(db: Registry) -> None:
    add_numbers(db, 1)
    db.fold()
    before = table_bytes(db.location.own)
    assert not db.add(build_document(1)).is_new
    result = db.fold()
    assert (result.version, result.n_submissions, result.n_observations) == (1, 0, 0)
    assert table_bytes(db.location.own) == before


def test_the_order_of_adding_does_not_change_a_byte(tmp_path: Path) -> None:
    folders = []
    for numbers in ((0, 1, 2, 3, 4), (3, 0, 4, 2, 1)):
        db = make_registry(tmp_path / str(numbers[0]))
        add_numbers(db, *numbers)
        db.fold()
        folders.append(db.location.own)
    first, second = map(table_bytes, folders)
    assert first == second


def test_as_many_parts_as_the_fan_out_become_one(db: Registry) -> None:
    for number in range(FAN_OUT):
        add_numbers(db, number)
        db.fold()
    state = read_state(db.location.own)
    assert len(state.parts) == 1
    assert state.rows("observations") == FAN_OUT
    assert problems(db) == ()


def test_parts_that_one_fold_makes_and_merges_are_not_left(
    db: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.store.fold._CHUNK_OBSERVATIONS", 2)
    add_numbers(db, *range(FAN_OUT + 2))
    db.fold()
    folder = db.location.own
    assert folder.storage.list("tables/parts") == sorted(read_manifest(folder).parts)
    assert check_registry(db.location).hints == ()
    assert count_runs(db.location) == runs(*range(FAN_OUT + 2))


def test_parts_that_were_there_before_a_fold_made_and_merged_them_are_kept(
    db: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.store.fold._CHUNK_OBSERVATIONS", 2)
    folder = db.location.own
    for number in range(FAN_OUT):
        add_numbers(db, number)
        db.fold()
    there = folder.storage.list("tables/parts")
    fold(db.location, rebuild=True)
    assert set(folder.storage.list("tables/parts")) >= set(there)
    assert [read_state(folder, number).rows("observations") for number in range(1, FAN_OUT)] == [
        *range(1, FAN_OUT)
    ]


def test_parts_are_the_same_in_every_time_zone(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.unit.store.registries import add_numbers, make_registry\n"
        "db = make_registry(Path(sys.argv[1])); add_numbers(db, 1)\n"
        "print(db.fold().content_hash)"
    )
    hashes = set()
    for zone in ("UTC", "Asia/Tokyo"):
        command = [sys.executable, "-c", code, str(tmp_path / zone)]
        environment = {**os.environ, "TZ": zone}
        root = Path(__file__).parents[3]
        hashes.add(subprocess.check_output(command, cwd=root, env=environment, timeout=300))
    assert len(hashes) == 1


def test_there_are_never_as_many_small_parts_as_the_fan_out(db: Registry) -> None:
    add_numbers(db, *range(FAN_OUT))
    sizes = []
    for number in range(FAN_OUT + 1):
        add_numbers(db, 100 + number)
        db.fold()
        sizes.append([part.rows("observations") for part in read_state(db.location.own).parts])
    assert sizes[-3:] == [[FAN_OUT + 1, *[1] * (FAN_OUT - 2)], [2 * FAN_OUT], [2 * FAN_OUT, 1]]


def test_a_fold_of_nothing_has_no_version_and_no_hash(db: Registry) -> None:
    result = db.fold()
    assert (result.version, result.content_hash) == (0, "")
    add_numbers(db, 1)
    assert len(db.fold().content_hash) == 64


def test_parts_beyond_a_size_are_merged_no_more(
    db: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_numbers(db, 100, 101)
    db.fold()
    monkeypatch.setattr("registry.store.fold.LARGEST_MERGED", 1)
    for number in range(FAN_OUT - 1):
        add_numbers(db, number)
        db.fold()
    assert len(read_state(db.location.own).parts) == FAN_OUT
    add_numbers(db, FAN_OUT)
    db.fold()
    parts = read_state(db.location.own).parts
    assert [part.rows("observations") for part in parts] == [2, FAN_OUT]


def test_deriving_all_anew_leaves_one_part_and_the_same_rows(folded: Registry) -> None:
    before = read_content(folded.location)
    assert len(read_state(folded.location.own).parts) == 3
    result = fold(folded.location, rebuild=True)
    assert (result.n_submissions, result.n_observations) == (0, 0)
    assert len(read_state(folded.location.own).parts) == 1
    assert read_content(folded.location) == before
    assert problems(folded) == ()


def test_an_observation_reported_twice_is_one_observation_with_two_citations(db: Registry) -> None:
    add_numbers(db, 1, locator="table 1")
    add_numbers(db, 1, locator="table 2")
    db.fold()
    content = read_content(db.location)
    assert len(content["observations"]) == 1
    assert len(content["citations"]) == 2
    assert '"n_citations": 2' in content["results"][0]
    assert problems(db) == ()


def test_a_further_citation_of_a_folded_observation_is_counted_beside_it(db: Registry) -> None:
    add_numbers(db, 1, locator="table 1")
    db.fold()
    add_numbers(db, 1, locator="table 2")
    assert db.fold().n_observations == 0
    state = read_state(db.location.own)
    assert (state.rows("observations"), state.rows("citations")) == (1, 2)
    assert state.rows("later_citations") == 1
    assert '"n_citations": 2' in read_content(db.location)["results"][0]
    assert problems(db) == ()


def test_the_same_figures_from_another_source_are_another_observation(db: Registry) -> None:
    add_numbers(db, 1, source_id="src-a")
    add_numbers(db, 1, source_id="src-b")
    db.fold()
    state = read_state(db.location.own)
    assert (state.rows("observations"), state.rows("configurations")) == (2, 1)


def test_older_versions_answer_as_of_then(folded: Registry) -> None:
    location = folded.location
    assert [len(count_runs(location, at)) for at in (1, 2, 3)] == [1, 2, 3]
    with pytest.raises(StoreError) as caught:
        read_manifest(location.own, 9)
    assert str(caught.value) == (
        f"{location.own.tables}: version 9 not found; expected one of 1 to 3"
    )


def test_an_entry_that_names_a_model_of_a_later_one_is_folded(
    db: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.store.fold._CHUNK_ENTRIES", 1)
    add_numbers(db, 0)
    for number in range(1, 5):
        document = build_document(number)
        del document["models"], document["gpus"]
        db.add(document)
    result = db.fold()
    assert (result.n_submissions, result.problems) == (5, ())
    assert count_runs(db.location) == runs(*range(5))


def test_a_fold_of_many_chunks_gives_what_one_chunk_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = []
    for chunk in (2_000, 2):
        db = make_registry(tmp_path / str(chunk))
        add_numbers(db, *range(5))
        monkeypatch.setattr("registry.store.fold._CHUNK_OBSERVATIONS", chunk)
        db.fold()
        contents.append(read_content(db.location))
    assert contents[0] == contents[1]


def test_prune_keeps_the_newest_version_whole(folded: Registry) -> None:
    folder = folded.location.own
    fold(folded.location, rebuild=True)
    assert prune(folder, keep=2) == [1, 2]
    assert prune(folder) == [3]
    assert list_versions(folder) == [4]
    assert folder.storage.list("tables/parts") == list(read_manifest(folder).parts)
    assert count_runs(folded.location) == runs(0, 1, 2)
    assert problems(folded) == ()


def test_prune_removes_no_part_whose_documents_are_not_elsewhere(folded: Registry) -> None:
    folder = folded.location.own
    orphan = read_state(folder).parts[0].name
    fold(folded.location, rebuild=True)
    (kept,) = read_state(folder).parts
    path = kept.file("submissions")
    assert path
    whole = path.read_bytes()
    path.write_bytes(b"damaged")
    with pytest.raises(StoreError, match="registry repair"):
        prune(folder)
    assert (folder.parts / orphan / "part.json").is_file()
    path.write_bytes(whole)
    prune(folder)
    assert not (folder.parts / orphan).exists()


def test_prune_leaves_a_part_with_a_document_that_no_kept_part_holds(
    tmp_path: Path, folded: Registry
) -> None:
    other = make_registry(tmp_path / "other")
    add_numbers(other, 7)
    other.fold()
    (part,) = read_state(other.location.own).parts
    folder = folded.location.own
    prune(folder)
    add_numbers(folded, 7)  # so that the document is pending too
    part.path.rename(folder.parts / part.name)
    assert prune(folder) == []
    assert (folder.parts / part.name).is_dir()


@pytest.mark.parametrize("is_pending", [True, False])
def test_prune_removes_an_incomplete_part_only_where_its_documents_are_elsewhere(
    tmp_path: Path, folded: Registry, *, is_pending: bool
) -> None:
    other = make_registry(tmp_path / "other")
    add_numbers(other, 7)
    other.fold()
    (part,) = read_state(other.location.own).parts
    (part.path / "part.json").unlink()
    folder = folded.location.own
    if is_pending:
        add_numbers(folded, 7)
    part.path.rename(folder.parts / part.name)
    if is_pending:
        prune(folder)
    else:
        with pytest.raises(StoreError, match="its documents are nowhere else"):
            prune(folder)
    assert (folder.parts / part.name).is_dir() != is_pending


def test_prune_refuses_where_a_part_is_lost_to_its_manifest(
    tmp_path: Path, folded: Registry
) -> None:
    other = make_registry(tmp_path / "other")
    add_numbers(other, 7)
    other.fold()
    (part,) = read_state(other.location.own).parts
    part.path.rename(folded.location.own.parts / part.name)
    with pytest.raises(StoreError, match="no manifest names this part"):
        prune(folded.location.own)


def test_a_second_fold_learns_who_folds(folder: Folder, db: Registry) -> None:
    with table_lock(folder), pytest.raises(StoreError) as caught:
        fold(db.location, wait_seconds=0.0)
    assert str(caught.value) == (
        f"{folder.tables / '.lock'}: another process (pid {os.getpid()}) is folding; expected it "
        "to finish in time; wait for it, or end it, then repeat the command"
    )


def _hold_lock_and_die(path: str) -> None:
    with table_lock(Folder(Path(path))):
        os._exit(1)


def test_the_lock_of_a_killed_process_is_free(db: Registry) -> None:
    process = multiprocessing.get_context("fork").Process(
        target=_hold_lock_and_die, args=(str(db.path),)
    )
    process.start()
    process.join(30)
    add_numbers(db, 1)
    assert fold(db.location, wait_seconds=0.0).version == 1


def test_a_lock_that_is_a_link_leaves_its_target_alone(folder: Folder, db: Registry) -> None:
    target = folder.path / "precious.txt"
    target.write_text("precious", encoding="utf-8")
    (folder.tables / ".lock").symlink_to(target)
    with pytest.raises(StoreError) as caught:
        fold(db.location)
    assert str(caught.value) == (
        f"{folder.tables / '.lock'}: is not a regular file; expected the registry's lock; remove "
        "it and repeat the command"
    )
    (folder.tables / ".lock").unlink()
    fold(db.location)
    assert target.read_text(encoding="utf-8") == "precious"


def test_a_lock_that_is_a_pipe_is_refused(folder: Folder, db: Registry) -> None:
    os.mkfifo(folder.tables / ".lock")
    with pytest.raises(StoreError) as caught:
        fold(db.location)
    assert str(caught.value) == (
        f"{folder.tables / '.lock'}: is not a regular file; expected the registry's lock; remove "
        "it and repeat the command"
    )


def test_a_full_disk_refuses_an_addition_and_leaves_nothing_behind(
    db: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int, _data: object) -> int:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr("registry.store.storage.os.write", full)
        with pytest.raises(StoreError) as caught:
            add_numbers(db, 1)
    assert str(caught.value).endswith(
        ".json: cannot be written: No space left on device; nothing was recorded; free space on "
        "the disk, then repeat the command"
    )
    assert list(db.location.own.journal.iterdir()) == []
    assert db.add(build_document(1)).is_new


@pytest.mark.parametrize("place", ["lock", "storage"])
def test_a_full_disk_stops_a_fold_that_says_where_and_loses_nothing(
    db: Registry, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def full(_descriptor: int, _data: object) -> int:
        raise OSError(28, os.strerror(28))

    add_numbers(db, 1)
    with monkeypatch.context() as patch:
        patch.setattr(f"registry.store.{place}.os", SimpleNamespace(**{**vars(os), "write": full}))
        with pytest.raises(StoreError) as caught:
            fold(db.location)
    assert str(caught.value).startswith(f"{db.location.own.tables}/")
    assert str(caught.value).endswith(
        ": cannot be written: No space left on device; nothing was recorded; free space on the "
        "disk, then repeat the command; nothing that was added is lost"
    )
    assert fold(db.location).n_observations == 1


def test_a_folder_that_is_no_registry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"a folder without tables/ or journal/"):
        fold(Location(Folder(tmp_path)))


def test_a_fold_removes_what_killed_processes_left(db: Registry) -> None:
    old, recent = db.path / "journal/.tmp-old", db.path / "journal/.tmp-recent"
    unnamed = db.path / "tables/.tmp-manifest"  # who writes there holds the lock
    add_numbers(db, 0)
    db.fold()
    for path in (old, recent, unnamed):
        path.write_text("half")
    os.utime(old, (time.time() - 7200,) * 2)
    db.fold()
    assert [path.name for path in (old, recent, unnamed) if path.exists()] == [".tmp-recent"]
