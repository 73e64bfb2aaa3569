"""Ids of whole tables are the ids of their rows, one by one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry import bulk_identity
from registry.arrow import rows_table
from registry.bulk_identity import figures_hashes, row_ids, row_texts
from registry.contract import Column, load_table, vocabulary
from registry.identity import figures_hash, row_id, row_text

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x1d\x1e\x1f"), max_size=8
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "json": TEXT,
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "timestamp": st.integers(-(10**15), 10**15).map(
        lambda micros: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    ),
    "list<string>": st.lists(TEXT, max_size=3),
}


def values(column: Column) -> st.SearchStrategy[Any]:
    stated = VALUES[column.type]
    return stated if column.required else st.none() | stated


def rows_of(table: str, **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    columns = load_table(table).columns
    return st.fixed_dictionaries({c.name: fixed.get(c.name, values(c)) for c in columns})


@pytest.mark.parametrize("table", ["configurations", "environments", "observations"])
def test_ids_of_a_table_are_those_of_its_rows(table: str) -> None:
    @settings(max_examples=25, deadline=None)
    @given(st.lists(rows_of(table), max_size=6))
    def holds(rows: list[dict[str, Any]]) -> None:
        expected = [row_id(table, row) for row in rows]
        assert row_ids(table, rows_table(table, rows)).to_pylist() == expected

    holds()


@pytest.mark.parametrize("table", ["measurements", "citations", "samples", "sources"])
def test_texts_of_a_table_are_those_of_its_rows(table: str) -> None:
    @settings(max_examples=25, deadline=None)
    @given(st.lists(rows_of(table), max_size=6))
    def holds(rows: list[dict[str, Any]]) -> None:
        expected = [row_text(table, row) for row in rows]
        assert row_texts(table, rows_table(table, rows)).to_pylist() == expected

    holds()


def figures() -> st.SearchStrategy[dict[str, Any]]:
    return rows_of(
        "measurements",
        observation_id=st.sampled_from(["a", "b", "c", "nowhere"]),
        metric=st.sampled_from(list(vocabulary("metric"))[:3]),
        statistic=st.sampled_from(["max", "value"]),
        scope=st.sampled_from(["total", "per_gpu"]),
        device_index=st.none() | st.integers(0, 12),
        kind=st.none() | st.sampled_from(["reserved", "allocated"]),
    )


def figure_key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in load_table("measurements").key)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(figures(), max_size=12, unique_by=figure_key), in_order=st.booleans())
def test_figures_hashes_are_those_of_each_observation(
    rows: list[dict[str, Any]], *, in_order: bool
) -> None:
    table = rows_table("measurements", rows)
    if in_order:
        table = table.sort_by([(name, "ascending") for name in load_table("measurements").key])
    expected = [
        figures_hash(row for row in rows if row["observation_id"] == name) for name in "abc"
    ]
    assert figures_hashes(pa.array(["a", "b", "c"]), table).to_pylist() == expected


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_slices_do_not_change_ids(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_identity, "SLICE_ROWS", 2)
    rows = [{"framework": f"f{number}", "environment_id": ""} for number in range(count)]
    measured = [
        {
            "observation_id": f"o{number // 2}",
            "metric": "step_time",
            "statistic": "value",
            "scope": "total",
            "device_index": number % 2,
            "value": float(number),
            "origin": "reported",
        }
        for number in range(2 * count)
    ]
    expected = [row_id("environments", row) for row in rows]
    assert row_ids("environments", rows_table("environments", rows)).to_pylist() == expected
    names = [f"o{number}" for number in range(count)]
    hashes = figures_hashes(pa.array(names, pa.string()), rows_table("measurements", measured))
    assert hashes.to_pylist() == [
        figures_hash(row for row in measured if row["observation_id"] == name) for name in names
    ]


def changed(build: Callable[[], dict[str, Any]], **columns: Any) -> str:
    return row_id("configurations", {**build(), **columns})


def base() -> dict[str, Any]:
    return {"model_id": "m", "method": "lora", "lora_alpha": 0.0}


def test_negative_zero_is_zero() -> None:
    assert changed(base, lora_alpha=-0.0) == changed(base)
    table = rows_table("configurations", [{**base(), "lora_alpha": -0.0, "configuration_id": ""}])
    assert row_ids("configurations", table).to_pylist() == [changed(base)]


def test_an_empty_list_is_not_stated() -> None:
    assert changed(base, kernels=[]) == changed(base)
    assert changed(base, kernels=[""]) != changed(base)


def test_the_smallest_step_of_a_float_is_another_id() -> None:
    assert changed(base, lora_alpha=0.1 + 0.2) != changed(base, lora_alpha=0.3)


def test_a_value_cannot_pass_for_another_column() -> None:
    assert changed(base, dataset="a", weights=None) != changed(base, weights="a", dataset=None)


def test_the_order_of_measurements_does_not_matter() -> None:
    rows = [
        {"metric": "step_time", "statistic": "value", "scope": "per_gpu", "device_index": number}
        for number in (10, 2, None)
    ]
    assert figures_hash(rows) == figures_hash(rows[::-1])
