"""The folded state: an answer that would leave rows out is refused."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from registry.errors import StoreError
from registry.store import state
from registry.store.check import check_registry
from registry.store.fold import fold
from registry.store.manifest import Manifest, manifest_name, read_manifest, write_manifest
from registry.store.parts import read_part
from registry.store.repair import repair
from registry.store.state import (
    find_damaged_manifests,
    find_left_out,
    list_headless_parts,
    list_unnamed_parts,
    read_state,
)
from tests.unit.store.registries import add_numbers, build_document, count_runs, runs

if TYPE_CHECKING:
    from registry.api import Registry
    from registry.store.folder import Folder
    from registry.store.parts import Part

WAY_OUT = "run `registry repair`, which rebuilds it from the parts and documents that are there"


def refusal(folder: Folder) -> str:
    with pytest.raises(StoreError) as caught:
        read_state(folder)
    return str(caught.value)


@pytest.mark.usefixtures("folded")
def test_a_state_counts_the_rows_of_its_parts(folder: Folder) -> None:
    newest = read_state(folder)
    assert (newest.rows("observations"), newest.rows("samples"), newest.rows("models")) == (3, 6, 1)
    assert read_state(folder, 1).rows("observations") == 1
    assert not newest.is_legacy
    assert list(find_left_out(folder, newest)) == []
    assert list_unnamed_parts(folder, newest) == []


@pytest.mark.usefixtures("folded")
def test_a_part_that_no_manifest_names_any_more_is_named(folder: Folder) -> None:
    lost = read_manifest(folder, 3).parts[-1]
    folder.storage.delete(manifest_name(3))
    assert refusal(folder) == (
        f"{folder.parts / lost}: no manifest names this part, and its documents are nowhere else; "
        f"expected a manifest that does; {WAY_OUT}"
    )
    before = read_state(folder, 2)
    assert list_unnamed_parts(folder, before) == [lost]
    (folder.parts / lost / "part.json").unlink()
    assert list_unnamed_parts(folder, before) == []
    assert list_headless_parts(folder) == [lost]
    assert refusal(folder).startswith(f"{folder.parts / lost}: no manifest names this part")
    shutil.rmtree(folder.parts / lost)
    assert read_state(folder) == before


@pytest.mark.usefixtures("folded")
@pytest.mark.parametrize("is_gone", [True, False])
def test_a_part_that_a_fold_removes_while_it_is_looked_at_is_none(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, *, is_gone: bool
) -> None:
    lost = read_manifest(folder, 3).parts[-1]
    folder.storage.delete(manifest_name(3))

    def read_late(folder: Folder, name: str) -> Part:
        if name == lost:
            path = folder.parts / name
            shutil.rmtree(path) if is_gone else (path / "part.json").unlink()
        return read_part(folder, name)

    monkeypatch.setattr(state, "read_part", read_late)
    if is_gone:
        assert read_state(folder).manifest.version == 2
    else:
        assert refusal(folder).startswith(f"{folder.parts / lost}/part.json: found no such file")


def test_an_erasure_while_the_parts_are_read_refuses_no_reader(
    folder: Folder, folded: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = next(read_state(folder).known.keys("observations")).hex()
    names: list[str] = []

    def read_late(folder: Folder, name: str) -> Part:
        names.append(name)
        if len(names) == 1:
            folded.retract(first, reason="private", erase=True)
        return read_part(folder, name)

    monkeypatch.setattr(state, "read_part", read_late)
    assert read_state(folder).rows("observations") == 2


@pytest.mark.usefixtures("folded")
def test_a_manifest_that_is_removed_before_it_is_read_is_passed_over(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = read_manifest(folder)
    is_read: list[bool] = []

    def read_late(folder: Folder, version: int | None = None) -> Manifest:
        if not is_read:
            is_read.append(True)
            write_manifest(folder, Manifest(4, newest.parts, newest.content_hash))
            raise FileNotFoundError(manifest_name(3))
        return read_manifest(folder, version)

    monkeypatch.setattr(state, "read_manifest", read_late)
    assert read_state(folder).manifest.version == 4


@pytest.mark.usefixtures("folded")
def test_a_part_without_a_description_that_is_removed_while_it_is_looked_at_is_none(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = folder.parts / ("0" * 24)
    shutil.copytree(folder.parts / read_manifest(folder).parts[0], half)
    (half / "part.json").unlink()
    is_leftover = state._is_leftover

    def look_late(folder: Folder, name: str, *others: Any) -> bool:
        shutil.rmtree(half)
        return is_leftover(folder, name, *others)

    monkeypatch.setattr(state, "_is_leftover", look_late)
    assert read_state(folder).manifest.version == 3


def test_a_killed_fold_of_a_known_retraction_hides_nothing(folder: Folder, db: Registry) -> None:
    (identity,) = db.add(build_document(1)).observation_ids
    db.retract(identity, reason="wrong card")
    db.fold()
    (name,) = read_manifest(folder).parts
    again = folder.parts / ("0" * 16)
    shutil.copytree(folder.parts / name, again)
    (again / "part.json").unlink()
    assert list_headless_parts(folder) == [again.name]
    assert read_state(folder).rows("submissions") == 2


@pytest.mark.usefixtures("folded")
def test_fewer_documents_than_before_are_refused_where_a_version_goes_on(folder: Folder) -> None:
    newest = read_manifest(folder)
    write_manifest(folder, Manifest(4, newest.parts[:2], newest.content_hash))
    assert refusal(folder) == (
        f"{folder.tables / 'manifest-000004.json'}: lacks 1 of the documents of the version "
        f"before; expected all of them; {WAY_OUT}"
    )
    state = read_state(folder, 4)
    assert list(find_left_out(folder, state)) == [str(folder.parts / newest.parts[2])]
    folder.storage.delete(manifest_name(4))
    write_manifest(folder, Manifest(4, newest.parts[:2]))
    assert refusal(folder) == (
        f"{folder.parts / newest.parts[2]}: holds documents that the newest version lacks, "
        f"which was not made from the versions before it; expected one history; {WAY_OUT}"
    )


def test_documents_left_out_are_missed_where_as_many_were_added(
    folder: Folder, folded: Registry
) -> None:
    newest = read_manifest(folder)
    add_numbers(folded, 7)
    folded.fold()
    parts = read_manifest(folder).parts[1:]
    folder.storage.delete(manifest_name(4))
    write_manifest(folder, Manifest(4, parts, newest.content_hash))
    assert refusal(folder) == (
        f"{folder.tables / 'manifest-000004.json'}: lacks 1 of the documents of the version "
        f"before; expected all of them; {WAY_OUT}"
    )
    repair(folded.location)
    assert count_runs(folded.location) == runs(0, 1, 2, 7)
    assert check_registry(folded.location).problems == ()


@pytest.mark.usefixtures("folded")
def test_a_part_of_the_version_before_may_be_gone(folder: Folder) -> None:
    newest = read_manifest(folder)
    write_manifest(folder, Manifest(4, newest.parts[:2], newest.content_hash))
    shutil.rmtree(folder.parts / newest.parts[2])
    assert read_state(folder).rows("observations") == 2


def test_manifests_of_another_chain_are_named(folder: Folder, folded: Registry) -> None:
    assert list(find_damaged_manifests(folder)) == []
    second = read_manifest(folder, 2)
    folder.storage.delete(manifest_name(2))
    write_manifest(folder, Manifest(2, second.parts, "0" * 64))
    names = [manifest_name(version) for version in (2, 3)]
    path = folded.path / names[0]
    found = list(find_damaged_manifests(folder))
    assert [name for name, _ in found] == names
    assert found[0][1] == f"{path}: version 1 is not the one it was made from; {WAY_OUT}"
    folder.storage.put(names[0], b"damaged")
    ((name, message),) = find_damaged_manifests(folder)
    assert name == names[0]
    assert message.startswith(f"{path}: damaged manifest (Expecting value: line 1 column 1")


def test_a_missing_part_is_noted_by_a_repair(folder: Folder, folded: Registry) -> None:
    lost = folder.parts / read_manifest(folder).parts[1]
    shutil.rmtree(lost)
    assert repair(folded.location).notes[0] == f"{lost}: found no such part"


def test_a_missing_part_of_an_earlier_version_is_a_problem_of_files(
    folder: Folder, folded: Registry
) -> None:
    lost = folder.parts / read_manifest(folder).parts[1]
    fold(folded.location, rebuild=True)
    shutil.rmtree(lost)
    assert [str(problem) for problem in check_registry(folded.location).problems] == [
        (
            f"files: {lost / 'part.json'}: found no such file; expected the part that a manifest "
            f"names; {WAY_OUT}"
        )
    ]


def test_a_lock_that_is_a_link_is_a_problem(folder: Folder, folded: Registry) -> None:
    lock = folder.tables / ".lock"
    lock.rename(folder.path / "elsewhere")
    lock.symlink_to(folder.path / "elsewhere")
    assert [str(problem) for problem in check_registry(folded.location).problems] == [
        f"files: {lock}: is not a regular file; expected a lock; remove it"
    ]
