"""Intervals reach as far as what was held out was off."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from registry.predict.calibration.fit_rows import FitRow, measured_terms
from registry.predict.calibration.intervals import (
    NEARNESS,
    HeldOut,
    calibrate,
    interval,
    nearness,
    score_quantile,
)
from registry.predict.calibration.open_question import GROUPS, group_of
from registry.predict.calibration.quantiles import source_quantile
from registry.predict.calibration.runs import mean_tokens_below
from registry.predict.formula.peak_memory import Term

if TYPE_CHECKING:
    from registry.predict.calibration.intervals import Calibration
    from tests.unit.predict.conftest import Ask


def held(score: float, stack: str = "a", near: str = "row") -> HeldOut:
    row = FitRow("k", (Term("t", "weights", 1.0, 0.1),), {"stack": stack}, 1.0, math.exp(score))
    return HeldOut(row, 1.0, 1.0, near, "fold")


def test_a_score_is_the_logarithmic_error_in_deviations() -> None:
    assert held(1.5).score == pytest.approx(1.5)


def test_the_quantile_counts_the_unknown_row_in() -> None:
    scores = [held(0.1 * n) for n in range(1, 31)]
    assert score_quantile(scores, "row", "a") == pytest.approx(2.8)


def test_a_stack_with_enough_rows_is_judged_by_its_own() -> None:
    scores = [held(0.1) for _ in range(25)] + [held(5.0, "b") for _ in range(25)]
    assert score_quantile(scores, "row", "a") == pytest.approx(0.1)
    assert score_quantile(scores, "row", "c") == pytest.approx(5.0)


def test_each_source_counts_the_same_where_they_are_pooled() -> None:
    many = [held(0.1, near="source") for _ in range(900)]
    few = [held(3.0, "b", "source") for _ in range(30)]
    assert score_quantile([*many, *few], "source") == pytest.approx(3.0)


def test_without_scores_the_interval_is_a_normal_one() -> None:
    assert score_quantile([], "row") == 1.645


def test_what_pytorch_counts_has_no_context(ask: Ask) -> None:
    whole, counted = (measured_terms(ask("qwen-7b"), kind) for kind in ("device", "reserved"))
    assert {one.name for one in whole} - {one.name for one in counted} == {"context"}
    assert measured_terms(ask("qwen-7b"), "unknown") == whole


def test_questions_are_grouped_by_whether_a_device_holds_the_model_whole(ask: Ask) -> None:
    plain = ask("qwen-7b", sharding="none", offload="none")
    alike: list[dict[str, Any]] = [{}, {"method": "full"}, {"sharding": "ddp", "n_gpus": 2}]
    others: list[dict[str, Any]] = [
        {"sharding": "fsdp", "n_gpus": 2},
        {"offload": "activations"},
        {"method": "full", "n_gpus": 2, "tensor_parallel": 2},
        {"method": "full", "n_gpus": 2, "pipeline_parallel": 2},
    ]
    assert {group_of(plain.changed(**one)) for one in alike} == {GROUPS[0]}
    assert {group_of(plain.changed(**one)) for one in others} == {GROUPS[1]}


def test_an_interval_never_reaches_zero() -> None:
    at = interval(1.0, 3.0, 2.0)
    assert at.low > 0
    assert at.low * at.high == pytest.approx(1.0)


def test_nearness_needs_the_same_stack() -> None:
    row = FitRow("k", (), {"stack": "a", "series": "s"}, 1.0)
    assert nearness(row, {"stack": {"a"}, "series": {"s"}}) == "row"
    assert nearness(row, {"stack": {"a"}, "series": {"t"}}) == "model"
    assert nearness(row, {"stack": {"b"}}) == "source"
    assert (
        nearness(FitRow("k", (), {"stack": None, "series": None}, 1.0), {"stack": {None}})
        == "source"
    )


def test_the_interval_widens_with_distance(ask: Ask, calibration: Calibration) -> None:
    from registry.predict.answer.prediction import predict_memory  # noqa: PLC0415 - stands with its use

    near = ask("qwen-7b", stack="swift-benchmark", n_gpus=1, quant_bits=4)
    widths = []
    for question in (near, near.changed(stack=None)):
        figure = predict_memory(question, calibration).figure
        widths.append(figure.high / figure.low)
    assert widths[0] < widths[1]


def test_calibrating_again_gives_the_same(calibration: Calibration) -> None:
    seen = [one for one in calibration.observations if one.source_id == "llama2-lora-3090"]
    first, second = calibrate(seen), calibrate(seen)
    assert first.memory.reach == second.memory.reach
    named = {f"named {near}" for near in NEARNESS[:-1]}
    assert set(first.memory.reach) == {*NEARNESS, *named, "open"}


@pytest.mark.parametrize("count", [1, 3, 12])
def test_few_runs_of_ones_own_do_not_narrow_what_a_question_leaves_open(
    calibration: Calibration, count: int
) -> None:
    # runs that took what the formula says lie inside of what they leave open
    near = [
        replace(one, peak_bytes=one.formula_bytes, source_id=str(i), asked=one.question)
        for i, one in enumerate(calibration.observations)
        if one.measured_memory and one.settled
    ]
    assert [*calibrate(near[:count]).memory.reach["open"].values()] == [0.0, 0.0]


def test_nine_sources_of_ten_have_three_quarters_of_their_rows_inside() -> None:
    # source k of twenty has its rows at k, k, k and 100: three quarters of them are up to k
    scores = [(far, str(k)) for k in range(20) for far in (k, k, k, 100.0, k, k, k, 100.0)]
    reach = source_quantile(scores)
    shares = [sum(score <= reach for score, of in scores if of == str(k)) / 8 for k in range(20)]
    assert reach == 18  # of 20 sources and the next one, 90 % are 19
    assert sum(share >= 0.75 for share in shares) == 19
    assert source_quantile([*scores, *[(1000.0, "few")] * 4]) == reach
    assert source_quantile([(1000.0, "few")]) == 0


def test_samples_that_are_cut_are_shorter_on_average() -> None:
    # cls-fudan-news-zh: 3234 tokens on average; a run's time at 512, 2048 and 8192 follows.
    means = [mean_tokens_below(limit, 3234.4, 2547.5) for limit in (512, 2048, 8192, 10**6)]
    assert means == sorted(means)
    assert 500 < means[0] < 512
    assert means[3] == pytest.approx(3234.4, rel=1e-3)
