"""Where the recorders in a command's processes leave their records until it ends."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "registry-run-"

#: The file by which a left-over folder says that its records were added.
_ADDED = "added"

#: A job that outlived us still writes: a record that grew this recently is not left over.
_STILL_SECONDS = 60.0


@contextmanager
def records_folder() -> Iterator[Path]:
    """Give a folder for records that is removed at the end; killed meanwhile, it stays.

    A lock, which ends with this process however it ends, says that the folder is in use.
    """
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            yield Path(name)
        finally:
            os.close(descriptor)


def note_added(folder: Path) -> None:
    """Have a folder that a killed run left named no more, as its records were added."""
    if folder.name.startswith(_PREFIX):
        with suppress(OSError):  # it is named again then
            (folder / _ADDED).touch()


def find_left_over() -> list[Path]:
    """Return this user's folders in which a killed run left records that were not added since."""
    folders = sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"))
    return [folder for folder in folders if _is_left_over(folder)]


def _is_left_over(folder: Path) -> bool:
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # another user's, or gone
        return False
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        files = [os.lstat(path) for path in folder.glob("record-*.json*")]
    except OSError:
        return False
    finally:
        os.close(descriptor)
    last = max((file.st_mtime for file in files if stat.S_ISREG(file.st_mode)), default=None)
    if last is None or time.time() - last <= _STILL_SECONDS:
        return False
    return _read_time(folder / _ADDED) <= last


def _read_time(path: Path) -> float:
    """Return when a file was changed; long ago where it is not there."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return float("-inf")
