"""Validate whole tables with pandera schemas that are derived from the contract.

They check types, nullability, words, ranges, patterns and keys, all problems at once; what they
find is put in the user's words: table, row, column, found, expected.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import pandas as pd
import pandera.pandas as pandera
from pandera.errors import SchemaErrors

from registry.contract.tables import (
    FORBIDDEN_CHARACTERS,
    LARGEST_INTEGER,
    LONGEST_JSON,
    MOST_WORDS,
    TABLES,
    load_metrics,
    load_table,
    vocabulary,
)
from registry.errors import excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from registry.contract.tables import Column

_PLAIN_TEXT = re.compile(f"[^{FORBIDDEN_CHARACTERS}]*")

#: Most rows that are named for breaking one rule.
MOST_NAMED = 20

_DTYPES = {
    "int64": "Int64",
    "float64": "Float64",
    "bool": "boolean",
    "timestamp": pd.DatetimeTZDtype("us", "UTC"),
}

#: What a column's values may be as pandas infers it; text is never read as a number or a time.
#: NumPy has no null integers: whole floats are taken for them.
_NUMBERS = ("integer", "floating", "mixed-integer-float")
_INFERRED = {
    "int64": _NUMBERS,
    "float64": _NUMBERS,
    "bool": ("boolean",),
    "timestamp": ("datetime64", "datetime"),
}


@lru_cache(maxsize=2 * len(TABLES))
def frame_schema(name: str, stated: tuple[Column, ...] | None = None) -> pandera.DataFrameSchema:
    """Return the pandera schema of a table, derived from the contract.

    Integers, floats and booleans are pandas' nullable dtypes, times are in UTC; texts, JSON and
    lists are Python objects. ``stated`` are the table's columns where something else is asked of
    them than of rows that the registry made.
    """
    table = load_table(name)
    columns = {column.name: _column_schema(column) for column in stated or table.columns}
    checks = []
    if name == "measurements":
        checks.append(_check(_in_metric_range, "a value in the range of the metric"))
    return pandera.DataFrameSchema(
        columns, checks=checks, unique=list(table.key), strict=True, name=name
    )


def _column_schema(column: Column) -> pandera.Column:
    return pandera.Column(
        _DTYPES.get(column.type),
        checks=list(_column_checks(column)),
        nullable=not column.required,
        coerce=False,
    )


def _column_checks(column: Column) -> Iterator[pandera.Check]:
    match column.type:
        case "int64" | "float64":
            yield from _range_checks(column)
        case "timestamp":
            years = partial(_year_within, column.min or 1, column.max or 9999)
            yield _check(years, f"a year from {column.min} to {column.max}", element_wise=True)
        case "json":
            yield _check(_is_json_object, "a JSON object", element_wise=True)
        case "string":
            kept, expected = _text_rule(column)
            yield _check(kept, expected, element_wise=True)
        case "list<string>":
            kept, expected = _text_rule(column)
            expected = f"a sorted list of {expected}"
            yield _check(partial(_all_in_order, kept), expected, element_wise=True)


def _check(kept: Callable[..., Any], expected: str, **options: Any) -> pandera.Check:
    return pandera.Check(kept, error=expected, **options)


def _range_checks(column: Column) -> Iterator[pandera.Check]:
    low, high = column.min, column.max
    if column.type == "int64" and high is None:
        high = LARGEST_INTEGER
    if column.type == "float64":
        yield _check(lambda values: ~values.isin([float("inf"), float("-inf")]), "a finite number")
    if low is not None:
        yield pandera.Check.ge(low, error=f"at least {low}")
    if high is not None:
        yield pandera.Check.le(high, error=f"at most {high}")


def _text_rule(column: Column) -> tuple[Callable[[Any], bool], str]:
    """Return whether a text is what the contract asks for, and the words for that."""
    if column.vocabulary:
        words = frozenset(vocabulary(column.vocabulary))
        return words.__contains__, f"one of {', '.join(vocabulary(column.vocabulary))}"
    pattern = re.compile(column.pattern) if column.pattern else _PLAIN_TEXT
    expected = f"text that matches {column.pattern}" if column.pattern else "text"
    longest = column.max_length

    def kept(text: Any) -> bool:
        return isinstance(text, str) and len(text) <= longest and bool(pattern.fullmatch(text))

    return kept, expected


def _all_in_order(kept: Callable[[Any], bool], items: Any) -> bool:
    words = list(items) if pd.api.types.is_list_like(items) else []
    return 0 < len(words) <= MOST_WORDS and all(map(kept, words)) and words == sorted(set(words))


def _year_within(low: float, high: float, time: Any) -> bool:
    return bool(low <= time.year <= high)


def _is_json_object(text: Any) -> bool:
    if not isinstance(text, str) or len(text) > LONGEST_JSON or not _PLAIN_TEXT.fullmatch(text):
        return False
    try:
        return isinstance(json.loads(text, parse_constant=_refuse_constant), dict)
    except (ValueError, RecursionError):
        return False


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _in_metric_range(frame: pd.DataFrame) -> pd.Series[bool]:
    metrics = load_metrics()
    low = frame["metric"].map({name: metric.min for name, metric in metrics.items()})
    high = frame["metric"].map({name: metric.max for name, metric in metrics.items()})
    figures = frame[["value", "low", "high"]]
    below = figures.lt(low.astype("Float64"), axis=0).fillna(value=False)
    above = figures.gt(high.astype("Float64"), axis=0).fillna(value=False)
    return ~(below | above).any(axis=1)


def conform_frame(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the contract's dtypes, and its missing columns as nulls.

    Values that do not fit their dtype stay as they are, for the validation to name.
    """
    conformed = frame.reset_index(drop=True).copy()
    for column in load_table(name).columns:
        if column.name not in conformed:
            conformed[column.name] = None
        conformed[column.name] = _conform_column(column, conformed[column.name])
    return conformed


