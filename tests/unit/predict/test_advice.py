"""What would make a run fit, what each switch does, and the most that fits together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from registry.errors import QuestionError
from registry.predict.answer.advice import (
    collect_cards,
    collect_remedies,
    find_biggest_batch,
    find_longest_seq_len,
    room_of,
)
from registry.predict.answer.frontier import find_frontier, parse_axes
from registry.predict.answer.prediction import Prediction, judge, predict_memory
from registry.predict.answer.switches import explain
from registry.predict.answer.verdict import decide
from registry.predict.calibration.fit_rows import moment_rows
from registry.predict.calibration.mixture import Interval
from registry.predict.formula.peak_memory import GIB
from registry.predict.question import check_question

if TYPE_CHECKING:
    from registry.predict.architecture import Accelerator
    from registry.predict.calibration.intervals import Calibration
    from registry.predict.question import Question
    from tests.unit.predict.conftest import Ask

#: All that matters, so that intervals are narrow.
STATED = {
    "gradient_checkpointing": True, "attention": "flash2", "lora_rank": 8, "param_dtype": "bf16",
    "lora_target_modules": ("q_proj", "v_proj"), "loss_kernel": "whole",
}  # fmt: skip

#: An interval that decides nothing.
WIDE = Interval(20 * GIB, 1 * GIB, 90 * GIB)


def test_seventy_billion_on_cards_of_24_gb_is_told_qlora_over_fsdp(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("llama-2-70b", "rtx-3090", seq_len=512, n_gpus=2, **STATED)
    remedies = {one.what: dict(one.settings) for one in collect_remedies(question, calibration)}
    assert remedies["QLoRA over 2 cards with FSDP, weights in host memory"] == {
        "quant_bits": 4, "quant_method": "bitsandbytes", "param_dtype": None,
        "n_gpus": 2, "sharding": "fsdp", "offload": "optimizer_and_params",
    }  # fmt: skip


def test_full_training_that_needs_several_hosts_is_told_so(
    ask: Ask, calibration: Calibration
) -> None:
    stated = {"gradient_checkpointing": True, "attention": "flash2", "loss_kernel": "whole"}
    question = ask(
        "llama-3.1-70b", "a100-80gb", method="full", n_gpus=8, sharding="zero3", **stated
    )
    changed = [dict(one.settings) for one in collect_remedies(question, calibration)]
    many = [one for one in changed if one.get("sharding") == "zero3"]
    assert many
    assert all(one["n_gpus"] >= 16 and one["n_nodes"] == one["n_gpus"] // 8 for one in many)


def test_full_training_on_several_cards_is_told_to_spread_over_them(
    ask: Ask, calibration: Calibration
) -> None:
    stated = {"gradient_checkpointing": True, "attention": "flash2", "loss_kernel": "chunked"}
    question = ask("qwen2.5-14b", "h100-sxm5-80gb", method="full", n_gpus=8, **stated)
    warnings = check_question(question)
    assert any("each is assumed to hold the entire model" in one for one in warnings)
    remedies = {one.what: dict(one.settings) for one in collect_remedies(question, calibration)}
    assert remedies["8 cards with FSDP"] == {"sharding": "fsdp"}


def test_who_asks_about_fsdp_is_told_more_cards_with_fsdp(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("llama-3.1-70b", "h100-sxm5-80gb", method="full", n_gpus=8, sharding="fsdp")
    changed = [dict(one.settings) for one in collect_remedies(question, calibration)]
    more = [one for one in changed if one.get("n_gpus", 8) > 8 and "quant_bits" not in one]
    assert more
    assert {one["sharding"] for one in more} == {"fsdp"}


def test_the_most_that_fits_is_no_less_than_what_a_run_proves(
    ask: Ask, calibration: Calibration
) -> None:
    asked: dict[str, Any] = {
        "seq_len": 2048, "micro_batch_size": 3, "gradient_checkpointing": True,
        "compute_dtype": "fp16", "stack": "llama2-lora-3090",
    }  # fmt: skip
    question = ask("llama-2-7b", "rtx-3090", **asked)
    wide = Prediction(WIDE, {}, "source")
    assert decide(question, wide, calibration.runs_of(question.model)).verdict == "fits"
    room = room_of(question, WIDE, "fits")
    assert (find_biggest_batch(question, calibration, room) or 0) >= 3
    assert (find_longest_seq_len(question, calibration, room) or 0) >= 2048


def test_a_length_between_two_steps_that_fits_is_the_longest_where_the_next_does_not(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("llama-2-7b", "rtx-3090", seq_len=1000, **{**STATED, "micro_batch_size": 8})
    longest = find_longest_seq_len(question, calibration, -1.0) or 0
    between = question.changed(seq_len=longest + 1)
    assert longest % 64 == 0
    assert find_longest_seq_len(between, calibration, -1.0) == longest
    assert find_longest_seq_len(between, calibration, 1.0) == longest + 1


def test_a_switch_that_leaves_a_setting_open_has_it_as_it_likeliest_is(
    ask: Ask, calibration: Calibration
) -> None:
    stated = {"gradient_checkpointing": True, "attention": "flash2", "loss_kernel": "whole"}
    question = ask(
        "llama-3.1-8b", "a100-80gb", method="full", n_gpus=8, sharding="zero3", optimizer="adamw",
        packing=True, **stated,
    )  # fmt: skip
    found = next(one for one in explain(question, calibration).switches if one.what == "FSDP")
    sharded = question.changed(sharding="fsdp")
    (likeliest, _), *_ = calibration.usual.of(sharded, "param_dtype")

    def peak(asked: Question) -> float:
        return calibration.memory.predict_highest(moment_rows(asked))[1].value

    changes = {
        dtype: peak(sharded.changed(param_dtype=dtype)) - peak(question)
        for dtype in ("bf16", "fp32")
    }
    assert found.peak_change_bytes == pytest.approx(changes[likeliest])
    assert changes["fp32"] > changes["bf16"] + GIB


def test_a_leaner_loss_is_a_remedy_where_the_logits_are_what_is_too_large(
    ask: Ask, calibration: Calibration
) -> None:
    settings = {**STATED, "quant_bits": 4, "seq_len": 8192}
    question = ask("qwen2.5-1.5b", "rtx-3090", **settings)
    assert judge(predict_memory(question, calibration), 24 * GIB) != "fits"
    remedies = {one.what: one.verdict for one in collect_remedies(question, calibration)}
    assert remedies["chunked loss"] == "fits"
    lean = question.changed(loss_kernel="chunked")
    assert "chunked loss" not in {one.what for one in collect_remedies(lean, calibration)}


def test_each_remedy_is_judged_as_the_changed_question_is(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("qwen-7b", "rtx-3090", method="full")
    remedies = collect_remedies(question, calibration)
    assert len(remedies) > 2
    for one in remedies:
        found = predict_memory(question.changed(**dict(one.settings)), calibration)
        assert judge(found, 24 * GIB) == one.verdict
        assert found.figure == one.peak


def test_what_only_may_fit_takes_less_than_what_is_asked(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("llama-3-8b", "a100-80gb", method="full", gradient_checkpointing=True)
    own = predict_memory(question, calibration).figure.value
    there = {one.what for one in collect_remedies(question, calibration)}
    kept = collect_remedies(question, calibration, own)
    assert there - {one.what for one in kept}
    assert all(one.verdict == "fits" or one.peak.value < own for one in kept)
    assert [one for one in collect_remedies(question, calibration) if one.verdict == "fits"] == [
        one for one in kept if one.verdict == "fits"
    ]


def test_what_likely_fits_one_card_is_not_sent_to_several_hosts(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("llama-3-8b", "rtx-4090", quant_bits=4)
    own = predict_memory(question, calibration).figure.value
    assert own < 24 * GIB
    for one in collect_remedies(question, calibration, own):
        assert dict(one.settings).get("n_gpus", 1) <= 8
    large = ask("llama-3.1-70b", "rtx-4090", quant_bits=4)
    asked = predict_memory(large, calibration).figure.value
    assert any(
        dict(one.settings).get("n_gpus", 1) > 1
        for one in collect_remedies(large, calibration, asked)
    )


def test_cards_have_headroom_and_a_time_where_their_speed_is_known(
    ask: Ask, calibration: Calibration, cards: list[Accelerator]
) -> None:
    question = ask("llama-2-7b", quant_bits=4)
    found = {one.gpu.gpu_id: one for one in collect_cards(question, calibration, cards)}
    small, large = found["t4"], found["h200"]
    assert small.headroom_bytes < large.headroom_bytes
    assert large.headroom_bytes == pytest.approx(0.98 * large.gpu.memory_bytes - large.peak.value)
    assert small.seconds_per_sample is not None
    assert large.seconds_per_sample is not None
    assert small.seconds_per_sample.value > large.seconds_per_sample.value
    assert found["h100-80gb"].seconds_per_sample is None  # PCIe or SXM: nobody said


def test_a_card_counts_as_timed_by_full_samples_alone(
    ask: Ask, calibration: Calibration, cards: list[Accelerator]
) -> None:
    timed = [seen.question for seen in calibration.observations if seen.measured_time]
    full = {one.gpu.gpu_id for one in timed if one.gpu and one.length_distribution == "full"}
    assert "a10g" in {one.gpu.gpu_id for one in timed if one.gpu} - full
    found = collect_cards(ask("llama-2-7b", quant_bits=4), calibration, cards)
    assert {one.gpu.gpu_id for one in found if one.is_timed} == full & {c.gpu_id for c in cards}


def test_a_recorded_oom_decides_for_a_card_of_several_too(
    ask: Ask, calibration: Calibration, cards: list[Accelerator]
) -> None:
    failed: dict[str, Any] = {
        "seq_len": 2048, "micro_batch_size": 4, "compute_dtype": "fp16",
        "gradient_checkpointing": True,
    }  # fmt: skip
    found = collect_cards(ask("llama-2-7b", **failed), calibration, cards)
    verdicts = {one.gpu.gpu_id: one.verdict for one in found}
    assert verdicts["rtx-3090"] == verdicts["t4"] == "does not fit"
    assert verdicts["rtx-a6000"] != "does not fit"


def test_a_switch_costs_what_the_formulas_say(ask: Ask, calibration: Calibration) -> None:
    found = explain(ask("llama-2-7b", "rtx-3090", micro_batch_size=4), calibration)
    switches = {one.what: one for one in found.switches}
    off = switches["checkpointing off"]
    assert found.question.gradient_checkpointing is True
    assert off.peak_change_bytes > 10 * GIB
    assert off.time_ratio is not None
    assert 0.6 < off.time_ratio < 0.9
    bits = [switches[f"{n}-bit base"].peak_change_bytes for n in (4, 8)]
    assert bits[0] < bits[1] < 0
    assert switches["batch 2"].peak_change_bytes < 0 < switches["batch 8"].peak_change_bytes
    assert "checkpointing on" not in switches
    assert "ZeRO-3" not in switches  # on one card


def test_without_a_card_a_switch_has_no_time(ask: Ask, calibration: Calibration) -> None:
    found = explain(ask("llama-2-7b"), calibration)
    assert {one.time_ratio for one in found.switches} == {None}


def test_points_of_a_frontier_fit_and_more_does_not(ask: Ask, calibration: Calibration) -> None:
    question = ask("llama-2-7b", "rtx-a6000", quant_bits=4, gradient_checkpointing=True)
    points = find_frontier(question, calibration, parse_axes(["batch", "seq-len"]))
    assert points
    for point in points:
        sizes = dict(point.settings)
        found = predict_memory(question.changed(**sizes), calibration)
        assert found.figure == point.peak
        assert judge(found, question.gpu.memory_bytes) == "fits"  # type: ignore[union-attr]
        more = question.changed(**{**sizes, "micro_batch_size": 2 * sizes["micro_batch_size"]})
        found = predict_memory(more, calibration)
        assert judge(found, question.gpu.memory_bytes) != "fits"  # type: ignore[union-attr]
    batches = [dict(point.settings)["micro_batch_size"] for point in points]
    lengths = [dict(point.settings)["seq_len"] for point in points]
    assert batches == sorted(batches)
    assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize(
    ("settings", "axes", "message"),
    [
        ({}, ["batch"], "sweep: found no one card; expected one: --gpu ID or --vram SIZE"),
        ({"gpu": "t4", "method": "full"}, ["rank"], "sweep: method full has no rank; expected"),
        ({"gpu": "t4", "method": "ia3"}, ["rank"], "sweep: method ia3 has no rank; expected"),
        ({"gpu": "t4"}, ["batches"], "sweep: found 'batches'; did you mean 'batch'?; expected one"),
    ],
)
def test_what_cannot_be_swept_is_said(
    ask: Ask, calibration: Calibration, settings: dict[str, str], axes: list[str], message: str
) -> None:
    question = ask("llama-2-7b", **settings)
    with pytest.raises(QuestionError) as caught:
        find_frontier(question, calibration, parse_axes(axes))
    assert str(caught.value).startswith(message)
