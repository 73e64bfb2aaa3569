"""Write a record in one piece or not at all, and read what others wrote; standard library only."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.errors import SourceError

if TYPE_CHECKING:
    from io import BufferedReader


#: Largest record that is read, in bytes: steps of about a million.
LARGEST_RECORD = 256 * 2**20


def write_json(path: str | Path, document: Any) -> None:
    """Write a JSON file under a temporary name, flush it and rename it into place."""
    path = Path(path)
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    descriptor, name = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def read_json(path: str | Path) -> Any:
    """Return the document in a file that somebody else wrote; None where it is missing or none."""
    try:
        return json.loads(read_bytes(Path(path), limit=LARGEST_RECORD, what="a record"))
    except (OSError, ValueError, RecursionError, SourceError):
        return None


def read_bytes(path: Path, *, limit: int, what: str) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes.

    ``what`` is what is expected there. Raises SourceError where it is longer, and as
    :func:`open_regular` does.
    """
    with open_regular(path, what=what) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise SourceError(f"{path}: longer than {limit} bytes; expected {what} below that")
    return data


def open_regular(path: Path, *, what: str) -> BufferedReader:
    """Open a regular file; a device or a pipe is refused before it is read: it may never end.

    Raises SourceError for these, and where the file cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = getattr(error, "strerror", None) or error
        raise SourceError(f"{path}: cannot be read: {reason}; expected {what}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SourceError(f"{path}: not a regular file; expected {what}")
    return os.fdopen(descriptor, "rb")
