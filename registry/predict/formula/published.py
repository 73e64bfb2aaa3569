"""Rules and formulas that others publish, uncalibrated, to compare with ours.

Each returns bytes of one device. All follow their authors' descriptions; `ADAPTED` says what
had to be adapted to our questions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.predict.sharding import SHARDS_OPTIMIZER, SHARDS_WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from registry.predict.question import Question


def _weights(question: Question) -> float:
    """Parameters in the bytes of their precision, over the cards that share them."""
    each = 2.0 if question.quant_bits is None else question.quant_bits / 8
    return each * question.model.n_params / question.shards(SHARDS_WEIGHTS)


def rule_of_thumb(question: Question) -> float:
    """Return 16n for full training and 2n (n by the bits when quantized) for adapters."""
    if question.full:
        return 16.0 * question.model.n_params / question.shards(SHARDS_OPTIMIZER)
    return _weights(question)


def accelerate_rule(question: Question) -> float:
    """Return four times the weights for training with Adam, 1.2 times the weights for the rest."""
    return _weights(question) * (4.0 if question.full else 1.2)


def llmem(question: Question) -> float:
    """Return LLMem's sum: base, parameters, optimizer, outputs of the layers and of the head.

    Source: Kim et al. 2024 (LLMem), section 4: fp16 parameters, fp32 copy and moments of what is
    trained, one 16-bit output per layer, the output layer's logits in 16 and 32 bits.
    """
    model, trained = question.model, question.trained_params
    static = _weights(question) + 14.0 * trained / question.shards(SHARDS_OPTIMIZER)
    outputs = 2.0 * question.tokens * model.hidden_size * (model.n_layers + 1)
    return 1.2e9 + static + outputs + 6.0 * question.tokens * model.vocab_size


def gpu_poor(question: Question) -> float:
    """Return gpu_poor's sum: weights, gradients, optimizer, all layers' activations, 650 MB.

    Source: RahulSChand/gpu_poor, description of its calculation.
    """
    model, trained = question.model, question.trained_params
    per_token = 10 * model.hidden_size + 6 * model.intermediate_size
    matrix = 2 * model.n_heads * question.seq_len
    activations = float(question.tokens * model.n_layers * (per_token + matrix))
    return 650e6 + _weights(question) + 10.0 * trained + activations


PUBLISHED: Mapping[str, Callable[[Question], float]] = {
    "2n / 16n": rule_of_thumb,
    "accelerate's rule": accelerate_rule,
    "LLMem's formula": llmem,
    "gpu_poor's formula": gpu_poor,
}
ADAPTED: Mapping[str, str] = {
    "2n / 16n": "16 bytes for full training, over the cards that shard its state; for adapters "
    "the weights alone, by their bits",
    "accelerate's rule": "four times the weights for full training in their precision; for "
    "adapters the weights and its margin of 20 %",
    "LLMem's formula": "adapters in place of its trainable layers, quantized weights by their "
    "bits; its chunk memory of sharded training left out",
    "gpu_poor's formula": "the attention matrix always counted and no checkpointing, as it does; "
    "16-bit gradients and two fp32 moments of what is trained",
}
