from __future__ import annotations

from fractions import Fraction

import pytest

from registry.errors import UnitError
from registry.units.number import (
    count_decimals,
    parse_number,
    rounding_half_width,
    strip_bold,
    unit_error,
)

PLACE = "row 1"


@pytest.mark.parametrize(
    ("text", "bare"), [("  36.6G ", "36.6G"), ("**36.6G**", "36.6G"), ("** 2 **", "2"), ("*", "*")]
)
def test_white_space_and_bold_marks_come_off(text: str, bare: str) -> None:
    assert strip_bold(text, where=PLACE, expected="a figure") == bare


def test_a_text_of_200_characters_can_be_a_figure() -> None:
    assert strip_bold("1" * 200, where=PLACE, expected="a figure") == "1" * 200


def test_a_longer_text_is_refused_and_shown_in_part() -> None:
    with pytest.raises(UnitError) as caught:
        strip_bold("1" * 201, where=PLACE, expected="a figure")
    assert str(caught.value) == (
        f"row 1: found '{'1' * 60}…', expected a figure of at most 200 characters"
    )


def test_a_text_of_60_characters_is_shown_in_full() -> None:
    assert str(unit_error(PLACE, "1" * 60, "one")) == f"row 1: found '{'1' * 60}', expected one"


@pytest.mark.parametrize(
    ("digits", "value"),
    [
        ("1,234.5", Fraction(2469, 2)),
        ("1e3", Fraction(1000)),
        ("0.1", Fraction(1, 10)),
        ("1" * 40, Fraction(int("1" * 40))),
    ],
)
def test_numbers_are_exact(digits: str, value: Fraction) -> None:
    assert parse_number(digits, where=PLACE) == value


def test_a_number_of_more_than_40_characters_is_refused() -> None:
    with pytest.raises(UnitError) as caught:
        parse_number("1" * 41, where=PLACE)
    assert str(caught.value) == (
        f"row 1: found '{'1' * 41}', expected a number of at most 40 characters"
    )


@pytest.mark.parametrize(
    ("digits", "decimals"), [("15", 0), ("15.", 0), ("1.25", 2), ("1.5e3", 1), ("1.25E10", 2)]
)
def test_decimals_are_counted_before_the_exponent(digits: str, decimals: int) -> None:
    assert count_decimals(digits) == decimals


def test_the_last_number_of_a_text_says_how_far_it_is_rounded() -> None:
    assert rounding_half_width("1.25 of 1,000.5 GB") == Fraction(1, 20)


def test_a_text_without_a_number_has_no_rounding() -> None:
    with pytest.raises(UnitError) as caught:
        rounding_half_width("OOM")
    assert str(caught.value) == "rounding: found 'OOM', expected a text with a number in it"


def test_only_the_first_200_characters_are_looked_at_for_a_number() -> None:
    assert rounding_half_width("1.5" + "x" * 196 + "99") == Fraction(1, 2)
    assert rounding_half_width("1.5" + "x" * 197 + "99") == Fraction(1, 20)
