"""Whole tables against the contract: what is wrong, in which row, and what was expected."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pandera.errors import SchemaError

from registry.contract import TABLES, load_table
from registry.contract.arrow import ARROW_TYPES, rows_table
from registry.contract.frames import check_table, frame_schema

ID = "0" * 32


def configuration(**columns: Any) -> dict[str, Any]:
    return {"configuration_id": ID, "model_id": "m", "method": "lora", **columns}


def check(table: str, *rows: dict[str, Any]) -> list[str]:
    schema = pa.schema([(c.name, ARROW_TYPES[c.type]) for c in load_table(table).columns])
    return check_table(table, pa.Table.from_pylist(list(rows), schema=schema))


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_a_schema_of_its_columns(name: str) -> None:
    schema = frame_schema(name)
    assert list(schema.columns) == list(load_table(name).names)
    for column in load_table(name).columns:
        assert schema.columns[column.name].nullable is not column.required


def test_a_frame_of_other_types_fails() -> None:
    frame = rows_table("environments", []).to_pandas(types_mapper=pd.ArrowDtype)
    frame_schema("environments").validate(frame)
    with pytest.raises(SchemaError):
        frame_schema("environments").validate(frame.astype({"n_cpus": "float64"}))


@pytest.mark.parametrize("name", TABLES)
def test_an_empty_table_is_valid(name: str) -> None:
    assert check_table(name, rows_table(name, [])) == []


def test_a_valid_row_has_no_problems() -> None:
    row = configuration(lora_dropout=0.1, lora_target_modules=["k", "q"], peft_config='{"a":1}')
    assert check("configurations", row) == []


PLACE = f"configurations, row 0 (configuration_id = '{ID}')"


@pytest.mark.parametrize(
    ("columns", "found", "expected"),
    [
        ({"quant_bits": 9}, "quant_bits = 9", "at most 8"),
        ({"n_gpus": 0}, "n_gpus = 0", "at least 1"),
        ({"lora_alpha": -1.0}, "lora_alpha = -1.0", "at least 0"),
        ({"weights": "old"}, "weights = 'old'", "one of pretrained, random"),
        ({"dataset": "a\x1fb"}, r"dataset = 'a\x1fb'", "text without control characters"),
        ({"kernels": ["a\x00"]}, r"kernels = ['a\x00']", "text without control characters"),
        ({"kernels": ["b", "a"]}, "kernels = ['b', 'a']", "distinct items, sorted, at least one"),
        ({"kernels": ["a", "a"]}, "kernels = ['a', 'a']", "distinct items, sorted, at least one"),
        ({"kernels": []}, "kernels = []", "distinct items, sorted, at least one"),
        ({"kernels": [None]}, "kernels = [None]", "distinct items, sorted, at least one"),
        ({"peft_config": "[1]"}, "peft_config = '[1]'", "the text of a JSON object"),
        ({"peft_config": "{"}, "peft_config = '{'", "the text of a JSON object"),
        ({"lora_alpha": float("inf")}, "lora_alpha = inf", "a finite number"),
        ({"n_epochs": float("nan")}, "n_epochs = nan", "a finite number"),
        ({"model_id": None}, "model_id = null", "a value"),
    ],
)
def test_a_bad_value_is_named(columns: dict[str, Any], found: str, expected: str) -> None:
    row = configuration(**columns)
    assert check("configurations", row) == [f"{PLACE}: found {found}; expected {expected}"]


def test_items_of_a_list_have_a_vocabulary() -> None:
    row = {
        "observation_id": ID,
        "configuration_id": ID,
        "environment_id": ID,
        "source_id": "s",
        "outcome": "ok",
        "evidence": "measured",
        "flags": ["short_run", "small"],
        "figures_hash": ID,
    }
    (problem,) = check("observations", row)
    assert "found flags = ['short_run', 'small']; expected one of " in problem


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


def test_a_key_that_stands_twice_is_named() -> None:
    rows = [figure(value=value) for value in (0.1, 0.2)]
    assert check("measurements", *rows) == [
        (
            f"measurements, row 1 (observation_id = '{ID}', metric = 'accuracy', statistic "
            f"= 'value', "
            f"scope = 'total'): found observation_id = '{ID}', metric = 'accuracy', statistic = "
            "'value', scope = 'total'; expected each key once"
        )
    ]


def test_keys_that_differ_in_a_null_are_two_keys() -> None:
    rows = [figure(device_index=index) for index in (1, None, 0)]
    assert check("measurements", *rows) == []


def test_keys_may_stand_twice_where_the_caller_checks_them() -> None:
    table = rows_table("measurements", [figure(), figure()])
    assert check_table("measurements", table, unique=False) == []


def test_twenty_rows_are_named_and_the_rest_counted() -> None:
    rows = [configuration(configuration_id=f"{n:032x}", n_gpus=0) for n in range(25)]
    problems = check("configurations", *rows)
    assert len(problems) == 21
    assert problems[-1] == ("configurations: and 5 more rows whose n_gpus is not at least 1")


def test_rows_are_counted_from_where_the_caller_says() -> None:
    table = rows_table("configurations", [configuration(n_gpus=0)])
    (problem,) = check_table("configurations", table, first_row=1000)
    assert problem.startswith("configurations, row 1000 (")


def test_columns_and_types_are_named() -> None:
    table = rows_table("environments", [{"environment_id": ID}])
    table = table.append_column("colour", pa.array(["red"])).drop_columns(["os"])
    place = table.schema.get_field_index("n_cpus")
    table = table.set_column(place, "n_cpus", pa.array([1.5]))
    unknown, wrong, missing = check_table("environments", table)
    assert unknown.startswith("environments: unknown column 'colour'; expected the columns of")
    assert missing == "environments.n_cpus: found type double; expected int64"
    assert wrong == "environments: column 'os' is missing; expected string"
