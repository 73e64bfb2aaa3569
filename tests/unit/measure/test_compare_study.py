"""The study of benchmarks/compare_study: which runs it calls A, and what it counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchmarks.compare_study.__main__ import report_real, split_blocks, take_turns
from benchmarks.compare_study.real import Run
from benchmarks.compare_study.simulated import compare_in_turns, excludes_one
from registry.measure.ratios import Ratio

if TYPE_CHECKING:
    import pytest


def test_runs_are_taken_in_turns_whose_order_changes() -> None:
    assert take_turns([1, 2, 3, 4, 5, 6]) == ([1, 4, 5], [2, 3, 6])
    assert list(split_blocks(list(map(float, range(9))), 2)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_an_interval_that_does_not_hold_1_is_counted() -> None:
    intervals = [(0.9, 1.1), (1.0, 1.2), (1.01, 1.2), (0.8, 0.99), (None, None)]
    found = [excludes_one(Ratio(1.0, low=low, high=high)) for low, high in intervals]
    assert found == [False, False, True, True, False]


def test_a_drift_that_halves_miss_is_met_by_both_sides_in_turns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seconds = [math.exp(0.1 * number) for number in range(8)]
    assert excludes_one(compare_in_turns(seconds[:4], seconds[4:]))
    assert not excludes_one(compare_in_turns(*take_turns(seconds)))
    assert report_real([Run(each, 1.0, 0.5) for each in seconds], 4)
    assert "1 of 1" in capsys.readouterr().out.splitlines()[4]
