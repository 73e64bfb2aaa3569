"""Whole tables against the contract: what is wrong, in which row, and what was expected."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from pandera.errors import SchemaError

from registry.contract import TABLES, load_table
from registry.contract.arrow import rows_table
from registry.contract.frames import check_frame, conform_frame, frame_schema

ID = "0" * 32


def configuration(**columns: Any) -> dict[str, Any]:
    return {"configuration_id": ID, "model_id": "m", "method": "lora", **columns}


def check(table: str, *rows: dict[str, Any]) -> list[str]:
    return check_frame(table, pd.DataFrame(list(rows)))


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_a_schema_of_its_columns(name: str) -> None:
    schema = frame_schema(name)
    assert list(schema.columns) == list(load_table(name).names)
    for column in load_table(name).columns:
        assert schema.columns[column.name].nullable is not column.required


def test_a_frame_of_other_types_fails() -> None:
    frame = conform_frame("environments", pd.DataFrame({"environment_id": [ID], "n_cpus": [8]}))
    frame_schema("environments").validate(frame)
    with pytest.raises(SchemaError):
        frame_schema("environments").validate(frame.astype({"n_cpus": "float64"}))


@pytest.mark.parametrize("name", TABLES)
def test_an_empty_table_is_valid(name: str) -> None:
    assert check_frame(name, rows_table(name, []).to_pandas()) == []


def test_a_valid_row_has_no_problems() -> None:
    row = configuration(lora_dropout=0.1, lora_target_modules=["k", "q"], peft_config='{"a":1}')
    assert check("configurations", row) == []


PLACE = f"configurations, row 0 (configuration_id = '{ID}')"
WORDS = "a sorted list of text"


@pytest.mark.parametrize(
    ("columns", "found", "expected"),
    [
        ({"quant_bits": 9}, "quant_bits = 9", "at most 8"),
        ({"n_gpus": 0}, "n_gpus = 0", "at least 1"),
        ({"lora_alpha": -1.0}, "lora_alpha = -1.0", "at least 0"),
        ({"weights": "old"}, "weights = 'old'", "one of pretrained, random"),
        ({"dataset": "a\x1fb"}, r"dataset = 'a\x1fb'", "text"),
        ({"kernels": ["a\x00"]}, r"kernels = ['a\x00']", WORDS),
        ({"kernels": ["b", "a"]}, "kernels = ['b', 'a']", WORDS),
        ({"kernels": ["a", "a"]}, "kernels = ['a', 'a']", WORDS),
        ({"kernels": []}, "kernels = []", WORDS),
        ({"kernels": [None]}, "kernels = [None]", WORDS),
        ({"peft_config": "[1]"}, "peft_config = '[1]'", "a JSON object"),
        ({"peft_config": "{"}, "peft_config = '{'", "a JSON object"),
        ({"model_id": None}, "model_id = null", "a value"),
    ],
)
def test_a_bad_value_is_named(columns: dict[str, Any], found: str, expected: str) -> None:
    row = configuration(**columns)
    assert check("configurations", row) == [f"{PLACE}: found {found}; expected {expected}"]


def test_infinity_is_no_figure() -> None:
    first, *_ = check("configurations", configuration(lora_alpha=float("inf")))
    assert first == f"{PLACE}: found lora_alpha = inf; expected a finite number"


def test_items_of_a_list_have_a_vocabulary() -> None:
    row = {
        "observation_id": ID,
        "configuration_id": ID,
        "environment_id": ID,
        "source_id": "s",
        "outcome": "ok",
        "evidence": "measured",
        "flags": ["short_run", "small"],
    }
    (problem,) = check("observations", row)
    expected = "found flags = ['short_run', 'small']; expected a sorted list of one of "
    assert expected in problem


def test_a_pattern_covers_the_whole_text() -> None:
    for text in (ID + "0", ID + "\n", "x" + ID[1:]):
        (problem,) = check("environments", {"environment_id": text})
        assert problem.endswith("expected text that matches [0-9a-f]{32}")


def figure(**columns: Any) -> dict[str, Any]:
    row = {"metric": "accuracy", "statistic": "value", "scope": "total", "origin": "reported"}
    return {"observation_id": ID, **row, "value": 0.5, **columns}


def test_a_figure_outside_the_range_of_its_metric_is_named() -> None:
    assert check("measurements", figure(value=0.9)) == []
    (problem,) = check("measurements", figure(value=1.1))
    assert problem.endswith(
        "found metric = 'accuracy', value = 1.1; expected a value in the range of the metric"
    )


def test_a_key_that_is_there_twice_is_named_in_both_rows() -> None:
    problems = check("measurements", *[figure(value=value) for value in (0.1, 0.2)])
    cells = f"observation_id = '{ID}', metric = 'accuracy', statistic = 'value', scope = 'total'"
    assert problems == [
        f"measurements, row {row} ({cells}): found {cells}; expected each key once"
        for row in (0, 1)
    ]


def test_keys_that_differ_in_a_null_are_two_keys() -> None:
    rows = [figure(device_index=index) for index in (1, None, 0)]
    assert check("measurements", *rows) == []


def test_twenty_rows_are_named_and_the_rest_counted() -> None:
    rows = [configuration(configuration_id=f"{n:032x}", n_gpus=0) for n in range(25)]
    problems = check("configurations", *rows)
    assert len(problems) == 21
    assert problems[-1] == ("configurations: and 5 more rows whose n_gpus is not at least 1")


def test_columns_and_types_are_named() -> None:
    unknown, wrong = check("environments", {"environment_id": ID, "n_cpus": 1.5, "colour": "red"})
    assert unknown.startswith(
        "environments: unknown column 'colour'; expected columns of the contract (environment_id, "
    )
    assert wrong == "environments.n_cpus: found float64; expected the dtype Int64"


def test_all_problems_of_a_table_come_together() -> None:
    rows = [configuration(n_gpus=0), configuration(configuration_id="x", weights="old")]
    assert len(check("configurations", *rows)) == 3
