"""Split models: what a device of a tensor- or pipeline-parallel group holds, as measured."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from registry.errors import QuestionError
from registry.predict.formula.peak_memory import memory_terms, total
from registry.predict.formula.step_time import time_terms
from registry.predict.question import Question
from tests.unit.predict.tiny import TINY

if TYPE_CHECKING:
    from tests.unit.predict.conftest import Ask

MODEL = replace(TINY, n_layers=8, n_heads=16, n_kv_heads=16)
FULL: dict[str, Any] = {"method": "full", "attention": "flash2", "gradient_checkpointing": True}

#: Fully stated runs of flagperf-nvidia (Megatron-DeepSpeed, 8 cards, seq_len 2048, FlashAttention,
#: tensor parallel 2): model, pipeline, sharding, batch, accumulation, checkpointing, GB measured.
MEASURED = [
    ("gpt3-13b", 4, "zero1", 4, 256, True, 38.5),
    ("gpt3-13b", 1, "zero2", 2, 128, True, 52.1),
    ("gpt3-13b", 1, "zero1", 2, 128, True, 54.5),
    ("gpt3-6.7b", 1, "zero2", 4, 64, False, 53.1),
    ("gpt3-6.7b", 1, "zero1", 4, 64, False, 58.7),
    ("gpt3-6.7b", 4, "zero1", 4, 256, False, 50.2),
    ("llama-13b", 1, "zero2", 2, 256, True, 47.1),
    ("llama-13b", 1, "zero1", 2, 256, True, 56.1),
    ("llama-13b", 4, "zero1", 4, 512, True, 61.9),
    ("llama-7b", 1, "zero1", 2, 256, True, 30.5),
    ("llama-7b", 4, "zero1", 2, 1024, True, 21.9),
    ("llama-7b", 1, "zero2", 4, 128, False, 58.0),
    ("llama-7b", 1, "zero1", 4, 128, False, 63.1),
    ("llama-7b", 1, "zero2", 2, 256, True, 27.7),
    ("llama-7b", 4, "zero1", 4, 512, False, 50.3),
]


def ratios(ask: Ask) -> list[float]:
    found = []
    for model, stages, sharding, batch, steps, checkpointed, measured in MEASURED:
        question = ask(
            model, method="full", seq_len=2048, micro_batch_size=batch, grad_accum_steps=steps,
            attention="flash", gradient_checkpointing=checkpointed, sharding=sharding, n_gpus=8,
            tensor_parallel=2, pipeline_parallel=stages, compute_dtype="fp16",
        )  # fmt: skip
        found.append(total(memory_terms(question)) / measured / 1e9)
    return found


def test_measured_runs_agree(ask: Ask) -> None:
    found = ratios(ask)
    assert statistics.median(abs(ratio - 1) for ratio in found) < 0.10, found
    assert sum(0.8 < ratio < 1.2 for ratio in found) >= len(MEASURED) - 1, found


def needed(**settings: Any) -> float:
    return total(memory_terms(Question(MODEL, **{**FULL, **settings})))


def by_name(**settings: Any) -> dict[str, float]:
    terms = memory_terms(Question(MODEL, **{**FULL, **settings}))
    return {term.name: term.value for term in terms}


def test_a_device_holds_its_share_of_18_bytes_a_parameter() -> None:
    found = by_name(n_gpus=4, tensor_parallel=4, micro_batch_size=1, seq_len=64)
    names = ("weights", "cast_weights", "full_optimizer", "full_gradients")
    states = sum(found[name] for name in names)
    embeddings = 2 * MODEL.embedding_params / 4  # not cast: a look-up, and a product once
    assert states == pytest.approx(18 * MODEL.n_params / 4 - embeddings, rel=0.01)


def test_what_runs_between_layers_is_on_each_device_of_a_group() -> None:
    stated: dict[str, Any] = {"seq_len": 2048, "micro_batch_size": 4}
    alone = by_name(**stated)["checkpoints"]
    assert by_name(n_gpus=2, tensor_parallel=2, **stated)["checkpoints"] == alone


def test_the_first_stage_keeps_as_many_micro_batches_as_there_are_stages() -> None:
    stated: dict[str, Any] = {
        "seq_len": 4096, "micro_batch_size": 32, "grad_accum_steps": 8,
        "gradient_checkpointing": False,
    }  # fmt: skip
    alone = by_name(**stated)["layer_activations"]
    split = by_name(n_gpus=4, pipeline_parallel=4, **stated)
    assert split["layer_activations"] == pytest.approx(alone)
    assert "logits" not in split


@pytest.mark.parametrize("name", ["tensor_parallel", "pipeline_parallel"])
def test_more_parts_never_need_more_of_each_device(name: str) -> None:
    for batch in (1, 8):
        found = [needed(n_gpus=16, micro_batch_size=batch, **{name: n}) for n in (2, 4, 8)]
        assert found == sorted(found, reverse=True)


def test_zero_spreads_over_the_ranks_that_are_left() -> None:
    alike = [
        needed(n_gpus=8, tensor_parallel=2, sharding="zero1"),
        needed(n_gpus=8, tensor_parallel=2),
    ]
    assert alike[0] != alike[1]
    fewer = needed(n_gpus=4, tensor_parallel=2, sharding="zero1")
    assert alike[0] < fewer


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ({"method": "lora"}, "tensor_parallel 2 with method lora: no measured run verifies"),
        ({"sharding": "fsdp"}, "tensor_parallel 2 with sharding fsdp"),
        ({"offload": "optimizer"}, "tensor_parallel 2 with offload optimizer"),
        ({"n_gpus": 3}, "found 3 devices; expected a multiple of 2; ask with --gpus 2"),
        ({"tensor_parallel": 64, "n_gpus": 64}, "expected no more than 16 (heads) x 8 (layers)"),
    ],
)
def test_a_split_that_nothing_checks_is_refused_by_name(stated: dict[str, Any], words: str) -> None:
    with pytest.raises(QuestionError) as caught:
        Question(MODEL, **{**FULL, "n_gpus": 2, "tensor_parallel": 2, **stated})
    assert words in str(caught.value)


def test_the_time_of_a_split_model_is_refused() -> None:
    with pytest.raises(QuestionError, match="the time of a split model is not computed"):
        time_terms(Question(MODEL, **FULL, n_gpus=2, tensor_parallel=2))
