"""pydantic-core, which judges documents, and pandera, which judges tables, say the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandera.errors import SchemaErrors

from registry.catalogue import Catalogue
from registry.contract import TABLES, Column, Metric, load_metrics, load_table, vocabulary
from registry.contract.frames import _conform_column, check_frame, frame_schema
from registry.contract.tables import LONGEST_JSON, MOST_WORDS
from registry.errors import SubmissionError
from registry.submission.identity import canonical_json
from registry.submission.messages import check_value
from registry.submission.prepare import prepare_submission

if TYPE_CHECKING:
    from collections.abc import Callable

COLUMNS = [(name, column) for name in TABLES for column in load_table(name).columns]

_ID = "0f" * 16
#: 2024 in Arabic digits: to some regex dialects these are digits too.
ARABIC = "\u0662\u0660\u0662\u0664"
_PATTERNS = {
    "[0-9a-f]{32}": [_ID, _ID.upper(), _ID + "0", _ID[:-1], _ID + "\n", ARABIC * 8],
    "[0-9a-f]{64}": [_ID * 2, _ID, "x" + _ID * 2, f" {_ID * 2}"],
    "[a-z0-9][a-z0-9._-]*": ["a", "llama-2-7b", "-a", "A", "a b", "a/b", "é", ARABIC, "", "a\n"],
    "[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?": ["2024", "2024-05", "2024-5", ARABIC, "2024-05-01 "],
}
_TEXTS = ["", "plain", "two\nlines", "a\tb", "a\x00b", "a\x1fb", "\x7f", "\u202e", "\ud800", "模型"]


def _texts(column: Column) -> st.SearchStrategy[Any]:
    if column.vocabulary:
        words = list(vocabulary(column.vocabulary))
        return st.sampled_from([*words, words[0].upper(), f"{words[0]} ", "", "no such word"])
    longest = column.max_length
    at_limit = st.sampled_from(["x" * longest, "x" * (longest + 1)])
    return st.sampled_from(_PATTERNS.get(column.pattern or "", _TEXTS)) | at_limit


def _numbers(column: Column) -> st.SearchStrategy[Any]:
    """Return numbers at the limits, just beyond them, and anywhere."""
    bounds = [bound for bound in (column.min, column.max) if bound is not None]
    if column.type == "int64":
        near = [int(bound) + step for bound in bounds for step in (-1, 0, 1)]
        return st.sampled_from([*near, 0, -1, 2**63, 2**63 - 1, 10**30]) | st.integers()
    near_floats = [bound * factor for bound in bounds for factor in (0.999, 1, 1.001)]
    special = [float("inf"), float("-inf"), -0.0, -1e-300, 1.7e308]
    return st.sampled_from([*near_floats, *special]) | st.floats(allow_nan=False)


def _times(column: Column) -> st.SearchStrategy[Any]:
    low, high = int(column.min or 1), int(column.max or 9999)
    years = st.sampled_from([low - 1, low, high, high + 1, 2024])
    zones = st.sampled_from([UTC, None])
    return st.builds(lambda year, zone: datetime(year, 1, 1, tzinfo=zone), years, zones)


_OBJECTS = st.sampled_from(
    [
        {"a": 1},
        {"a": {"b": [None, 1.5, "x\x01"]}},
        {"a": "\ud800"},
        {"a": float("nan")},
        [1],
        "text",
    ]
)
_STRANGE = st.sampled_from(["1", "true", True, 0, 1.5, [], ["x"], b"x"])


def _values(column: Column) -> st.SearchStrategy[Any]:
    by_type: dict[str, Callable[[Column], st.SearchStrategy[Any]]] = {
        "int64": _numbers,
        "float64": _numbers,
        "bool": lambda _: st.booleans(),
        "timestamp": _times,
        "json": lambda _: _OBJECTS,
        "string": _texts,
        "list<string>": lambda c: st.lists(_texts(c), min_size=1, max_size=3),
    }
    return by_type[column.type](column) | _STRANGE


def _stored(column: Column, value: Any) -> Any:
    """Return a document's value as a table holds it."""
    if column.type == "json" and isinstance(value, dict):
        try:
            return canonical_json(value)
        except ValueError:
            return '{"a":NaN}'
    if column.type == "list<string>" and isinstance(value, list):
        return sorted(set(value)) or None
    return value


