"""Read a file that somebody names: a regular one only, and only up to a stated size.

A name can lead to a device without end, to a pipe that nobody writes to, or to a file larger than
the memory. Every reader of foreign files goes through here, so that each of these ends at once.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from registry.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

#: Opening a pipe without it waits for a writer, and a terminal would become the process's own.
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY

_KINDS: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class ReadingError(SourceError):
    """A file or a stream cannot be read; ``reason`` says why, without its name ``origin``."""

    def __init__(self, origin: str, reason: str) -> None:
        self.origin = origin
        self.reason = reason
        super().__init__(f"{origin}: {reason}")


def read_bytes(path: Path, *, limit: int, what: str, follow_links: bool = True) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes.

    Raises ReadingError where it is longer, and as :func:`open_regular` does.
    """
    with open_regular(path, what=what, follow_links=follow_links) as file:
        return read_stream(file, limit=limit, what=what, origin=str(path))


def is_file(path: Path) -> bool:
    """Return whether there is a file, also for what no file can be called, as too long a name."""
    with suppress(OSError, ValueError):
        return path.is_file()
    return False


@contextmanager
def open_regular(path: Path, *, what: str, follow_links: bool = True) -> Iterator[BufferedReader]:
    """Open a regular file to read it.

    ``what`` names in messages what the file should hold: ``a mapping``. With ``follow_links``
    false, a file whose last part is a symbolic link is not opened.

    Raises:
        ReadingError: the file is missing, unreadable, a folder, a pipe or a device.
    """
    flags = _OPEN_FLAGS | (0 if follow_links else os.O_NOFOLLOW)
    try:
        with open(os.open(path, flags), "rb") as file:  # noqa: PTH123 - a path cannot take flags
            _validate_regular(file, str(path), what)
            yield file
    except (OSError, ValueError) as error:  # a NUL in the name is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise ReadingError(
            str(path), f"cannot be read: {reason}; expected a readable file"
        ) from error


def _validate_regular(file: BinaryIO, origin: str, what: str) -> None:
    kind = stat.S_IFMT(os.fstat(file.fileno()).st_mode)
    if kind != stat.S_IFREG:
        found = _KINDS.get(kind, "no regular file")
        raise ReadingError(
            origin, f"found {found}, expected {what} in a regular file; save it in one first"
        )


def read_stream(
    stream: BinaryIO, *, limit: int, what: str, origin: str = "standard input"
) -> bytes:
    """Return all that an open stream holds, at most ``limit`` bytes; raise ReadingError beyond."""
    data = stream.read(limit + 1) or b""  # None where a file that never blocks has nothing yet
    if len(data) > limit:
        raise ReadingError(
            origin, f"longer than {limit} bytes; expected {what} below that; split it"
        )
    return data


def read_text(path: Path, *, limit: int, what: str, follow_links: bool = True) -> str:
    """Return the UTF-8 text of a file, without its byte order mark, as :func:`read_bytes` reads."""
    data = read_bytes(path, limit=limit, what=what, follow_links=follow_links)
    return decode_text(data, origin=str(path))


def decode_text(data: bytes, *, origin: str) -> str:
    """Return UTF-8 text without its byte order mark; raise ReadingError where it is none."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadingError(
            origin,
            f"found byte 0x{error.object[error.start]:02x} at position {error.start}, expected "
            "text in UTF-8; save it in that encoding",
        ) from error


# Walk a folder that somebody else filled: it may be deep, large, or change meanwhile.

#: Most folders inside each other that are looked into.
DEEPEST: Final = 32


def walk_folder(
    folder: Path, left_out: list[Path], *, most: int | None = None
) -> Iterator[tuple[Path, list[str]]]:
    """Yield each folder in a folder, itself first, with the names of its files, in order.

    Links to folders are not followed, and names that begin with a dot are passed over. Folders that
    lie too deep, or behind the first ``most`` names, go to ``left_out`` and are not looked into.
    """
    n_seen = 0
    for place, folders, files in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        n_seen += len(folders) + len(files)
        is_deepest = len(here.parts) - len(folder.parts) >= DEEPEST
        if is_deepest or (most is not None and n_seen > most):
            left_out += (here / name for name in folders if not (here / name).is_symlink())
            folders.clear()
        yield here, sorted(name for name in files if not name.startswith("."))
