"""Operations are counted as the papers count them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from registry.predict.formula.flops import count_flops

if TYPE_CHECKING:
    from tests.unit.predict.conftest import Ask


def test_full_training_takes_six_operations_per_parameter_and_token(ask: Ask) -> None:
    question = ask("llama-2-7b", method="full", seq_len=1, gradient_checkpointing=False)
    counted = count_flops(question)
    matrices = question.model.n_params - 32000 * 4096
    attention = 6 * 32 * 4096
    assert counted.model == pytest.approx(6 * matrices + attention)
    assert counted.recompute == 0
    assert counted.hardware == counted.model


def test_adapters_spare_the_gradients_of_the_weights(ask: Ask) -> None:
    settings: dict[str, Any] = {"seq_len": 512, "gradient_checkpointing": False}
    full = count_flops(ask("llama-2-7b", method="full", **settings))
    lora = count_flops(ask("llama-2-7b", trainable_params=0, **settings))
    assert lora.forward == full.forward
    matrices = 6_738_415_616 - 32000 * 4096
    assert full.backward - lora.backward == 2 * matrices * 512


def test_checkpointing_repeats_the_layers_but_not_the_output(ask: Ask) -> None:
    counted = count_flops(ask("llama-2-7b", seq_len=512, gradient_checkpointing=True))
    assert counted.forward - counted.recompute == 2 * 32000 * 4096 * 512


def test_a_mixture_counts_what_a_token_passes(ask: Ask) -> None:
    question = ask("mixtral-8x7b", seq_len=1)
    counted = count_flops(question)
    assert counted.forward < 2 * question.model.n_params / 3
