"""Sorted ids of the rows of a part, for asking what is there without reading tables.

An id is 16 bytes: the leading digits of a hash. The file is their concatenation in ascending
order; a look-up is a bisection on the mapped file, so its cost hardly grows with the registry.
"""

from __future__ import annotations

import hashlib
import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from registry.store.folder import Folder
    from registry.store.manifest import Manifest

ID_BYTES = 16


def id_bytes(table: str, key: str) -> bytes:
    """Return the 16 bytes that stand for a row: of its hash, or of the hash of its slug."""
    if table == "sources":
        return hashlib.sha256(f"{table}:{key}".encode()).digest()[:ID_BYTES]
    return bytes.fromhex(key[: 2 * ID_BYTES])


def format_ids(ids: Iterable[bytes]) -> bytes:
    """Return the content of an id file."""
    return b"".join(sorted(set(ids)))


class IdFiles:
    """The id files of a manifest's parts, opened when first asked."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = list(paths)
        self._maps: list[tuple[bytes | mmap.mmap, int]] | None = None

    def contains(self, wanted: bytes) -> bool:
        """Tell whether some part holds the row."""
        return any(_bisect(data, count, wanted) for data, count in self._opened())

    def contains_each(self, wanted: npt.NDArray[np.bytes_]) -> npt.NDArray[np.bool_]:
        """Tell of each of many ids (``S16``) whether some part holds the row."""
        import numpy as np  # noqa: PLC0415 - heavy, only for whole tables

        found = np.zeros(len(wanted), dtype=np.bool_)
        for data, count in self._opened():
            if count:
                known = np.frombuffer(data, dtype=f"S{ID_BYTES}", count=count)
                places = np.minimum(np.searchsorted(known, wanted), count - 1)
                found |= known[places] == wanted
        return found

    def _opened(self) -> list[tuple[bytes | mmap.mmap, int]]:
        if self._maps is None:
            self._maps = [_map(path) for path in self._paths]
        return self._maps


def id_files(folder: Folder, manifest: Manifest) -> IdFiles:
    """Return the ids of all folded rows."""
    return IdFiles(folder.tables / part.ids for part in manifest.parts)


def _map(path: Path) -> tuple[bytes | mmap.mmap, int]:
    size = path.stat().st_size
    if size == 0:
        return b"", 0
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), size // ID_BYTES


def _bisect(data: bytes | mmap.mmap, count: int, wanted: bytes) -> bool:
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        found = data[middle * ID_BYTES : (middle + 1) * ID_BYTES]
        if found == wanted:
            return True
        if found < wanted:
            low = middle + 1
        else:
            high = middle
    return False
