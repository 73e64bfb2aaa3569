"""What a question takes from an observation's row, and what it takes where the row is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from registry.predict.question import Question, question_of

MODEL = {
    "model_id": "tiny", "n_params": 2000, "n_layers": 3, "hidden_size": 8, "intermediate_size": 20,
    "vocab_size": 50, "n_heads": 2,
}  # fmt: skip
SETTINGS: dict[str, Any] = {
    "method": "lora", "quant_bits": 4, "quant_method": "gptq", "quant_type": "int4",
    "compute_dtype": "fp16", "param_dtype": "fp32", "lora_rank": 16, "trainable_params": 100,
    "grad_accum_steps": 2, "gradient_checkpointing": False, "attention": "eager",
    "optimizer": "sgd", "sharding": "zero2", "offload": "optimizer", "interconnect": "nvlink",
    "length_distribution": "full", "mean_tokens": 50.0, "seq_len": 128, "micro_batch_size": 4,
    "n_gpus": 2, "trains_embeddings": True,
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_of_a_row_is_one_of_its_question(name: str) -> None:
    assert getattr(question_of({**MODEL, **SETTINGS}), name) == SETTINGS[name]


def test_a_silent_row_gives_one_card_one_sample_and_2048_tokens() -> None:
    question = question_of({**MODEL, "method": "lora"})
    assert (question.n_gpus, question.micro_batch_size, question.seq_len) == (1, 1, 2048)
    assert question.trains_embeddings is False
    assert (question.gpu, question.stack, question.lora_target_modules) == (None, None, None)


def test_a_row_of_full_training_has_no_rank() -> None:
    assert question_of({**MODEL, "method": "full", "lora_rank": 8}).lora_rank is None


def test_the_stack_is_the_source_and_targets_are_kept_in_order() -> None:
    row = {**MODEL, "method": "lora", "source_id": "s", "lora_target_modules": ["v", "q"]}
    assert question_of(row).stack == "s"
    assert question_of(row).lora_target_modules == ("v", "q")


@pytest.mark.parametrize(
    ("card", "known"),
    [
        ({"gpu_id": "x", "memory_bytes": 2}, True),
        ({"gpu_id": "x", "memory_bytes": 1}, False),  # what stands for a CPU
        ({"gpu_id": "x", "memory_bytes": None}, False),
        ({"gpu_id": None, "memory_bytes": 2}, False),
    ],
)
def test_a_card_is_known_by_its_memory(card: dict[str, Any], known: bool) -> None:  # noqa: FBT001
    question = question_of({**MODEL, "method": "lora", **card})
    assert (question.gpu is not None) is known


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compute_dtype", "bf16"), ("gradient_checkpointing", True), ("attention", "flash2"),
        ("optimizer", "adamw"), ("lora_rank", 8), ("grad_accum_steps", 8),
    ],
)  # fmt: skip
def test_a_setting_that_is_not_given_has_its_default(name: str, value: object) -> None:
    question = question_of({**MODEL, "method": "lora"})
    assert question.setting(name) == value
    given = replace(question, **{name: SETTINGS[name]})
    assert given.setting(name) == SETTINGS[name]


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        ({"method": "lora"}, "lora"),
        ({"method": "lora", "quant_bits": 4}, "qlora"),
        ({"method": "dora", "quant_bits": 8}, "int8 dora"),
        ({"method": "lora", "trains_embeddings": True}, "lora (emb)"),
        ({"method": "full", "trains_embeddings": True}, "full"),
    ],
)
def test_a_method_goes_by_its_customary_label(settings: dict[str, Any], label: str) -> None:
    assert question_of({**MODEL, **settings}).label == label


def test_samples_are_at_most_as_long_as_the_sequence() -> None:
    question = question_of({**MODEL, "method": "lora", "seq_len": 64})
    lengths = [question.changed(mean_tokens=mean).mean_sample_tokens for mean in (None, 10.0, 99.0)]
    assert lengths == [64, 10.0, 64]


def test_a_question_without_settings_is_lora_on_one_card() -> None:
    question = question_of({**MODEL, "method": "lora"})
    assert Question(question.model) == question
