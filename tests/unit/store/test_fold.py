"""Folding: what is pending becomes Parquet parts, by one commit."""

from __future__ import annotations

import json
import multiprocessing
import os
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from registry.errors import StoreError
from registry.store import fold as fold_module
from registry.store.check import check_registry
from registry.store.fold import FAN_OUT, find_leftovers, fold, prune
from registry.store.folder import Folder
from registry.store.journal import entry_path, list_entries, write_entry
from registry.store.lock import fold_lock
from registry.store.manifest import list_versions, manifest_path, read_manifest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def make_folder(path: Path) -> Folder:
    folder = Folder(path)
    folder.tables.mkdir(parents=True)
    folder.journal.mkdir()
    return folder


def table_bytes(folder: Folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.tables.iterdir() if path.is_file()}


def read_rows(folder: Folder, table: str) -> list[dict[str, Any]]:
    rows = []
    for name in read_manifest(folder).files(table):
        rows += pq.read_table(folder.tables / name).to_pylist()
    return rows


def test_fold_moves_the_journal_into_the_tables(folder: Folder, add: Callable[..., str]) -> None:
    add(folder, 1)
    add(folder, 2)
    result = fold(folder)
    assert (result.version, result.n_submissions, result.n_observations) == (1, 2, 2)
    assert list_entries(folder) == []
    assert check_registry(folder).problems == ()


def test_handing_in_the_same_thing_twice_changes_nothing(
    folder: Folder, add: Callable[..., str]
) -> None:
    add(folder, 1)
    fold(folder)
    before = table_bytes(folder)
    add(folder, 1)
    result = fold(folder)
    assert (result.version, result.n_submissions, result.n_observations) == (1, 0, 0)
    assert list_entries(folder) == []
    assert table_bytes(folder) == before


def test_a_pending_entry_is_recorded_once(folder: Folder, submission: Callable[..., Any]) -> None:
    prepared = submission(1)
    assert write_entry(folder, prepared.submission_id, prepared.text)
    assert not write_entry(folder, prepared.submission_id, prepared.text)


def test_the_order_of_handing_in_does_not_change_a_byte(
    tmp_path: Path, add: Callable[..., str]
) -> None:
    numbers = list(range(12))
    folders = []
    for turn in range(2):
        folder = make_folder(tmp_path / str(turn))
        numbers.reverse()
        numbers = numbers[turn:] + numbers[:turn]
        for number in numbers:
            add(folder, number)
        fold(folder)
        folders.append(folder)
    first, second = (table_bytes(folder) for folder in folders)
    assert {n: b for n, b in first.items() if n != ".lock"} == {
        n: b for n, b in second.items() if n != ".lock"
    }


def test_parts_of_like_size_are_merged_in_tiers(folder: Folder, add: Callable[..., str]) -> None:
    for number in range(FAN_OUT):
        add(folder, number)
        fold(folder)
    manifest = read_manifest(folder)
    assert len(manifest.parts) == 1
    assert manifest.rows("observations") == FAN_OUT
    assert check_registry(folder).problems == ()


def test_merging_all_leaves_one_part(folder: Folder, add: Callable[..., str]) -> None:
    for number in range(3):
        add(folder, number)
        fold(folder)
    assert len(read_manifest(folder).parts) == 3
    fold(folder, merge_all=True)
    assert len(read_manifest(folder).parts) == 1
    assert check_registry(folder).problems == ()


def test_an_observation_reported_twice_is_one_observation_with_two_citations(
    folder: Folder, add: Callable[..., str]
) -> None:
    add(folder, 1, locator="table 1")
    add(folder, 1, locator="table 2")
    fold(folder)
    assert len(read_rows(folder, "observations")) == 1
    assert len(read_rows(folder, "measurements")) == 3
    assert [row["n_citations"] for row in read_rows(folder, "results")] == [2]
    assert check_registry(folder).problems == ()


def test_a_further_citation_of_a_folded_observation_is_counted_as_recited(
    folder: Folder, add: Callable[..., str]
) -> None:
    add(folder, 1, locator="table 1")
    fold(folder)
    add(folder, 1, locator="table 2")
    result = fold(folder)
    assert result.n_observations == 0
    assert len(read_rows(folder, "observations")) == 1
    assert len(read_rows(folder, "citations")) == 2
    assert [row["n"] for row in read_rows(folder, "recited")] == [1]
    assert check_registry(folder).problems == ()


def test_the_same_figures_in_another_document_are_another_observation(
    folder: Folder, add: Callable[..., str]
) -> None:
    add(folder, 1, source_id="src-a")
    add(folder, 1, source_id="src-b")
    fold(folder)
    assert len(read_rows(folder, "observations")) == 2
    assert len(read_rows(folder, "configurations")) == 1


def test_older_versions_answer_as_of_then(folder: Folder, add: Callable[..., str]) -> None:
    for number in range(3):
        add(folder, number)
        fold(folder)
    assert [read_manifest(folder, at).rows("observations") for at in (1, 2, 3)] == [1, 2, 3]
    with pytest.raises(StoreError) as caught:
        read_manifest(folder, 9)
    assert "version 9 not found; expected one of those at hand: 1 to 3" in str(caught.value)


