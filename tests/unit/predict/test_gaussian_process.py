"""What was measured nearby corrects the formula; what is far leaves it alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from registry.predict.calibration.gaussian_process import FitRow, Prior, Spread, fit
from registry.predict.formula.peak_memory import Term

PRIOR = Prior(
    levels={"stack": Spread(0.1, 0.1), "series": Spread(0.05, 0.05)},
    local=0.03,
    reach=2.0,
    noise=0.01,
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
