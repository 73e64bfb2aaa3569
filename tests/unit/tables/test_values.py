"""Values of contract columns, from the text of cells and from a mapping."""

from __future__ import annotations

import re
from typing import Any

import pytest

from registry.errors import UnitError
from registry.tables.values import parse_cell_value, parse_values, split_parts


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("seq_len", "1,024", 1024),
        ("lora_dropout", "0.05", 0.05),
        ("gradient_checkpointing", "True", True),
        ("gradient_checkpointing", "no", False),
        ("lora_target_modules", "q_proj, v_proj", ["q_proj", "v_proj"]),
        ("framework", "axolotl", "axolotl"),
    ],
)
def test_a_cell_is_read_as_its_columns_type(name: str, text: str, value: Any) -> None:
    assert parse_cell_value(name, text, where="row 1").value == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("lora_dropout", "low", "row 1: found 'low', expected a number"),
        ("lora_dropout", "nan", "row 1: found 'nan', expected a number"),
        (
            "gradient_checkpointing",
            "on",
            (
                "row 1: found 'on', expected one of true, yes, false, no; say under `values` what "
                "other words mean"
            ),
        ),
        ("quant_bits", "16", "row 1: found 16; expected at most 8"),
        ("lora_dropout", "2", "row 1: found 2.0; expected at most 1"),
        ("peft_config", "x", "row 1: found 'x'; expected json"),
    ],
)
def test_a_cell_of_another_type_or_range_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(UnitError) as raised:
        parse_cell_value(name, text, where="row 1")
    assert str(raised.value) == message


def test_a_rounded_count_keeps_its_rounding() -> None:
    assert parse_cell_value("n_samples", "48.8k", where="row 1").half_width == 50


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("lora", "found 'lora', expected columns and their values"),
        ({"kernels": "liger"}, "kernels: found 'liger'; expected list<string>"),
        ({"kernels": [1]}, "kernels: found 1; expected text in list<string>"),
        (
            {"observation_id": "x"},
            (
                "unknown column 'observation_id'; did you mean 'observed_at'?; expected a column "
                "of configurations, environments or observations"
            ),
        ),
    ],
)
def test_values_of_a_mapping_are_checked(document: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_values(document)


def test_values_go_to_their_part_and_nulls_are_left_out() -> None:
    values = parse_values({"method": "lora", "os": "Linux", "outcome": "ok", "seq_len": None})
    assert split_parts(values) == {
        "configuration": {"method": "lora"},
        "environment": {"os": "Linux"},
        "observation": {"outcome": "ok"},
    }
