"""The questions that the command is shown with are answered, with their evidence."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from registry.predict.answer.leaner import (
    agrees_with_peak,
    ceiling_of,
    find_floor,
    floor_of,
    list_as_stated,
    proves_enough,
    proves_too_much,
)
from registry.predict.answer.meant import Meant
from registry.predict.answer.nearest import (
    aspects_of,
    between,
    collect_nearest,
    describe_differences,
    transfer,
)
from registry.predict.answer.plain import format_why
from registry.predict.answer.prediction import (
    Prediction,
    bounded,
    chance_of_fitting,
    estimate_cost,
    judge,
    predict_memory,
    predict_unbounded,
    raise_to_floor,
)
from registry.predict.answer.will_it_fit import answer
from registry.predict.calibration.mixture import Interval
from registry.predict.calibration.runs import ObservedRun, resolve_stack
from registry.predict.calibration.unstated import fields_of
from registry.predict.dryrun.correction import correct, likeliest
from registry.predict.formula.peak_memory import GIB

if TYPE_CHECKING:
    from registry.predict.architecture import Accelerator
    from registry.predict.calibration.intervals import Calibration
    from registry.predict.question import Question
    from tests.unit.predict.conftest import Ask


def test_qlora_of_qwen_7b_fits_an_rtx_3090(ask: Ask, calibration: Calibration) -> None:
    question = ask("qwen-7b", "rtx-3090", quant_bits=4, seq_len=2048, stack="swift-benchmark")
    named = answer(question, calibration)
    assert named.verdict == "fits"
    assert named.longest_seq_len is not None
    assert named.longest_seq_len >= 2048
    found = answer(question.changed(stack=None, gradient_checkpointing=True), calibration)
    assert found.prediction.figure.value < 24 * GIB
    assert found.nearest[0].observation.question.quant_bits == 4
    assert len(found.rests_on) == 5
    assert 0 < sum(share for _, share in found.rests_on) <= 1


def test_an_answer_names_no_run_that_it_does_not_rest_on(
    ask: Ask, calibration: Calibration
) -> None:
    asked = ask("qwen2.5-14b", "a100-80gb", method="full", n_gpus=8, sharding="zero3", seq_len=4096)
    shares = [share for _, share in answer(asked, calibration).rests_on]
    assert shares
    assert min(shares) >= 0.005


def test_full_training_of_qwen_7b_does_not_and_is_told_what_would(
    ask: Ask, calibration: Calibration, cards: list[Accelerator]
) -> None:
    found = answer(ask("qwen-7b", "rtx-3090", method="full", seq_len=2048), calibration, cards)
    assert found.verdict == "does not fit"
    assert found.biggest_batch is None
    remedies = [remedy.what for remedy in found.remedies]
    assert "quantize the base to 8 bits (LoRA), checkpointing on" in remedies
    fitting = [card.gpu.gpu_id for card in found.cards if card.verdict == "fits"]
    assert "mi300x" in fitting
    assert "rtx-3090" not in fitting


#: What the run that failed on a 3090 states.
FAILED = {
    "seq_len": 2048, "micro_batch_size": 4, "compute_dtype": "fp16", "gradient_checkpointing": True,
}  # fmt: skip


def test_an_oom_of_no_more_decides_where_all_that_matters_is_stated(
    ask: Ask, calibration: Calibration
) -> None:
    found = answer(ask("llama-2-7b", "rtx-3090", **FAILED), calibration)
    assert found.verdict == "does not fit"
    assert found.nearest_oom is not None
    failed = found.nearest_oom.observation
    assert failed.source_id == "llama2-lora-3090"
    assert found.nearest_oom.differences == ()
    assert found.reasons[0] == (
        f"observation {failed.observation_id} (llama2-lora-3090), which asked for no more, ran out "
        "of memory on a card with at least as much"
    )


@pytest.mark.parametrize(
    "leaner",
    [
        {"gradient_checkpointing": None}, {"optimizer": "sgd"}, {"loss_kernel": "liger"},
        {"lora_rank": 4}, {"seq_len": 1984}, {"compute_dtype": "bf16", "sharding": "zero3"},
        {"quant_bits": 8}, {"offload": "activations"}, {"lora_target_modules": ("q_proj",)},
    ],
)  # fmt: skip
def test_that_oom_does_not_decide_a_question_that_may_be_leaner(
    ask: Ask, calibration: Calibration, leaner: dict[str, Any]
) -> None:
    question = ask("llama-2-7b", "rtx-3090", **{**FAILED, **leaner})
    assert not any("ran out of memory" in why for why in answer(question, calibration).reasons)


def test_a_run_of_no_less_decides_on_a_card_of_no_less(
    calibration: Calibration, cards: list[Accelerator]
) -> None:
    ran = next(
        one
        for one in calibration.observations
        if one.source_id == "llama2-lora-3090"
        and one.outcome == "ok"
        and one.question.gradient_checkpointing
        and (one.question.seq_len, one.question.micro_batch_size) == (2048, 3)
    )
    same = ran.question.changed(stack=None)
    found = answer(same, calibration)
    assert found.verdict == "fits"
    assert found.reasons[0] == (
        f"observation {ran.observation_id} (llama2-lora-3090), which asked for no less, ran on a "
        "card with no more memory"
    )
    assert answer(same.changed(micro_batch_size=2), calibration).verdict == "fits"
    assert found.chance == 1.0
    smaller = next(card for card in cards if card.gpu_id == "rtx-4060-ti-16gb")
    for other in ({"micro_batch_size": 4}, {"gpu": smaller}, {"gradient_checkpointing": None}):
        reasons = answer(same.changed(**other), calibration).reasons
        assert not any("which asked for no less, ran" in why for why in reasons)


@pytest.mark.parametrize("setting", ["seq_len", "micro_batch_size"])
@pytest.mark.parametrize("stated", [{}, {"quant_bits": 4}, {"method": "full", "sharding": "zero3"}])
def test_more_never_lowers_an_interval(
    ask: Ask, calibration: Calibration, setting: str, stated: dict[str, Any]
) -> None:
    question = ask("llama-3.1-8b", n_gpus=4 if "sharding" in stated else 1, **stated)
    figures = [
        predict_memory(question.changed(**{setting: value}), calibration).figure
        for value in (1, 2, 8, 64, 512, 4096)
    ]
    # what is doubted of the context counts for less of a larger peak: from one token to two the
    # upper end falls by less than this
    slack = 1 + 2e-5
    for end in ("low", "value", "high"):
        ends = [getattr(figure, end) for figure in figures]
        assert all(one <= more * slack for one, more in itertools.pairwise(ends))


def test_more_tokens_never_need_less_than_was_measured_with_fewer(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask(
        "llama-2-7b", "rtx-3090", seq_len=2048, micro_batch_size=4, stack="llama2-lora-3090"
    )
    floor = find_floor(question, list_as_stated(question, calibration.measured_of(question.model)))
    assert floor is not None
    assert floor.run.question.micro_batch_size == 3
    assert floor.bytes / GIB == pytest.approx(22.28, abs=0.01)
    assert predict_memory(question, calibration).figure.value >= floor.bytes


def test_an_open_question_gets_no_less_than_was_measured_with_fewer_on_the_card(
    ask: Ask, calibration: Calibration
) -> None:
    stated: dict[str, Any] = {"seq_len": 2048, "micro_batch_size": 4}
    question = ask("llama-2-7b", "rtx-3090", gradient_checkpointing=True, **stated)
    free = predict_unbounded(question, calibration).figure
    found = predict_memory(question, calibration)
    assert found.floor is not None
    assert found.floor.question.micro_batch_size == 3
    assert free.value < found.figure.value == found.floor.peak_bytes
    assert found.figure.low == free.low
    elsewhere = predict_memory(question.changed(gpu=None), calibration)
    assert (elsewhere.floor, elsewhere.figure) == (None, free)


def test_the_table_of_cards_says_what_asking_for_each_says(
    ask: Ask, calibration: Calibration, cards: list[Accelerator]
) -> None:
    question = ask("llama-2-7b", "rtx-3090", gradient_checkpointing=True, micro_batch_size=4)
    found = answer(question, calibration, cards)
    assert len(found.cards) == len(cards)
    for card in found.cards[::6]:
        asked = answer(question.changed(gpu=card.gpu), calibration)
        assert (card.verdict, card.peak) == (asked.verdict, asked.prediction.figure)


@pytest.mark.parametrize("stack", [None, "llama2-lora-3090", "qwen-finetune-profile"])
def test_an_assumption_says_what_stating_it_answers(
    ask: Ask, calibration: Calibration, stack: str | None
) -> None:
    question = ask("llama-2-7b", "rtx-3090", seq_len=2048, micro_batch_size=2, stack=stack)
    found = answer(question, calibration).assumptions
    assert "gradient_checkpointing" in {one.setting for one in found}
    for one in found:
        for case in one.cases:
            stated = question.changed(**fields_of(question, one.setting, case.value))
            asked = predict_memory(stated, calibration).figure.value
            assert case.bytes == pytest.approx(asked)


OWN_LORA = {
    "lora_rank": 8,
    "lora_target_modules": (
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    ),
    "attention": "sdpa",
    "param_dtype": "fp16",
    "gradient_checkpointing": True,
    "longest_sample": 700,
    "loss_kernel": "unsloth",
}  # fmt: skip
OWN_FULL = {
    "method": "full",
    "optimizer": "adamw_torch",
    "attention": "sdpa",
    "param_dtype": "bf16",
    "gradient_checkpointing": False,
}


def having_run(calibration: Calibration, own: Question, **settings: Any) -> Calibration:
    """Return the calibration with a run of the user's own, called ``mine``."""
    question = own.changed(stack="mine", **settings)
    seen = ObservedRun("a", "mine", "ok", "measured", question, 20.0 * GIB)
    observations = (*calibration.observations, seen)
    return replace(calibration, observations=observations, own_ids=frozenset({"a"}))


