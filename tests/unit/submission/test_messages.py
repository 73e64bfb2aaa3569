"""A value that the contract does not take gets a message; bounds belong to what is taken."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from registry.contract import Column, load_table
from registry.submission.messages import check_value, format_path
from registry.submission.schema import parse_timestamp

if TYPE_CHECKING:
    from registry.submission.messages import Location

PLAIN = "expected text without control characters or unpaired surrogates"
JSON = "expected text, finite numbers, true, false, null, and lists and objects of these"
TIMESTAMP = "expected an ISO 8601 timestamp"
ZONE = "expected a time zone, such as a final Z"
OUTCOMES = "expected one of ok, oom, error, interrupted, not_run, unknown"
FLAGS = (
    "expected one of peak_over_capacity, figures_disagree, includes_evaluation, "
    "short_run, shared_process, side_by_side, resumed, stopped_early, recovered_from_oom, "
    "not_finite, memory_is_delta, peak_at_capacity, suspect"
)


def _check(value: Any, kind: str, **rest: Any) -> str | None:
    return check_value(Column("c", kind, "Upper Case.", **rest), value)


@pytest.mark.parametrize(
    ("meaning", "told"),
    [("Hash of all.", "hash of all"), ("SHA-256 of all.", "SHA-256 of all")],
)
def test_a_meaning_keeps_its_capitals(meaning: str, told: str) -> None:
    column = Column("c", "string", meaning, pattern="[0-9]+")
    assert check_value(column, "x") == f"expected text that matches [0-9]+ ({told})"


@pytest.mark.parametrize(
    ("value", "bounds", "problem"),
    [
        (2**63 - 1, {}, None),
        (2**63, {}, "expected at most 2^63 - 1"),
        (-(2**63) + 1, {}, None),
        (-(2**63), {}, "expected at least -9223372036854775807"),
        (0, {"min": 0}, None),
        (-1, {"min": 0}, "expected at least 0"),
        (0, {"max": 0}, None),
        (1, {"max": 0}, "expected at most 0"),
        (1.5, {}, "expected an integer"),
        (1.0, {}, "expected an integer"),
        (True, {}, "expected an integer"),
        ("1", {}, "expected an integer; write it without quotes"),
        ([1], {}, "expected an integer"),
    ],
)
def test_an_integer_lies_within_its_bounds_or_64_bits(
    value: object, bounds: dict[str, float], problem: str | None
) -> None:
    assert _check(value, "int64", **bounds) == problem


@pytest.mark.parametrize(
    ("value", "bounds", "problem"),
    [
        (0.5, {"min": 0.5, "max": 1.5}, None),
        (1.5, {"min": 0.5, "max": 1.5}, None),
        (0.4, {"min": 0.5, "max": 1.5}, "expected at least 0.5"),
        (1.6, {"min": 0.5, "max": 1.5}, "expected at most 1.5"),
        (-1.0, {"min": 0, "max": 1.0}, "expected at least 0"),
        (2.0, {"min": 0, "max": 1.0}, "expected at most 1"),
        (-1e300, {}, None),
        (1, {}, None),
        (math.nan, {}, "expected a finite number"),
        (math.inf, {}, "expected a finite number"),
        ("1", {}, "expected a number; write it without quotes"),
        (None, {}, "expected a number"),
        (True, {}, "expected a number"),
    ],
)
def test_a_number_is_finite_and_within_its_bounds(
    value: object, bounds: dict[str, float], problem: str | None
) -> None:
    assert _check(value, "float64", **bounds) == problem


@pytest.mark.parametrize(
    ("value", "rest", "problem"),
    [
        ("abc", {"max_length": 3}, None),
        ("abcd", {"max_length": 3}, "expected at most 3 characters"),
        ("a" * 100_000, {}, None),
        ("a" * 100_001, {}, "expected at most 100000 characters"),
        ("", {}, None),
        ("a\tb\r\nc", {}, None),
        *((f"a{sign}", {}, PLAIN) for sign in "\x00\x08\x0b\x0c\x0e\x1f\ud800\udfff"),
        ("\x7f\ue000", {}, None),
        (5, {}, "expected text"),
        ("ab", {"pattern": "a|ab"}, None),
        ("abc", {"pattern": "a|ab"}, "expected text that matches a|ab (upper Case)"),
        ("ab\n", {"pattern": "a|ab"}, "expected text that matches a|ab (upper Case)"),
        ("cab", {"pattern": "a|ab"}, "expected text that matches a|ab (upper Case)"),
        ("oom", {"vocabulary": "outcome"}, None),
        ("OOM", {"vocabulary": "outcome"}, f"did you mean 'oom'?; {OUTCOMES}"),
        ("fine", {"vocabulary": "outcome"}, OUTCOMES),
        (5, {"vocabulary": "outcome"}, OUTCOMES),
    ],
)
def test_a_text_has_its_length_pattern_and_words(
    value: object, rest: dict[str, Any], problem: str | None
) -> None:
    assert _check(value, "string", **rest) == problem


@pytest.mark.parametrize(
    ("value", "rest", "problem"),
    [
        (["a"] * 10_000, {}, None),
        (["a"] * 10_001, {}, "expected at most 10000 items"),
        ([], {}, None),
        ("one item", {}, None),
        (["a", 5], {}, "expected text"),
        (5, {}, "expected a list"),
        ({"a": 1}, {}, "expected a list"),
        (["abcd"], {"max_length": 3}, "expected at most 3 characters"),
        (["short_run"], {"vocabulary": "flag"}, None),
        ("short_run", {"vocabulary": "flag"}, None),
        ("short", {"vocabulary": "flag"}, f"did you mean 'short_run'?; {FLAGS}"),
        (["short_run", "x" * 30], {"vocabulary": "flag"}, FLAGS),
    ],
)
def test_a_list_of_words_has_so_many_items_and_each_is_checked(
    value: object, rest: dict[str, Any], problem: str | None
) -> None:
    assert _check(value, "list<string>", **rest) == problem


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (True, None),
        (False, None),
        (1, "expected true or false"),
        ("true", "expected true or false; write it without quotes"),
    ],
)
def test_truth_is_true_or_false(value: object, problem: str | None) -> None:
    assert _check(value, "bool") == problem


def _nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def _circular() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["a"] = value
    return value


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, None),
        ({"a": [1, 2.5, None, True, {"b": "é"}]}, None),
        # Seven characters are the quotes, the colon and the braces around the text.
        ({"a": "x" * 999_992}, None),
        ({"a": "x" * 999_993}, "expected at most 1000000 characters of JSON"),
        ([1], "expected an object"),
        ("{}", "expected an object"),
        ({1: 2}, "expected text"),
        ({"a": math.nan}, JSON),
        ({"{a}": {1, 2}}, JSON),
        (_circular(), JSON),
        ({"a": "b\ud800"}, PLAIN),
        (_nested(99), None),
        (_nested(100), "expected at most 100 levels of nesting"),
        ({"a": [(_nested(96),)]}, None),
        ({"a": [(_nested(97),)]}, "expected at most 100 levels of nesting"),
        (_nested(100_000), "expected at most 100 levels of nesting"),
        ({"a": 10**5000}, JSON),
    ],
    ids=range(17),
)
def test_an_object_is_one_that_json_holds(value: object, problem: str | None) -> None:
    assert _check(value, "json") == problem


YEARS = "expected a year from 1990 to 2100 in UTC"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("1990-01-01T00:00:00Z", None),
        ("1989-12-31T23:59:59Z", YEARS),
        ("2100-12-31T23:59:59Z", None),
        ("2101-01-01T00:00:00Z", YEARS),
        ("1990-01-01T00:00:00+02:00", YEARS),
        ("1989-12-31T23:00:00-02:00", None),
        ("2100-12-31T23:00:00-02:00", YEARS),
        ("2101-01-01T00:00:00+02:00", None),
        ("0001-01-01T00:00:00+02:00", YEARS),
        ("9999-12-31T23:00:00-02:00", YEARS),
        (datetime(2024, 5, 1, tzinfo=UTC), None),
        ("2024-05-01T10:00:00", ZONE),
        ("2024-05-01", ZONE),
        (datetime(2024, 5, 1), ZONE),  # noqa: DTZ001
        ("yesterday", TIMESTAMP),
        ("", TIMESTAMP),
        (2024, TIMESTAMP),
        (None, TIMESTAMP),
    ],
)
def test_a_time_has_a_zone_and_a_year_of_its_column(value: object, problem: str | None) -> None:
    assert check_value(load_table("observations").column("observed_at"), value) == problem


@pytest.mark.parametrize(
    ("bounds", "problem"),
    [
        ({"min": 3000}, "expected a year from 3000 to 9999 in UTC"),
        ({"max": 1000}, "expected a year from 1 to 1000 in UTC"),
        ({}, None),
    ],
)
def test_a_bound_of_years_that_a_column_leaves_out_is_that_of_the_calendar(
    bounds: dict[str, int], problem: str | None
) -> None:
    assert _check("2024-05-01T10:00:00Z", "timestamp", **bounds) == problem


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("2024-05-01T12:00:00+02:00", "2024-05-01T10:00:00Z"),
        ("2024-05-01T10:00:00.250Z", "2024-05-01T10:00:00.250000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        (datetime(2024, 5, 1, tzinfo=UTC), "2024-05-01T00:00:00Z"),
    ],
)
def test_a_time_is_stored_in_utc(written: object, stored: str) -> None:
    assert parse_timestamp(written) == stored


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ((), "the document"),
        (("source",), "source"),
        (("observations", 3, "measurements", 0, "value"), "observations[3].measurements[0].value"),
    ],
)
def test_a_place_is_shown_as_it_is_reached(location: Location, path: str) -> None:
    assert format_path(location) == path
