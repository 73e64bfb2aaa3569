"""What can be said of B: worse, not worse, or neither."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

import pytest

from registry.comparison.configurations import MISSING, Compared, compare_sides
from registry.comparison.verdicts import Judgement, judge, sum_up
from registry.measure.ratios import Ratio, compare
from registry_cli.comparison_text import format_verdict

FACTORS = (1.05, None)


def compared(time: Ratio | None = None, memory: Ratio | None = None, **more: object) -> Compared:
    return Compared("x", ("a",), ("b",), time, memory, **more)  # type: ignore[arg-type] # fields


def interval(value: float, low: float, high: float) -> Ratio:
    return Ratio(value, low, high, 0.95, 4, 4)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (interval(1.2, 1.1, 1.3), "worse"),
        (interval(1.06, 1.01, 1.11), "worse"),
        (interval(1.0, 0.96, 1.05), "not worse"),
        (interval(0.9, 0.8, 1.0), "not worse"),
        (interval(0.937, 0.405, 2.164), "cannot be told"),
        (interval(1.2, 0.9, 1.6), "cannot be told"),
        (interval(1.04, 1.02, 1.06), "cannot be told"),
        (Ratio(1.0, n_a=1, n_b=1), "cannot be told"),
        (Ratio(3.0, n_a=1, n_b=1), "cannot be told"),
    ],
)
def test_the_interval_decides(ratio: Ratio, verdict: str) -> None:
    assert judge(compared(ratio), FACTORS).verdict == verdict
    fine = interval(1.0, 1.0, 1.0)
    assert judge(compared(fine, ratio), FACTORS).verdict == verdict


def test_equal_single_runs_are_never_worse() -> None:
    generator = random.Random(1)  # noqa: S311 - no secret
    runs = [generator.lognormvariate(0, 0.3) for _ in range(17)]
    ratios = [compare([a], [b]) for a, b in permutations(runs, 2)]
    assert sum(ratio.value > 1.05 for ratio in ratios) > 100
    assert {judge(compared(ratio), FACTORS).verdict for ratio in ratios} == {"cannot be told"}


def test_each_measure_has_its_factor() -> None:
    larger = interval(1.2, 1.1, 1.3)
    fine = interval(1.0, 1.0, 1.0)
    assert judge(compared(fine, larger), (1.05, None)) == Judgement("worse", ("memory",))
    assert judge(compared(fine, larger), (1.05, None)).why == ("memory",)
    assert judge(compared(fine, larger), (1.05, 1.5)) == Judgement("not worse")
    assert judge(compared(larger, fine), (1.5, 1.05)) == Judgement("not worse")


def test_a_median_step_as_fast_as_before_does_not_hide_steps_that_stall() -> None:
    fine, slow = interval(1.0, 0.98, 1.02), interval(1.5, 1.4, 1.6)
    stalls = "the average step (train_time) takes 4.080 times as long"
    assert judge(compared(fine, mean_step=4.08), FACTORS).reasons == (stalls,)
    assert judge(compared(fine, mean_step=4.08), FACTORS).verdict == "cannot be told"
    assert judge(compared(slow, mean_step=4.08), FACTORS) == Judgement("worse", ("time",))
    for usual in (None, 0.2, 1.2):
        assert judge(compared(fine, mean_step=usual), FACTORS).verdict == "not worse"
    assert judge(compared(fine, mean_step=1.6), (2.0, None)).verdict == "not worse"


def _run(number: int, train_time: float, n_steps: int = 10) -> dict[str, object]:
    figures = {"step_time": 0.1, "train_time": train_time, "n_steps": n_steps}
    return {
        "observation_id": f"{number:032x}",
        "outcome": "ok",
        "configuration": {"configuration_id": "c", "model_id": "m", "method": "lora"},
        "environment": {},
        "flags": [],
        "measurements": [
            {
                "metric": name,
                "value": value,
                "statistic": "median" if name == "step_time" else "value",
            }
            for name, value in figures.items()
        ],
    }


def test_the_average_step_is_what_training_takes_over_its_steps() -> None:
    a, b = [_run(n, 1.0 + n / 100) for n in range(2)], [_run(n, 4.0 + n / 100) for n in (2, 3)]
    (found,) = compare_sides(a, b)
    assert found.mean_step == pytest.approx(4.025 / 1.005)
    assert found.time is not None
    assert found.time.value == 1
    without = [{**run, "measurements": run["measurements"][:2]} for run in b]  # type: ignore[index]
    (found,) = compare_sides(a, without)
    assert found.mean_step is None


def test_a_failure_is_worse_whatever_the_ratios() -> None:
    ratio = Ratio(1.0, n_a=1, n_b=1)
    assert judge(compared(ratio, regression="was ok, is oom"), FACTORS).worse_in == ("outcome",)


def test_what_has_no_figure_in_common_cannot_be_told() -> None:
    fine = interval(1.0, 1.0, 1.0)
    found = judge(compared(fine, unshared=("memory",)), FACTORS)
    assert found == Judgement("cannot be told", (), ("no memory in common",))
    assert judge(Compared("x", (), ()), FACTORS).reasons == ("no run of b succeeded",)
    assert judge(Compared("x", (), ("b",)), FACTORS).verdict == "not worse"


@pytest.mark.parametrize(
    ("regressions", "line"),
    [
        ([""], "1 of 1 is worse by more than a factor of 1.05"),
        (["was ok, is oom"], "1 of 1 is worse: it fails"),
        ([MISSING], "1 of 1 is worse: it is missing"),
        (["was ok, is oom", "was ok, is error"], "2 of 2 are worse: 2 fail"),
        (
            ["was ok, is oom", MISSING, ""],
            "3 of 3 are worse: 1 fails, 1 is missing, 1 is worse by more than a factor of 1.05",
        ),
    ],
)
def test_the_line_says_in_what_it_is_worse(regressions: list[str], line: str) -> None:
    times = [interval(1.0 if said else 1.2, 0.9 if said else 1.1, 1.3) for said in regressions]
    found = [compared(time, regression=said) for time, said in zip(times, regressions, strict=True)]
    assert format_verdict(found, FACTORS) == line


@pytest.mark.parametrize(
    ("verdicts", "together"),
    [
        (("not worse", "not worse"), "not worse"),
        (("not worse", "cannot be told"), "cannot be told"),
        (("cannot be told", "worse", "not worse"), "worse"),
    ],
)
def test_all_verdicts_together_are_the_worst_one(verdicts: list[Any], together: str) -> None:
    assert sum_up(map(Judgement, verdicts)) == together
