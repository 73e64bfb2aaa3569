"""Content hashes: the same content has the same id, wherever and whenever it is handed in.

An id is SHA-256 over the row's text: for each column but the id itself, in the contract's order and
only where it is not null, ``name=LENGTH:TEXT;`` with the length in bytes of UTF-8. Leaving nulls
out keeps ids as they are when a nullable column is added. Floats enter by their bits, so that no
formatting of decimals can change an id. :mod:`registry.bulk_identity` computes the same ids for
whole Arrow tables.
"""

from __future__ import annotations

import hashlib
import json
import struct
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from registry.contract import Column, load_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Hexadecimal digits of a row's id (128 bits).
ROW_ID_DIGITS = 32

#: Separates the items of a list; the contract forbids it in strings.
ITEM_SEPARATOR = "\x1e"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def canonical_json(document: Any) -> str:
    """Return the one canonical JSON text of a document: sorted keys, no white space.

    Raises ValueError on NaN and infinity.

    >>> canonical_json({"b": 1.0, "a": [True, None]})
    '{"a":[true,null],"b":1.0}'
    """
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def document_id(text: str) -> str:
    """Return the id of a canonical document: SHA-256, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def row_id(table: str, row: Mapping[str, Any]) -> str:
    """Return the id of a row of a table that is keyed by its content."""
    identity = load_table(table).identity
    return hash_text(row_text(table, row, without=(identity,) if identity else ()))


def row_text(table: str, row: Mapping[str, Any], *, without: tuple[str, ...] = ()) -> str:
    """Return the text of a row over which ids are computed."""
    parts = []
    for column in hashed_columns(table, without):
        value = row.get(column.name)
        if value is not None:
            text = value_text(column, value)
            parts.append(f"{column.name}={len(text.encode())}:{text};")
    return "".join(parts)


@lru_cache(maxsize=32)
def hashed_columns(table: str, without: tuple[str, ...] = ()) -> tuple[Column, ...]:
    """Return the columns of a table that enter the text of a row."""
    return tuple(column for column in load_table(table).columns if column.name not in without)


def figures_hash(measurements: Iterable[Mapping[str, Any]]) -> str:
    """Return the hash of an observation's measurements, whatever their order."""
    without = ("observation_id",)
    texts = sorted(row_text("measurements", row, without=without).encode() for row in measurements)
    return hashlib.sha256(b"\n".join(texts)).hexdigest()[:ROW_ID_DIGITS]


def hash_text(text: str) -> str:
    """Return the id of a row's text: the first 32 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:ROW_ID_DIGITS]


def value_text(column: Column, value: Any) -> str:
    """Return the text of one value: floats by their bits, timestamps in microseconds."""
    if column.type == "float64":
        return str(struct.unpack("<q", struct.pack("<d", float(value) + 0.0))[0])
    if column.type == "bool":
        return "true" if value else "false"
    if column.type == "timestamp":
        return str(timestamp_microseconds(value))
    if column.type == "list<string>":
        return ITEM_SEPARATOR.join(value)
    return str(value)


def timestamp_microseconds(value: datetime) -> int:
    """Return microseconds since 1970 (UTC) of an aware timestamp, exactly."""
    delta = value - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
