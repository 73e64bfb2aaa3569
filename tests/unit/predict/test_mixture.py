"""Mixtures of answers: quantiles, and intervals that are widened."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.predict.calibration.mixture import (
    Component,
    Interval,
    Mixture,
    plain_interval,
    widened,
)


def test_one_answer_has_its_own_quantiles() -> None:
    one = Mixture([Component(1.0, 10.0, 0.2)])
    assert one.quantile(0.5) == pytest.approx(10.0)
    assert one.quantile(0.95) == pytest.approx(10.0 * math.exp(1.6449 * 0.2), rel=1e-4)


def test_two_sure_answers_make_an_interval_of_both() -> None:
    both = plain_interval(Mixture([Component(0.8, 10.0, 0.01), Component(0.2, 40.0, 0.01)]))
    assert both.value == pytest.approx(10.0, rel=0.01)
    assert both.low == pytest.approx(9.8, rel=0.01)
    assert both.high == pytest.approx(40.3, rel=0.01)


@pytest.mark.parametrize(("share", "expected"), [(0.05, 10.0), (0.5, 20.0), (0.95, 4e9)])
def test_answers_without_doubt_are_the_quantiles_themselves(share: float, expected: float) -> None:
    sure = Mixture([Component(w, m, 0.0) for w, m in ((0.1, 10.0), (0.5, 20.0), (0.4, 4e9))])
    assert sure.quantile(share) == pytest.approx(expected, rel=1e-5)


def test_a_quantile_has_its_share_below_it() -> None:
    mixture = Mixture([Component(0.7, 10.0, 0.3), Component(0.3, 25.0, 0.1)])
    for share in (0.01, 0.05, 0.5, 0.69, 0.7, 0.95, 0.999):
        assert mixture.below(mixture.quantile(share)) == pytest.approx(share, abs=1e-8)


PARTS = st.lists(
    st.tuples(st.floats(0.01, 1.0), st.floats(1.0, 1e12), st.floats(0.0, 1.5)),
    min_size=1,
    max_size=6,
)


@given(parts=PARTS, shares=st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 0.99)))
def test_quantiles_rise_and_hold_their_share(
    parts: list[tuple[float, float, float]], shares: tuple[float, float]
) -> None:
    whole = sum(weight for weight, _, _ in parts)
    mixture = Mixture([Component(w / whole, median, d) for w, median, d in parts])
    low, high = (mixture.quantile(share) for share in sorted(shares))
    assert low <= high * (1 + 1e-9)
    assert mixture.below(high * 1.0001) >= max(shares) - 1e-6


def test_an_interval_is_widened_on_both_sides_and_never_loses_its_figure() -> None:
    plain = Interval(10.0, 8.0, 12.0)
    assert widened(plain, math.log(2)) == Interval(10.0, 4.0, 24.0)
    assert widened(plain, -5.0) == Interval(10.0, 10.0, 10.0)


@pytest.mark.parametrize(
    ("value", "expected"), [(5.0, 0.05), (10.0, 0.5), (40.0, 0.95), (1e-9, 0.0), (1e12, 1.0)]
)
def test_an_interval_has_a_twentieth_beyond_each_end(value: float, expected: float) -> None:
    assert Interval(10.0, 5.0, 40.0).below(value) == pytest.approx(expected, abs=1e-6)


def test_a_figure_without_doubt_is_below_all_that_is_more() -> None:
    sure = Interval(10.0, 10.0, 10.0)
    assert (sure.below(9.9), sure.below(10.1)) == (0.0, 1.0)
