"""What benchmarks/peers asks of other estimators, and what it refuses on their behalf."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.peers import eleuther, fitcheck_llm, fm_estimator
from benchmarks.peers.refused import Refused
from registry.predict.question import Question
from tests.unit.predict.tiny import TINY

if TYPE_CHECKING:
    from collections.abc import Callable

#: Full training: 12 h² + 13 h a layer, an embedding and 4 more rows: 3 layers, width 8, 50 words.
FULL_PARAMS = 3 * (12 * 64 + 13 * 8) + (50 + 4) * 8
#: LoRA of rank 2 on q (8 to 8) and v (8 to 4) of 3 layers.
ADAPTERS = 3 * 2 * (16 + 12)


def test_fm_training_estimator_counts_16_bit_states_and_korthikantis_activations() -> None:
    asked = Question(TINY, method="full", seq_len=16, micro_batch_size=2)
    one_layer = 32 * 8 * (34 + 5 * TINY.n_heads * 16 / 8)
    assert fm_estimator.answer(asked) == 8 * FULL_PARAMS + one_layer
    every = asked.changed(gradient_checkpointing=False)
    assert fm_estimator.answer(every) == 8 * FULL_PARAMS + 3 * one_layer


def test_fm_training_estimator_keeps_what_enters_adapters_alone() -> None:
    asked = Question(TINY, seq_len=16, micro_batch_size=2, lora_rank=2)
    kept = 32 * 2 * (8 + 3 * 2 * (8 + 2))
    assert fm_estimator.answer(asked) == 2 * (TINY.n_params + ADAPTERS) + 6 * ADAPTERS + kept
    quantized = fm_estimator.answer(asked.changed(quant_bits=4))
    assert quantized == 0.5625 * (TINY.n_params + ADAPTERS) + 6 * ADAPTERS + kept


MIXTURE = replace(TINY, n_experts=4)


@pytest.mark.parametrize(
    ("peer", "stated", "reason"),
    [
        (fm_estimator.answer, {"method": "dora"}, "method"),
        (fm_estimator.answer, {"n_gpus": 2, "sharding": "zero3"}, "sharding"),
        (fitcheck_llm.answer, {"n_gpus": 2}, "several devices"),
        (fitcheck_llm.answer, {"model": MIXTURE}, "mixture of experts"),
        (fitcheck_llm.answer, {"loss_kernel": "liger"}, "kernel of the loss"),
        (fitcheck_llm.answer, {"optimizer": "adafactor"}, "optimizer"),
    ],
)
def test_what_a_peer_does_not_model_is_refused(
    peer: Callable[[Question], float], stated: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Refused) as caught:
        peer(Question(**{"model": TINY, **stated}))
    assert str(caught.value) == reason


def test_the_calculators_arguments_are_those_of_its_command() -> None:
    asked = Question(TINY, method="full", sharding="fsdp", n_gpus=4, seq_len=16)
    words = eleuther._arguments(asked)
    stated = dict(zip(words[:-1:2], words[1::2], strict=True))
    assert words[-1] == "--checkpoint-activations"
    assert (stated["--zero-stage"], stated["--num-gpus"]) == ("3", "4")
    assert stated["--num-mlp-linears"] == "3"
    assert float(stated["--ffn-expansion-factor"]) == 20 / 8
