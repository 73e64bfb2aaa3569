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