def _is_valid_in_table(table: str, column: Column, value: Any) -> bool:
    """Return whether a table's validation has nothing against a value, whatever the others are."""
    values = _conform_column(column, pd.Series([value], dtype="object"))
    schema = frame_schema(table).columns[column.name]
    try:
        schema.validate(pd.DataFrame({column.name: values}), lazy=True)
    except SchemaErrors:
        return False
    return True


def _has_a_form_of_its_own(column: Column, value: Any) -> bool:
    """Tell of values that documents and tables write differently on purpose."""
    if column.type == "int64":  # a column of NumPy that has nulls holds floats
        return isinstance(value, float)
    if column.type == "float64":  # beyond all floats: no number of a table
        return isinstance(value, int) and abs(value) > 2**63
    if column.type == "json":  # a table holds the text of the object
        return isinstance(value, str)
    if column.type == "timestamp":  # a document holds the text of the time
        return isinstance(value, str)
    # a single word may be asked of a list; of an empty list a table holds null
    return column.type == "list<string>" and (value == [] or isinstance(value, str))


@pytest.mark.parametrize(
    ("table", "column"), COLUMNS, ids=[f"{table}.{column.name}" for table, column in COLUMNS]
)
@settings(max_examples=8)
@given(data=st.data())
def test_a_value_gets_the_same_verdict(table: str, column: Column, data: st.DataObject) -> None:
    value = data.draw(_values(column))
    if _has_a_form_of_its_own(column, value):
        return
    by_document = check_value(column, value) is None
    assert by_document == _is_valid_in_table(table, column, _stored(column, value)), value


@pytest.mark.parametrize("table", TABLES)
def test_a_required_column_without_a_value_is_refused_by_both(table: str) -> None:
    for column in load_table(table).columns:
        assert _is_valid_in_table(table, column, None) is not column.required


@pytest.mark.parametrize("metric", load_metrics().values(), ids=lambda metric: metric.name)
def test_a_figure_gets_the_same_verdict_by_the_range_of_its_metric(metric: Metric) -> None:
    bounds = [bound for bound in (metric.min, metric.max) if bound is not None]
    for value in (*(bound + step for bound in bounds for step in (-1, 0, 1)), 0.5):
        assert _is_figure(metric.name, value) == _is_row(metric.name, value), value


def _is_figure(metric: str, value: float) -> bool:
    kind = {"kind": "device"} if metric in ("peak_memory", "memory") else {}
    document = {
        "source": {"source_id": "s"},
        "models": [{"model_id": "tiny"}],
        "observations": [
            {
                "outcome": "unknown",
                "configuration": {"model_id": "tiny", "method": "lora"},
                "measurements": [{"metric": metric, "value": float(value), **kind}],
            }
        ],
    }
    try:
        # as recorded: what is handed in has a least value beside its range
        prepare_submission(document, Catalogue(), origin="doc", is_new=False)
    except SubmissionError:
        return False
    return True


def _is_row(metric: str, value: float) -> bool:
    row = {"metric": metric, "statistic": "value", "scope": "total", "origin": "reported"}
    frame = pd.DataFrame([{"observation_id": _ID, **row, "value": float(value)}])
    return not check_frame("measurements", frame)


def test_the_longest_text_and_the_most_words_are_the_same_for_both() -> None:
    kernels = load_table("configurations").column("kernels")
    words = [f"{n:06d}" for n in range(MOST_WORDS)]
    packages = load_table("environments").column("packages")
    edge = {"a": "x" * (LONGEST_JSON - len('{"a":""}'))}
    for table, column, good, bad in (
        ("configurations", kernels, words, [*words, "more"]),
        ("environments", packages, edge, {"a": edge["a"] + "x"}),
    ):
        for value, expected in ((good, True), (bad, False)):
            assert (check_value(column, value) is None) is expected
            assert _is_valid_in_table(table, column, _stored(column, value)) is expected
