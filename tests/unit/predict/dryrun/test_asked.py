from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from registry.errors import QuestionError
from registry.predict.dryrun import Recipe
from registry.predict.dryrun.executing import job_of
from registry.predict.dryrun.notes import collect_notes
from registry.predict.question import Question
from tests.unit.predict.tiny import TINY

MIXTURE = replace(TINY, n_experts=4)


def test_a_mixture_whose_experts_stay_unquantized_is_executed() -> None:
    settings, _ = job_of(Question(MIXTURE, quant_bits=4, quantized_experts=False), "tiny")
    assert settings.quantization == "nf4"


def test_what_is_stated_reaches_the_job() -> None:
    asked = Question(
        TINY, quant_bits=4, seq_len=512, micro_batch_size=3, lora_rank=16, grad_accum_steps=2,
        lora_target_modules=("k_proj",), gradient_checkpointing=False, attention="eager",
        optimizer="adamw_8bit", compute_dtype="fp16",
    )  # fmt: skip
    settings, recipe = job_of(asked, "tiny")
    assert (settings.quantization, settings.dtype, settings.attention) == ("nf4", "fp16", "eager")
    assert (settings.seq_len, settings.micro_batch_size, settings.grad_accum_steps) == (512, 3, 2)
    assert (settings.lora_rank, settings.lora_target_modules) == (16, ("k_proj",))
    assert settings.optimizer == "adamw_8bit"
    assert not settings.gradient_checkpointing
    assert recipe == Recipe()


def test_weights_that_train_in_fp32_are_held_in_fp32() -> None:
    _, recipe = job_of(Question(TINY, method="full", param_dtype="fp32"), "tiny")
    assert recipe.weights_fp32
    _, recipe = job_of(Question(TINY, method="full", param_dtype="bf16"), "tiny")
    assert not recipe.weights_fp32


def test_targets_that_nobody_stated_may_be_the_familys() -> None:
    assert job_of(Question(TINY), "tiny")[1].family_targets
    assert not job_of(Question(TINY, lora_target_modules=("up_proj",)), "tiny")[1].family_targets


def test_virtual_tokens_reach_peft() -> None:
    settings, _ = job_of(Question(TINY, method="prompt_tuning", virtual_tokens=7), "tiny")
    assert settings.peft == {"num_virtual_tokens": 7}


@pytest.mark.parametrize(
    ("stated", "named"),
    [
        ({"offload": "optimizer"}, "offload optimizer"),
        ({"loss_kernel": "liger"}, "loss_kernel liger"),
        ({"optimizer_in_backward": True}, "optimizer_in_backward"),
        ({"quant_bits": 4, "quant_method": "gptq"}, "quant_method gptq"),
        ({"quant_bits": 3}, "quant_bits 3"),
        ({"optimizer": "lion"}, "optimizer lion"),
        ({"compute_dtype": "fp8"}, "compute_dtype fp8"),
        ({"method": "lorafa"}, "method lorafa"),
        ({"n_gpus": 2, "sharding": "zero3"}, "sharding zero3"),
    ],
)
def test_what_is_not_executed_is_refused_by_name(stated: dict[str, Any], named: str) -> None:
    with pytest.raises(QuestionError) as caught:
        job_of(Question(**{"model": TINY, **stated}), "tiny")
    expected = f"dry run: {named} is not executed; ask without it to use the formula"
    assert str(caught.value) == expected


def test_what_a_dry_run_executes_instead_of_quantized_experts_is_named() -> None:
    with pytest.raises(QuestionError) as caught:
        job_of(Question(MIXTURE, quant_bits=4), "tiny")
    assert str(caught.value) == (
        "dry run: a mixture with quantized experts is not executed; state --no-quantized-experts, "
        "or ask without it to use the formula"
    )


def test_layers_that_fused_kernels_run_leaner_are_told_by_their_parameters() -> None:
    names = ("layers.0.mamba.A_log", "layers.1.self_attn.q_proj.weight")
    (note,) = set(collect_notes(*job_of(Question(TINY), "tiny"), names)) - set(
        collect_notes(*job_of(Question(TINY), "tiny"))
    )
    assert "fused kernels" in note
