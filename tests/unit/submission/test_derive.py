"""What follows exactly is filled in; what does not follow is left out."""

from __future__ import annotations

from typing import Any

import pytest

from registry.submission.derive import (
    complete_observation,
    data_parallel_size,
    derive_figures,
    fill_configuration,
    global_batch_size,
    without_derived,
)


def _figure(metric: str, value: float, **rest: Any) -> dict[str, Any]:
    return {"metric": metric, "statistic": "value", "scope": "total", "value": value, **rest}


def _derived(configuration: dict[str, Any], *figures: dict[str, Any]) -> dict[str, float]:
    return {row["metric"]: row["value"] for row in derive_figures(configuration, figures)}


@pytest.mark.parametrize(
    ("stated", "filled"),
    [
        ({}, {}),
        ({"n_nodes": 2}, {}),
        ({"gpus_per_node": 4}, {}),
        ({"n_nodes": 2, "gpus_per_node": 4}, {"n_gpus": 8}),
        ({"n_nodes": 1, "gpus_per_node": 1}, {"n_gpus": 1}),
        ({"n_gpus": 1}, {"n_nodes": 1, "gpus_per_node": 1}),
        ({"n_gpus": 1, "n_nodes": 2}, {"gpus_per_node": 1}),
        ({"n_gpus": 1, "gpus_per_node": 2}, {"n_nodes": 1}),
        ({"n_gpus": 4}, {}),
        ({"n_gpus": 2}, {}),
        ({"n_nodes": 2, "gpus_per_node": 4, "n_gpus": 7}, {}),
        (
            {"n_gpus": 1, "micro_batch_size": 2, "grad_accum_steps": 4},
            {"n_nodes": 1, "gpus_per_node": 1, "global_batch_size": 8},
        ),
        (
            {"n_gpus": 2, "sharding": "ddp", "micro_batch_size": 2, "grad_accum_steps": 4},
            {"global_batch_size": 16},
        ),
        (
            {
                "n_gpus": 2,
                "sharding": "ddp",
                "micro_batch_size": 2,
                "grad_accum_steps": 4,
                "global_batch_size": 9,
            },
            {},
        ),
    ],
)
def test_counts_that_follow_are_filled_in(stated: dict[str, Any], filled: dict[str, Any]) -> None:
    configuration = dict(stated)
    fill_configuration(configuration)
    assert configuration == stated | filled


@pytest.mark.parametrize(
    ("stated", "left"),
    [
        ({"n_gpus": 8}, {"n_gpus": 8}),
        (
            {"n_nodes": 2, "gpus_per_node": 4, "n_gpus": 8},
            {"n_nodes": 2, "gpus_per_node": 4},
        ),
        (
            {"n_nodes": 2, "gpus_per_node": 4, "n_gpus": 7},
            {"n_nodes": 2, "gpus_per_node": 4, "n_gpus": 7},
        ),
        ({"n_gpus": 1}, {"n_nodes": 1, "gpus_per_node": 1}),
        (
            {"n_gpus": 1, "micro_batch_size": 2, "grad_accum_steps": 4, "global_batch_size": 8},
            {"n_nodes": 1, "gpus_per_node": 1, "micro_batch_size": 2, "grad_accum_steps": 4},
        ),
        (
            {"n_gpus": 2, "global_batch_size": 8},
            {"n_gpus": 2, "global_batch_size": 8},
        ),
    ],
)
def test_what_follows_from_the_other_columns_is_left_out(
    stated: dict[str, Any], left: dict[str, Any]
) -> None:
    before = dict(stated)
    assert without_derived(stated) == left
    assert stated == before