@pytest.mark.parametrize("stack", [None, "mine"])
@pytest.mark.parametrize(
    ("own", "values"),
    [
        (
            OWN_LORA,
            {
                "adapters": (8, ("all-linear",)),
                "attention": "flash2",
                "param_dtype": "fp16",
                "longest_sample": 700,
                "loss_kernel": "unsloth",
            },
        ),
        (OWN_FULL, {"optimizer": "adamw", "attention": "flash2", "gradient_checkpointing": False}),
        ({**OWN_FULL, "optimizer": "adafactor"}, {"optimizer": "adafactor"}),
    ],
)
def test_what_an_own_run_had_is_assumed_however_it_is_spelled_and_shares_add_up_to_1(
    ask: Ask,
    calibration: Calibration,
    stack: str | None,
    own: dict[str, Any],
    values: dict[str, Any],
) -> None:
    question = ask("llama-2-7b", method=own.get("method", "lora"), seq_len=2048)
    known = having_run(calibration, question, **own)
    found = answer(question.changed(stack=stack), known).assumptions
    for one in found:
        assert sum(case.weight for case in one.cases) == pytest.approx(1.0), one.setting
    likeliest = {one.setting: one.cases[0] for one in found}
    assert {name: likeliest[name].value for name in values} == values
    assert all(likeliest[name].weight >= 0.8 for name in values)


