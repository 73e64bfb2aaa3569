"""How a registry reaches its folder: put if absent, put, get, list, delete.

Everything the store writes goes through here, so another kind of storage is one more class.
A file is complete or absent, even after a crash: it is written under a temporary name,
flushed to the disk, and then given its own name.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from registry.errors import StoreError
from registry.store.files import TEMPORARY_PREFIX, explained, sync_folder, temporary_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: Largest file that is read whole: a journal entry, a manifest, the ids of a part.
LARGEST_READ = 512 * 2**20

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """The files below a folder, named by their paths relative to it, such as ``journal/x.json``."""

    root: Path

    @property
    def writer(self) -> str | None:
        """A word that marks what one writer made, where no lock keeps writers apart."""
        return None

    def path(self, name: str) -> Path:
        """Return where a file lies, for engines that read it themselves."""
        return self.root / name

    def get(self, name: str) -> bytes:
        """Return the content of a regular file.

        Raises FileNotFoundError where there is none, StoreError where it is not a regular file (a
        link, a pipe, a device) or too large to be read.
        """
        try:
            descriptor = os.open(f"{self.root}/{name}", _READ)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _not_regular(self.path(name), error.strerror or str(error)) from None
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise _not_regular(self.path(name), "not a regular file")
        with os.fdopen(descriptor, "rb") as file:
            if status.st_size > LARGEST_READ:
                raise _not_regular(self.path(name), f"{status.st_size} bytes long")
            return file.read()

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a file unless one of its name is there; return whether it was written."""
        with self.writing() as batch:
            batch.add(name, data)
            return batch.commit(replace=False) == 1

    def put(self, name: str, data: bytes) -> None:
        """Write a file, in place of one of its name."""
        with self.writing() as batch:
            batch.add(name, data)
            batch.commit()

    def writing(self) -> Batch:
        """Return a batch of files that get their names together."""
        return Batch(self)

    def list(self, folder: str) -> list[str]:
        """Return the names of what lies in a folder, sorted; temporary files are left out."""
        try:
            with os.scandir(f"{self.root}/{folder}") as entries:
                names = [entry.name for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(name for name in names if not name.startswith(TEMPORARY_PREFIX))

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.root / name).unlink(missing_ok=True)

    def move_aside(self, name: str, folder: str) -> str:
        """Move a file to another folder, under a name that is free there; return where it is."""
        there = set(self.list(folder))
        plain = name.rpartition("/")[2]
        free = plain
        number = 1
        while free in there:
            number += 1
            free = f"{plain}.{number}"
        path = self.root / folder / free
        path.parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).rename(path)
        sync_folder(path.parent)
        return f"{folder}/{free}"


class Batch:
    """Files that are all on disk before the first of them gets its name."""

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage
        self._files: list[tuple[Path, Path]] = []

    def __enter__(self) -> Self:
        """Return the batch itself."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Remove what was not committed."""
        for temporary, _ in self._files:
            with contextlib.suppress(OSError):  # on a read-only disk there is none, nor a way
                temporary.unlink()

    def add(self, name: str, data: bytes) -> None:
        """Write a file under a temporary name, flushed to the disk. Raises StoreError."""
        path = self._storage.root / name
        folder = path.parent
        temporary = folder / temporary_name()
        with explained(path):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(parents=True)
            self._files.append((temporary, path))
            _write_through(temporary, data)

    def commit(self, *, replace: bool = True) -> int:
        """Give the files their names; return how many were not there, or were replaced."""
        if not self._files:
            return 0
        with explained(self._files[0][1]):
            written = sum(_name(*pair, replace=replace) for pair in self._files)
            for folder in _folders(named for _, named in self._files):
                sync_folder(folder)
        self._files.clear()
        return written


def _name(temporary: Path, path: Path, *, replace: bool) -> bool:
    if replace:
        temporary.replace(path)
        return True
    try:
        os.link(temporary, path, follow_symlinks=False)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _folders(paths: Iterable[Path]) -> list[Path]:
    return list(dict.fromkeys(path.parent for path in paths))


def _write_through(path: Path, data: bytes) -> None:
    descriptor = os.open(path, _WRITE, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _not_regular(path: Path, found: str) -> StoreError:
    return StoreError(
        f"{path}: found {found}; expected a regular file that the registry wrote; move it away, "
        "then run `registry repair`"
    )
