"""What follows exactly is filled in; what does not follow is left out."""

from __future__ import annotations

from typing import Any

import pytest

from registry.submission.derive import (
    data_parallel_size,
    derive_figures,
    fill_configuration,
    global_batch_size,
)


def _figure(metric: str, value: float, **rest: Any) -> dict[str, Any]:
    return {"metric": metric, "statistic": "value", "scope": "total", "value": value, **rest}


def _derived(configuration: dict[str, Any], *figures: dict[str, Any]) -> dict[str, float]:
    return {row["metric"]: row["value"] for row in derive_figures(configuration, figures)}


@pytest.mark.parametrize(
    ("stated", "filled"),
    [
        ({"n_nodes": 2, "gpus_per_node": 4}, {"n_gpus": 8}),
        ({"n_gpus": 1}, {"n_nodes": 1, "gpus_per_node": 1}),
        ({"n_gpus": 4}, {}),
        ({"n_nodes": 2, "gpus_per_node": 4, "n_gpus": 7}, {}),
        ({"n_gpus": 1, "micro_batch_size": 2, "grad_accum_steps": 4}, {"global_batch_size": 8}),
    ],
)
def test_counts_that_follow_are_filled_in(stated: dict[str, Any], filled: dict[str, Any]) -> None:
    configuration = dict(stated)
    fill_configuration(configuration)
    assert filled.items() <= configuration.items()
    assert stated.items() <= configuration.items()
    assert "n_gpus" in configuration


@pytest.mark.parametrize(
    ("configuration", "ranks"),
    [
        ({}, None),
        ({"n_gpus": 1}, 1),
        ({"n_gpus": 4}, None),
        ({"n_gpus": 4, "sharding": "zero2"}, 4),
        ({"n_gpus": 4, "sharding": "device_map"}, None),
        ({"n_gpus": 8, "sharding": "ddp", "tensor_parallel": 2, "pipeline_parallel": 2}, 2),
        ({"n_gpus": 8, "sharding": "ddp", "tensor_parallel": 3}, None),
    ],
)
def test_replicas_are_counted_only_where_sharding_says_so(
    configuration: dict[str, Any], ranks: int | None
) -> None:
    assert data_parallel_size(configuration) == ranks


def test_batch_needs_all_three_factors() -> None:
    stated = {"n_gpus": 2, "sharding": "fsdp", "micro_batch_size": 3, "grad_accum_steps": 4}
    assert global_batch_size(stated) == 24
    assert global_batch_size({**stated, "grad_accum_steps": None}) is None


def test_samples_per_second_is_batch_over_step_time() -> None:
    assert _derived({"global_batch_size": 8}, _figure("step_time", 2.0)) == {
        "samples_per_second": 4.0
    }


def test_samples_per_second_is_the_inverse_of_time_per_sample() -> None:
    assert _derived({}, _figure("sample_time", 0.5)) == {"samples_per_second": 2.0}


def test_samples_per_second_is_samples_times_epochs_over_time() -> None:
    configuration = {"n_samples": 1000, "n_epochs": 2}
    assert _derived(configuration, _figure("total_time", 500.0)) == {"samples_per_second": 4.0}
    assert _derived({"n_samples": 1000}, _figure("total_time", 500.0)) == {}


def test_a_stated_rate_is_not_derived_again() -> None:
    stated = [_figure("samples_per_second", 5.0), _figure("step_time", 2.0)]
    assert _derived({"global_batch_size": 8}, *stated) == {}


def test_tokens_follow_only_from_full_sequences() -> None:
    full = {"global_batch_size": 8, "seq_len": 512, "length_distribution": "full"}
    figure = _figure("step_time", 2.0)
    assert _derived(full, figure)["tokens_per_second"] == 2048.0
    variable = {**full, "length_distribution": "variable"}
    assert "tokens_per_second" not in _derived(variable, figure)


def test_total_memory_is_the_sum_over_all_cards_with_its_bounds() -> None:
    cards = [
        _figure("peak_memory", 10.0, scope="per_gpu", device_index=0, kind="device", high=11.0),
        _figure("peak_memory", 12.0, scope="per_gpu", device_index=1, kind="device"),
    ]
    assert derive_figures({"n_gpus": 2}, cards) == [
        {
            "metric": "peak_memory",
            "statistic": "value",
            "kind": "device",
            "scope": "total",
            "value": 22.0,
            "low": 22.0,
            "high": 23.0,
            "origin": "derived",
            "reason": "sum over 2 cards",
        }
    ]


def test_total_memory_does_not_follow_from_some_of_the_cards() -> None:
    card = _figure("peak_memory", 10.0, scope="per_gpu", device_index=0, kind="device")
    assert derive_figures({"n_gpus": 2}, [card]) == []


def test_the_fullest_of_one_card_is_the_total() -> None:
    card = _figure("peak_memory", 10.0, scope="max_gpu", kind="device")
    assert _derived({"n_gpus": 1}, card) == {"peak_memory": 10.0}
    assert _derived({"n_gpus": 2}, card) == {}


def test_rates_follow_from_the_median_before_the_mean_whatever_their_order() -> None:
    median = _figure("step_time", 2.0, statistic="median")
    mean = _figure("step_time", 4.0, statistic="mean")
    configuration = {"global_batch_size": 8}
    for figures in ([median, mean], [mean, median]):
        assert _derived(configuration, *figures) == {"samples_per_second": 4.0}
