from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import UnitError
from registry.units import format_memory, parse_memory

PLACE = "table 3, row 2, column 'GPU Memory'"
GIB = 2**30
BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
DECIMAL = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "G": 10**9, "M": 10**6}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("36.6G", 36_600_000_000),
        ("16GB", 16_000_000_000),
        ("4.82 GB", 4_820_000_000),
        ("19869.9375MiB", 19869 * 2**20 + 15 * 2**16),
        ("20822MiB", 20822 * 2**20),
        ("**36G**", 36_000_000_000),
        ("1,024 MiB", GIB),
        ("512 bytes", 512),
        ("24 ГБ", 24_000_000_000),
        ("24 Гб", 24_000_000_000),
        ("0.5B", 0),
        ("1.5B", 2),
    ],
)
def test_memory_is_exact_in_bytes(text: str, expected: int) -> None:
    quantity = parse_memory(text, where=PLACE)
    assert quantity.value == expected
    assert (quantity.unit, quantity.raw, quantity.reason) == ("byte", text, None)


def test_gibibytes_are_not_gigabytes() -> None:
    assert parse_memory("1GiB", where=PLACE) > parse_memory("1GB", where=PLACE)
    assert parse_memory("1MiB", where=PLACE) != parse_memory("1MB", where=PLACE)


def test_a_decimal_label_is_bounded_by_its_binary_reading() -> None:
    quantity = parse_memory("15.81GB", where=PLACE, capacity_bytes=24 * GIB)
    assert quantity.reading == "GB"
    assert quantity.low == quantity.value == 15_810_000_000
    assert quantity.high == round(Fraction("15.81") * GIB)


@pytest.mark.parametrize(("text", "capacity_gib"), [("162.0G", 160), ("24.56GB", 24)])
def test_a_reading_above_the_cards_is_excluded(text: str, capacity_gib: int) -> None:
    quantity = parse_memory(text, where=PLACE, capacity_bytes=capacity_gib * GIB)
    assert quantity.low == quantity.value == quantity.high
    assert quantity.reading == "GB"


def test_pages_of_64_kib_exclude_the_decimal_reading() -> None:
    quantity = parse_memory(
        "15075.9375", where=PLACE, default_unit="MB", read_as="MiB", reason="multiples of 64 KiB"
    )
    assert quantity.value == quantity.low == quantity.high == 15075 * 2**20 + 15 * 2**16
    assert (quantity.unit_as_written, quantity.reading) == (None, "MiB")
    assert quantity.reason == "multiples of 64 KiB"


def test_a_figure_printed_in_binary_is_not_read_as_decimal_silently() -> None:
    with pytest.raises(UnitError) as caught:
        parse_memory("15075.9375MB", where=PLACE)
    assert str(caught.value) == (
        f"{PLACE}: found '15075.9375MB', which in MB is not a whole number of memory blocks and in "
        "MiB is one, expected a stated reading; read it as 'MiB' and give the reason"
    )


def test_few_decimals_prove_no_page_size() -> None:
    assert parse_memory("20.5GB", where=PLACE).value == 20_500_000_000


def test_an_integer_read_as_mib_keeps_its_decimal_bound() -> None:
    quantity = parse_memory("11300MB", where=PLACE, read_as="MiB", reason="other cells say MiB")
    assert (quantity.low, quantity.value, quantity.high) == (
        11_300_000_000,
        11300 * 2**20,
        11300 * 2**20,
    )


def test_an_explicit_binary_unit_needs_no_mapping() -> None:
    quantity = parse_memory(
        "20822MiB", where=PLACE, default_unit="MB", read_as="MiB", reason="other cells say MiB"
    )
    assert (quantity.reading, quantity.reason) == ("MiB", None)
    assert quantity.low == quantity.value == quantity.high


def test_a_plus_makes_a_lower_bound() -> None:
    quantity = parse_memory("144 GB+", where=PLACE)
    assert (quantity.value, quantity.low, quantity.high) == (144 * 10**9, 144 * 10**9, None)


