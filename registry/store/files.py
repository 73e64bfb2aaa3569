"""Write files so that they are complete or absent, even after a crash."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from registry.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Beginning of the names of files that are not complete yet.
TEMPORARY_PREFIX = ".tmp-"


def temporary_name() -> str:
    """Return a name that no other process uses, for a file or folder that is not complete yet."""
    return f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}"


def sync_folder(path: Path) -> None:
    """Flush a folder's entries to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def require_regular(path: Path) -> None:
    """Raise StoreError where an existing file is no regular one: a pipe would never end."""
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        raise StoreError(
            f"{path}: found no regular file; expected one that the registry wrote; run "
            "`registry repair`"
        )


def for_engine(path: Path) -> Path:
    """Return a path as pyarrow and DuckDB take it: absolute, links as they are.

    Of a relative one they take ``run:1`` for an address, and ``~x`` for a home.
    """
    return path.absolute()


def is_free(target: Path) -> bool:
    """Return whether there is nothing at ``target``, or an empty folder, as ``git init`` makes."""
    if not target.exists() and not target.is_symlink():
        return True
    return target.is_dir() and not any(_is_complete(path) for path in target.iterdir())


def require_free(target: Path) -> None:
    """Raise StoreError where something is at ``target`` that is not an empty folder."""
    if not is_free(target):
        raise StoreError(
            f"{target}: found something there already; expected no such folder, or an empty one; "
            "name another, or remove it"
        )


def _is_complete(path: Path) -> bool:
    return not path.name.startswith(TEMPORARY_PREFIX) and path.name != ".git"


@contextlib.contextmanager
def filled_folder(target: Path, *, last: str) -> Iterator[Path]:
    """Yield a folder to fill, which becomes ``target`` when it is complete.

    A new folder appears by one rename. Into an empty one that is there (a shell may stand in it)
    the entries move one by one, ``last`` after the others. Raises StoreError where the place cannot
    be written; nothing is left behind then.
    """
    import shutil  # noqa: PLC0415 - not needed to add, which must start fast

    place = target.absolute()
    home = place if place.is_dir() else place.parent
    with explained_output(target):
        home.mkdir(parents=True, exist_ok=True)
        temporary = home / temporary_name()
        temporary.mkdir()
        try:
            yield temporary
            sync_folder(temporary)
            _move_in(temporary, place, last)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        sync_folder(home)


def _move_in(temporary: Path, place: Path, last: str) -> None:
    if not place.exists():
        temporary.replace(place)
        return
    for path in sorted(temporary.iterdir(), key=lambda path: path.name == last):
        path.replace(place / path.name)


def is_full(error: BaseException | None) -> bool:
    """Return whether an error of the operating system says that a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the operating system's write errors into a StoreError that names the way out."""
    with _explained(path, "nothing was recorded", _WAYS_OUT, "name another folder with --registry"):
        yield


@contextlib.contextmanager
def explained_output(path: Path) -> Iterator[None]:
    """Do the same for a file or folder that the user named for a result."""
    with _explained(path, "nothing was written", _OUTPUT_WAYS_OUT, "name another place"):
        yield


@contextlib.contextmanager
def _explained(
    path: Path, consequence: str, ways_out: dict[int, str], otherwise: str
) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        way_out = ways_out.get(error.errno or 0, otherwise)
        raise StoreError(
            f"{path}: cannot be written: {error.strerror or error}; {consequence}; {way_out}"
        ) from error


_WAYS_OUT = {
    errno.EACCES: "make the folder writable, or name another with --registry",
    errno.EPERM: "make the folder writable, or name another with --registry",
    errno.EROFS: "the disk is mounted read-only; name another folder with --registry",
    errno.ENOSPC: "free space on the disk, then repeat the command",
    errno.EDQUOT: "free space within your quota, then repeat the command",
    errno.ENOENT: "the folder is gone; create it with `registry init`",
}

_OUTPUT_WAYS_OUT = {
    errno.EACCES: "make its folder writable, or name another place",
    errno.EPERM: "make its folder writable, or name another place",
    errno.EROFS: "the disk is mounted read-only; name another place",
    errno.ENOSPC: "free space on the disk, then repeat the command",
    errno.EDQUOT: "free space within your quota, then repeat the command",
    errno.ENOENT: "create its folder first, or name another place",
}
