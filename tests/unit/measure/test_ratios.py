"""Ratios and their intervals."""

from __future__ import annotations

import random
from typing import Any

import pytest

from registry.errors import SourceError
from registry.measure.ratios import Ratio, compare, compare_memory, compare_observations


def test_the_same_samples_have_ratio_one() -> None:
    samples = [1.0, 1.1, 0.9, 1.0, 1.05]
    ratio = compare(samples, samples)
    assert ratio.value == 1.0
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < 1.0 < ratio.high
    assert not ratio.exceeds(1.05)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    generator = random.Random(3)  # noqa: S311 - no secret
    covered = 0
    for trial in range(100):
        a = [generator.gauss(1.0, 0.05) for _ in range(30)]
        b = [generator.gauss(1.2, 0.05) for _ in range(30)]
        ratio = compare(a, b, seed=trial)
        assert ratio.low is not None
        assert ratio.high is not None
        covered += ratio.low <= 1.2 <= ratio.high
    assert covered >= 88  # 95 in the mean; 88 or fewer: once in 500 sets of 100


def test_the_same_seed_gives_the_same_interval() -> None:
    a, b = [1.0, 1.2, 1.1, 0.9], [2.0, 2.2, 2.1, 1.9]
    assert compare(a, b) == compare(a, b)


def test_two_samples_make_no_interval() -> None:
    ratio = compare([1.0, 1.0], [2.0, 2.0, 2.0])
    assert (ratio.value, ratio.low) == (2.0, None)
    assert ratio.note == "fewer than 3 samples on a side: no interval"
    assert ratio.exceeds(1.5)


@pytest.mark.parametrize("samples", [[], [1.0, 0.0], [-1.0]])
def test_samples_that_are_no_durations_are_refused(samples: list[float]) -> None:
    with pytest.raises(SourceError, match=r"samples of b: found \d; expected positive seconds"):
        compare([1.0], samples)


def observation(**metrics: float) -> dict[str, Any]:
    rows = [{"metric": name, "value": value} for name, value in metrics.items()]
    return {"measurements": rows}


def test_totals_have_a_ratio_and_no_interval() -> None:
    ratio = compare_observations(observation(total_time=2103.0), observation(total_time=942.0))
    assert ratio.value == pytest.approx(0.448, abs=5e-4)
    assert (ratio.metric, ratio.low) == ("total_time", None)
    assert ratio.note == "only totals are recorded: no interval"


def test_a_higher_rate_is_faster() -> None:
    slow, fast = observation(samples_per_second=1.0), observation(samples_per_second=4.0)
    assert compare_observations(slow, fast).value == 0.25


def test_samples_go_before_totals_and_warmup_is_left_out() -> None:
    def run(seconds: float) -> dict[str, Any]:
        steps = [{"step": 1, "seconds": 99.0, "warmup": True}]
        steps += [{"step": step, "seconds": seconds} for step in range(2, 8)]
        return {**observation(total_time=1.0), "samples": steps}

    ratio = compare_observations(run(1.0), run(2.0))
    assert (ratio.value, ratio.low, ratio.high) == (2.0, 2.0, 2.0)
    assert (ratio.metric, ratio.n_a) == ("step_time", 6)


def test_nothing_in_common_is_refused() -> None:
    with pytest.raises(SourceError, match="share no time and no rate"):
        compare_observations(observation(total_time=1.0), observation(samples_per_second=1.0))


def test_memory_of_different_kinds_is_not_compared() -> None:
    def peak(kind: str, value: float) -> dict[str, Any]:
        return {"measurements": [{"metric": "peak_memory", "kind": kind, "value": value}]}

    assert compare_memory(peak("allocated", 1.0), peak("device", 2.0)) is None
    assert compare_memory(peak("device", 1.0), peak("device", 2.0)) == Ratio(
        2.0, metric="peak_memory (device)", note="one figure each"
    )
