"""The ids of :mod:`registry.identity`, for whole Arrow tables at once.

Texts are joined by Arrow's kernels, in slices of rows so that the texts of a large table are never
in memory together; only SHA-256 itself is called row by row, from C.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from registry.bulk_order import is_sorted
from registry.contract import Column, load_table
from registry.identity import (
    COLUMN_SEPARATOR,
    FIGURE_KEY,
    ITEM_SEPARATOR,
    ROW_ID_DIGITS,
    ROW_SEPARATOR,
    hashed_columns,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Index = npt.NDArray[np.int64]

#: Rows whose texts are in memory together: few, so that they stay in the processor's cache.
SLICE_ROWS = 8_192

#: Marks a row that hangs on none of the observations at hand.
NO_OBSERVATION = -1


def row_ids(name: str, table: pa.Table) -> pa.Array:
    """Return the id of each row of a table that is keyed by its content."""
    identity = load_table(name).identity
    without = (identity,) if identity else ()
    return _concat(hash_texts(row_texts(name, piece, without)) for piece in _slices(table))


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, SLICE_ROWS):
        yield table.slice(start, SLICE_ROWS)


def _concat(pieces: Iterator[pa.Array]) -> pa.Array:
    return pa.concat_arrays([pa.array([], pa.string()), *pieces])


def row_texts(name: str, table: pa.Table, without: tuple[str, ...] = ()) -> pa.Array:
    """Return the texts over which the ids of the rows are computed."""
    pieces: list[pa.Array | str] = []
    for column in hashed_columns(name, without):
        values = combined(table.column(column.name))
        if values.null_count < len(values):
            pieces += _named(column, value_texts(column, values))
    if not pieces:
        return pa.array([""] * table.num_rows, pa.string())
    return pc.binary_join_element_wise(*pieces, "")


def _named(column: Column, texts: pa.Array) -> list[pa.Array | str]:
    """Return texts with the column's name before them, empty where there is none.

    Where some are null, naming them first is several times faster than one join that skips nulls.
    """
    name = f"{COLUMN_SEPARATOR}{column.name}="
    if not texts.null_count:
        return [name, texts]
    return [pc.fill_null(pc.binary_join_element_wise(name, texts, ""), "")]


def combined(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def value_texts(column: Column, values: pa.Array) -> pa.Array:
    """Return the text of each value of a column, null where there is none."""
    if column.type == "float64":
        bits = pc.add(values, 0.0).view(pa.int64())
        return bits.cast(pa.string())
    if column.type == "timestamp":
        return values.cast(pa.int64()).cast(pa.string())
    if column.type == "list<string>":
        joined = pc.binary_join(values, ITEM_SEPARATOR)
        has_items = pc.greater(pc.list_value_length(values), 0)
        return pc.if_else(has_items, joined, pa.scalar(None, pa.string()))
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def hash_texts(texts: pa.Array) -> pa.Array:
    """Return the leading digits of the SHA-256 of each text, as ids are written."""
    sha256 = hashlib.sha256
    width = ROW_ID_DIGITS // 2
    digests = [sha256(text).digest()[:width] for text in texts.cast(pa.binary()).to_pylist()]
    return format_hex(b"".join(digests), len(digests))


def format_hex(data: bytes, count: int) -> pa.Array:
    """Return ``count`` ids that lie side by side in ``data`` as hexadecimal text."""
    digits = data.hex().encode()
    offsets = np.arange(count + 1, dtype=np.int32) * ROW_ID_DIGITS
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(digits))


def figures_hashes(
    observation_ids: pa.Array, measurements: pa.Table, index: Index | None = None
) -> pa.Array:
    """Return the hash of each observation's measurements; others are left out.

    ``index`` is the :func:`observation_index` of the measurements, where it is known already.
    """
    if index is None:
        index = observation_index(observation_ids, measurements)
    index, ordered = order_figures(index, measurements)
    bounds = np.searchsorted(index, np.arange(len(observation_ids) + 1))
    return _concat(_hash_groups(ordered, bounds))


def _hash_groups(measurements: pa.Table, bounds: npt.NDArray[np.int64]) -> Iterator[pa.Array]:
    for start in range(0, len(bounds) - 1, SLICE_ROWS):
        part = bounds[start : start + SLICE_ROWS + 1]
        rows = measurements.slice(part[0], part[-1] - part[0])
        texts = row_texts("measurements", rows, ("observation_id",))
        offsets = pa.array((part - part[0]).astype(np.int32))
        yield hash_texts(pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ROW_SEPARATOR))


def observation_index(observation_ids: pa.Array, children: pa.Table) -> Index:
    """Return the position of each child's observation among the ids, NO_OBSERVATION for none."""
    ids = children.column("observation_id")
    if not len(ids):
        return np.zeros(0, dtype=np.int64)
    runs = pc.run_end_encode(combined(ids))
    found = pc.index_in(runs.values, value_set=observation_ids)
    positions = pc.fill_null(found, NO_OBSERVATION).to_numpy(zero_copy_only=False)
    lengths = np.diff(runs.run_ends.to_numpy(), prepend=0)
    return np.repeat(positions.astype(np.int64), lengths)


def order_figures(
    index: npt.NDArray[np.int64], measurements: pa.Table
) -> tuple[npt.NDArray[np.int64], pa.Table]:
    """Return measurements, and their positions, by observation and key."""
    keyed = measurements.append_column("index", pa.array(index))
    columns = ("index", *FIGURE_KEY)
    if not is_sorted(keyed, columns):
        keyed = keyed.sort_by([(name, "ascending") for name in columns])
    ordered: npt.NDArray[np.int64] = keyed.column("index").to_numpy()
    return ordered, keyed.drop_columns(["index"])
