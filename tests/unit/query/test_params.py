from __future__ import annotations

from typing import Any

import pytest

from registry.errors import QueryError
from registry.query.params import bind_parameters, by_name, parse_assignment, parse_parameter


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8192", 8192),
        ("-3", -3),
        ("0", 0),
        ("170141183460469231731687303715884105727", 2**127 - 1),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e-4", 1e-4),
        ("2E5", 2e5),
        ("true", True),
        ("False", False),
        ("null", None),
        ("12.0", 12.0),
        ("1.50e3", 1500.0),
        ("0.1", 0.1),
        ("'2.10'", "2.10"),
        ("1e-99999999", "1e-99999999"),
        ("9" * 5000, "9" * 5000),
        ("", ""),
        ("qwen-7b", "qwen-7b"),
        ("007", "007"),
        ("1_000", "1_000"),
        ("nan", "nan"),
        ("1.2.3", "1.2.3"),
        ("'8192'", "8192"),
        ('"true"', "true"),
        ("'", "'"),
        ("\u0661", "\u0661"),
    ],
)
def test_a_text_is_a_number_only_where_it_reads_as_one(text: str, value: Any) -> None:
    parsed = parse_parameter(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_an_assignment_splits_at_the_first_equals_sign() -> None:
    assert parse_assignment("model=a=b") == ("model", "a=b")
    assert parse_assignment("$n=3") == ("n", 3)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2.10", "2.1 for the number, or "),
        ("-0.500", "-0.5 for the number, or "),
        ("007.5", "7.5 for the number, or "),
        ("0.12345678901234567890", "0.12345678901234568 for the number, or "),
        ("12e456", ""),
        ("9" * 39, ""),
    ],
)
def test_a_text_that_a_number_would_change_is_refused(text: str, number: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_assignment(f"v={text}")
    assert str(caught.value) == (
        f"parameter v: found '{text}', which as a number would lose digits; expected {number}"
        f"""'"{text}"' for the text"""
    )
    assert parse_assignment(f'v="{text}"') == ("v", text)


@pytest.mark.parametrize("text", ["model", "=x", "$=x"])
def test_an_assignment_without_a_name_is_an_error(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse_assignment(text)
    assert str(caught.value) == (f"parameter {text!r}: expected name=value, such as model=qwen-7b")


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(QueryError) as caught:
        bind_parameters({"model", "gpu"}, {})
    assert str(caught.value) == "query: no value for $gpu, $model; pass gpu=VALUE"


def test_an_extra_value_is_an_error() -> None:
    with pytest.raises(QueryError) as caught:
        bind_parameters({"model"}, {"model": 1, "modle": 2})
    assert str(caught.value) == (
        "query: parameter 'modle' is not in the SQL, which has $model; did you mean 'model'?"
    )
    with pytest.raises(QueryError) as caught:
        bind_parameters(set(), {"x": 2})
    assert str(caught.value) == "query: parameter 'x' is not in the SQL, which has no parameters"


def test_positions_are_bound_in_order() -> None:
    given = {str(n): n for n in range(1, 12)}
    assert bind_parameters(set(given), given) == list(range(1, 12))


def test_values_come_by_name_or_in_order() -> None:
    assert by_name({"model": "qwen-7b"}) == {"model": "qwen-7b"}
    assert by_name(["qwen-7b", 2]) == by_name(("qwen-7b", 2)) == {"1": "qwen-7b", "2": 2}
    assert by_name({}) == {}


@pytest.mark.parametrize("params", ["qwen-7b", 3, {"qwen-7b"}])
def test_values_that_have_neither_name_nor_order_are_refused(params: Any) -> None:
    with pytest.raises(QueryError, match=r"^params: found .*; expected values by name"):
        by_name(params)
