"""What of a model is computed as something else is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from registry.predict.architecture import architecture_from_config
from registry.predict.layouts import describe_head, describe_layout
from registry.predict.question import Question, check_question
from tests.unit.predict.tiny import TINY

ASKED = Question(model=TINY)


def _told(kind: str | None, **settings: Any) -> list[str]:
    return list(describe_layout(ASKED.changed(model=replace(TINY, model_type=kind), **settings)))


@pytest.mark.parametrize("kind", [None, "llama", "mixtral", "bert", "gpt2"])
def test_decoders_of_attention_and_mlp_are_told_nothing_of(kind: str | None) -> None:
    assert _told(kind) == []


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("granitemoehybrid", "Mamba-2 in place of attention"),
        ("qwen3_next", "a gated delta network in place of attention"),
        ("falcon_h1", "falcon_h1's layout"),
    ],
)
def test_layers_that_count_as_llamas_are_told(kind: str, what: str) -> None:
    (told,) = _told(kind)
    assert f"{what} is not computed" in told
    assert "without --checkpointing" in told
    assert "far too little" not in _told(kind, gradient_checkpointing=True)[0]
    named = replace(TINY, model_type=kind)
    assert told in check_question(ASKED.changed(model=named))


@pytest.mark.parametrize("kind", ["qwen2_5_vl", "llava_next_video", "gemma3"])
def test_a_vision_tower_is_told(kind: str) -> None:
    (told,) = _told(kind)
    assert "what its vision tower keeps of them is left out" in told


def test_matrices_that_transformers_5_does_not_quantize_are_told() -> None:
    quantized = {"quant_bits": 4, "quant_method": "bitsandbytes"}
    (told,) = _told("falcon", **quantized)
    assert "transformers 5 hands none of falcon's to bitsandbytes" in told
    assert _told("falcon") == _told("falcon", quant_bits=4, quant_method="gptq") == []
    assert _told("llama", **quantized) == []


def test_a_head_that_classifies_is_told() -> None:
    config = {
        "model_type": "llama", "architectures": ["LlamaForSequenceClassification"],
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 128, "vocab_size": 1000,
    }  # fmt: skip
    (told,) = architecture_from_config(config).taken
    assert told.startswith("LlamaForSequenceClassification is computed with an output layer")
    assert list(describe_head({"architectures": ["LlamaForCausalLM"]})) == []
    assert list(describe_head({"architectures": None})) == []
