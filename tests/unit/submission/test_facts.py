"""Facts about an observation's figures."""

from __future__ import annotations

from typing import Any

import pytest

from registry.contract import rule_facts
from registry.submission.facts import collect_facts, peak_memory_per_gpu


def _peak(value: float, **rest: Any) -> dict[str, Any]:
    return {"metric": "peak_memory", "scope": "total", "kind": "device", "value": value, **rest}


def test_every_declared_fact_is_collected() -> None:
    facts = collect_facts({}, {"outcome": "ok"}, [], None)
    assert set(rule_facts()) <= set(facts)


def test_what_is_not_stated_is_none() -> None:
    facts = collect_facts({}, {"outcome": "ok"}, [], None)
    assert facts["n_gpus"] is None
    assert facts["max_device_index"] is None


@pytest.mark.parametrize(
    ("figures", "n_gpus", "expected"),
    [
        ([_peak(60)], 2, 30),
        ([_peak(60)], None, None),
        ([_peak(60), _peak(35, scope="per_gpu"), _peak(25, scope="per_gpu")], 2, 35),
        ([_peak(40, scope="max_gpu")], None, 40),
        ([_peak(60, kind="host_rss")], 1, None),
        ([_peak(60, metric="memory")], 1, None),
    ],
)
def test_the_fullest_card_else_the_mean_of_the_total(
    figures: list[dict[str, Any]], n_gpus: int | None, expected: float | None
) -> None:
    assert peak_memory_per_gpu(figures, n_gpus) == expected


def test_figures_are_counted_by_what_is_wrong_with_them() -> None:
    figures = [
        _peak(10, low=11),
        _peak(10, high=9, scope="per_gpu", device_index=3),
        _peak(10, kind=None, scope="per_gpu"),
        {"metric": "step_time", "scope": "total", "kind": "device", "value": 1.0},
    ]
    facts = collect_facts({"n_gpus": 4}, {"flags": ["peak_over_capacity"]}, figures, 24)
    assert facts["low_above_value"]
    assert facts["value_above_high"]
    assert facts["n_memory_without_kind"] == 1
    assert facts["n_kind_without_memory"] == 1
    assert facts["n_per_gpu_without_index"] == 1
    assert facts["max_device_index"] == 3
    assert facts["has_step_time"]
    assert not facts["has_rate"]
    assert facts["peak_over_capacity_flagged"]
    assert facts["gpu_memory_bytes"] == 24