@pytest.mark.parametrize(
    ("configuration", "ranks"),
    [
        ({}, None),
        ({"n_gpus": 1}, 1),
        ({"n_gpus": 4}, None),
        *(
            ({"n_gpus": 4, "sharding": sharding}, 4)
            for sharding in ["ddp", "dp", "zero1", "zero2", "zero3", "fsdp", "fsdp_grad_op", "hsdp"]
        ),
        ({"n_gpus": 1, "sharding": "device_map"}, 1),
        ({"sharding": "ddp"}, None),
        ({"n_gpus": 2, "sharding": "tensor_parallel"}, None),
        ({"n_gpus": 4, "sharding": "device_map"}, None),
        ({"n_gpus": 8, "sharding": "ddp", "tensor_parallel": 2, "pipeline_parallel": 2}, 2),
        ({"n_gpus": 12, "sharding": "ddp", "tensor_parallel": 2}, 6),
        ({"n_gpus": 12, "sharding": "ddp", "pipeline_parallel": 3}, 4),
        ({"n_gpus": 12, "sharding": "ddp", "context_parallel": 4}, 3),
        ({"n_gpus": 12, "sharding": "ddp", "expert_parallel": 2}, 12),
        ({"n_gpus": 8, "sharding": "ddp", "tensor_parallel": 3}, None),
        ({"n_gpus": 9, "sharding": "ddp", "tensor_parallel": 2}, None),
    ],
)
def test_replicas_are_counted_only_where_sharding_says_so(
    configuration: dict[str, Any], ranks: int | None
) -> None:
    assert data_parallel_size(configuration) == ranks


@pytest.mark.parametrize("missing", ["n_gpus", "micro_batch_size", "grad_accum_steps"])
def test_batch_needs_all_three_factors(missing: str) -> None:
    stated = {"n_gpus": 2, "sharding": "fsdp", "micro_batch_size": 3, "grad_accum_steps": 4}
    assert global_batch_size(stated) == 24
    assert global_batch_size({**stated, missing: None}) is None


def _rate(metric: str, value: float, reason: str) -> dict[str, Any]:
    return {
        "metric": metric,
        "statistic": "value",
        "scope": "total",
        "value": value,
        "origin": "derived",
        "reason": reason,
    }


_RUN = {"global_batch_size": 8, "n_samples": 1000, "n_epochs": 2}
_STEP = _figure("step_time", 2.0)
_SAMPLE = _figure("sample_time", 0.5)
_TOTAL = _figure("total_time", 500.0)
_BY_STEP = _rate("samples_per_second", 4.0, "batch / step time")
_BY_SAMPLE = _rate("samples_per_second", 2.0, "1 / time per sample")
_BY_TOTAL = _rate("samples_per_second", 4.0, "samples x epochs / time")


@pytest.mark.parametrize(
    ("configuration", "figures", "derived"),
    [
        (_RUN, [_STEP], [_BY_STEP]),
        (_RUN, [_TOTAL, _SAMPLE, _STEP], [_BY_STEP]),
        (_RUN, [_TOTAL, _SAMPLE], [_BY_SAMPLE]),
        (_RUN, [_TOTAL], [_BY_TOTAL]),
        ({**_RUN, "global_batch_size": None}, [_STEP], []),
        ({**_RUN, "n_samples": None}, [_TOTAL], []),
        ({**_RUN, "n_epochs": None}, [_TOTAL], []),
        ({}, [_SAMPLE], [_BY_SAMPLE]),
        (_RUN, [{**_STEP, "value": 0.0}], []),
        (_RUN, [{**_SAMPLE, "value": 0.0}], []),
        (_RUN, [{**_TOTAL, "value": 0.0}], []),
        (_RUN, [{**_STEP, "statistic": "max"}], []),
        (_RUN, [{**_STEP, "scope": "max_gpu"}], []),
        (_RUN, [], []),
    ],
)
def test_a_rate_of_samples_follows_from_the_first_time_that_gives_one(
    configuration: dict[str, Any], figures: list[dict[str, Any]], derived: list[dict[str, Any]]
) -> None:
    assert derive_figures(configuration, figures) == derived


_FULL = {"seq_len": 512, "length_distribution": "full"}
_TOKENS_REASON = "samples per second x sequence length, all full"


