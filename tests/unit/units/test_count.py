from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import UnitError
from registry.units import parse_count

PLACE = "table 4, row 9, column '#samples'"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("48.8k", 48800),
        ("4.19M", 4190000),
        ("7B", 7 * 10**9),
        ("1,000", 1000),
        ("1_000", 1000),
        ("274", 274),
        ("2.0", 2),
        ("1.5万", 15000),
    ],
)
def test_counts_are_exact(text: str, value: int) -> None:
    quantity = parse_count(text, where=PLACE)
    assert (quantity.value, quantity.unit, quantity.raw) == (value, "count", text)
    assert isinstance(quantity.value, int)


def test_a_foreign_label_is_read_only_with_a_reason() -> None:
    quantity = parse_count("33.55MB", where=PLACE, read_as="M", reason="the others say M")
    assert (quantity.value, quantity.unit_as_written) == (33_550_000, "MB")
    assert (quantity.reading, quantity.reason) == ("M", "the others say M")
    with pytest.raises(UnitError, match="without a reason"):
        parse_count("33.55MB", where=PLACE, read_as="M")


def test_a_reading_leaves_the_labels_of_counts_alone() -> None:
    quantity = parse_count("5k", where=PLACE, read_as="M", reason="the others say M")
    assert (quantity.value, quantity.reason) == (5000, None)


def test_a_unit_in_the_header_is_stated() -> None:
    quantity = parse_count("4.1943", where=PLACE, default_unit="M", reason="header")
    assert (quantity.value, quantity.reason) == (4_194_300, "header")


@pytest.mark.parametrize(
    "text", ["", "50%", "$5", "33.55MB", "1.5", "-3", "1,00", "nan", "2 x A100"]
)
def test_what_is_no_count_is_refused_by_place(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_count(text, where=PLACE)
    assert str(caught.value).startswith(f"{PLACE}: found ")


def test_an_unknown_stated_unit_names_the_known_ones() -> None:
    with pytest.raises(UnitError) as caught:
        parse_count("5", where=PLACE, default_unit="dozen", reason="header")
    assert str(caught.value) == (
        f"{PLACE}: found unit 'dozen', expected a unit of count (1, k, M, B, T, 万, 亿)"
    )


@given(st.integers(0, 10**15))
def test_counts_come_back_however_they_are_grouped(count: int) -> None:
    plain, commas, underscores = (parse_count(f"{count:{f}}", where=PLACE) for f in ("d", ",", "_"))
    assert plain.value == commas.value == underscores.value == count


def test_what_is_no_count_is_told_what_one_looks_like() -> None:
    with pytest.raises(UnitError) as caught:
        parse_count("x", where=PLACE)
    assert str(caught.value) == (
        f"{PLACE}: found 'x', expected a count such as '274', '48.8k', '4.19M' or '1,000'"
    )
