"""Where the recorders in a command's processes leave their records until it ends."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.measure.record_files import read_json, write_json
from registry.measure.recording.progress import SUFFIX, is_growing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PREFIX = "registry-run-"

#: The file that holds what is known of the command beside what its processes record.
_RUN = "run.json"

#: The file by which a left-over folder says that its records were added.
_ADDED = "added"


@dataclass(frozen=True)
class LeftOver:
    """A folder that a killed run left; ``is_growing`` where its command still trains."""

    folder: Path
    is_growing: bool = False


@contextmanager
def records_folder(run: Mapping[str, str]) -> Iterator[Path]:
    """Give a folder for records that is removed at the end; killed meanwhile, it stays.

    What is known of the ``run`` is written there first. A lock, which ends with this process
    however it ends, says that the folder is in use.
    """
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            write_json(Path(name, _RUN), dict(run))
            yield Path(name)
        finally:
            os.close(descriptor)


def is_records_folder(folder: Path) -> bool:
    """Return whether a run left this folder."""
    return (folder / _RUN).is_file()


def read_run(folder: Path) -> dict[str, str]:
    """Return what was known of a run when it began; any process of it may have written it since."""
    said: Any = read_json(folder / _RUN)
    named = said.items() if isinstance(said, dict) else ()
    return {name: value for name, value in named if isinstance(value, str)}


def growing_files(folder: Path) -> list[Path]:
    """Return the files in a folder that grow, or grew, with a training."""
    return sorted(folder.glob(f"record-*{SUFFIX}"))


def note_added(folder: Path) -> None:
    """Have a folder that a killed run left named no more, as its records were added."""
    if folder.name.startswith(_PREFIX):
        with suppress(OSError):  # it is named again then
            (folder / _ADDED).touch()


def find_left_over() -> list[LeftOver]:
    """Return this user's folders in which a killed run left records that were not added since."""
    try:
        folders = sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"))
    except FileNotFoundError:  # no folder that may be written to, so that no run left anything
        return []
    return [
        LeftOver(folder, any(map(is_growing, growing_files(folder))))
        for folder in folders
        if _is_left_over(folder)
    ]


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
    return last is not None and _read_time(folder / _ADDED) <= last


def _read_time(path: Path) -> float:
    """Return when a file was changed; long ago where it is not there."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return float("-inf")
