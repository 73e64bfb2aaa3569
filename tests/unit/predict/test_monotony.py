"""More of anything never needs less, of the formula and of what it is made for: 7,500 series.

Each series changes one setting of a random question, the others fixed. Where physics says otherwise
the reason stands beside the series.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest

from registry.predict.architecture import Architecture
from registry.predict.formula.methods import METHODS
from registry.predict.formula.peak_memory import memory_terms, total
from registry.predict.formula.step_time import time_terms
from registry.predict.question import Question

if TYPE_CHECKING:
    from collections.abc import Iterator

_SERIES = 300
#: With each an upper bound of what may be taken back, in bytes: arithmetic on floats alone.
_ROUNDING = 1.0


def architecture(dice: random.Random) -> Architecture:
    hidden, layers = 128 * dice.randint(8, 64), dice.randint(12, 80)
    heads = hidden // 128
    middle, vocabulary = round(hidden * dice.choice([2.7, 3.5, 4])), dice.choice([32_000, 151_936])
    gated = dice.random() < 0.8
    each = 4 * hidden * hidden + (3 if gated else 2) * hidden * middle
    return Architecture(
        model_id="random", n_params=layers * each + 2 * vocabulary * hidden, n_layers=layers,
        hidden_size=hidden, intermediate_size=middle, vocab_size=vocabulary, n_heads=heads,
        n_kv_heads=heads, head_dim=128, gated_mlp=gated,
    )  # fmt: skip


def question(dice: random.Random, **fixed: Any) -> Question:
    full = dice.random() < 0.4
    settings: dict[str, Any] = {
        "method": "full" if full else dice.choice(list(METHODS)),
        "quant_bits": None if full else dice.choice([None, 4, 8]),
        "seq_len": 2 ** dice.randint(7, 15),
        "micro_batch_size": dice.randint(1, 16),
        "gradient_checkpointing": dice.random() < 0.5,
        "attention": dice.choice(["eager", "flash2"]),
        "optimizer": dice.choice(["adamw", "adamw_8bit", "paged_adamw_32bit", "sgd"]),
        "param_dtype": dice.choice([None, "bf16", "fp32"]),
        "loss_kernel": dice.choice([None, "liger", "chunked", "unsloth"]),
        "grad_accum_steps": dice.choice([1, 8]),
        "n_gpus": dice.choice([1, 2, 8]),
        "sharding": dice.choice([None, "zero1", "zero2", "zero3", "fsdp"]),
        "offload": dice.choice([None, None, "optimizer", "optimizer_and_params", "activations"]),
        "length_distribution": dice.choice([None, "variable"]),
    }
    settings |= fixed
    if settings["sharding"] in ("zero1", "zero2") and settings["offload"] == "optimizer_and_params":
        settings["offload"] = "optimizer"  # parameters are offloaded with ZeRO-3 alone
    return Question(architecture(dice), **settings)


def series(name: str, values: list[Any], **fixed: Any) -> Iterator[list[Question]]:
    dice = random.Random(name)  # noqa: S311 - the same questions in each run
    for _ in range(_SERIES):
        asked = question(dice, **{**fixed, name: values[0]})
        yield [asked.changed(**{name: value}) for value in values]


_FULL: dict[str, Any] = {"method": "full", "quant_bits": None}
_SPLIT: dict[str, Any] = {**_FULL, "offload": None, "n_gpus": 64, "pipeline_parallel": 4}
#: What is asked, from least to most, and what the series is about besides.
GROWING: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("seq_len", [64, 256, 768, 2048, 2112, 4096, 16_384], {}),
    ("seq_len", [64, 768, 2112, 16_384], {**_SPLIT, "sharding": "zero1", "tensor_parallel": 2}),
    ("micro_batch_size", [1, 2, 3, 8, 64], {}),
    ("micro_batch_size", [1, 3, 64], {**_SPLIT, "sharding": None, "tensor_parallel": 8}),
    ("lora_rank", [1, 8, 64, 256], {"method": "lora"}),
    # Quantized weights; 16-bit ones are compared without bitsandbytes' fp32 embeddings, which only
    # a quantized base has and which can weigh more than the bits save.
    ("quant_bits", [2, 3, 4, None], {"method": "lora", "quant_method": "gptq"}),
    # A fused AdamW has AdamW's states and no temporaries; paged states are not on the card.
    ("optimizer", ["sgd", "adamw_8bit", "adamw_torch_fused", "adamw"], {"param_dtype": "bf16"}),
    ("optimizer", ["sgd", "lion_8bit", "adamw_8bit", "lion", "adamw"], {"param_dtype": "fp32"}),
    ("optimizer", ["paged_lion_8bit", "lion_8bit", "adamw_8bit", "adamw"], {}),
    # What lives on the host is not on the card. Weights there leave a window of them, under ZeRO-3
    # as large as DeepSpeed's live parameters: as much as the weights of a small model.
    ("offload", ["optimizer_and_params", "optimizer", None], {**_FULL, "sharding": None}),
    ("offload", ["optimizer", None], {**_FULL, "sharding": "zero3"}),
    ("offload", ["activations", None], {}),
    ("gradient_checkpointing", [True, False], {}),
    ("attention", ["flash2", "eager"], {}),
    ("trains_embeddings", [False, True], {"method": "lora", "quant_bits": None}),
    ("param_dtype", ["bf16", "fp32"], {"quant_bits": None}),
    ("tensor_parallel", [8, 4, 2], {**_SPLIT, "sharding": None}),
]


def needed(asked: Question) -> float:
    return total(memory_terms(asked))


@pytest.mark.parametrize(("name", "values", "fixed"), GROWING)
def test_more_never_needs_less(name: str, values: list[Any], fixed: dict[str, Any]) -> None:
    for asked in series(name, values, **fixed):
        found = [needed(one) for one in asked]
        steps = itertools.pairwise(found)
        assert all(one <= more + _ROUNDING for one, more in steps), (found, asked[0])


def test_a_higher_stage_never_needs_more() -> None:
    """DDP is taken at ZeRO's precision: fp32 weights under autocast.

    In pure 16-bit precision it has no fp32 masters, and ZeRO-1 rightly needs more over few cards.
    DeepSpeed's communication buckets come on top, where DDP's are as large as the gradients.
    """
    stages = ["zero1", "zero2", "zero3"]
    for asked in series("sharding", stages, param_dtype=None):
        found = [needed(one) for one in asked]
        assert found == sorted(found, reverse=True), (found, asked[0])
        if asked[0].full and asked[0].n_gpus > 1 and not asked[0].offloaded:
            buckets = sum(term.value for term in memory_terms(asked[0]) if term.name == "buckets")
            plain = asked[0].changed(sharding="ddp", param_dtype="fp32")
            assert found[0] <= needed(plain) + buckets


@pytest.mark.parametrize("sharding", ["zero1", "zero2", "zero3", "fsdp", "hsdp"])
def test_more_cards_never_need_more_of_each(sharding: str) -> None:
    """From two on: one card alone gathers nothing and has no buckets."""
    counts = [2, 3, 4, 8, 16, 64, 512]
    for asked in series("n_gpus", counts, sharding=sharding):
        found = [needed(one) for one in asked]
        steps = itertools.pairwise(found)
        assert all(one + _ROUNDING >= more for one, more in steps), (found, asked[0])


@pytest.mark.parametrize(("name", "values", "fixed"), [GROWING[0], GROWING[2]])
def test_more_tokens_never_take_less_time(
    name: str, values: list[Any], fixed: dict[str, Any]
) -> None:
    for asked in series(name, values, **fixed):
        found = [total(time_terms(one)) for one in asked]
        assert found == sorted(found), (found, asked[0])
