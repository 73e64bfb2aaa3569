"""Commands that were measured, kept for ``registry rerun`` where nobody but their user reads them.

A command may hold secrets, and running it again executes it. So it is kept beside the user's own
data, outside of every registry: registries are copied, published and handed on, and what came with
one must never be executed.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import SourceError
from registry.measure.record_files import write_json
from registry.store.folder import user_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Largest file that is read: the system's limit for the arguments of a command is 2 MiB.
_LARGEST = 4 * 2**20

#: Permissions that anybody but the owner has.
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_DIGITS = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class KeptCommand:
    """A command, the folder it ran in, and which of its trainings an observation is (from 0)."""

    command: tuple[str, ...]
    folder: str
    training: int = 0


def kept_folder() -> Path:
    """Return the folder of the commands that this user measured on this machine."""
    return user_folder().with_name("commands")


def keep_command(observation_ids: Sequence[str], command: Sequence[str], folder: Path) -> None:
    """Keep a command for its observations, readable by this user alone. Raises OSError."""
    home = kept_folder()
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(stat.S_IRWXU)
    with suppress(FileExistsError), (home / ".gitignore").open("x", encoding="ascii") as file:
        file.write("*\n")  # of those who keep their home in git
    for training, identity in enumerate(observation_ids):
        kept = KeptCommand(tuple(command), str(folder), training)
        write_json(_path(identity), asdict(kept))  # with mode 0600, as any temporary file


def read_kept(observation_id: str) -> KeptCommand | None:
    """Return the command of an observation; None where this user kept none on this machine.

    Raises SourceError for a file that somebody else can write or read, or that holds no command.
    """
    path = _path(observation_id)
    try:
        text = _read_private(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = error.strerror or error
        raise SourceError(f"{path}: cannot be read: {reason}; expected a kept command") from None
    try:
        return _parse(json.loads(text))
    except (ValueError, RecursionError, LookupError, TypeError):
        raise SourceError(f"{path}: holds no command; expected one; remove the file") from None


def forget_command(observation_id: str) -> bool:
    """Erase the command of an observation; return whether there was one. Raises OSError."""
    try:
        _path(observation_id).unlink()
    except FileNotFoundError:
        return False
    return True


def _path(observation_id: str) -> Path:
    if not observation_id or not set(observation_id) <= _DIGITS:
        raise SourceError(f"found {observation_id!r}; expected the id of an observation")
    return kept_folder() / f"{observation_id}.json"


def _read_private(path: Path) -> bytes:
    _check_private(path.parent, path.parent.lstat(), others=stat.S_IWGRP | stat.S_IWOTH)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        _check_private(path, status, others=_OTHERS)
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(f"{path}: is not a regular file; expected a kept command; remove it")
        return file.read(_LARGEST)


def _check_private(path: Path, status: os.stat_result, *, others: int) -> None:
    if status.st_uid == os.geteuid() and not status.st_mode & others:
        return
    raise SourceError(
        f"{path}: found owner {status.st_uid} and mode {stat.S_IMODE(status.st_mode):o}; expected "
        "what only this user can write, because it would be executed; remove it"
    )


def _parse(document: Any) -> KeptCommand:
    command, folder, training = (document[name] for name in ("command", "folder", "training"))
    if not isinstance(command, list) or not command:
        raise TypeError
    if not all(isinstance(word, str) for word in (*command, folder)):
        raise TypeError
    if type(training) is not int or training < 0:
        raise TypeError
    return KeptCommand(tuple(command), folder, training)
