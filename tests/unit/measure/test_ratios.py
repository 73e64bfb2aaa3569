"""Ratios of runs, and their intervals."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from registry.errors import SourceError
from registry.measure.ratios import (
    Noise,
    Ratio,
    choose_memory,
    choose_time,
    compare,
    compare_rounds,
    pool_noise,
    t_quantile,
)


def simulate(generator: random.Random, n: int, *, middle: float = 1.0) -> list[float]:
    """Return figures of runs that differ by 3 % from one to the next."""
    return [middle * math.exp(generator.gauss(0, 0.03)) for _ in range(n)]


@pytest.mark.parametrize("n", [2, 3, 8])
def test_intervals_of_equal_sides_exclude_one_as_seldom_as_they_say(n: int) -> None:
    generator = random.Random(n)  # noqa: S311 - no secret
    excluded = 0
    for _ in range(400):
        ratio = compare(simulate(generator, n), simulate(generator, n))
        assert ratio.low is not None
        assert ratio.high is not None
        excluded += not ratio.low <= 1 <= ratio.high
    assert excluded <= 36  # 20 in the mean; more: once in 2,500 sets of 400


def test_a_slowdown_by_a_tenth_is_found_with_eight_runs() -> None:
    generator = random.Random(5)  # noqa: S311 - no secret
    sides = ((simulate(generator, 8), simulate(generator, 8, middle=1.1)) for _ in range(100))
    assert sum(compare(a, b).exceeds(1.05) for a, b in sides) >= 95


def drift(generator: random.Random, n: int, *, slower: float = 1.0) -> list[tuple[float, float]]:
    """Return rounds of a machine that is now slow and now fast, whatever it runs."""
    rounds, mood = [], 0.0
    for _ in range(n):
        mood = 0.9 * mood + generator.gauss(0, 0.3)
        a, b = (math.exp(mood + generator.gauss(0, 0.03)) for _ in range(2))
        rounds.append((a, slower * b))
    return rounds


def in_rounds(rounds: list[tuple[float, float]]) -> Ratio:
    return compare_rounds([([a], [b]) for a, b in rounds])


@pytest.mark.parametrize("n", [2, 4, 8])
def test_rounds_of_equal_sides_exclude_one_seldom_on_a_machine_that_drifts(n: int) -> None:
    generator = random.Random(n)  # noqa: S311 - no secret
    ratios = [in_rounds(drift(generator, n)) for _ in range(400)]
    excluded = sum(not (ratio.low or 0) <= 1 <= (ratio.high or 0) for ratio in ratios)
    assert 4 <= excluded <= 36


def test_what_is_lost_in_the_drift_is_found_by_rounds() -> None:
    generator = random.Random(6)  # noqa: S311 - no secret
    rounds = [drift(generator, 8, slower=1.1) for _ in range(100)]
    apart = [compare([a for a, _ in each], [b for _, b in each]) for each in rounds]
    assert sum(in_rounds(each).exceeds(1.05) for each in rounds) >= 95
    assert sum(ratio.exceeds(1.05) for ratio in apart) <= 20


def test_one_round_has_no_interval_and_several_runs_of_a_side_are_one_figure() -> None:
    ratio = compare_rounds([([1.0, 4.0], [3.0])], metric="step_time")
    assert ratio.value == pytest.approx(1.5)
    assert (ratio.n_a, ratio.n_b, ratio.low, ratio.metric) == (2, 1, None, "step_time")
    assert ratio.note == "one round: no interval; run more rounds to get one"
    twice = compare_rounds([([1.0, 4.0], [3.0]), ([2.0], [3.0])])
    assert twice.low == pytest.approx(twice.high)
    assert (twice.n_a, twice.n_b, twice.note) == (3, 2, "2 alternating rounds")


@pytest.mark.parametrize(
    ("share", "degrees", "value"),
    [
        *((0.975, 1, 12.7062), (0.975, 2, 4.3027), (0.975, 14, 2.1448), (0.95, 7, 1.8946)),
        *((0.025, 14, -2.1448), (0.5, 3, 0.0), (0.975, 1e6, 1.95997)),
    ],
)
def test_quantiles_are_those_of_the_tables(share: float, degrees: float, value: float) -> None:
    assert t_quantile(share, degrees) == pytest.approx(value, rel=2e-4)


def test_one_run_a_side_has_no_interval() -> None:
    ratio = compare([1.0], [1.2])
    assert ratio.value == pytest.approx(1.2)
    assert ratio.low is None
    assert ratio.note == "one run on a side: no interval; repeat the runs to get one"
    assert ratio.exceeds(1.05)


def test_one_run_a_side_is_held_against_the_noise_of_other_repeats() -> None:
    floor = pool_noise([[1.0, 1.02, 0.98], [3.0], [5.0, 5.1]])
    assert floor is not None
    assert floor.degrees == 3
    assert 0.01 < floor.deviation < 0.03
    ratio = compare([1.0], [1.03], floor=floor)
    assert ratio.low is not None
    assert ratio.low < 1
    assert not ratio.exceeds(1.02)
    assert compare([1.0], [1.5], floor=floor).exceeds(1.05)


def test_without_repeats_there_is_no_noise() -> None:
    assert pool_noise([[1.0], [2.0]]) is None


def test_runs_without_scatter_have_an_interval_without_width() -> None:
    ratio = compare([2.0, 2.0], [3.0, 3.0], floor=Noise(0.1, 3))
    assert ratio.low == ratio.high == ratio.value


@pytest.mark.parametrize("figures", [[], [1.0, 0.0], [-1.0]])
def test_figures_that_are_none_are_refused(figures: list[float]) -> None:
    with pytest.raises(SourceError, match=r"runs of b: found \d; expected positive figures"):
        compare([1.0], figures)


def observation(**metrics: float) -> dict[str, Any]:
    rows = [{"metric": name, "value": value} for name, value in metrics.items()]
    return {"measurements": rows}


def stepped(seconds: float) -> dict[str, Any]:
    steps = [{"step": 1, "seconds": 99.0, "warmup": True}]
    steps += [{"step": step, "seconds": seconds} for step in range(2, 8)]
    return {**observation(total_time=1.0), "samples": steps}


def test_steps_go_before_totals_and_warmup_is_left_out() -> None:
    chosen = choose_time([stepped(1.0), stepped(2.0)])
    assert chosen is not None
    assert (chosen[0], chosen[1](stepped(2.0))) == ("step_time", 2.0)
    chosen = choose_time([stepped(1.0), observation(total_time=5.0)])
    assert chosen is not None
    assert (chosen[0], chosen[1](stepped(2.0))) == ("total_time", 1.0)


def test_a_higher_rate_is_faster() -> None:
    chosen = choose_time([observation(samples_per_second=4.0)])
    assert chosen is not None
    assert chosen[1](observation(samples_per_second=4.0)) == 0.25
    assert choose_time([observation(samples_per_second=4.0), observation(total_time=1.0)]) is None


def test_memory_is_of_one_kind() -> None:
    def peak(kind: str, value: float) -> dict[str, Any]:
        return {"measurements": [{"metric": "peak_memory", "value": value, "kind": kind}]}

    chosen = choose_memory([peak("reserved", 1.0), peak("reserved", 2.0)])
    assert chosen is not None
    assert (chosen[0], chosen[1](peak("reserved", 2.0))) == ("peak_memory (reserved)", 2.0)
    assert choose_memory([peak("reserved", 1.0), peak("allocated", 1.0)]) is None


def stated(metric: str, **figures: float) -> dict[str, Any]:
    """Return an observation with figures of several statistics of a metric."""
    kind = {"kind": "reserved"} if metric == "peak_memory" else {}
    rows = [
        {"metric": metric, "statistic": statistic, "value": value, **kind}
        for statistic, value in figures.items()
    ]
    return {"measurements": rows}


def test_figures_of_one_statistic_are_chosen() -> None:
    both, mean = stated("step_time", median=1.0, mean=2.0), stated("step_time", mean=3.0)
    chosen = choose_time([both, mean])
    assert chosen is not None
    assert (chosen[1](both), chosen[1](mean)) == (2.0, 3.0)
    chosen = choose_time([both, both])
    assert chosen is not None
    assert chosen[1](both) == 1.0
    for other in (stated("step_time", max=1.0), stated("step_time", value=1.0)):
        assert choose_time([both, other]) is None
        assert choose_time([other]) is not None


def test_where_statistics_differ_the_next_metric_is_taken() -> None:
    runs = [stated("step_time", median=1.0), stated("step_time", max=9.0)]
    for run in runs:
        run["measurements"] += stated("samples_per_second", value=4.0)["measurements"]
    chosen = choose_time(runs)
    assert chosen is not None
    assert (chosen[0], chosen[1](runs[1])) == ("samples_per_second", 0.25)


def test_rates_computed_from_times_of_two_statistics_are_not_in_common() -> None:
    runs = [stated("step_time", median=1.0), stated("step_time", mean=9.0)]
    for run in runs:
        (rate,) = stated("samples_per_second", value=4.0)["measurements"]
        run["measurements"].append({**rate, "origin": "derived"})
    assert choose_time(runs) is None
    runs[1]["measurements"][1]["origin"] = "reported"
    chosen = choose_time(runs)
    assert chosen is not None
    assert chosen[0] == "samples_per_second"


def test_a_single_figure_of_a_peak_is_its_maximum() -> None:
    runs = [stated("peak_memory", value=1.0), stated("peak_memory", max=2.0)]
    chosen = choose_memory(runs)
    assert chosen is not None
    assert [chosen[1](run) for run in runs] == [1.0, 2.0]
    assert choose_memory([stated("peak_memory", median=1.0), runs[1]]) is None


def test_figures_far_apart_have_finite_ratios() -> None:
    wide = compare([1e-100, 1e3], [1.0, 2.0])
    assert wide.low is not None
    assert wide.high is not None
    assert 0 < wide.low < wide.value < wide.high < math.inf
    tiny = stated("samples_per_second", value=5e-324)
    chosen = choose_time([tiny])
    assert chosen is not None
    slowest = chosen[1](tiny)
    assert slowest is not None
    for ratio in (compare([1e-300], [slowest]), compare_rounds([([1e-300], [slowest])] * 2)):
        assert 1e300 < ratio.value < math.inf
        assert ratio.exceeds(1.05)
