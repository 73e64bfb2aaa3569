"""What the contract promises of a column's values, as functions of whole Arrow columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from registry.contract import Column, load_metrics, load_table, vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]

#: Bytes of UTF-8 that no text may hold; tab and line ends are allowed.
_FIRST_PRINTABLE = 32
_CONTROL = np.array([code not in (9, 10, 13) for code in range(_FIRST_PRINTABLE)])
_CONTROL_PATTERN = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise about a column: what is expected, and which values keep it (null keeps it)."""

    name: str
    expected: str
    kept: Callable[[pa.Array], Mask]


@lru_cache(maxsize=512)
def column_promises(column: Column) -> tuple[Promise, ...]:
    """Return what the contract promises of the values of a column."""
    promises = []
    if column.type == "list<string>":
        promises.append(Promise("items", "distinct items, sorted, at least one", _items_in_order))
    if column.type == "float64":
        promises.append(Promise("finite", "a finite number", _is_finite))
    if column.type == "json":
        promises.append(Promise("json", "the text of a JSON object", _is_json_object))
    if column.type in ("string", "json", "list<string>"):
        expected = "text without control characters"
        promises.append(Promise("control", expected, _on_items(_has_no_control)))
    return (*promises, *_ranges(column), *_texts(column))


def _ranges(column: Column) -> list[Promise]:
    promises = []
    if column.min is not None:
        promises.append(Promise("min", f"at least {column.min}", _compared("less", column.min)))
    if column.max is not None:
        promises.append(Promise("max", f"at most {column.max}", _compared("greater", column.max)))
    return promises


def _texts(column: Column) -> list[Promise]:
    promises = []
    if column.vocabulary:
        known = pa.array(list(vocabulary(column.vocabulary)), pa.string())
        expected = f"one of {', '.join(known.to_pylist())}"
        promises.append(Promise("vocabulary", expected, _on_items(_is_in(known))))
    if column.pattern:
        expected = f"text that matches {column.pattern}"
        promises.append(Promise("pattern", expected, _on_items(_matches(column.pattern))))
    return promises


def truth(mask: Any, *, unknown: bool) -> Mask:
    """Return an Arrow mask as numpy, with ``unknown`` where it is null."""
    filled = pc.fill_null(mask, unknown) if mask.null_count else mask
    values: Mask = filled.to_numpy(zero_copy_only=False)
    return values.astype(np.bool_, copy=False)


def _compared(broken_if: str, bound: float) -> Callable[[pa.Array], Mask]:
    def kept(values: pa.Array) -> Mask:
        limit = pa.scalar(bound).cast(values.type) if float(bound).is_integer() else bound
        return ~truth(pc.call_function(broken_if, [values, limit]), unknown=False)

    return kept


def _is_finite(values: pa.Array) -> Mask:
    return truth(pc.is_finite(values), unknown=True)


def _is_in(known: pa.Array) -> Callable[[pa.Array], Mask]:
    def kept(values: pa.Array) -> Mask:
        return truth(pc.is_in(values, value_set=known), unknown=False) | is_null(values)

    return kept


def _matches(pattern: str) -> Callable[[pa.Array], Mask]:
    def kept(values: pa.Array) -> Mask:
        return truth(pc.match_substring_regex(values, f"^(?:{pattern})$"), unknown=True)

    return kept


def is_null(values: pa.Array) -> Mask:
    """Tell of each value whether it is null."""
    if not values.null_count:
        return np.zeros(len(values), dtype=np.bool_)
    return truth(pc.is_null(values), unknown=False)


def _has_no_control(values: pa.Array) -> Mask:
    """Look at the bytes of all texts together; only where some is forbidden, at each text."""
    data = text_bytes(values)
    low = data[data < _FIRST_PRINTABLE]
    if not _CONTROL[low].any():
        return np.ones(len(values), dtype=np.bool_)
    return ~truth(pc.match_substring_regex(values, _CONTROL_PATTERN), unknown=False)


def text_bytes(values: pa.Array) -> npt.NDArray[np.uint8]:
    """Return the bytes of all texts of an array, side by side, without copying."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return np.zeros(0, dtype=np.uint8)
    bounds = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    return np.frombuffer(data, dtype=np.uint8)[bounds[0] : bounds[-1]]


def _is_json_object(values: pa.Array) -> Mask:
    import duckdb  # noqa: PLC0415 - heavy, and only where JSON is stated

    if values.null_count == len(values):
        return np.ones(len(values), dtype=np.bool_)
    texts = pa.table({"text": values})
    with duckdb.connect(":memory:") as connection:
        connection.register("texts", texts)
        sql = (
            "select case when json_valid(text) then json_type(text) = 'OBJECT' else false end "
            "from texts"
        )
        kept = connection.execute(sql).to_arrow_table().column(0)
    return truth(kept, unknown=True) | is_null(values)


def _items_in_order(lists: pa.Array) -> Mask:
    items, rows = _items(lists)
    kept = ~truth(pc.equal(pc.list_value_length(lists), 0), unknown=False)
    kept[rows[is_null(items)]] = False
    after, before = items[1:], items[:-1]
    together = rows[1:] == rows[:-1]
    unordered = truth(pc.less_equal(after, before), unknown=False) & together
    kept[rows[1:][unordered]] = False
    return kept


def _items(lists: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the items of all lists, and the row of each."""
    rows: npt.NDArray[np.int64] = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    return pc.list_flatten(lists), rows


def _on_items(kept: Callable[[pa.Array], Mask]) -> Callable[[pa.Array], Mask]:
    """Return a function that asks the same of each item where the values are lists."""

    def kept_by_items(values: pa.Array) -> Mask:
        if not pa.types.is_list(values.type):
            return kept(values)
        items, rows = _items(values)
        result = np.ones(len(values), dtype=np.bool_)
        result[rows[~kept(items)]] = False
        return result

    return kept_by_items


def metric_range_kept(metrics: pa.Array, values: pa.Array) -> Mask:
    """Tell of each figure whether its value lies in the range of its metric."""
    known = load_metrics()
    index = pc.fill_null(pc.index_in(metrics, value_set=pa.array(known)), len(known)).to_numpy()
    low = np.array([-np.inf if m.min is None else m.min for m in known.values()] + [-np.inf])
    high = np.array([np.inf if m.max is None else m.max for m in known.values()] + [np.inf])
    figures = values.to_numpy(zero_copy_only=False)
    kept: Mask = ~((figures < low[index]) | (figures > high[index]))
    return kept


@lru_cache(maxsize=16)
def table_promises(name: str) -> tuple[tuple[Column, tuple[Promise, ...]], ...]:
    """Return the columns of a table, each with what the contract promises of its values."""
    return tuple((column, column_promises(column)) for column in load_table(name).columns)