@pytest.mark.parametrize(
    ("configuration", "figures", "derived"),
    [
        (
            {**_RUN, **_FULL},
            [_STEP],
            [_BY_STEP, _rate("tokens_per_second", 2048.0, _TOKENS_REASON)],
        ),
        (
            _FULL,
            [_figure("samples_per_second", 3.0)],
            [_rate("tokens_per_second", 1536.0, _TOKENS_REASON)],
        ),
        (_FULL, [_figure("samples_per_second", 3.0), _figure("tokens_per_second", 9.0)], []),
        (_FULL, [_figure("tokens_per_second", 9.0)], []),
        (_FULL, [_figure("samples_per_second", 3.0, scope="per_gpu", device_index=0)], []),
        ({**_FULL, "seq_len": None}, [_figure("samples_per_second", 3.0)], []),
        ({"seq_len": 512}, [_figure("samples_per_second", 3.0)], []),
        (
            {**_FULL, "length_distribution": "variable"},
            [_figure("samples_per_second", 3.0)],
            [],
        ),
    ],
)
def test_a_rate_of_tokens_follows_where_all_sequences_are_full(
    configuration: dict[str, Any], figures: list[dict[str, Any]], derived: list[dict[str, Any]]
) -> None:
    assert derive_figures(configuration, figures) == derived


def test_a_stated_rate_is_not_derived_again() -> None:
    stated = [_figure("samples_per_second", 5.0), _figure("step_time", 2.0)]
    assert _derived({"global_batch_size": 8}, *stated) == {}


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


def _card(index: int, value: float = 10.0, **rest: Any) -> dict[str, Any]:
    card = {"scope": "per_gpu", "device_index": index, "kind": "device", **rest}
    return _figure("peak_memory", value, **card)


_FULLEST = _figure("peak_memory", 10.0, scope="max_gpu", kind="device")
_ONE_CARD = {"value": 10.0, "low": 10.0, "high": 10.0}


@pytest.mark.parametrize(
    ("n_gpus", "figures"),
    [
        (2, [_card(0)]),
        (1, [_card(0), _card(1)]),
        (None, [_card(0)]),
        (2, [_FULLEST]),
        (None, [_FULLEST]),
        (0, []),
        (2, [_card(0), _FULLEST]),
        (2, [_card(0), _card(1, kind="reserved")]),
        (2, [_card(0), _card(1, statistic="max")]),
        (1, [_card(0), _figure("peak_memory", 9.0, kind="device")]),
        (1, [_card(0), _figure("peak_memory", 9.0, kind="device", statistic="max")]),
        (1, [{**_FULLEST, "metric": "memory"}]),
    ],
)
def test_no_total_memory_follows(n_gpus: int | None, figures: list[dict[str, Any]]) -> None:
    assert derive_figures({"n_gpus": n_gpus}, figures) == []


@pytest.mark.parametrize(
    ("figures", "total"),
    [
        ([_FULLEST], {"kind": "device", **_ONE_CARD, "reason": "one card"}),
        ([_FULLEST, {**_FULLEST, "value": 9.0}], {"kind": "device", **_ONE_CARD}),
        ([_card(0)], {"kind": "device", **_ONE_CARD, "reason": "sum over 1 cards"}),
        ([_card(0), {**_FULLEST, "value": 9.0}], {"reason": "sum over 1 cards", **_ONE_CARD}),
        (
            [_card(0, low=9.0, high=12.0)],
            {"value": 10.0, "low": 9.0, "high": 12.0, "statistic": "value"},
        ),
        ([_card(0, statistic="max")], {"statistic": "max", "scope": "total"}),
        (
            [_card(0), _figure("peak_memory", 9.0, kind="reserved")],
            {"kind": "device", **_ONE_CARD},
        ),
    ],
)
def test_the_memory_of_one_card_is_the_total(
    figures: list[dict[str, Any]], total: dict[str, Any]
) -> None:
    (derived,) = derive_figures({"n_gpus": 1}, figures)
    expected = {"metric": "peak_memory", "scope": "total", "origin": "derived", **total}
    assert derived.items() >= expected.items()


