"""Facts about an observation's figures."""

from __future__ import annotations

from typing import Any

import pytest

from registry.contract import rule_facts
from registry.submission.facts import (
    collect_facts,
    filled_the_card,
    format_fact,
    peak_memory_per_gpu,
)

DEVICE_KINDS = ("allocated", "reserved", "active", "device", "unknown")


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
        ([_peak(40, scope="max_gpu"), _peak(45, scope="per_gpu")], 2, 45),
        ([_peak(60), _peak(80)], 2, 40),
        ([_peak(60, scope="sum")], 2, None),
        ([], 2, None),
        *(([_peak(60, kind=kind)], 2, 30) for kind in DEVICE_KINDS),
        ([_peak(60, kind=None)], 2, None),
        ([_peak(60, kind="host_rss")], 1, None),
        ([_peak(60, metric="memory")], 1, None),
    ],
)
def test_the_fullest_card_else_the_mean_of_the_total(
    figures: list[dict[str, Any]], n_gpus: int | None, expected: float | None
) -> None:
    assert peak_memory_per_gpu(figures, n_gpus) == expected


def test_all_facts_of_an_observation_with_faulty_figures() -> None:
    figures = [
        _peak(10, low=11),
        _peak(10, high=9, scope="per_gpu", device_index=3),
        _peak(10, kind=None, scope="per_gpu"),
        _peak(10, kind=None, metric="memory", device_index=0),
        {"metric": "step_time", "scope": "total", "kind": "device", "value": 1.0},
    ]
    observation = {"outcome": "ok", "flags": ["peak_over_capacity"]}
    assert collect_facts({"n_gpus": 4}, observation, figures, 24) == {
        "n_gpus": 4,
        "outcome": "ok",
        "flags": ["peak_over_capacity"],
        "n_measurements": 5,
        "has_step_time": True,
        "has_rate": False,
        "peak_memory_bytes_per_gpu": 10.0,
        "gpu_memory_bytes": 24,
        "peak_over_capacity_flagged": True,
        "low_above_value": True,
        "value_above_high": True,
        "n_memory_without_kind": 2,
        "n_kind_without_memory": 1,
        "n_per_gpu_without_index": 1,
        "max_device_index": 3,
    }


def test_all_facts_of_an_observation_without_figures() -> None:
    assert collect_facts({}, {"outcome": "not_run"}, [], None) == {
        "outcome": "not_run",
        "n_measurements": 0,
        "has_step_time": False,
        "has_rate": False,
        "peak_memory_bytes_per_gpu": None,
        "gpu_memory_bytes": None,
        "peak_over_capacity_flagged": False,
        "low_above_value": False,
        "value_above_high": False,
        "n_memory_without_kind": 0,
        "n_kind_without_memory": 0,
        "n_per_gpu_without_index": 0,
        "max_device_index": None,
    }


@pytest.mark.parametrize(
    ("metric", "is_rate"),
    [
        ("samples_per_second", True),
        ("tokens_per_second", True),
        ("steps_per_second", True),
        ("flops_per_second", False),
        ("step_time", False),
    ],
)
def test_rates_are_those_of_samples_tokens_and_steps(metric: str, *, is_rate: bool) -> None:
    figure = {"metric": metric, "scope": "total", "value": 1.0}
    assert collect_facts({}, {}, [figure], None)["has_rate"] is is_rate


def test_a_bound_that_equals_the_value_holds() -> None:
    facts = collect_facts({}, {}, [_peak(10, low=10, high=10)], None)
    assert facts["low_above_value"] is False
    assert facts["value_above_high"] is False


@pytest.mark.parametrize(
    ("value", "text"),
    [(8e9, "8000000000"), (0.5, "0.5"), (3, "3"), (True, "true"), (False, "false"), ("OK", "OK")],
)
def test_a_fact_is_shown_without_a_needless_point(value: object, text: str) -> None:
    assert format_fact(value) == text


@pytest.mark.parametrize(
    ("figures", "n_gpus"),
    [
        ([_peak(97)], 1),
        ([_peak(194)], 2),
        ([_peak(98, scope="mean_gpu"), _peak(60, scope="per_gpu")], 4),
        ([_peak(98), {"metric": "train_loss", "scope": "total", "value": 1.0}], 1),
    ],
)
def test_a_card_is_full_where_a_peak_is_at_its_memory_and_no_speed_is_known(
    figures: list[dict[str, Any]], n_gpus: int
) -> None:
    assert filled_the_card(figures, n_gpus, 100) is True
    assert filled_the_card(figures, n_gpus, None) is False


@pytest.mark.parametrize(
    ("figures", "n_gpus"),
    [
        ([_peak(96.9)], 1),
        ([_peak(194)], None),
        ([_peak(98, kind="host_rss")], 1),
        ([_peak(98), {"metric": "step_time", "scope": "total", "value": 1.0}], 1),
        ([_peak(98), {"metric": "tokens_per_second", "scope": "total", "value": 1.0}], 1),
        ([], 1),
    ],
)
def test_a_card_is_not_full_below_its_memory_or_where_a_speed_is_known(
    figures: list[dict[str, Any]], n_gpus: int | None
) -> None:
    assert filled_the_card(figures, n_gpus, 100) is False
