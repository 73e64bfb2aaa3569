"""What was measured nearby corrects the formula; what is far leaves it alone."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from registry.predict.calibration import gaussian_process
from registry.predict.calibration.fit_rows import FitRow, Prior, Spread
from registry.predict.calibration.gaussian_process import Design, covariance, fit, variances
from registry.predict.formula.peak_memory import Term

PRIOR = Prior(
    levels={"stack": Spread(0.1, 0.1), "series": Spread(0.05, 0.05)},
    local=Spread(0.03, 0.04),
    reach=2.0,
    noise=0.01,
    shared=0.5,
)


def row(
    key: str, stays: float, grows: float, value: float = 0.0, stack: str | None = "a"
) -> FitRow:
    terms = (
        Term("weights", "weights", stays, 0.05),
        Term("logits", "logits", grows, 0.2, transient=True),
    )
    groups = {"stack": stack, "series": (stack, "x") if stack else None}
    return FitRow(key, terms, groups, grows, value)


def test_with_nothing_near_the_formula_answers() -> None:
    other = replace(
        row("b", 0, 0), terms=(Term("other", "weights", 5.0, 0.1),), size=1.0, value=9.0
    )
    fitted = fit([other], PRIOR)
    mean, _ = fitted.predict(row("q", 10, 2, stack=None))
    assert mean == pytest.approx(12.0)


def test_a_measured_row_is_its_own_best_prediction() -> None:
    fitted = fit([row("m", 10, 2, 13.0)], PRIOR)
    mean, deviation = fitted.predict(row("q", 10, 2))
    assert mean == pytest.approx(13.0, rel=0.01)
    _, far = fitted.predict(row("q", 10, 2, stack=None))
    assert deviation < far / 3


def test_next_to_a_measured_row_the_answer_is_that_row_and_the_difference() -> None:
    fitted = fit([row("m", 10, 2, 13.0)], PRIOR)
    mean, _ = fitted.predict(row("q", 10, 3))
    assert 13.9 < mean < 14.5


def test_where_stacks_share_nothing_one_that_nobody_measured_is_left_to_the_formula() -> None:
    apart = replace(PRIOR, shared=0.0)
    asked = row("q", 10, 3, stack="new")
    means, deviations = fit([row("m", 10, 2, 13.0)], apart).predict_many([asked])
    own = variances(Design.of([asked]).terms, apart)
    assert means.tolist() == [asked.formula]
    assert deviations == pytest.approx(own**0.5)


def test_the_closed_form_is_leaving_out() -> None:
    rows = [
        row("m", 10, grows, 11 + 1.2 * grows + 0.1 * (i % 3))
        for i, grows in enumerate((1, 2, 4, 8))
    ]
    means, deviations = fit(rows, PRIOR, rounds=0).left_out()
    for i, one in enumerate(rows):
        mean, deviation = fit(rows[:i] + rows[i + 1 :], PRIOR, rounds=0).predict(one)
        assert means[i] == pytest.approx(mean)
        assert deviations[i] == pytest.approx(deviation)


def test_a_figure_far_off_is_believed_less() -> None:
    rows = [row(str(i), 10, 2 + i, 12.0 + i) for i in range(6)] + [row("bad", 10, 5, 40.0)]
    plain, robust = fit(rows, PRIOR, rounds=0), fit(rows, PRIOR)
    asked = row("q", 10, 4)
    assert abs(robust.predict(asked)[0] - 14) < 0.3 < abs(plain.predict(asked)[0] - 14)
    assert robust.noise_factors[-1] > 100


def test_running_out_of_memory_above_the_formula_raises_the_answer() -> None:
    failed = replace(row("oom", 10, 2, 14.0), censored=True)
    assert fit([failed], PRIOR).predict(row("q", 10, 2))[0] > 13


def test_running_out_of_memory_far_below_the_formula_says_nothing() -> None:
    failed = replace(row("oom", 10, 2, 6.0), censored=True)
    assert fit([failed], PRIOR).predict(row("q", 10, 2))[0] == pytest.approx(12.0, rel=1e-3)


def test_shares_name_the_rows_that_an_answer_rests_on() -> None:
    rows = [row("near", 10, 2, 12.5), row("far", 10, 2, 12.5, stack="b")]
    assert next(iter(fit(rows, PRIOR).shares(row("q", 10, 2))))[0] == "near"


#: Rows of weights 10 and logits 2, weights 20 and logits 4: formulas 12 and 24, sizes 2 and 4.
ONE, TWO = row("one", 10, 2, 13.0), row("two", 20, 4)
#: Doubts of 0.05 and 0.2 of the terms, each with its twin in the other row.
DOUBTS = (10 * 0.05) * (20 * 0.05) + (2 * 0.2) * (4 * 0.2)
#: What they share as neighbours of one size.
NEAR = 0.03**2 * 10 * 20 + 0.04**2 * 2 * 4


def covariance_of(left: FitRow, right: FitRow) -> float:
    design = Design.of([left, right])
    return float(covariance(design.like([left]), design.like([right]), PRIOR)[0, 0])


def test_rows_of_one_series_share_terms_stack_series_and_nearness() -> None:
    stack, series = 0.1**2 * (10 * 20 + 2 * 4), 0.05**2 * (10 * 20 + 2 * 4)
    near = math.exp(-0.5) * NEAR  # the sizes are one doubling apart, as is the reach
    assert covariance_of(ONE, TWO) == pytest.approx(DOUBTS + stack + series + near)


def test_a_wider_reach_brings_sizes_nearer() -> None:
    design = Design.of([ONE, TWO])
    wide = covariance(design, design, replace(PRIOR, reach=4.0))[0, 1]
    moved = (math.exp(-0.5 / 4) - math.exp(-0.5)) * NEAR
    assert wide - covariance_of(ONE, TWO) == pytest.approx(moved)


def test_rows_of_two_stacks_share_half_of_what_the_terms_may_be_off() -> None:
    assert covariance_of(ONE, replace(TWO, groups={"stack": "b", "series": ("b", "x")})) == (
        pytest.approx(DOUBTS / 2)
    )


def test_rows_without_a_stack_share_it_with_nobody() -> None:
    nobody = {"stack": None, "series": None}
    alone = [replace(one, groups=nobody) for one in (ONE, TWO)]
    assert covariance_of(*alone) == pytest.approx(DOUBTS / 2)


VARIANCE = (
    (10 * 0.05) ** 2 + (2 * 0.2) ** 2  # terms
    + (0.1**2 + 0.05**2) * (10**2 + 2**2)  # stack and series
    + (0.03 * 10) ** 2 + (0.04 * 2) ** 2  # nearness
    + (0.01 * 12) ** 2  # noise
)  # fmt: skip


def test_a_row_alone_varies_by_all_of_these_and_noise() -> None:
    assert variances(Design.of([ONE]).terms, PRIOR)[0] == pytest.approx(VARIANCE)


def test_one_measured_row_moves_another_by_their_covariance() -> None:
    shared = covariance_of(ONE, TWO)
    own = variances(Design.of([TWO]).terms, PRIOR)[0]
    mean, deviation = fit([ONE], PRIOR, rounds=0).predict(TWO)
    assert mean == pytest.approx(24 + shared / VARIANCE * (13 - 12))
    assert deviation == pytest.approx(math.sqrt(own - shared**2 / VARIANCE))


def test_a_prediction_never_falls_below_a_twentieth_of_the_formula() -> None:
    assert fit([replace(ONE, value=-500.0)], PRIOR, rounds=0).predict(ONE)[0] == 0.05 * 12


def test_the_share_of_a_row_is_its_weight_in_the_answer() -> None:
    ((key, share),) = fit([ONE], PRIOR, rounds=0).shares(TWO)
    assert key == "one"
    assert share == pytest.approx(covariance_of(ONE, TWO) / VARIANCE)


@pytest.mark.parametrize(("deviations", "factor"), [(2.4, 1.0), (5.0, 4.0), (-5.0, 4.0)])
def test_noise_grows_with_the_square_of_deviations_beyond_two_and_a_half(
    deviations: float, factor: float
) -> None:
    far = replace(ONE, value=12 + deviations * math.sqrt(VARIANCE))
    fitted = fit([far], PRIOR, rounds=1)
    assert fitted.noise_factors[0] == pytest.approx(factor)
    mean, deviation = fitted.left_out()
    assert mean[0] == pytest.approx(12.0)
    assert deviation[0] == pytest.approx(math.sqrt(VARIANCE))


def truncated(limit: float, mean: float, deviation: float) -> tuple[float, float]:
    """Return mean and variance of a normal above a limit, by adding up thin slices."""
    step = deviation / 2000
    places = [limit + (i + 0.5) * step for i in range(40_000)]
    weights = [math.exp(-0.5 * ((place - mean) / deviation) ** 2) for place in places]
    total = sum(weights)
    first = sum(w * x for w, x in zip(weights, places, strict=True)) / total
    spread = sum(w * (x - first) ** 2 for w, x in zip(weights, places, strict=True)) / total
    return first, spread


@pytest.mark.parametrize("limit", [-2.0, 0.0, 1.0, 5.0])
def test_a_limit_and_the_figure_put_in_its_place_say_the_same(limit: float) -> None:
    value, variance = gaussian_process._impute(limit, 0.0, 2.0)
    together = 1 / (1 / 4 + 1 / variance)
    mean, spread = truncated(limit, 0.0, 2.0)
    assert together == pytest.approx(spread, rel=1e-4)
    assert together * value / variance == pytest.approx(mean, rel=1e-4)


def test_a_limit_far_below_or_above_stays_within_bounds() -> None:
    assert gaussian_process._impute(-50.0, 0.0, 1.0)[1] == pytest.approx(1e6, rel=1e-3)
    assert gaussian_process._impute(1e6, 0.0, 1.0)[1] == pytest.approx(1e-3 / (1 - 1e-3))


@pytest.mark.parametrize("low", [-3.0, 0.0, 2.0, 6.0])
def test_the_hazard_is_density_over_tail(low: float) -> None:
    tail = 0.5 * math.erfc(low / math.sqrt(2))
    density = math.exp(-(low**2) / 2) / math.sqrt(2 * math.pi)
    assert gaussian_process._hazard(low) == pytest.approx(density / tail)


def test_the_hazard_far_out_is_its_expansion() -> None:
    assert gaussian_process._hazard(40.0) == 40 + 1 / 40
    # the expansion takes over where the tail is below 1e-12
    assert gaussian_process._hazard(7.04) == 7.04 + 1 / 7.04
    assert gaussian_process._hazard(7.03) < 7.03 + 1 / 7.03


@pytest.mark.parametrize("size", [1, 2, 32, 33, 150])
def test_a_triangle_times_its_inverse_is_one(size: int) -> None:
    factor = np.tril(np.cos(np.arange(size * size, dtype=np.float64)).reshape(size, size))
    factor += 2 * size * np.eye(size)
    inverse = gaussian_process._inverse_of_lower(factor)
    assert np.allclose(factor @ inverse, np.eye(size), rtol=0, atol=1e-12)
    assert not np.triu(inverse, 1).any()