def _conform_column(column: Column, values: pd.Series[Any]) -> pd.Series[Any]:
    dtype = _DTYPES.get(column.type)
    if dtype is None:
        texts = values.astype("object")
        return texts.mask(texts.isna(), None)
    values = values.infer_objects()
    kind = pd.api.types.infer_dtype(values, skipna=True)
    if kind not in (*_INFERRED[column.type], "empty"):
        return values
    if kind == "datetime" and any(time.tzinfo is None for time in values.dropna()):
        return values  # pandas would take them for local times
    try:
        return values.astype(dtype)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return values


def check_frame(
    name: str, frame: pd.DataFrame, stated: tuple[Column, ...] | None = None
) -> list[str]:
    """Return what the contract finds wrong with a table, at most 20 rows of each kind.

    ``stated`` is as for `frame_schema`.
    """
    shape = _check_shape(name, frame)
    if shape is not None:
        return [shape]
    conformed = conform_frame(name, frame)
    try:
        frame_schema(name, stated).validate(conformed, lazy=True)
    except SchemaErrors as error:
        # a check of several columns fails once for each of them
        return list(dict.fromkeys(_format_failures(name, conformed, error.failure_cases)))
    return []


def _check_shape(name: str, frame: Any) -> str | None:
    """Return why something is no table with one column of each name; None where it is."""
    if not isinstance(frame, pd.DataFrame):
        return f"{name}: found {type(frame).__name__}; expected a pandas DataFrame"
    if frame.columns.nlevels > 1:
        return f"{name}: found columns of {frame.columns.nlevels} levels; expected one name each"
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        return f"{name}: found the column {excerpt(twice[0])} twice; expected each column once"
    return None


def _format_failures(name: str, frame: pd.DataFrame, cases: pd.DataFrame) -> Iterator[str]:
    column: Any
    # what a check raises over a wrong type says nothing new: the type is named already
    has_wrong_type = cases["check"].astype("str").str.startswith("dtype(").any()
    for (column, check), group in cases.groupby(["column", "check"], dropna=False, sort=False):
        rows = sorted({int(row) for row in group["index"].dropna()})
        found = group["failure_case"].iloc[0]
        if rows:
            is_of_table = group["schema_context"].iloc[0] == "DataFrameSchema"
            columns = ["metric", "value"] if is_of_table else [column]
            yield from _format_rows(name, frame, rows, columns, str(check))
        elif not (has_wrong_type and re.match(r"\w+Error\(", str(found))):
            yield _format_structure(name, column, check, found)


def _format_structure(name: str, column: Any, check: Any, found: Any) -> str:
    if check == "column_in_schema":
        known = ", ".join(load_table(name).names)
        return f"{name}: unknown column {found!r}; expected columns of the contract ({known})"
    return f"{name}.{column}: found {found}; expected {_expected(check)}"


def _expected(check: str) -> str:
    """Return the words for a check; pandera names the one for a type ``dtype('Int64')``."""
    if check == "not_nullable":
        return "a value"
    dtype = re.fullmatch(r"dtype\('(.+)'\)", check)
    return f"the dtype {dtype[1]}" if dtype else check


def _format_rows(
    name: str, frame: pd.DataFrame, rows: list[int], columns: list[str], check: str
) -> Iterator[str]:
    key = load_table(name).key
    if "unique" in check:
        columns, check = list(key), "each key once"
    expected = _expected(check)
    for row in rows[:MOST_NAMED]:
        place, found = (_format_cells(frame, names, row) for names in (key, columns))
        yield f"{name}, row {row} ({place}): found {found}; expected {expected}"
    if len(rows) > MOST_NAMED:
        more = len(rows) - MOST_NAMED
        yield f"{name}: and {more} more rows whose {', '.join(columns)} is not {expected}"


def _format_cells(frame: pd.DataFrame, names: Any, row: int) -> str:
    cells = ((name, _python_value(frame[name].iloc[row])) for name in names)
    return ", ".join(
        f"{name} = {excerpt(None if _is_missing(value) else value)}"
        for name, value in cells
        if len(names) == 1 or not _is_missing(value)
    )


def _python_value(value: Any) -> Any:
    """Return a NumPy scalar as Python's own, which a reader expects to see."""
    return value.item() if hasattr(value, "item") else value


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value != value  # noqa: PLR0124 - NaN and NaT
