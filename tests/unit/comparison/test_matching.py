"""Which runs are of one configuration."""

from __future__ import annotations

from typing import Any

import pytest

from registry.comparison.matching import find_repeats, match_sides

LOOP = {"recorder": "0.1.0", "trainer": "loop"}


def run(name: str, outcome: str = "ok", **configuration: Any) -> dict[str, Any]:
    return {
        "observation_id": name,
        "outcome": outcome,
        "provenance": LOOP,
        "configuration": {"configuration_id": repr(configuration), "method": "lora"}
        | configuration,
    }


def varied(name: str, longest: int, outcome: str = "ok", **more: Any) -> dict[str, Any]:
    more = {"micro_batch_size": 2, "grad_accum_steps": 1, **more}
    return run(name, outcome, seq_len=longest, length_distribution="variable", **more)


def early(name: str, width: int, **more: Any) -> dict[str, Any]:
    """Return a run that failed in its first step, whose one batch had one length."""
    more = {"seq_len": width, "length_distribution": "full", "micro_batch_size": 2, **more}
    return run(name, "error", **more)


def names(groups: dict[str, list[dict[str, Any]]]) -> list[list[str]]:
    return [[each["observation_id"] for each in runs] for runs in groups.values()]


def test_early_failures_are_of_the_one_configuration_that_they_fit_on_both_sides() -> None:
    a, b = match_sides(
        [early("a1", 97), varied("a2", 96), varied("a3", 90)],
        [early("b1", 53), early("b2", 53, micro_batch_size=3), varied("b3", 93, "error")],
    )
    assert names(a) == [["a1", "a2", "a3"]]
    assert names(b) == [["b1", "b3"], ["b2"]]


def test_what_fits_several_configurations_or_another_early_failure_alone_stays_apart() -> None:
    a, b = match_sides(
        [varied("a1", 96), varied("a2", 96, grad_accum_steps=4), early("a3", 53)], []
    )
    assert names(a) == [["a1"], ["a2"], ["a3"]]
    a, b = match_sides([early("a1", 53)], [run("b1", "error", micro_batch_size=2), varied("b2", 9)])
    assert (names(a), names(b)) == ([["a1"]], [["b1", "b2"]])


@pytest.mark.parametrize("outcome", ["error", "ok"])
def test_repeats_of_a_run_are_those_that_failed_early_as_well(outcome: str) -> None:
    others = [varied("1", 96), varied("2", 95, outcome), early("3", 40), varied("4", 9, method="x")]
    assert [each["observation_id"] for each in find_repeats(others[0], others)] == ["1", "2", "3"]
    assert find_repeats(others[2], others) == others[:3]
