from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import UnitError
from registry.units import split_glued

PLACE = "table 1, row 5, column '显存占用(MB)'"
PAGES_OR_MIB = r"[0-9]+\.[0-9]{4}|[0-9]+MiB"


@pytest.mark.parametrize(
    ("text", "pattern", "parts"),
    [
        ("19869.937519871.9375", "decimals", ("19869.9375", "19871.9375")),
        ("19035.937519069.9375", "decimals", ("19035.9375", "19069.9375")),
        ("1.3031.505", "decimals", ("1.303", "1.505")),
        ("1986919859", "integers", ("19869", "19859")),
        ("2189821892", "integers", ("21898", "21892")),
        ("14:0412:10", "clock", ("14:04", "12:10")),
        ("17025.937516636MiB", PAGES_OR_MIB, ("17025.9375", "16636MiB")),
        ("123456", "integers", ("12", "34", "56")),
        ("42", "[0-9]+", ("42",)),
    ],
)
def test_glued_figures_come_apart(text: str, pattern: str, parts: tuple[str, ...]) -> None:
    assert split_glued(text, len(parts), where=PLACE, pattern=pattern) == parts


def test_two_possible_splits_are_listed_and_refused() -> None:
    with pytest.raises(UnitError) as caught:
        split_glued("1234", 2, where=PLACE, pattern="[0-9]+")
    assert str(caught.value) == (
        f"{PLACE}: found '1234', expected one way to split it into 2 glued figures, each [0-9]+, "
        "not 1 + 234; 12 + 34; 123 + 4"
    )


@pytest.mark.parametrize(
    ("text", "parts", "pattern"),
    [
        ("12345", 2, "integers"),
        ("1.52.25", 2, "decimals"),
        ("10", 2, "integers"),
        ("", 1, "integers"),
        ("1", 2, "integers"),
        ("12", 0, "integers"),
        ("12", 99, "integers"),
        ("12", 2, "["),
    ],
)
def test_no_possible_split_is_refused(text: str, parts: int, pattern: str) -> None:
    with pytest.raises(UnitError) as caught:
        split_glued(text, parts, where=PLACE, pattern=pattern)
    assert str(caught.value).startswith(f"{PLACE}: found ")


def test_a_long_text_without_a_split_ends_soon() -> None:
    with pytest.raises(UnitError):
        split_glued("1" * 150 + "a", 12, where=PLACE, pattern="[0-9]+")


@given(st.lists(st.integers(10_000, 99_999), min_size=1, max_size=8))
def test_equally_long_integers_always_come_apart(figures: list[int]) -> None:
    glued = "".join(map(str, figures))
    parts = split_glued(glued, len(figures), where=PLACE, pattern="integers")
    assert [int(part) for part in parts] == figures


def test_sixteen_figures_come_apart() -> None:
    digits = tuple("1234567891234567")
    assert split_glued("".join(digits), 16, where=PLACE, pattern="integers") == digits


@pytest.mark.parametrize("parts", [0, -1, 17])
def test_a_number_of_parts_out_of_range_is_refused(parts: int) -> None:
    with pytest.raises(UnitError) as caught:
        split_glued("12", parts, where=PLACE, pattern="integers")
    assert str(caught.value) == f"{PLACE}: found {parts} parts, expected 1 to 16"


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("123", "1 + 23; 12 + 3"),
        ("123456", "1 + 23456; 12 + 3456; 123 + 456; 1234 + 56; 12345 + 6"),
        ("1234567", "1 + 234567; 12 + 34567; 123 + 4567; 1234 + 567; 12345 + 67; …"),
    ],
)
def test_five_possible_splits_are_listed_and_more_are_hinted_at(text: str, listed: str) -> None:
    with pytest.raises(UnitError) as caught:
        split_glued(text, 2, where=PLACE, pattern="[0-9]+")
    assert str(caught.value) == (
        f"{PLACE}: found '{text}', expected one way to split it into 2 glued figures, each "
        f"[0-9]+, not {listed}"
    )


@pytest.mark.parametrize(
    ("pattern", "described"),
    [
        ("decimals", "numbers with equally many decimals, as in '19869.937519871.9375'"),
        ("integers", "integers with equally many digits, as in '2189821892'"),
        ("clock", "clock times m:ss or h:mm:ss, as in '14:0412:10'"),
        ("[a-z]", "[a-z]"),
    ],
)
def test_what_was_expected_of_each_part_is_said(pattern: str, described: str) -> None:
    with pytest.raises(UnitError) as caught:
        split_glued("1-2", 2, where=PLACE, pattern=pattern)
    assert str(caught.value) == (
        f"{PLACE}: found '1-2', expected 2 glued figures, each {described}"
    )


def test_a_pattern_that_is_none_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnitError) as caught:
        split_glued("12", 2, where=PLACE, pattern="[")
    assert str(caught.value) == (
        f"{PLACE}: found pattern '[', expected a regular expression (missing ]: [); "
        f"lookarounds and "
        "references back are not supported, or one of decimals, integers, clock"
    )


def test_clock_times_with_hours_come_apart() -> None:
    parts = split_glued("1:02:0312:10", 2, where=PLACE, pattern="[0-9]:[0-9]{2}:[0-9]{2}|[0-9:]{5}")
    assert parts == ("1:02:03", "12:10")


def test_a_bold_cell_comes_apart_too() -> None:
    assert split_glued("**1.3031.505**", 2, where=PLACE, pattern="decimals") == ("1.303", "1.505")


def test_a_part_is_never_empty() -> None:
    assert split_glued("12", 2, where=PLACE, pattern="[0-9]*") == ("1", "2")
