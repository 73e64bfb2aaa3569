"""The worked examples of the seed vram-qa come out."""

from __future__ import annotations

import math

import pytest

from registry.errors import QuestionError
from registry.predict.formula.rules_of_thumb import (
    activation_bytes,
    apply_rule,
    cards_for_weights,
    flops_utilization,
    largest_batch,
    static_memory,
    throughput_utilization,
    tokens_per_second_per_gpu,
)


@pytest.mark.parametrize(("rule", "gigabytes"), [("2n", 14), ("16n", 112), ("20n", 140)])
def test_seven_billion_parameters_by_each_rule(rule: str, gigabytes: int) -> None:
    assert apply_rule(rule, 7e9) == gigabytes * 1e9


def test_an_unknown_rule_names_the_near_one() -> None:
    with pytest.raises(QuestionError) as caught:
        apply_rule("16", 7e9)
    assert str(caught.value) == (
        "rule: found '16'; expected one of 2n, 16n, 20n; did you mean '16n'?"
    )


def test_a_model_of_no_parameters_is_refused() -> None:
    with pytest.raises(QuestionError) as caught:
        apply_rule("2n", 0)
    assert str(caught.value) == "n_params: found 0; expected a number above 0"


def test_llama_6b_in_int8_takes_25_3_gigabytes() -> None:
    held = static_memory(6e9, "int8")
    parts = (held.weights, held.gradients, held.optimizer, held.kernels)
    assert [part / 1e9 for part in parts] == [6.0, 6.0, 12.0, 1.3]
    assert held.total == pytest.approx(25.3e9)


def test_llama_6b_weights_and_moments_by_precision() -> None:
    assert static_memory(6e9, "fp32").weights == 24e9
    assert static_memory(6e9, "fp32").optimizer == 48e9


def test_activations_of_one_sample_take_990_megabytes() -> None:
    held = activation_bytes(4096, 11008, 2048, 32, "int8")
    assert held == (4096 + 11008) * 2048 * 32
    assert round(held / 1e6) == 990


def test_a_card_of_80_gigabytes_holds_a_batch_of_about_50() -> None:
    sample = activation_bytes(4096, 11008, 2048, 32, "int8")
    batch = largest_batch(80e9, static_memory(6e9, "int8").total, sample)
    assert batch == 55
    assert largest_batch(20e9, static_memory(6e9, "int8").total, sample) == 0


def test_65_billion_fp16_weights_need_five_cards_of_32_gigabytes() -> None:
    assert cards_for_weights(65e9, "fp16", 32e9) == 5


def test_utilization_by_operations_is_32_05_percent() -> None:
    assert round(100 * flops_utilization(100e12, 312e12), 2) == 32.05


def test_utilization_by_throughput_is_46_54_percent() -> None:
    throughput = tokens_per_second_per_gpu(3, 2048, 4)
    assert throughput == 1536
    share = 100 * throughput_utilization(throughput, 3300)
    assert math.floor(100 * share) / 100 == 46.54
