from __future__ import annotations

import pytest

from registry.errors import UnitError
from registry.units import parse_memory_list

PLACE = "row 1"
FORMS = "the memory of several cards such as '61.34+73.00', '35.65GiB*2' or '8*64GB'"


def _bytes(text: str, *, pair: bool = False) -> list[int]:
    return [quantity.value for quantity in parse_memory_list(text, where=PLACE, pair=pair)]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1GiB", [2**30]),
        ("1GiB+2MiB", [2**30, 2**21]),
        ("1 + 2GiB", [2**30, 2**31]),
        ("1GiB + 2 + 3MiB", [2**30, 2**21, 3 * 2**20]),
        ("2GiB*3", [2**31] * 3),
        ("3*2GiB", [2**31] * 3),
        ("2 GiB x 3", [2**31] * 3),
        ("3x2GiB", [2**31] * 3),
        ("2GiB×1", [2**31]),  # noqa: RUF001 - the sign of multiplication is what is read
    ],
)
def test_sums_give_their_terms_and_products_repeat_theirs(text: str, values: list[int]) -> None:
    assert _bytes(text) == values


def test_up_to_16384_cards_are_repeated() -> None:
    assert len(parse_memory_list("1GiB*16384", where=PLACE)) == 16384


@pytest.mark.parametrize(
    "text", ["1GiB*16385", "2*3", "1GiB*2GiB", "1GiB*2GiB*3", "1GiB*2*3", "0*1GiB"]
)
def test_a_product_has_one_amount_and_one_number_of_cards(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_memory_list(text, where=PLACE)
    assert str(caught.value) == (
        f"row 1: found '{text}', expected {FORMS}: one amount and one number of cards"
    )


def test_a_pair_is_of_gpu_and_host() -> None:
    assert _bytes("8GiB | 6GiB", pair=True) == [8 * 2**30, 6 * 2**30]


def test_the_capacity_of_a_card_is_not_that_of_the_host() -> None:
    pair = parse_memory_list("8GiB | 60GiB", where=PLACE, pair=True, capacity_bytes=24 * 2**30)
    assert [quantity.value for quantity in pair] == [8 * 2**30, 60 * 2**30]


@pytest.mark.parametrize(("text", "pair"), [("8GB | 6GB", False), ("8GB | 6GB | 1GB", True)])
def test_a_pair_is_declared_and_has_two_parts(text: str, pair: bool) -> None:  # noqa: FBT001 - a case
    with pytest.raises(UnitError) as caught:
        parse_memory_list(text, where=PLACE, pair=pair)
    assert str(caught.value) == (
        f"row 1: found '{text}', expected {FORMS}; a pair of GPU and host memory must be declared "
        "as a pair"
    )


def test_a_single_amount_is_no_pair() -> None:
    with pytest.raises(UnitError) as caught:
        parse_memory_list("8GB", where=PLACE, pair=True)
    assert str(caught.value) == (
        "row 1: found '8GB', expected a pair of GPU and host memory such as '8.4GB | 6GB'"
    )


@pytest.mark.parametrize(
    ("text", "pair", "place"),
    [
        ("1GiB+2Gix", False, "row 1, card 1"),
        ("1Gix+2GiB+", False, "row 1, card 0"),
        ("1Gix+2GiB", False, "row 1, card 0"),
        ("1Gix", False, "row 1"),
        ("1Gix | 2GiB", True, "row 1, GPU part"),
        ("1GiB | 2Gix", True, "row 1, host part"),
    ],
)
def test_the_part_that_is_no_memory_is_named(text: str, pair: bool, place: str) -> None:  # noqa: FBT001 - a case
    with pytest.raises(UnitError) as caught:
        parse_memory_list(text, where=PLACE, pair=pair)
    assert str(caught.value).startswith(f"{place}: found unit 'Gix', expected a unit of memory")


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(UnitError) as caught:
        parse_memory_list("1" * 201, where=PLACE)
    assert str(caught.value) == (
        f"row 1: found '{'1' * 60}…', expected {FORMS} of at most 200 characters"
    )


def test_a_unit_after_a_lower_bound_does_not_hold_for_the_other_terms() -> None:
    with pytest.raises(UnitError) as caught:
        parse_memory_list("1+2GiB+", where=PLACE)
    assert str(caught.value).startswith("row 1, card 0: found '1', expected an amount of memory")