def test_prune_keeps_the_newest_version_whole(folder: Folder, add: Callable[..., str]) -> None:
    for number in range(3):
        add(folder, number)
        fold(folder)
    assert prune(folder) == [1, 2]
    assert list_versions(folder) == [3]
    assert find_leftovers(folder) == []
    assert check_registry(folder).problems == ()


def test_what_a_killed_fold_left_is_removed_by_the_next(
    folder: Folder, add: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    add(folder, 1)
    with monkeypatch.context() as patch:
        patch.setattr(fold_module, "write_manifest", killed)
        with pytest.raises(KeyboardInterrupt):
            fold(folder)
    (folder.tables / ".tmp-half").write_bytes(b"half a file")
    assert len(find_leftovers(folder)) > 5
    assert read_manifest(folder).version == 0
    assert len(list_entries(folder)) == 1
    (folder.tables / "keep.txt").write_text("somebody's own file", encoding="utf-8")
    fold(folder)
    assert find_leftovers(folder) == []
    assert (folder.tables / "keep.txt").exists()
    assert check_registry(folder).problems == ()


def test_a_fold_killed_after_its_commit_loses_and_doubles_nothing(
    folder: Folder, add: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    add(folder, 1)
    with monkeypatch.context() as patch:
        patch.setattr(fold_module, "remove_entries", killed)
        with pytest.raises(KeyboardInterrupt):
            fold(folder)
    assert len(list_entries(folder)) == 1
    result = fold(folder)
    assert (result.version, result.n_submissions) == (1, 0)
    assert list_entries(folder) == []
    assert len(read_rows(folder, "observations")) == 1


def test_a_newer_format_is_refused(folder: Folder, add: Callable[..., str]) -> None:
    add(folder, 1)
    fold(folder)
    path = manifest_path(folder, 1)
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}), encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        read_manifest(folder)
    assert str(caught.value) == (
        f"{path}: found format 99; expected at most 1: this registry was written by a newer "
        "release; upgrade with `pip install -U peft-registry`"
    )


def test_a_damaged_manifest_is_named(folder: Folder, add: Callable[..., str]) -> None:
    add(folder, 1)
    fold(folder)
    path = manifest_path(folder, 1)
    path.write_text(path.read_text()[:40], encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        read_manifest(folder)
    assert str(caught.value).startswith(str(path))
    assert "remove it to go back to the version before" in str(caught.value)


def test_a_damaged_entry_stays_and_is_reported(folder: Folder, add: Callable[..., str]) -> None:
    damaged = entry_path(folder, add(folder, 1))
    add(folder, 2)
    damaged.write_text(damaged.read_text(encoding="utf-8")[:-10], encoding="utf-8")
    result = fold(folder)
    assert result.n_submissions == 1
    assert damaged.exists()
    assert len(result.problems) == 1
    assert str(damaged) in result.problems[0]
    assert "hand the submission in again" in result.problems[0]


def test_a_second_folder_is_told_who_folds(folder: Folder) -> None:
    with fold_lock(folder), pytest.raises(StoreError) as caught:
        fold(folder, wait_seconds=0.1)
    assert str(caught.value) == (
        f"{folder.tables / '.lock'}: another process (pid {os.getpid()}) is folding; expected it "
        "to finish in time; wait for it, or end it, then repeat the command"
    )


def _hold_lock_and_die(path: str) -> None:
    from pathlib import Path  # noqa: PLC0415 - in the child

    with fold_lock(Folder(Path(path))):
        os._exit(1)


def test_the_lock_of_a_killed_process_is_free(folder: Folder, add: Callable[..., str]) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=_hold_lock_and_die, args=(str(folder.path),)
    )
    process.start()
    process.join(30)
    add(folder, 1)
    assert fold(folder, wait_seconds=1).version == 1


def test_a_full_disk_refuses_and_leaves_nothing_behind(
    folder: Folder, submission: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int, _data: object) -> int:
        raise OSError(28, os.strerror(28))

    prepared = submission(1)
    with monkeypatch.context() as patch:
        patch.setattr("registry.store.files.os.write", full)
        with pytest.raises(StoreError) as caught:
            write_entry(folder, prepared.submission_id, prepared.text)
    path = entry_path(folder, prepared.submission_id)
    assert str(caught.value) == (
        f"{path}: cannot be written: No space left on device; nothing was recorded; free space on "
        "the disk, then repeat the command"
    )
    assert list(folder.journal.iterdir()) == []
    assert write_entry(folder, prepared.submission_id, prepared.text)


def test_a_disk_that_fills_while_folding_leaves_the_state_before(
    folder: Folder, add: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object, **_options: object) -> None:
        raise OSError(28, os.strerror(28))

    add(folder, 1)
    with monkeypatch.context() as patch:
        patch.setattr("registry.store.parts.pq.write_table", full)
        with pytest.raises(StoreError, match="free space on the disk, then repeat the command"):
            fold(folder)
    assert read_manifest(folder).version == 0
    assert len(list_entries(folder)) == 1
    assert fold(folder).version == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_named(folder: Folder, submission: Callable[..., Any]) -> None:
    prepared = submission(1)
    folder.journal.chmod(0o500)
    try:
        with pytest.raises(StoreError, match="make the folder writable"):
            write_entry(folder, prepared.submission_id, prepared.text)
    finally:
        folder.journal.chmod(0o700)


def test_a_folder_that_is_no_registry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="a folder without tables/ or journal/"):
        fold(Folder(tmp_path))
