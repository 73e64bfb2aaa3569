"""Write files so that they are there whole or not at all, also after a crash."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from typing import TYPE_CHECKING

from registry.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Beginning of the names of files that are not complete yet.
TEMPORARY_PREFIX = ".tmp-"


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file under a temporary name, flush it to the disk and rename it into place.

    The rename is the commit: readers see all of the file or none. Raises StoreError where the
    folder cannot be written; nothing is left behind then.
    """
    with explained(path):
        temporary = path.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
        try:
            _write_through(temporary, data)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def _write_through(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Flush a file's content to the disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Flush a folder's entries to the disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the operating system's errors of a write into a StoreError that says the way out."""
    try:
        yield
    except OSError as error:
        way_out = _WAYS_OUT.get(error.errno or 0, "name another folder with --registry")
        raise StoreError(
            f"{path}: cannot be written: {error.strerror or error}; nothing was recorded; {way_out}"
        ) from error


_WAYS_OUT = {
    errno.EACCES: "make the folder writable, or name another with --registry",
    errno.EPERM: "make the folder writable, or name another with --registry",
    errno.EROFS: "the disk is mounted read-only; name another folder with --registry",
    errno.ENOSPC: "free space on the disk, then repeat the command",
    errno.EDQUOT: "free space within your quota, then repeat the command",
    errno.ENOENT: "the folder is gone; create it with `registry init`",
}
