"""The lock of whoever rewrites tables: one at a time, and free as soon as its holder is gone."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from typing import TYPE_CHECKING

from registry.errors import StoreError
from registry.store.files import explained

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from registry.store.folder import Folder

LOCK = ".lock"
_POLL_SECONDS = 0.05
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextlib.contextmanager
def table_lock(folder: Folder, *, wait_seconds: float = 60.0) -> Iterator[float]:
    """Hold the registry's lock; yield the time by the clock of the folder's file system.

    The kernel holds the lock for the process: a killed holder leaves nothing stale behind. Raises
    StoreError where another process still holds it after ``wait_seconds``, or where a folder of the
    registry is a link.
    """
    path = folder.tables / LOCK
    folder.require_own()
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _open(path)
    try:
        _acquire(descriptor, str(path), time.monotonic() + wait_seconds)
        with explained(path):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        yield os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    other = StoreError(
        f"{path}: is not a regular file; expected the registry's lock; remove it and repeat the "
        "command"
    )
    try:
        descriptor = os.open(path, _OPEN, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link, which O_NOFOLLOW does not follow
            raise other from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise other
    return descriptor


def _acquire(descriptor: int, path: str, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
                raise StoreError(
                    f"{path}: another process (pid {holder}) is folding; expected it to finish in "
                    "time; wait for it, or end it, then repeat the command"
                ) from None
            time.sleep(_POLL_SECONDS)
        else:
            return
