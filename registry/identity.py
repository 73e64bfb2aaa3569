"""Content hashes: the same content has the same id, wherever and whenever it is handed in.

An id is SHA-256 over the row's text: for each column but the id itself, in the contract's order and
only where it is not null, the separator U+001F, the column's name, ``=`` and the value's text. The
contract forbids the separators in strings, so two rows never share a text. Leaving nulls out keeps
ids as they are when a nullable column is added. Floats enter by their bits, so that no formatting
of decimals can change an id. :mod:`registry.bulk_identity` computes the same ids for whole Arrow
tables.
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

#: Stands before each column in the text of a row; the contract forbids all three in strings.
COLUMN_SEPARATOR = "\x1f"

#: Stands between the items of a list.
ITEM_SEPARATOR = "\x1e"

#: Stands between the measurements of an observation.
ROW_SEPARATOR = "\x1d"

#: Orders the measurements of an observation, nulls last: their key without the observation.
FIGURE_KEY = ("metric", "statistic", "scope", "device_index", "kind")

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
    """Return the text of a row over which ids are computed; an empty list counts as null."""
    stated = (
        (column, value)
        for column in hashed_columns(table, without)
        if (value := row.get(column.name)) is not None and value != []
    )
    return "".join(
        f"{COLUMN_SEPARATOR}{column.name}={value_text(column, value)}" for column, value in stated
    )


@lru_cache(maxsize=32)
def hashed_columns(table: str, without: tuple[str, ...] = ()) -> tuple[Column, ...]:
    """Return the columns of a table that enter the text of a row."""
    return tuple(column for column in load_table(table).columns if column.name not in without)


def figures_hash(measurements: Iterable[Mapping[str, Any]]) -> str:
    """Return the hash of an observation's measurements, whatever their order."""
    without = ("observation_id",)
    texts = [
        row_text("measurements", row, without=without)
        for row in sorted(measurements, key=_figure_order)
    ]
    return hash_text(ROW_SEPARATOR.join(texts))


def _figure_order(row: Mapping[str, Any]) -> tuple[tuple[bool, Any], ...]:
    values = (row.get(name) for name in FIGURE_KEY)
    return tuple((value is None, 0 if value is None else value) for value in values)


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
