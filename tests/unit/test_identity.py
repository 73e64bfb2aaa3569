"""The same content has the same id; other content has another."""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.contract import load_table
from registry.submission.identity import (
    canonical_json,
    document_id,
    figures_hash,
    row_id,
    row_text,
    timestamp_microseconds,
    value_text,
)

CONFIGURATION: dict[str, Any] = {"model_id": "tiny", "method": "lora", "lora_rank": 8}


def test_the_text_of_a_row_is_as_documented() -> None:
    text = "\x1fmodel_id=tiny\x1fmethod=lora\x1flora_rank=8"
    assert row_text("configurations", CONFIGURATION) == text
    assert row_id("configurations", CONFIGURATION) == hashlib.sha256(text.encode()).hexdigest()[:32]


def test_order_of_keys_nulls_and_the_id_itself_do_not_matter() -> None:
    other = {"lora_rank": 8, "method": "lora", "seq_len": None, "model_id": "tiny", "kernels": []}
    other["configuration_id"] = "f" * 32
    assert row_id("configurations", other) == row_id("configurations", CONFIGURATION)


@pytest.mark.parametrize(
    "change", [{"lora_rank": 9}, {"seq_len": 8}, {"packing": False}, {"lora_alpha": 8.0}]
)
def test_any_stated_value_matters(change: dict[str, Any]) -> None:
    changed = {**CONFIGURATION, **change}
    assert row_id("configurations", changed) != row_id("configurations", CONFIGURATION)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False))
def test_floats_are_told_apart_by_their_bits(a: float, b: float) -> None:
    column = load_table("measurements").column("value")
    assert (value_text(column, a) == value_text(column, b)) == (a == b)


def test_zero_has_one_text_and_an_integer_is_its_float() -> None:
    column = load_table("measurements").column("value")
    assert value_text(column, -0.0) == value_text(column, 0.0) == value_text(column, 0)
    assert value_text(column, math.nextafter(1.0, 2.0)) != value_text(column, 1)


def test_times_are_compared_as_instants() -> None:
    utc = datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert timestamp_microseconds(utc) == 1_714_557_600_000_000
    there = utc.astimezone(timezone(timedelta(hours=8)))
    assert timestamp_microseconds(there) == timestamp_microseconds(utc)


def test_measurements_are_hashed_whatever_their_order() -> None:
    figures: list[dict[str, Any]] = [
        {"metric": "peak_memory", "statistic": "max", "scope": "total", "kind": "device"},
        {"metric": "peak_memory", "statistic": "max", "scope": "per_gpu", "device_index": 0},
        {"metric": "peak_memory", "statistic": "max", "scope": "per_gpu", "device_index": 1},
    ]
    rows = [{**figure, "value": float(n)} for n, figure in enumerate(figures)]
    assert figures_hash(rows) == figures_hash(rows[::-1])
    assert figures_hash(rows) != figures_hash(rows[:2])


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.booleans() | st.none()))
def test_canonical_json_does_not_depend_on_the_order_of_keys(document: dict[str, Any]) -> None:
    turned = dict(reversed(document.items()))
    assert canonical_json(document) == canonical_json(turned)


def test_canonical_json_holds_no_nan() -> None:
    with pytest.raises(ValueError, match="Out of range float values"):
        canonical_json({"a": math.nan})


def test_a_document_id_is_the_sha256_of_its_text() -> None:
    assert document_id("{}") == hashlib.sha256(b"{}").hexdigest()
