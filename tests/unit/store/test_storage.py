"""The storage: a file is there whole or not at all, and what is no regular file is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from registry.errors import StoreError
from registry.store import storage as storage_module
from registry.store.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable

MOVE_IT = (
    "expected a regular file that the registry wrote; move it away, then run `registry repair`"
)


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "r")


def names(storage: LocalStorage) -> list[str]:
    """Return all files below the folder, temporary ones included."""
    paths = (path for path in storage.root.rglob("*") if not path.is_dir())
    return sorted(path.relative_to(storage.root).as_posix() for path in paths)


def test_what_is_put_is_read_back_and_replaced(storage: LocalStorage) -> None:
    storage.put("a/b/x.json", b"one")
    storage.put("a/b/x.json", b"two")
    assert storage.get("a/b/x.json") == b"two"
    assert names(storage) == ["a/b/x.json"]
    assert storage.path("a/b/x.json").stat().st_mode & 0o777 == 0o644 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_put_if_absent_leaves_what_is_there(storage: LocalStorage) -> None:
    assert storage.put_if_absent("x.json", b"one") is True
    assert storage.put_if_absent("x.json", b"two") is False
    assert storage.get("x.json") == b"one"
    assert names(storage) == ["x.json"]


def test_a_batch_that_is_not_committed_leaves_nothing(storage: LocalStorage) -> None:
    with storage.writing() as batch:
        batch.add("x.json", b"one")
        batch.add("y.json", b"two")
    assert names(storage) == []


def test_a_commit_counts_what_it_wrote(storage: LocalStorage) -> None:
    storage.put("x.json", b"one")
    with storage.writing() as batch:
        assert batch.commit() == 0
        batch.add("x.json", b"two")
        batch.add("y.json", b"two")
        assert batch.commit(replace=False) == 1
        assert batch.commit() == 0
        batch.add("x.json", b"three")
        assert batch.commit() == 1
    assert (storage.get("x.json"), storage.get("y.json")) == (b"three", b"two")


def test_a_list_is_sorted_and_without_temporary_files(storage: LocalStorage) -> None:
    for name in ("b", "c", "a", ".tmp-1", ".lock"):
        storage.put(f"journal/{name}", b"")
    assert storage.list("journal") == [".lock", "a", "b", "c"]
    assert storage.list("tables") == []
    assert storage.list("journal/a") == []


def test_deleting_what_is_not_there_changes_nothing(storage: LocalStorage) -> None:
    storage.put("x.json", b"one")
    storage.delete("y.json")
    storage.delete("x.json")
    assert names(storage) == []


def test_a_file_moves_aside_under_a_free_name(storage: LocalStorage) -> None:
    places = []
    for number in range(3):
        storage.put("journal/x.json", b"%d" % number)
        places.append(storage.move_aside("journal/x.json", "quarantine"))
    expected = ["quarantine/x.json", "quarantine/x.json.2", "quarantine/x.json.3"]
    assert places == expected
    assert [storage.get(place) for place in places] == [b"0", b"1", b"2"]
    assert names(storage) == expected


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (lambda path: path.symlink_to("y.json"), "Too many levels of symbolic links"),
        (os.mkfifo, "not a regular file"),
        (os.mkdir, "not a regular file"),
    ],
)
def test_what_is_no_regular_file_is_refused(
    storage: LocalStorage, plant: Callable[[Path], object], found: str
) -> None:
    storage.put("y.json", b"one")
    plant(storage.path("x.json"))
    with pytest.raises(StoreError) as caught:
        storage.get("x.json")
    assert str(caught.value) == f"{storage.path('x.json')}: found {found}; {MOVE_IT}"


def test_a_file_that_is_too_large_is_refused(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert storage_module.LARGEST_READ == 512 * 1024 * 1024
    monkeypatch.setattr(storage_module, "LARGEST_READ", 3)
    storage.put("x.json", b"123")
    assert storage.get("x.json") == b"123"
    storage.put("x.json", b"1234")
    with pytest.raises(StoreError) as caught:
        storage.get("x.json")
    assert str(caught.value) == f"{storage.path('x.json')}: found 4 bytes long; {MOVE_IT}"


def test_a_missing_file_is_another_error(storage: LocalStorage) -> None:
    with pytest.raises(FileNotFoundError):
        storage.get("x.json")


def test_what_cannot_be_written_is_named(storage: LocalStorage) -> None:
    storage.put("journal", b"a file where the folder should be")
    with pytest.raises(StoreError) as caught:
        storage.put("journal/x.json", b"one")
    assert str(caught.value) == (
        f"{storage.path('journal/x.json')}: cannot be written: Not a directory; nothing was "
        "recorded; name another folder with --registry"
    )


def test_a_write_in_pieces_is_whole(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:2]))
    storage.put("x.json", b"12345")
    assert storage.get("x.json") == b"12345"


def test_contents_and_folders_are_flushed_before_a_commit_ends(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink().name[:5])
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    with storage.writing() as batch:
        batch.add("a/x.json", b"one")
        batch.add("a/y.json", b"one")
        batch.add("b/x.json", b"one")
        batch.commit()
    assert flushed == [".tmp-", ".tmp-", ".tmp-", "a", "b"]


def test_a_commit_that_fails_names_the_first_file(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_source: object, _target: object) -> None:
        raise OSError(28, os.strerror(28))

    with storage.writing() as batch:
        batch.add("x.json", b"one")
        batch.add("y.json", b"two")
        monkeypatch.setattr(os, "replace", refuse)
        with pytest.raises(StoreError) as caught:
            batch.commit()
    assert str(caught.value).startswith(f"{storage.path('x.json')}: cannot be written: No space ")
    assert names(storage) == []
