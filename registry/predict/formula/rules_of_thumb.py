"""Rules of thumb by name, and the worked examples of the seed ``vram-qa``.

n is the number of parameters in billions, results are in GB (1e9 bytes), as the rules are spoken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from registry.errors import QuestionError, did_you_mean

GB = 1e9


@dataclass(frozen=True)
class RuleOfThumb:
    """So many bytes per parameter, and what for."""

    name: str
    bytes_per_parameter: int
    meaning: str


#: Rules by name: seed vram-qa, questions 1, 4 and 5; 16n after ZeRO (Rajbhandari et al. 2020).
RULES = {
    "2n": RuleOfThumb("2n", 2, "fp16 weights: loading and inference"),
    "16n": RuleOfThumb(
        "16n", 16, "full training: weights 2, gradients 2, fp32 AdamW 12; no activations"
    ),
    "20n": RuleOfThumb("20n", 20, "full training with what activations need at the least"),
}


def apply_rule(name: str, n_params: float) -> float:
    """Return the bytes that a rule gives for a model; raise QuestionError for an unknown rule.

    >>> apply_rule("16n", 7e9)
    112000000000.0
    """
    if name not in RULES:
        raise QuestionError(
            f"rule: found {name!r}; expected one of {', '.join(RULES)}{did_you_mean(name, RULES)}"
        )
    if n_params <= 0:
        raise QuestionError(f"n_params: found {n_params:g}; expected a number above 0")
    return RULES[name].bytes_per_parameter * n_params


#: Bytes of one parameter in each precision (vram-qa, question 6).
PRECISION_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1}
#: What CUDA's kernels take before the first tensor, in bytes (vram-qa, question 6).
KERNEL_BYTES = 1.3 * GB


@dataclass(frozen=True)
class StaticMemory:
    """What training holds before any activation, in bytes."""

    weights: float
    gradients: float
    optimizer: float
    kernels: float

    @property
    def total(self) -> float:
        """All of it together."""
        return self.weights + self.gradients + self.optimizer + self.kernels


def static_memory(n_params: float, precision: str) -> StaticMemory:
    """Return weights, gradients, AdamW's two moments in one precision, and CUDA's kernels.

    Source: vram-qa, question 6.

    >>> round(static_memory(6e9, "int8").total / 1e9, 1)
    25.3
    """
    each = PRECISION_BYTES[precision] * n_params
    return StaticMemory(each, each, 2 * each, KERNEL_BYTES)


def activation_bytes(
    hidden_size: int, intermediate_size: int, seq_len: int, n_layers: int, precision: str
) -> int:
    """Return the intermediate results of one sample: (hidden + intermediate) x tokens x layers.

    Source: vram-qa, question 6.

    >>> activation_bytes(4096, 11008, 2048, 32, "int8")
    989855744
    """
    width = hidden_size + intermediate_size
    return width * seq_len * n_layers * PRECISION_BYTES[precision]


def largest_batch(memory_bytes: float, static_bytes: float, sample_bytes: float) -> int:
    """Return how many samples fit beside what stays; 0 where that fills the card already."""
    return max(0, math.floor((memory_bytes - static_bytes) / sample_bytes))


def cards_for_weights(n_params: float, precision: str, card_bytes: float) -> int:
    """Return how many cards hold the weights alone (vram-qa, question 2).

    >>> cards_for_weights(65e9, "fp16", 32e9)
    5
    """
    return math.ceil(n_params * PRECISION_BYTES[precision] / card_bytes)


def flops_utilization(measured_flops: float, peak_flops: float) -> float:
    """Return measured over peak FLOP/s (vram-qa, question 7.1).

    >>> round(100 * flops_utilization(100e12, 312e12), 2)
    32.05
    """
    return measured_flops / peak_flops


def tokens_per_second_per_gpu(samples_per_second: float, seq_len: int, n_gpus: int) -> float:
    """Return the throughput of one card (vram-qa, question 7.2).

    >>> tokens_per_second_per_gpu(3, 2048, 4)
    1536.0
    """
    return samples_per_second * seq_len / n_gpus


def throughput_utilization(tokens_per_second: float, reference: float) -> float:
    """Return a throughput over a published one (vram-qa, question 7.2).

    >>> round(100 * throughput_utilization(1536, 3300), 2)
    46.55
    """
    return tokens_per_second / reference
