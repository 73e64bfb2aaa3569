"""Old ids lead to those of today, also after a second change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from registry.errors import StoreError
from registry.store.check import check_registry
from registry.store.folder import Folder, Location
from registry.store.renamed import (
    follow,
    list_ids,
    mend_renamed,
    read_folder,
    read_renamed,
    write_renamed,
)
from tests.unit.store.registries import build_document

if TYPE_CHECKING:
    from pathlib import Path

    from registry.api import Registry


def test_an_id_that_was_renamed_twice_leads_to_the_last(folder: Folder) -> None:
    write_renamed(folder, {"b": "b2", "a": "a2", "same": "same"})
    assert folder.storage.get("ids.csv") == b"old_id,new_id\na,a2\nb,b2\n"
    write_renamed(folder, {"a2": "a3"})
    assert read_folder(folder) == {"a": "a3", "a2": "a3", "b": "b2"}


def test_an_observation_has_its_id_and_those_that_it_had_before(folder: Folder) -> None:
    write_renamed(folder, {"a": "a2", "b": "b2"})
    write_renamed(folder, {"a2": "a3"})
    assert list_ids(Location(folder), "a3") == ["a3", "a", "a2"]
    assert list_ids(Location(folder), "new") == ["new"]


def test_ids_that_lead_in_a_circle_end(folder: Folder, tmp_path: Path) -> None:
    below = Folder(tmp_path / "below")
    write_renamed(below, {"a": "b"})
    write_renamed(folder, {"b": "a"})
    assert read_renamed(Location(folder, below)).keys() == {"a", "b"}


def test_an_old_id_may_lead_to_what_is_not_folded_yet(db: Registry) -> None:
    (found,) = db.add(build_document()).observation_ids
    write_renamed(db.location.own, {"a" * 32: found})
    assert check_registry(db.location).problems == ()
    write_renamed(db.location.own, {"b" * 32: "c" * 32})
    (problem,) = check_registry(db.location).problems
    assert "old id bbbbbbbbbbbb leads to cccccccccccc, which no observation has" in str(problem)


def test_nothing_renamed_writes_nothing(folder: Folder) -> None:
    write_renamed(folder, {"same": "same"})
    assert "ids.csv" not in folder.storage.list(".")
    assert read_folder(folder) == {}


def test_both_layers_are_read(folder: Folder, tmp_path: Path) -> None:
    below = Folder(tmp_path / "below")
    write_renamed(below, {"a": "1"})
    write_renamed(folder, {"b": "2"})
    assert read_renamed(Location(folder, below)) == {"a": "1", "b": "2"}
    assert read_renamed(Location(folder)) == {"b": "2"}


def test_a_prefix_may_lead_to_several() -> None:
    assert follow({"ab1": "x", "ab2": "y", "b": "z"}, "ab") == {"x", "y"}


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\xff", b"old_id,new_id\na\n", b"old_id,new_id\na,b,c\n", b"a,b\n"),
        b"old_id,new_id\n" + b"a" * 200_000,
    ],
    ids=lambda data: repr(data[:30]),
)
def test_a_damaged_table_is_refused(folder: Folder, data: bytes) -> None:
    folder.storage.put("ids.csv", data)
    with pytest.raises(StoreError) as caught:
        read_folder(folder)
    assert str(caught.value) == (
        f"{folder.path / 'ids.csv'}: found no table of old ids; expected CSV with the columns "
        "old_id, new_id; restore the file, or run `registry repair`, which keeps the lines that "
        "can be read"
    )


def test_of_a_conflict_in_git_both_sides_are_kept(folder: Folder) -> None:
    sides = [f"{digit * 32},{'f' * 32}\n" for digit in "abc"]
    text = f"old_id,new_id\n{sides[0]}<<<<<<< HEAD\n{sides[1]}=======\n{sides[2]}>>>>>>> b\n?\n"
    folder.storage.put("ids.csv", text.encode())
    (note,) = mend_renamed(folder)
    assert note == (
        f"{folder.path / 'ids.csv'}: found no table of old ids; kept 3 old ids, and left out 1 "
        "other lines; the file as it was moved to quarantine/ids.csv"
    )
    assert read_folder(folder) == {digit * 32: "f" * 32 for digit in "abc"}
    assert folder.storage.get("quarantine/ids.csv").decode() == text
    assert list(mend_renamed(folder)) == []