def test_a_figure_above_the_cards_is_refused_unless_flagged() -> None:
    with pytest.raises(UnitError) as caught:
        parse_memory("25GiB", where=PLACE, capacity_bytes=24 * GIB)
    assert str(caught.value) == (
        f"{PLACE}: found '25GiB', read as GiB 26843545600 bytes, expected at most the 25769803776 "
        "bytes of the cards; correct the unit or the cards, or flag the figure as over capacity"
    )
    flagged = parse_memory("25GiB", where=PLACE, capacity_bytes=24 * GIB, allow_over_capacity=True)
    assert flagged.value == flagged.low == flagged.high == 25 * GIB


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x/2GB",
        "2xT4 / 32GB",
        "1.98x",
        "OOM",
        "-1GB",
        "nan",
        "inf",
        "51.2",
        "1Gb",
        "12 parsec",
        "٣GB",
        "9" * 300,
        "9" * 60 + "GB",
        "1,00GB",
        "50%",
        "8.4GB | 6GB",
        "61.34+73.00",
    ],
)
def test_what_is_no_amount_of_memory_is_refused_by_place(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_memory(text, where=PLACE)
    assert str(caught.value).startswith(f"{PLACE}: found ")


def test_a_bare_number_says_what_it_lacks() -> None:
    with pytest.raises(UnitError) as caught:
        parse_memory("51.2", where=PLACE)
    assert str(caught.value) == (
        f"{PLACE}: found '51.2', expected an amount of memory such as '36.6G', '20822MiB' or "
        "'144 GB+': a number alone needs a default unit and its reason"
    )


@pytest.mark.parametrize(
    ("text", "options"), [("51.2", {"default_unit": "G"}), ("51.2G", {"read_as": "GiB"})]
)
def test_an_inference_without_a_reason_is_refused(text: str, options: dict[str, str]) -> None:
    with pytest.raises(UnitError, match="without a reason, expected one"):
        parse_memory(text, where=PLACE, **options)  # type: ignore[arg-type]


def test_a_label_is_read_only_as_its_own_other_reading() -> None:
    with pytest.raises(UnitError) as caught:
        parse_memory("5GB", where=PLACE, read_as="MiB", reason="guess")
    assert str(caught.value) == (
        f"{PLACE}: found the reading 'MiB' for a figure in GB, expected 'GB' or 'GiB'"
    )


decimals = st.decimals(min_value=0, max_value=10**7, places=4, allow_nan=False)


@given(decimals, st.sampled_from(sorted(BINARY.items())))
def test_no_float_drifts_into_bytes(number: object, unit: tuple[str, int]) -> None:
    quantity = parse_memory(f"{number}{unit[0]}", where=PLACE)
    assert quantity.value == round(Fraction(str(number)) * unit[1])


@given(st.integers(0, 10**9), st.sampled_from(sorted(DECIMAL.items())))
def test_the_readings_of_a_decimal_label_keep_their_order(
    number: int, unit: tuple[str, int]
) -> None:
    quantity = parse_memory(f"{number}{unit[0]}", where=PLACE)
    assert quantity.low == quantity.value == number * unit[1]
    assert quantity.high is not None
    assert quantity.high >= quantity.value


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_the_order_of_bytes_is_the_order_of_quantities(first: int, second: int) -> None:
    left, right = (parse_memory(f"{n} B", where=PLACE) for n in (first, second))
    assert (left < right) == (first < second)
    assert (left == right) == (first == second)


@given(st.integers(0, 2**50), st.sampled_from(["binary", "decimal"]))
def test_what_is_formatted_for_people_parses_to_nearly_the_same(
    memory_bytes: int, system: str
) -> None:
    text = format_memory(memory_bytes, system=system)  # type: ignore[arg-type]
    assert parse_memory(text, where=PLACE).value == pytest.approx(memory_bytes, rel=6e-4, abs=1)


def test_both_systems_name_their_unit() -> None:
    assert format_memory(GIB) == "1 GiB"
    assert format_memory(GIB, system="decimal") == "1.074 GB"
    assert format_memory(0) == "0 B"


def test_a_figure_printed_in_binary_is_decimal_where_the_mapping_says_so() -> None:
    quantity = parse_memory("15075.9375MB", where="row 1", read_as="MB", reason="the producer")
    assert (quantity.value, quantity.reading) == (15_075_937_500, "MB")


def test_a_reading_that_fills_the_cards_is_possible() -> None:
    quantity = parse_memory("1GB", where="row 1", capacity_bytes=2**30)
    assert (quantity.value, quantity.high) == (10**9, 2**30)


def test_a_reading_that_exceeds_the_cards_is_not_possible() -> None:
    quantity = parse_memory("1GB", where="row 1", capacity_bytes=2**30 - 1)
    assert (quantity.value, quantity.high) == (10**9, 10**9)


def test_a_reason_that_nothing_needs_is_not_kept() -> None:
    assert parse_memory("36.6G", where="row 1", reason="the text").reason is None
    assert parse_memory("36.6GiB", where="row 1", read_as="GB", reason="the text").reason is None


def test_a_figure_of_whole_blocks_in_both_units_is_read_as_written() -> None:
    assert parse_memory("1.1250TB", where="row 1").value == 1_125_000_000_000


def test_a_peak_that_fills_the_cards_is_read() -> None:
    assert parse_memory("1GiB", where="row 1", capacity_bytes=2**30).value == 2**30


def test_a_default_unit_without_a_reason_is_refused() -> None:
    with pytest.raises(UnitError) as caught:
        parse_memory("36.6", where="row 1", default_unit="GB")
    assert str(caught.value) == (
        "row 1: found the default unit 'GB' without a reason, expected one; say where the source "
        "or its producer shows it"
    )


@pytest.mark.parametrize(
    ("text", "value"), [("15075.0000MB", 15_075_000_000), ("15075.1234MB", 15_075_123_400)]
)
def test_whole_figures_and_other_fractions_prove_no_page_size(text: str, value: int) -> None:
    assert parse_memory(text, where="row 1").value == value


@pytest.mark.parametrize(
    ("text", "value", "high"),
    [
        ("60+ GB", 60 * 10**9, None),
        ("3\u00a0420 MiB", 3420 * 2**20, 3420 * 2**20),
        ("3'420 MiB", 3420 * 2**20, 3420 * 2**20),
        ("1\u202f234\u00a0567 KiB", 1234567 * 2**10, 1234567 * 2**10),
    ],
)
def test_a_bound_behind_the_number_and_marks_of_thousands_are_read(
    text: str, value: int, high: int | None
) -> None:
    found = parse_memory(text, where="here")
    assert (found.value, found.high, found.raw) == (value, high, text)


def test_an_apostrophe_that_parts_no_thousands_is_refused() -> None:
    with pytest.raises(UnitError, match='found "12\'34 MB"'):
        parse_memory("12'34 MB", where="here")
