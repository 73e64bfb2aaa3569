from __future__ import annotations

from fractions import Fraction

import pytest

from registry.errors import UnitError
from registry.units import (
    Figure,
    check_related,
    figure_of,
    parse_count,
    parse_duration,
    parse_memory,
    parse_rate,
)
from registry.units.number import rounding_half_width

PLACE = "row 1"


def _rate(text: str) -> Figure:
    return figure_of(parse_rate(text, where=PLACE).quantity)


@pytest.mark.parametrize(
    ("raw", "half_width"),
    [
        ("0.653", Fraction(1, 2000)),
        ("48.8k", Fraction(1, 20)),
        ("5h35min", Fraction(1, 2)),
        ("1,000", Fraction(1, 2)),
        ("**2.50**", Fraction(1, 200)),
        ("1.5e3", Fraction(50)),
    ],
)
def test_half_a_unit_in_the_last_digit(raw: str, half_width: Fraction) -> None:
    assert rounding_half_width(raw) == half_width


def test_a_text_without_a_number_has_no_rounding() -> None:
    with pytest.raises(UnitError, match="a text with a number in it"):
        rounding_half_width("OOM")


@pytest.mark.parametrize(
    ("figure", "half_width"),
    [
        (figure_of(parse_count("48.8k", where=PLACE)), 50),
        (figure_of(parse_count("274", where=PLACE)), 0),
        (figure_of(parse_duration("5h35min", where=PLACE)), 30),
        (figure_of(parse_duration("07:01", where=PLACE)), 1),
        (figure_of(parse_memory("36.6G", where=PLACE)), 50_000_000),
        (_rate("0.45iter/s(3h total)"), 0.005),
    ],
)
def test_half_widths_are_in_the_canonical_unit(figure: Figure, half_width: float) -> None:
    assert figure.half_width == pytest.approx(half_width)


@pytest.mark.parametrize(
    ("rate", "time"),
    [("0.085 sample/s", "3:35:20"), ("2.609 sample/s", "07:01"), ("1.341 sample/s", "13:40")],
)
def test_figures_that_agree_within_rounding_give_no_problem(rate: str, time: str) -> None:
    figures = {
        "n_samples": Figure(1100),
        "samples_per_second": _rate(rate),
        "total_seconds": figure_of(parse_duration(time, where=PLACE)),
    }
    assert check_related(figures) == ()


def test_a_rounded_count_is_allowed_its_rounding() -> None:
    figures = {
        "n_samples": figure_of(parse_count("48.8k", where=PLACE)),
        "seconds_per_sample": figure_of(parse_duration("0.4118s", where=PLACE)),
        "total_seconds": figure_of(parse_duration("5h35min", where=PLACE)),
    }
    assert check_related(figures) == ()


def test_tokens_that_disagree_with_the_time_are_reported() -> None:
    figures = {
        "n_tokens": Figure(797459),
        "tokens_per_second": _rate("991.86 token/s"),
        "total_seconds": figure_of(parse_duration("13:40", where=PLACE)),
    }
    (problem,) = check_related(figures)
    assert problem.figures == ("tokens_per_second", "total_seconds", "n_tokens")
    assert problem.ratio == pytest.approx(1.0199, abs=1e-4)
    assert 1 < problem.lowest < problem.ratio < problem.highest


def test_a_rate_against_the_time_of_one_is_checked() -> None:
    figures = {"seconds_per_sample": Figure(0.5), "samples_per_second": Figure(4.0)}
    (problem,) = check_related(figures)
    assert problem.ratio == 2


def test_what_is_not_stated_or_zero_is_not_checked() -> None:
    assert check_related({"n_samples": Figure(5), "total_seconds": Figure(1)}) == ()
    zero = {"seconds_per_sample": Figure(0), "samples_per_second": Figure(4)}
    assert check_related(zero) == ()


RELATED = {
    "n_samples": 1000.0,
    "n_tokens": 50_000.0,
    "n_steps": 20.0,
    "total_seconds": 100.0,
    "samples_per_second": 10.0,
    "tokens_per_second": 500.0,
    "seconds_per_sample": 0.1,
    "seconds_per_step": 5.0,
}

