"""Ranges and tolerances: both ends are kept, and what only looks like one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from registry.errors import UnitError
from registry.units import figure_of, figures_in, is_cut, parse_figure, parse_quantity
from registry.units.range import Ends, split_range

MIDDLE = "the middle of a range in the source"
TOLERANCE = "a figure with a tolerance in the source"
GB = 10**9


@pytest.mark.parametrize(
    "text",
    [
        "18\u201320 GiB",
        "18-20 GiB",
        "18 GiB - 20 GiB",
        "18GiB~20GiB",
        "18\uff5e20GiB",
        "18 to 20 GiB",
        "18..20 GiB",
        "18至20GiB",
    ],
)
def test_a_range_is_its_middle_between_its_ends(text: str) -> None:
    found = parse_figure("byte", text, where="cell")
    assert (found["low"], found["value"], found["high"]) == (18 * 2**30, 19 * 2**30, 20 * 2**30)
    assert (found["raw"], found["reason"]) == (text, MIDDLE)


@pytest.mark.parametrize(
    "text", ["40±2 GiB", "40 +/- 2 GiB", "40GiB±2GiB", "40+-2GiB", "40GiB ± 2"]
)
def test_a_figure_with_a_tolerance_is_itself(text: str) -> None:
    found = parse_figure("byte", text, where="cell")
    assert (found["low"], found["value"], found["high"]) == (38 * 2**30, 40 * 2**30, 42 * 2**30)
    assert found["reason"] == TOLERANCE


def test_the_ends_of_a_range_have_both_readings_of_their_unit() -> None:
    found = parse_figure("byte", "18-20 GB", where="cell")
    assert (found["low"], found["value"], found["high"]) == (18 * GB, 19 * GB, 20 * 2**30)


@pytest.mark.parametrize(
    ("unit", "text", "ends"),
    [
        ("second", "1-2h", (3600, 7200)),
        ("second", "1h30-2h", (5400, 7200)),
        ("second", "1:30-2:00", (90, 120)),
        ("second", "about 1 to 2 hours", (3600, 7200)),
        ("token/second", "1,200-1,400 tokens/s", (1200, 1400)),
        ("FLOP/second", "120-125 TFLOP/s", (120e12, 125e12)),
        ("token", "10-20k", (10_000, 20_000)),
        ("1", "80-90%", (0.8, 0.9)),
    ],
)
def test_figures_of_every_kind_may_be_ranges(unit: str, text: str, ends: tuple[Any, Any]) -> None:
    found = parse_figure(unit, text, where="cell")
    assert (found["low"], found["high"]) == pytest.approx(ends)
    assert found["value"] == pytest.approx(sum(ends) / 2)


def test_the_times_of_a_range_of_speeds_fall() -> None:
    found = parse_figure("second", "2-4 it/s", where="cell", per="step")
    assert (found["low"], found["value"], found["high"]) == (0.25, 0.375, 0.5)


def test_a_range_that_is_about_says_both() -> None:
    found = parse_figure("byte", "~18-20 GiB", where="cell")
    assert found["reason"] == f"{MIDDLE}; approximate in the source"


def test_bare_ends_have_the_unit_of_the_header() -> None:
    options = {"default_unit": "GiB", "reason": "the header"}
    found = parse_quantity("byte", "18-20", where="cell", **options)  # type: ignore[arg-type]
    assert (found.low, found.high) == (18 * 2**30, 20 * 2**30)


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("byte", "20-18 GB"),
        ("byte", "18-18 GB"),
        ("byte", "2±3 GB"),
        ("byte", "18-20-22 GB"),
        ("byte", "18-20 GB+"),
        ("byte", ">18-20 GB"),
        ("byte", "18-20"),
        ("byte", "18GB-20"),
        ("byte", "18-"),
        ("byte", "40 GB ± 5%"),
        ("second", "10-11h30"),
        ("second", "2024-01-02"),
    ],
)
def test_what_only_looks_like_a_range_is_refused(unit: str, text: str) -> None:
    with pytest.raises(UnitError) as caught:
        parse_figure(unit, text, where="cell")
    assert str(caught.value).startswith("cell: found ")


def test_a_negative_exponent_is_no_range() -> None:
    assert split_range("1e-3 s") is None
    assert parse_figure("second", "1e-3 s", where="cell")["value"] == 0.001


def test_figures_in_a_text_are_told_without_bound_and_mark() -> None:
    assert figures_in("about 18 to 20") == ("18", "20")
    assert figures_in("~20 GB") == ("20 GB",)


def test_a_range_is_as_wide_for_what_it_implies_as_it_says() -> None:
    quantity = parse_quantity("second", "1-2h", where="cell")
    assert figure_of(quantity).half_width == 1800


@pytest.mark.parametrize(
    ("text", "figure", "expected"),
    [
        ("18\u201320 GB", "18", True),
        ("18\u201320 GB", "20", True),
        ("18\u201320 GB", "18\u201320", False),
        ("40+/-2 GB", "40", True),
        ("40 GB (±2 GB)", "40", True),
        ("~18 GB", "18", True),
        ("~18 GB", "~18", False),
        ("144 GB+", "144", True),
        ("61.34+73.00", "61.34", True),
        ("61.34+73.00", "73.00", True),
        ("20G左右", "20G", True),
        ("3.28e+02", "3.28", True),
        ("16 x 60GiB [b]", "60", False),
        ("22G (Each GPU, Need 1 GPU)", "22", False),
        ("over 2 nodes, 22G", "22", False),
        ("LoRA r=8, 22G", "22", False),
    ],
)
def test_a_part_that_leaves_out_what_belongs_to_its_figure_is_told(
    text: str, figure: str, *, expected: bool
) -> None:
    start = text.index(figure)
    assert is_cut(text, start, start + len(figure)) is expected


def test_a_range_that_is_refused_is_told_what_one_looks_like() -> None:
    with pytest.raises(UnitError) as caught:
        parse_figure("byte", "20-18 GB", where="cell")
    assert str(caught.value) == (
        "cell: found '20-18 GB', expected a range such as '18-20 GB' or '40±2 GB', the lowest "
        "figure first"
    )


def test_a_range_may_begin_at_nothing() -> None:
    figure = parse_figure("byte", "0-20 GB", where="cell")
    assert (figure["value"], figure["low"]) == (10_000_000_000, 0)


def test_ends_of_several_units_ascend_by_what_they_are() -> None:
    assert parse_figure("second", "90 s - 2min30s", where="cell")["value"] == 120
    with pytest.raises(UnitError):
        parse_figure("second", "150 s - 1min30s", where="cell")


def test_a_tolerance_takes_no_unit_of_a_figure_with_several() -> None:
    assert split_range("1h30 ± 5") == Ends("1h30", "5", has_tolerance=True)
    assert split_range("90min ± 5") == Ends("90min", "5min", has_tolerance=True)