def test_an_own_run_has_a_usual_value_that_the_question_spells_otherwise(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("llama-2-7b", lora_target_modules=OWN_LORA["lora_target_modules"])
    known = having_run(calibration, question, lora_rank=8)
    (adapters,) = (one for one in answer(question, known).assumptions if one.setting == "adapters")
    assert sorted(case.value[0] for case in adapters.cases) == [8, 16, 64]


def test_a_stack_that_is_named_leaves_open_what_nobody_stated(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("llama-3.1-8b", seq_len=2048, stack="gpu-sweep")
    found = answer(question, calibration)
    checkpointing = next(
        one for one in found.assumptions if one.setting == "gradient_checkpointing"
    )
    off = next(case for case in checkpointing.cases if case.value is False)
    assert found.prediction.figure.value < off.bytes < 1.1 * found.prediction.figure.high
    on = predict_memory(question.changed(gradient_checkpointing=True), calibration).figure
    assert on.high < found.prediction.figure.high


@pytest.mark.parametrize(
    ("settings", "is_open"),
    [
        ({"quant_bits": 4}, True),
        ({"quant_bits": 4, "quant_method": "bitsandbytes"}, True),
        ({"quant_bits": 4, "double_quant": False}, False),
        ({"quant_bits": 4, "loss_kernel": "unsloth"}, False),
        ({"quant_bits": 4, "quant_method": "gptq"}, False),
        ({"quant_bits": 8}, False),
        ({}, False),
    ],
)
def test_whether_constants_are_quantized_too_is_open_in_bitsandbytes_4_bits_alone(
    ask: Ask, calibration: Calibration, settings: dict[str, Any], *, is_open: bool
) -> None:
    question = ask("llama-3.3-70b", gradient_checkpointing=True, lora_rank=16, **settings)
    found = [
        one for one in answer(question, calibration).assumptions if one.setting == "double_quant"
    ]
    assert bool(found) == is_open
    if is_open:
        twice, once = sorted(found[0].cases, key=lambda case: not case.value)
        assert (twice.value, once.value) == (True, False)
        saved = question.model.linear_params * (4 / 64 - 1 / 64 - 4 / (64 * 256))
        assert once.bytes - twice.bytes == pytest.approx(saved, rel=0.15)


@pytest.mark.parametrize(("settings", "is_told"), [({"quant_bits": 4}, True), ({}, False)])
def test_runs_are_told_apart_by_constants_where_there_are_any(
    ask: Ask, calibration: Calibration, settings: dict[str, Any], *, is_told: bool
) -> None:
    question = ask("llama-3.1-8b", double_quant=True, **settings)
    found = collect_nearest(question, calibration.observations, 3)
    told = [words for one in found for words in one.differences if "double_quant" in words]
    assert bool(told) == is_told


def test_an_oom_without_quantized_constants_does_not_decide_for_them(
    ask: Ask, calibration: Calibration
) -> None:
    settings = {**FAILED, "quant_bits": 4, "double_quant": False}
    failed = replace(
        next(one for one in calibration.observations if one.outcome == "oom"),
        evidence="measured",
        question=ask("llama-2-7b", "rtx-3090", **settings),
    )
    same = ask("llama-2-7b", "rtx-3090", **settings)
    assert proves_too_much(same, failed)
    assert not proves_too_much(same.changed(double_quant=True), failed)


def test_a_stack_means_what_its_own_runs_had(ask: Ask, calibration: Calibration) -> None:
    question = ask("qwen-7b", seq_len=1024, stack="qwen-finetune-profile")
    usual = calibration.usual_on("qwen-finetune-profile")
    (rank, targets), share = usual.of(question, "adapters")[0]
    assert (rank, targets) == (64, ("all-linear",))  # its c_attn, c_proj, w1, w2 are all there are
    assert 0.8 < share < 0.85  # its own four fifths, and what is usual of all-linear
    # the profile's figure for a batch of one, without trained embeddings
    assert predict_memory(question, calibration).figure.value / GIB == pytest.approx(20.1, abs=0.5)


def test_a_stack_of_unsloths_quantizes_constants_as_its_loader_does(
    ask: Ask, calibration: Calibration
) -> None:
    stack = resolve_stack("unsloth", calibration.observations)
    question = ask("llama-3.1-8b", quant_bits=4, stack=stack)
    (value, share), *_ = calibration.usual_on(stack).of(question, "double_quant")
    assert value is True
    assert share > 0.9


@pytest.mark.parametrize(
    ("stack", "likeliest", "share"), [(None, "fp32", 0.6), ("universal-llm-trainer", "bf16", 0.88)]
)
def test_what_a_stacks_runs_hold_under_fsdp_goes_before_what_accelerate_does(
    ask: Ask, calibration: Calibration, stack: str | None, likeliest: str, share: float
) -> None:
    question = ask("llama-2-7b", method="full", sharding="fsdp", n_gpus=4, stack=stack)
    found = calibration.usual_on(stack).of(question, "param_dtype")
    assert (found[0][0], round(found[0][1], 2)) == (likeliest, share)
    assert sum(weight for _, weight in found) == pytest.approx(1)


def test_a_prediction_below_what_leaner_runs_took_is_raised_above_it(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("llama-2-7b", seq_len=2048, micro_batch_size=4)
    low = Interval(20.0 * GIB, 18.0 * GIB, 21.0 * GIB)
    found = raise_to_floor(
        Prediction(low, {"calibration": 0.0}, "source"),
        question,
        list_as_stated(question, calibration.measured_of(question.model)),
    )
    assert found.floor is not None
    peak = found.floor.peak_bytes or 0
    assert peak == found.figure.low == found.figure.value < found.figure.high
    assert found.parts["calibration"] == pytest.approx(found.figure.value - 20.0 * GIB)


def test_a_prediction_above_what_heavier_runs_took_is_lowered_to_it(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask(
        "llama-2-7b", "rtx-3090", seq_len=1900, micro_batch_size=2, stack="llama2-lora-3090"
    )
    high = Interval(30.0 * GIB, 18.0 * GIB, 33.0 * GIB)
    measured = calibration.measured_of(question.model)
    guess = Prediction(high, {"calibration": 0.0}, "source")
    found = bounded(guess, question, measured, Meant())
    assert found.ceiling is not None
    assert found.ceiling.question.micro_batch_size == 2  # the same, at 2,048 tokens
    assert found.figure.value == found.ceiling.peak_bytes
    assert found.figure.high == pytest.approx(1.1 * found.figure.value)
    executed = replace(guess, nearness="dry run alone")
    assert bounded(executed, question, measured, Meant()).figure.value == high.value


def test_runs_whose_samples_may_be_shorter_bound_nothing_from_above(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask(
        "llama-2-7b", "rtx-3090", seq_len=2048, micro_batch_size=2, stack="llama2-lora-3090"
    )
    measured = [
        replace(one, question=one.question.changed(length_distribution="variable"), settled=None)
        for one in calibration.measured_of(question.model)
    ]
    high = Prediction(Interval(30.0 * GIB, 18.0 * GIB, 33.0 * GIB), {}, "source")
    assert bounded(high, question, measured, Meant()).ceiling is None


def test_a_run_that_took_far_less_than_its_settings_call_for_bounds_on_its_own_stack_alone(
    ask: Ask, calibration: Calibration
) -> None:
    """torchtune's chunked loss is not in its table: 16.2 GiB on an RTX 4090 with two samples."""
    question = ask("llama-3.1-8b", seq_len=2048)
    cards = [ask("llama-3.1-8b", gpu).gpu for gpu in ("rtx-3090", "rtx-4090")]
    found = [predict_memory(question.changed(gpu=card), calibration) for card in cards]
    assert found[0].figure.value == pytest.approx(found[1].figure.value, rel=1e-3)
    assert found[1].ceiling is None
    named = predict_memory(question.changed(gpu=cards[1], stack="torchtune"), calibration)
    assert named.figure.value < found[1].figure.value
    (ran,) = [
        one
        for one in calibration.measured_of(question.model)
        if one.source_id == "torchtune"
        and one.question.gpu == cards[1]
        and (one.question.method, one.question.quantized) == ("lora", False)
    ]
    assert not agrees_with_peak(ran)
    assert agrees_with_peak(replace(ran, peak_bytes=25 * GIB))


def test_runs_on_other_stacks_bound_nothing_where_one_is_named(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("qwen-7b", "rtx-3090", quant_bits=4, stack="qwen-finetune-profile")
    for seq_len in (256, 2048, 8192):
        found = predict_memory(question.changed(seq_len=seq_len), calibration)
        bounds = [one for one in (found.floor, found.ceiling) if one is not None]
        assert all(one.source_id == question.stack for one in bounds)


def test_what_had_other_settings_and_fewer_tokens_bounds_nothing_where_nearer_runs_had_more(
    ask: Ask, calibration: Calibration
) -> None:
    """Qwen-1.8B in full took 40.5 GiB at 256 tokens in one profile, 18.2 at 512 in another."""
    question = ask("qwen-1.8b-chat", "a100-80gb", method="full", seq_len=256)
    found = [
        predict_memory(question.changed(seq_len=seq_len), calibration).figure.value
        for seq_len in (256, 512)
    ]
    assert found == sorted(found)


def test_a_run_with_smaller_adapters_bounds_by_what_it_would_take_with_those_asked_for(
    calibration: Calibration,
) -> None:
    seen = next(one for one in calibration.observations if one.question.lora_rank == 64)
    counted = replace(seen, memory_kind="reserved")
    larger = seen.question.changed(lora_rank=256)
    assert ceiling_of(larger, seen, seen.question) > ceiling_of(seen.question, seen, seen.question)
    assert ceiling_of(seen.question, counted, seen.question) > (seen.peak_bytes or 0)


def test_a_run_with_larger_adapters_bounds_by_what_it_took_without_them(
    calibration: Calibration,
) -> None:
    seen = next(one for one in calibration.observations if one.question.lora_rank == 64)
    smaller = seen.question.changed(lora_rank=8)
    assert floor_of(seen.question, seen, seen.question) == seen.peak_bytes
    assert floor_of(smaller, seen, seen.question) < (seen.peak_bytes or 0)


def test_a_smaller_batch_is_not_settled_by_that_oom(ask: Ask, calibration: Calibration) -> None:
    found = answer(ask("llama-2-7b", "rtx-3090", seq_len=1024, micro_batch_size=1), calibration)
    assert found.verdict != "does not fit"


def test_a_model_never_seen_gets_an_interval_and_reasons(
    ask: Ask, calibration: Calibration, cards: list[Accelerator]
) -> None:
    found = answer(ask("qwen2.5-32b", quant_bits=4), calibration, cards)
    figure = found.prediction.figure
    assert figure.low < figure.value < figure.high
    assert figure.high / figure.value > 1.15
    assert found.verdict is None
    assert found.reasons[1] in (
        "no run near it was measured, so the interval is that of software never measured",
        "naming the software (--stack) may narrow it",
    )
    assert found.assumptions
    assert [card.gpu.memory_bytes for card in found.cards] == sorted(
        card.gpu.memory_bytes for card in found.cards
    )


def test_parts_add_up_to_the_figure(ask: Ask, calibration: Calibration) -> None:
    found = predict_memory(ask("qwen-7b", stack="swift-benchmark"), calibration)
    assert sum(found.parts.values()) == pytest.approx(found.figure.value)


def test_a_stack_that_was_measured_answers_by_its_nearest_rows(calibration: Calibration) -> None:
    seen = next(
        one
        for one in calibration.observations
        if one.source_id == "qwen-finetune-profile" and one.measured_memory
    )
    found = predict_memory(seen.question, calibration)
    assert found.predictor == "nearest observation and the formula's difference"
    assert found.figure.value == pytest.approx(seen.peak_bytes, rel=0.05)


def test_the_longest_sequence_fits_and_the_next_does_not(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("qwen-7b", "rtx-3090", quant_bits=4)
    longest = answer(question, calibration).longest_seq_len
    assert longest is not None
    for length, expected in ((longest, "fits"), (longest + 64, "undecided")):
        found = predict_memory(question.changed(seq_len=length), calibration)
        assert judge(found, 24 * GIB) == expected


def test_nothing_is_said_to_fit_where_a_likely_meaning_does_not(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("mistral-7b", "a100-40gb", quant_bits=8, seq_len=4096)
    found = predict_memory(question, calibration)
    off = predict_memory(question.changed(gradient_checkpointing=False), calibration).figure
    assert found.meanings is not None
    assert found.figure.high < off.value  # what is likely alone is below
    between = (found.figure.high + off.value) / 2 / 0.98
    assert found.chance_above(0.98 * between) > 0.05
    assert judge(found, between) == "undecided"
    assert judge(replace(found, meanings=None), between) == "fits"
    assert 0.5 < chance_of_fitting(found, between) < 0.95
    everything = found.meanings.mixture.quantile(0.951) / 0.98
    assert judge(found, max(everything, found.figure.high / 0.98)) == "fits"


@pytest.mark.parametrize("method", ["lora", "full"])
@pytest.mark.parametrize("stated", [{}, {"gradient_checkpointing": True}, {"quant_bits": 4}])
def test_a_verdict_and_its_chance_agree_on_any_card(
    ask: Ask, calibration: Calibration, method: str, stated: dict[str, Any]
) -> None:
    if method == "full" and "quant_bits" in stated:
        stated = {"sharding": "fsdp", "n_gpus": 4}
    found = predict_memory(ask("llama-2-7b", "a100-80gb", method=method, **stated), calibration)
    before = 0.0
    for capacity in np.geomspace(found.figure.low / 2, 3 * found.figure.high, 200):
        chance, verdict = chance_of_fitting(found, capacity), judge(found, capacity)
        assert chance >= before
        assert chance >= 0.95 - 1e-6 if verdict == "fits" else chance <= 0.95 + 1e-6
        assert chance < 0.05 + 1e-6 if verdict == "does not fit" else chance > 0.05 - 1e-6
        before = chance


def test_a_verdict_says_how_likely_more_is_needed_than_its_interval_has(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("mistral-7b", "rtx-4090", quant_bits=8, seq_len=4096)
    found = answer(question, calibration)
    high = found.prediction.figure.high
    card = replace(question.gpu, memory_bytes=int(1.01 * high / 0.98))  # type: ignore[type-var]
    found = answer(question.changed(gpu=card), calibration)
    assert found.verdict == "undecided"
    assert re.fullmatch(
        r"the 90 % interval, .* to .*, is below the .* that a process can use of .*, but "
        r"[0-9]+% of what you left open would need more",
        format_why(found) or "",
    )


def test_a_difference_is_told_in_words(ask: Ask) -> None:
    question = ask("qwen-7b", seq_len=2048, gradient_checkpointing=True)
    other = question.changed(seq_len=512, gradient_checkpointing=False, micro_batch_size=2)
    assert describe_differences(question, other) == (
        "seq_len 512, not 2048",
        "micro_batch_size 2, not 1",
        "gradient_checkpointing off, not on",
    )


def test_a_difference_that_no_record_holds_is_told_as_one(ask: Ask) -> None:
    question = ask("qwen-7b", seq_len=2048)
    other = question.changed(gradient_checkpointing=True, compute_dtype="fp32", seq_len=512)
    known = ("gradient_checkpointing", "seq_len")
    assert describe_differences(question, other, known) == (
        "seq_len 512, not 2048 (known of its software, not recorded)",
        "compute_dtype is fp32 (you did not say)",
        "gradient_checkpointing is on (you did not say) (known of its software, not recorded)",
    )
    stated = question.changed(compute_dtype="bf16", gradient_checkpointing=True, seq_len=512)
    assert describe_differences(stated, other) == ("compute_dtype fp32, not bf16",)


def test_what_stands_in_no_record_is_known_of_its_software(calibration: Calibration) -> None:
    seen = {one.observation_id[:12]: one for one in calibration.observations}
    assert "gradient_checkpointing" in seen["ba03368b3bfe"].known_of_source
    assert "gpu" in seen["1134e1d6a783"].known_of_source
    assert all("stack" not in one.known_of_source for one in seen.values())


@pytest.mark.parametrize(
    ("asked", "measured", "told"),
    [
        ({"offload": "params"}, {"offload": "none"}, "offload none, not params"),
        ({"offload": "none"}, {"offload": "params"}, "offload params, not none"),
        ({}, {"offload": "params"}, "offload is params (you did not say)"),
        ({"offload": "params"}, {}, "offload was not recorded, you asked for params"),
        ({"n_gpus": 2, "sharding": "fsdp"}, {"n_gpus": 1}, "sharding none, not fsdp"),
        ({"longest_sample": 512}, {"longest_sample": 700}, "longest_sample 700, not 512"),
        ({"longest_sample": 512}, {"length_distribution": "full"}, "longest_sample 2048, not 512"),
        ({"longest_sample": 512}, {}, "longest_sample was not recorded, you asked for 512"),
        ({}, {"longest_sample": 700}, "longest_sample is 700 (you did not say)"),
    ],
)
def test_what_a_run_states_as_none_is_told_apart_from_what_it_leaves_open(
    ask: Ask, asked: dict[str, Any], measured: dict[str, Any], told: str
) -> None:
    question, other = ask("llama-2-7b", **asked), ask("llama-2-7b", **measured)
    assert told in describe_differences(question, other)


_ALL = ("down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj")


@pytest.mark.parametrize(
    ("model", "named"),
    [("llama-2-7b", _ALL), ("qwen-7b", ("c_attn", "c_proj", "w1", "w2"))],
)
def test_all_modules_are_all_linear_however_they_are_spelled(
    ask: Ask, model: str, named: tuple[str, ...]
) -> None:
    asked = ask(model, lora_target_modules=("all-linear",))
    assert describe_differences(asked, asked.changed(lora_target_modules=named)) == ()
    other = asked.changed(lora_target_modules=named)
    assert between(aspects_of(asked), aspects_of(other)) == 0
    assert describe_differences(asked, asked.changed(lora_target_modules=named[:-1])) == (
        f"lora_target_modules {','.join(named[:-1])}, not all-linear",
    )


def test_an_oom_proves_whatever_its_modules_are_called(calibration: Calibration) -> None:
    seen = next(
        one
        for one in calibration.observations
        if one.outcome == "oom" and one.question.lora_target_modules == _ALL
    )
    asked = seen.question.changed(stack=None, lora_target_modules=("all-linear",))
    assert proves_too_much(asked, seen)
    assert not proves_too_much(asked.changed(lora_target_modules=("q_proj",)), seen)


def test_runs_of_longer_samples_bound_no_question_of_shorter_ones(calibration: Calibration) -> None:
    failed = next(one for one in calibration.observations if one.outcome == "oom")
    longest = failed.question.longest
    asked = failed.question.changed(stack=None, gradient_checkpointing=True)
    failed = replace(failed, question=asked)
    assert proves_too_much(asked.changed(longest_sample=longest), failed)
    assert not proves_too_much(asked.changed(longest_sample=longest - 1), failed)
    ran = replace(failed, outcome="ok", peak_bytes=9.0 * GIB, settled=None)
    longer = asked.changed(seq_len=2 * longest)
    for length, is_bound in ((longest, True), (longest - 1, False)):
        short = longer.changed(longest_sample=length)
        assert (find_floor(short, [(ran.learned, ran)]) is not None) == is_bound


def test_a_run_that_fits_proves_no_more_than_its_samples_were(calibration: Calibration) -> None:
    failed = next(one for one in calibration.observations if one.outcome == "oom")
    open_ = failed.question.changed(
        stack=None, gradient_checkpointing=True, length_distribution=None, packing=None
    )
    filled, short = open_.changed(longest_sample=open_.seq_len), open_.changed(longest_sample=100)

    def proves(asked: Question, run: Question) -> bool:
        return proves_enough(asked, replace(failed, outcome="ok", question=run))

    assert proves(open_, open_)
    assert proves(open_, filled)
    assert proves(short, short)
    assert proves(short, filled)
    assert not proves(open_, short)
    assert not proves(filled, short)
    assert not proves(filled, open_)  # nobody knows how long its samples were


def test_a_neighbour_carries_over_by_the_formulas_difference(
    ask: Ask, calibration: Calibration
) -> None:
    seen = collect_nearest(ask("qwen-7b", seq_len=512), calibration.observations, 1)[0]
    longer = seen.observation.question.changed(seq_len=2 * seen.observation.question.seq_len)
    assert transfer(seen.observation.question, seen.observation) == seen.observation.peak_bytes
    moved = transfer(longer, seen.observation)
    assert moved is not None
    assert moved > (seen.observation.peak_bytes or 0)


def test_a_dry_run_corrects_the_answer_and_all_its_variations(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("qwen-7b", quant_bits=4)
    formula = predict_memory(question, calibration)
    meant = likeliest(question, calibration)
    corrected = correct(question, meant, calibration, 40 * GIB)
    assert predict_memory(meant, corrected).figure.value == pytest.approx(40 * GIB + 1e9)
    found = predict_memory(question, corrected)
    assert found.predictor == "dry run on fake tensors, with the formula's interval"
    assert found.figure.value / formula.figure.value == pytest.approx(corrected.factor)
    assert found.figure.high / found.figure.value == pytest.approx(
        formula.figure.high / formula.figure.value
    )
    assert found.meanings is not None
    assert formula.meanings is not None
    assert found.meanings.mixture.quantile(0.5) == pytest.approx(
        corrected.factor * formula.meanings.mixture.quantile(0.5)
    )


def test_a_dry_run_corrects_the_answer_of_a_named_stack(ask: Ask, calibration: Calibration) -> None:
    question = ask("qwen-7b", quant_bits=4, stack="swift-benchmark")
    meant = likeliest(question, calibration)
    corrected = correct(question, meant, calibration, 40 * GIB)
    assert predict_memory(meant, corrected).figure.value == pytest.approx(40 * GIB + 1e9)
    found = predict_memory(question, corrected)
    assert found.figure.value == pytest.approx(40 * GIB + 1e9, rel=0.02)
    assert sum(found.parts.values()) == pytest.approx(found.figure.value)


def test_cost_follows_from_the_step(ask: Ask, calibration: Calibration) -> None:
    question = ask("qwen-7b", "a100-sxm4-80gb", n_gpus=2, micro_batch_size=2, grad_accum_steps=4)
    cost = estimate_cost(question, calibration, n_samples=1600, n_epochs=3, price_per_gpu_hour=2)
    epoch: Interval | None = cost.seconds_per_epoch
    assert epoch is not None
    assert epoch.value == pytest.approx(cost.seconds_per_step.value * 100)
    assert cost.gpu_hours is not None
    assert cost.gpu_hours.value == pytest.approx(3 * 2 * epoch.value / 3600)
    assert cost.price is not None
    assert cost.price.high == pytest.approx(2 * cost.gpu_hours.high)
    assert estimate_cost(question, calibration).gpu_hours is None


@pytest.mark.parametrize(
    ("count", "more"),
    [(300, ""), (301, ", too many to learn from them here: run registry calibrate")],
)
def test_more_new_runs_than_are_learned_from_are_said_to_need_calibrating(
    ask: Ask, calibration: Calibration, count: int, more: str
) -> None:
    newer = replace(calibration, newer=frozenset(map(str, range(count))))
    reasons = answer(ask("llama-2-7b", "a100-80gb"), newer).reasons
    assert f"evidence newer than the calibration: {count} runs of yours{more}" in reasons


def test_a_quantizer_that_nobody_named_is_no_distance_and_is_told(
    ask: Ask, calibration: Calibration
) -> None:
    question = ask("qwen-7b", "rtx-3090", quant_bits=4, seq_len=2048)
    first, *_ = collect_nearest(question, calibration.observations)
    assert first.observation.question.model.model_id == "qwen-7b"
    assert any(
        one.startswith("quant_method is gptq (you did not say)") for one in first.differences
    )
    named, *_ = collect_nearest(
        question.changed(quant_method="bitsandbytes"), calibration.observations
    )
    assert named.observation.question.quant_method == "bitsandbytes"
