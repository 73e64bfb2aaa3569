"""What a question leaves open is completed by what is usual, never by a silent default."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from registry.predict.answer.prediction import predict_memory
from registry.predict.answer.will_it_fit import answer
from registry.predict.architecture import architecture_from_figures
from registry.predict.calibration.unstated import (
    complete,
    count_usual,
    open_settings,
    pack_usual,
    settle,
    unpack_usual,
)
from registry.predict.question import Question

if TYPE_CHECKING:
    from registry.predict.calibration.intervals import Calibration
    from tests.unit.predict.conftest import Ask

ALL: dict[str, Any] = {
    "gradient_checkpointing": True,
    "attention": "flash2",
    "lora_rank": 8,
    "lora_target_modules": ("q_proj", "v_proj"),
    "param_dtype": "bf16",
    "loss_kernel": "whole",
    "packing": True,
}
LONG = {"seq_len": 8192, "micro_batch_size": 4}


def test_a_question_that_states_all_means_one_thing(ask: Ask, calibration: Calibration) -> None:
    question = ask("qwen-7b", **ALL)
    assert open_settings(question) == ()
    (one,) = complete(question, calibration.usual)
    assert (one.weight, one.question) == (1.0, question)


def test_weights_add_up_and_the_likeliest_comes_first(ask: Ask, calibration: Calibration) -> None:
    found = complete(ask("qwen-7b"), calibration.usual)
    assert sum(one.weight for one in found) == pytest.approx(1.0)
    assert [one.weight for one in found] == sorted((one.weight for one in found), reverse=True)
    assert {one.question.gradient_checkpointing for one in found} == {True, False}


@pytest.mark.parametrize("sharding", ["fsdp", "hsdp", "fsdp_grad_op"])
def test_fp32_is_likelier_of_what_any_fsdp_trains_in_full(
    ask: Ask, calibration: Calibration, sharding: str
) -> None:
    usual, full = calibration.usual, ask("qwen-7b", method="full", n_gpus=2, sharding=sharding)
    assert usual.of(full, "param_dtype") == (("fp32", 0.6), ("bf16", 0.4))
    for other in ({"sharding": "ddp"}, {"method": "lora"}):
        assert usual.of(full.changed(**other), "param_dtype")[0][0] == "bf16"


def test_runs_with_fsdp_are_not_taken_to_hold_what_those_without_do(
    ask: Ask, calibration: Calibration
) -> None:
    settings = {**ALL, "param_dtype": None, "lora_rank": None, "lora_target_modules": None}
    settings |= {"optimizer": "adamw"}
    seen = next(one for one in calibration.observations if one.measured_memory)
    runs = [
        replace(
            seen,
            question=asked,
            settled={"param_dtype": held},
            peak_bytes=replace(
                seen, question=asked.changed(param_dtype=held), settled=None
            ).formula_bytes,
        )
        for held, asked in {
            "bf16": ask("qwen-7b", method="full", **settings),
            "fp32": ask("qwen-7b", method="full", **settings, sharding="fsdp", n_gpus=2),
        }.items()
    ]
    for given in (runs, runs[::-1]):
        found = settle([replace(one, settled=None) for one in given], calibration.usual)
        assert [one.settled for one in found] == [one.settled for one in given]


@pytest.mark.parametrize(
    "kind",
    [{"method": "full", "lora_rank": None, "lora_target_modules": None}, {}, {"quant_bits": 4}],
)
def test_fsdp_that_shards_less_needs_no_less(
    ask: Ask, calibration: Calibration, kind: dict[str, Any]
) -> None:
    settings: dict[str, Any] = {**ALL, **LONG, "param_dtype": None, "loss_kernel": "liger", **kind}
    question = ask("llama-3.1-8b", n_gpus=2, sharding="fsdp", **settings)
    less = question.changed(sharding="fsdp_grad_op")
    peaks = [predict_memory(asked, calibration).figure.value for asked in (question, less)]
    assert peaks[0] < 1.001 * peaks[1]


@pytest.mark.parametrize(
    ("settings", "shortest"),
    [
        ({"seq_len": 512, "length_distribution": "variable"}, 128),
        ({"seq_len": 2048, "length_distribution": "variable"}, 512),
        ({"seq_len": 8192, "length_distribution": "variable"}, 1024),
        ({"seq_len": 512, "length_distribution": "variable", "longest_sample": 300}, 300),
        ({"seq_len": 512}, 512),
        ({"seq_len": 8192}, 1024),
        ({"seq_len": 8192, "length_distribution": "full"}, 8192),
    ],
)
def test_samples_that_vary_may_all_be_shorter_than_the_limit(
    ask: Ask, calibration: Calibration, settings: dict[str, Any], shortest: int
) -> None:
    asked = ask("qwen-7b", **{**ALL, "packing": None, **settings})
    found = complete(asked, calibration.usual)
    assert min(one.question.longest for one in found) == shortest
    assert found[0].question.longest == min(
        settings["seq_len"], settings.get("longest_sample", 2**30)
    )


def test_modules_that_are_stated_stay(ask: Ask, calibration: Calibration) -> None:
    question = ask("qwen-7b", lora_target_modules=("o_proj",))
    assert {one.question.lora_target_modules for one in complete(question, calibration.usual)} == {
        ("o_proj",)
    }


def test_a_rank_that_is_stated_leaves_its_modules_open(ask: Ask, calibration: Calibration) -> None:
    question = ask("qwen-7b", lora_rank=128)
    assert "adapters" in open_settings(question)
    found = complete(question, calibration.usual)
    assert {one.question.lora_rank for one in found} == {128}
    modules = {one.question.lora_target_modules for one in found}
    assert modules == {("q_proj", "v_proj"), ("all-linear",)}
    assert len(calibration.usual.of(question, "adapters")) == len(modules)


def test_a_model_by_its_figures_may_have_any_vocabulary_that_it_has_room_for(
    calibration: Calibration,
) -> None:
    def sizes(n_params: int, n_layers: int) -> set[int]:
        question = Question(architecture_from_figures(n_params, n_layers))
        assert predict_memory(question, calibration).meanings is not None
        return {one.question.model.vocab_size for one in complete(question, calibration.usual)}

    assert sizes(12_000_000_000, 48) == {32_000, 151_936, 262_144}
    assert sizes(600_000_000, 20) == {32_000}


@pytest.mark.parametrize("setting", ["gradient_checkpointing", "attention", "lora_rank"])
def test_stating_a_setting_never_widens_the_plain_answer_beyond_all(
    ask: Ask, calibration: Calibration, setting: str
) -> None:
    question = ask("qwen-7b", quant_bits=4)
    whole = predict_memory(question, calibration).figure
    stated = predict_memory(question.changed(**{setting: ALL[setting]}), calibration).figure
    assert stated.high <= whole.high * 1.02


def test_counting_is_by_source_and_survives_a_file(calibration: Calibration) -> None:
    usual = count_usual(calibration.observations)
    for choices in usual.choices.values():
        assert sum(weight for _, weight in choices) == pytest.approx(1.0)
    packed = json.loads(json.dumps(pack_usual(usual)))
    again = unpack_usual(packed)
    assert again.choices.keys() == usual.choices.keys()
    assert pack_usual(again) == pack_usual(usual)


def test_measured_peaks_settle_what_nobody_states(calibration: Calibration) -> None:
    runs = calibration.observations
    assert settle(runs, calibration.usual) == list(runs)
    left = [
        one
        for one in runs
        if one.measured_memory and "gradient_checkpointing" in open_settings(one.question)
    ]
    assert {one.learned.gradient_checkpointing for one in left} == {True, False}


def test_runs_of_one_source_are_settled_alike(calibration: Calibration) -> None:
    runs = [
        one
        for one in calibration.observations
        if one.source_id == "llama2-lora-3090" and one.question.quant_bits is None
    ]
    adapters = {(one.learned.lora_rank, one.learned.lora_target_modules) for one in runs}
    assert len(runs) > 10
    assert len(adapters) == 1


def test_assumptions_say_how_far_each_moves_the_answer(ask: Ask, calibration: Calibration) -> None:
    question = ask("llama-2-7b", "rtx-3090", micro_batch_size=4)
    found = answer(question, calibration).assumptions
    assert {one.setting for one in found} == set(open_settings(question))
    assert [one.moves for one in found] == sorted((one.moves for one in found), reverse=True)
    by = {one.setting: one for one in found}
    checkpointing = {case.value: case.bytes for case in by["gradient_checkpointing"].cases}
    assert checkpointing[False] > 1.2 * checkpointing[True]