@pytest.mark.parametrize("metric", ["samples_per_second", "tokens_per_second"])
def test_a_rate_of_all_cards_is_their_mean_times_their_number(metric: str) -> None:
    mean = _figure(metric, 100.0, scope="mean_gpu", low=99.5, high=100.5)
    total = _figure(
        metric,
        400.0,
        low=398.0,
        high=402.0,
        origin="derived",
        reason="mean of 4 cards x 4",
    )
    assert derive_figures({"n_gpus": 4}, [mean]) == [total]


@pytest.mark.parametrize(
    ("configuration", "figures"),
    [
        ({}, [_figure("tokens_per_second", 100.0, scope="mean_gpu")]),
        ({"n_gpus": 4}, [_figure("tokens_per_second", 100.0, scope="max_gpu")]),
        ({"n_gpus": 4}, [_figure("flops_per_second", 100.0, scope="mean_gpu")]),
        ({"n_gpus": 4}, [_figure("step_time", 100.0, scope="mean_gpu")]),
        (
            {"n_gpus": 4},
            [
                _figure("tokens_per_second", 100.0, scope="mean_gpu"),
                _figure("tokens_per_second", 390.0),
            ],
        ),
    ],
)
def test_no_rate_of_all_cards_follows(
    configuration: dict[str, Any], figures: list[dict[str, Any]]
) -> None:
    assert derive_figures(configuration, figures) == []


def test_a_total_without_a_kind_has_none() -> None:
    card = {**_card(0)}
    del card["kind"]
    (derived,) = derive_figures({"n_gpus": 1}, [card])
    assert "kind" not in derived
    assert "device_index" not in derived


def test_each_kind_and_statistic_has_its_total_in_the_order_of_the_figures() -> None:
    figures = [
        _card(0, 4.0, statistic="mean"),
        _card(0, 7.0, kind="reserved"),
        _card(0, 5.0, statistic="max"),
    ]
    totals = derive_figures({"n_gpus": 1}, figures)
    assert [(row["kind"], row["statistic"], row["value"]) for row in totals] == [
        ("device", "mean", 4.0),
        ("reserved", "value", 7.0),
        ("device", "max", 5.0),
    ]


def test_rates_follow_from_the_median_then_the_value_then_the_mean() -> None:
    median = _figure("step_time", 2.0, statistic="median")
    value = _figure("step_time", 4.0)
    mean = _figure("step_time", 8.0, statistic="mean")
    for figures, rate in (
        ([mean, value, median], 4.0),
        ([median, value, mean], 4.0),
        ([mean, value], 2.0),
        ([value, mean], 2.0),
        ([mean], 1.0),
    ):
        assert _derived({"global_batch_size": 8}, *figures) == {"samples_per_second": rate}


def test_a_reported_figure_counts_before_a_derived_one() -> None:
    derived = _figure("step_time", 2.0, statistic="median", origin="derived")
    mean = _figure("step_time", 4.0, statistic="mean", origin="reported")
    for figures in ([derived, mean], [mean, derived]):
        assert _derived({"global_batch_size": 8}, *figures) == {"samples_per_second": 2.0}


def test_an_observation_is_completed_and_left_as_it_is() -> None:
    configuration = {"n_gpus": 1, "micro_batch_size": 2, "grad_accum_steps": 4}
    observation = {"outcome": "ok", "configuration": configuration, "measurements": [_STEP]}
    assert complete_observation(observation) == {
        "outcome": "ok",
        "configuration": {
            **configuration,
            "n_nodes": 1,
            "gpus_per_node": 1,
            "global_batch_size": 8,
        },
        "measurements": [_STEP, _BY_STEP],
        "citations": [{"locator": "submission"}],
    }
    assert observation == {
        "outcome": "ok",
        "configuration": {"n_gpus": 1, "micro_batch_size": 2, "grad_accum_steps": 4},
        "measurements": [_STEP],
    }


def test_stated_citations_are_kept_and_no_figures_stay_none() -> None:
    citations = [{"locator": "table 3"}]
    observation = {"outcome": "oom", "configuration": {}, "citations": citations}
    assert complete_observation(observation) == observation
