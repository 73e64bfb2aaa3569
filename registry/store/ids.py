"""Sorted ids of the rows of a part, for look-ups without reading tables.

An id is 16 bytes: the leading digits of a hash. A file is their concatenation in ascending order;
a look-up is a bisection on the mapped file, so its cost hardly grows with the registry.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from itertools import chain
from typing import TYPE_CHECKING, Any

from registry.contract import load_table
from registry.errors import StoreError
from registry.store.files import require_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from pathlib import Path

ID_BYTES = 16

#: Fewest digits of an id that name it.
SHORTEST_PREFIX = 4

#: Largest id file whose content is hashed when it is opened; of larger ones the size is checked.
_LARGEST_HASHED = 2**20

#: Tables whose rows are looked up; measurements and samples go with their observation.
IDENTIFIED = (
    "models",
    "gpus",
    "sources",
    "environments",
    "configurations",
    "observations",
    "citations",
    "retractions",
    "submissions",
)

#: The retractions of observations whose content was removed have an id file of their own.
ERASED = "erased"

#: Tables whose key is a hash: its leading digits are the id.
_HASHED = ("environments", "configurations", "observations", "submissions")


def row_key(table: str, row: Mapping[str, Any]) -> bytes:
    """Return the 16 bytes that stand for a row."""
    key = [str(row[name]) for name in load_table(table).key]
    if table in _HASHED:
        return bytes.fromhex(key[0][: 2 * ID_BYTES])
    return hashlib.sha256("\x1f".join(key).encode()).digest()[:ID_BYTES]


def format_ids(table: str, rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the content of the id file of some rows."""
    return b"".join(sorted({row_key(table, row) for row in rows}))


class IdFile:
    """The sorted ids of one table of a part, mapped when first needed.

    Raises StoreError where the file is not as written: an answer would be wrong.
    """

    def __init__(self, path: Path, size: int, sha256: str, way_out: str) -> None:
        self._path = path
        self._size = size
        self._sha256 = sha256
        self._way_out = way_out
        self._data: bytes | mmap.mmap | None = None

    @property
    def data(self) -> bytes | mmap.mmap:
        """All ids, one after the other; raises StoreError where the file was cut or is gone."""
        if self._data is None:
            data = self._map()
            is_small = self._size <= _LARGEST_HASHED
            if len(data) != self._size or (
                is_small and hashlib.sha256(data).hexdigest() != self._sha256
            ):
                raise self._damaged("found content that differs from what was written")
            self._data = data
        return self._data

    def _map(self) -> bytes | mmap.mmap:
        try:
            require_regular(self._path)
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        except OSError as error:
            raise self._damaged(f"cannot be read ({error.strerror})") from None

    def _damaged(self, found: str) -> StoreError:
        return StoreError(f"{self._path}: {found}; {self._way_out}")

    def __len__(self) -> int:
        """Return the number of ids."""
        return len(self.data) // ID_BYTES

    def __getitem__(self, place: int) -> bytes:
        """Return one id."""
        return self.data[place * ID_BYTES : (place + 1) * ID_BYTES]

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the ids in order."""
        data = self.data
        return (data[place : place + ID_BYTES] for place in range(0, len(data), ID_BYTES))

    def __contains__(self, wanted: bytes) -> bool:
        """Return whether an id is among them."""
        data = self.data  # looked up once: this runs for each id of each part
        low, high = 0, len(data)
        while low < high:
            middle = (low + high) // (2 * ID_BYTES) * ID_BYTES
            if data[middle : middle + ID_BYTES] < wanted:
                low = middle + ID_BYTES
            else:
                high = middle
        return data[low : low + ID_BYTES] == wanted


class KnownIds:
    """The ids of the rows that some parts hold, by table."""

    def __init__(self, parts: Iterable[Callable[[str], IdFile | None]] = ()) -> None:
        self._parts = list(parts)
        self._files: dict[str, list[IdFile]] = {}

    def files(self, table: str) -> list[IdFile]:
        """Return the id files of a table."""
        if table not in self._files:
            found = (part(table) for part in self._parts)
            self._files[table] = [file for file in found if file is not None]
        return self._files[table]

    def keys(self, table: str) -> Iterator[bytes]:
        """Iterate over the ids of a table, part by part."""
        return chain.from_iterable(self.files(table))

    def contains(self, table: str, key: bytes) -> bool:
        """Return whether some part holds the row with this key."""
        return any(key in file for file in self.files(table))

    def select(self, table: str, wanted: Collection[bytes]) -> set[bytes]:
        """Return which of some ids of a table there are."""
        return {key for file in self.files(table) for key in _common(file, wanted)}

    def shared_with(self, other: KnownIds, table: str) -> list[bytes]:
        """Return the ids of a table that both hold."""
        return sorted(
            {key for a in self.files(table) for b in other.files(table) for key in _common(a, b)}
        )


def _common(first: IdFile | Collection[bytes], second: IdFile | Collection[bytes]) -> list[bytes]:
    small, large = sorted((first, second), key=len)
    return [key for key in small if key in large]