RELATIONS = [
    ("samples_per_second", "total_seconds", "n_samples"),
    ("tokens_per_second", "total_seconds", "n_tokens"),
    ("seconds_per_sample", "n_samples", "total_seconds"),
    ("seconds_per_step", "n_steps", "total_seconds"),
    ("seconds_per_sample", "samples_per_second"),
    ("tokens_per_second", "n_samples", "samples_per_second", "n_tokens"),
]


def test_eight_figures_of_one_run_agree_in_every_relation() -> None:
    figures = {name: Figure(value) for name, value in RELATED.items()}
    assert check_related(figures) == ()


@pytest.mark.parametrize("relation", RELATIONS)
def test_each_relation_is_checked_where_its_figures_are_stated(relation: tuple[str, ...]) -> None:
    stated = {name: Figure(RELATED[name]) for name in relation}
    doubled = {**stated, relation[0]: Figure(2 * RELATED[relation[0]])}
    (problem,) = check_related(doubled)
    assert problem.figures == relation
    assert problem.ratio == pytest.approx(2)
    assert problem.lowest == pytest.approx(2)
    assert problem.highest == pytest.approx(2)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_relation_of_which_a_figure_is_missing_is_not_checked(relation: tuple[str, ...]) -> None:
    for missing in relation:
        wrong = {name: Figure(7 * RELATED[name]) for name in relation if name != missing}
        assert check_related(wrong) == ()


def test_rounding_widens_the_interval_to_both_sides() -> None:
    figures = {
        "n_samples": Figure(90.0, 10.0),
        "samples_per_second": Figure(20.0, 5.0),
        "total_seconds": Figure(10.0, 2.0),
    }
    (problem,) = check_related(figures)
    assert problem.ratio == pytest.approx(200 / 90)
    assert problem.lowest == pytest.approx(15 * 8 / 100)
    assert problem.highest == pytest.approx(25 * 12 / 80)


@pytest.mark.parametrize("half_width", [1.0, 1.0 + 1e-10])
def test_figures_that_touch_within_rounding_agree(half_width: float) -> None:
    above = {
        "seconds_per_step": Figure(11.0, half_width),
        "n_steps": Figure(10),
        "total_seconds": Figure(100),
    }
    below = {
        "seconds_per_step": Figure(9.0, half_width),
        "n_steps": Figure(10),
        "total_seconds": Figure(100),
    }
    assert check_related(above) == check_related(below) == ()


def test_the_last_bits_of_a_float_are_no_disagreement() -> None:
    figures = {"seconds_per_sample": Figure(0.1), "samples_per_second": Figure(10 + 1e-9)}
    assert check_related(figures) == ()
    apart = {"seconds_per_sample": Figure(0.1), "samples_per_second": Figure(10 + 1e-6)}
    assert len(check_related(apart)) == 1


def test_a_figure_that_may_be_zero_has_no_highest_ratio() -> None:
    figures = {
        "n_samples": Figure(0.4, 0.5),
        "samples_per_second": Figure(5.0),
        "total_seconds": Figure(10.0),
    }
    (problem,) = check_related(figures)
    assert problem.highest == float("inf")
    assert problem.lowest == pytest.approx(50 / 0.9)


@pytest.mark.parametrize(
    ("figure", "half_width"),
    [
        (figure_of(parse_count("1,000", where=PLACE)), 0.0),
        (figure_of(parse_count("4.19M", where=PLACE)), 5000.0),
        (figure_of(parse_memory("1", where=PLACE, default_unit="MiB", reason="so")), 2**19),
        (figure_of(parse_duration("3:35:20", where=PLACE)), 1.0),
        (figure_of(parse_duration("18.37", where=PLACE, read_as="mm.ss", reason="so")), 1.0),
        (figure_of(parse_duration("3:35", where=PLACE, read_as="h:mm", reason="so")), 30.0),
        (figure_of(parse_duration("3:05", where=PLACE, read_as="d:hh", reason="so")), 1800.0),
        (figure_of(parse_duration("7.0min", where=PLACE)), 3.0),
        (_rate("0.95 sample/s (87.5 samples)"), 0.005),
        (_rate("0.95 sample/s\uff0887.5 samples\uff09"), 0.005),
    ],
)
def test_the_half_width_is_of_the_last_digit_in_the_last_unit(
    figure: Figure, half_width: float
) -> None:
    assert figure.half_width == pytest.approx(half_width)
