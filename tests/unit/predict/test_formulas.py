"""The formula's parts are the physics they name."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from registry.predict.formula.peak_memory import PARTS, memory_terms, total
from registry.predict.formula.step_time import time_terms

if TYPE_CHECKING:
    from registry.predict.question import Question
    from tests.unit.predict.conftest import Ask


def part(question: Question, name: str) -> float:
    return sum(term.value for term in memory_terms(question) if term.part == name)


def test_weights_take_two_bytes_each_in_16_bit(ask: Ask) -> None:
    question = ask("llama-2-7b")
    assert part(question, "weights") == 2 * question.model.n_params
    wide = question.changed(param_dtype="fp32", compute_dtype="fp32")
    assert part(wide, "weights") == 4 * question.model.n_params


def test_gptq_compresses_all_but_the_embeddings(ask: Ask) -> None:
    question = ask("llama-2-7b", quant_bits=4, quant_method="gptq")
    model = question.model
    scales = model.linear_params * 2.5 / 128
    expected = 0.5 * model.linear_params + 2 * model.embedding_params + scales
    assert part(question, "weights") == pytest.approx(expected)


def test_bitsandbytes_leaves_embeddings_in_fp32(ask: Ask) -> None:
    question = ask("llama-2-7b", quant_bits=4, quant_method="bitsandbytes")
    fewer = question.changed(quant_method="gptq")
    model = question.model
    wide = 2 * model.embedding_params + model.linear_params * (4 / 64 - 2.5 / 128)
    assert part(question, "weights") - part(fewer, "weights") == pytest.approx(wide)


def test_full_training_in_16_bit_takes_ten_bytes_and_mixed_precision_twenty_four(ask: Ask) -> None:
    question = ask("qwen-7b", method="full", seq_len=256)
    n = question.model.n_params
    assert total(memory_terms(question)) == pytest.approx(10 * n + 1e9)
    mixed = question.changed(sharding="zero2")
    assert total(memory_terms(mixed)) == pytest.approx(24 * n + 1e9 + 2e9)


def test_zero3_spreads_weights_and_zero2_does_not(ask: Ask) -> None:
    alone = ask("qwen-72b", seq_len=512)
    spread = alone.changed(n_gpus=4, sharding="zero3")
    gathered = 3e9  # 1.5e9 elements of 2 bytes
    assert part(spread, "weights") == pytest.approx(part(alone, "weights") / 4 + gathered)
    assert part(alone.changed(n_gpus=4, sharding="zero2"), "weights") == part(alone, "weights")


def test_checkpointing_keeps_one_vector_per_layer(ask: Ask) -> None:
    question = ask("llama-2-7b", gradient_checkpointing=True)
    without = question.changed(gradient_checkpointing=False)
    assert part(without, "activations") > 10 * part(question, "activations")


def test_logits_grow_with_tokens_and_vocabulary(ask: Ask) -> None:
    question = ask("qwen-7b", seq_len=1024)
    assert part(question, "logits") == 14 * 1024 * 151936
    assert part(question.changed(micro_batch_size=3), "logits") == 3 * part(question, "logits")


def test_only_varying_lengths_beyond_2048_fragment(ask: Ask) -> None:
    question = ask("qwen-7b", seq_len=4096)
    assert part(question, "fragmentation") == 0
    varying = question.changed(length_distribution="variable")
    assert part(varying, "fragmentation") > 0
    assert part(varying.changed(seq_len=2048), "fragmentation") == 0


def test_eager_attention_adds_its_matrix(ask: Ask) -> None:
    question = ask("llama-2-7b", attention="flash2")
    eager = question.changed(attention="eager")
    matrix = part(eager, "activations") - part(question, "activations")
    assert matrix == 8 * 32 * 2048 * 2048


def test_an_8_bit_optimizer_and_sgd_take_less(ask: Ask) -> None:
    full = ask("qwen-7b", method="full", seq_len=128)
    n = full.model.n_params
    fused, small, none = (
        part(full.changed(optimizer=name), "optimizer")
        for name in ("adamw_torch_fused", "adamw_8bit", "sgd")
    )
    assert part(full, "optimizer") - fused == pytest.approx(2 * n)  # temporaries of its step
    embedding = full.model.vocab_size * full.model.hidden_size  # its states stay in fp32
    assert fused - small == pytest.approx((2 - 8 / 256) * n - (6 - 8 / 256) * embedding)
    assert fused == pytest.approx(4 * n)
    assert none == 0


def test_offloading_leaves_a_window_of_the_weights(ask: Ask) -> None:
    question = ask("baichuan2-7b", method="full", sharding="zero3", offload="optimizer_and_params")
    assert part(question, "weights") == 3e9
    assert part(question, "optimizer") == 0


def test_every_term_belongs_to_a_part_that_is_shown(ask: Ask) -> None:
    for settings in ({}, {"method": "full", "sharding": "zero3", "n_gpus": 2}, {"quant_bits": 4}):
        assert {term.part for term in memory_terms(ask("qwen-7b", **settings))} <= set(PARTS)


def test_time_of_a_step_splits_in_what_takes_it(ask: Ask) -> None:
    alone = ask("qwen-7b", "a100-sxm4-80gb", quant_bits=4, quant_method="gptq")
    named = {term.part for term in time_terms(alone)}
    assert named == {"compute", "launch", "quantization", "optimizer"}
    spread = ask("qwen-72b", "a100-sxm4-80gb", n_gpus=4, sharding="zero3")
    assert "communication" in {term.part for term in time_terms(spread)}


_OF_DEVICE = ("compute", "elementwise", "adapter_elementwise", "launch")
_ADAPTED = {"lora_target_modules": ("q_proj", "v_proj"), "gradient_checkpointing": True}


def _seconds(question: Question, name: str) -> float:
    return sum(term.value for term in time_terms(question) if term.name == name)


def test_boft_multiplies_matrices_as_wide_as_its_inputs_whatever_the_tokens(ask: Ask) -> None:
    boft = ask("llama-2-7b", "a100-sxm4-80gb", method="boft", seq_len=512, **_ADAPTED)
    model = boft.model
    each = 3 * 2 * model.hidden_size**3 + 2 * model.hidden_size**3  # squares, and with the weight
    times = model.n_layers * 2 * (2 + 1)  # two modules; two passes forward, one backward
    added = _seconds(boft, "compute") - _seconds(boft.changed(method="oft"), "compute")
    assert added == pytest.approx(times * each / (0.7 * 312e12), rel=0.02)
    shorter = boft.changed(seq_len=256)
    less = _seconds(shorter, "compute") - _seconds(shorter.changed(method="oft"), "compute")
    assert less == pytest.approx(added, rel=0.02)
    gradient = 2.0 * 256 * model.n_layers * 2 * model.hidden_size**2  # of the weight made anew
    assert added - less == pytest.approx(gradient / (0.7 * 312e12), rel=0.1)  # OFT trains others


def test_sharding_launches_no_block_of_boft_twice(ask: Ask) -> None:
    boft = ask("llama-2-7b", "a100-sxm4-80gb", method="boft", seq_len=64, **_ADAPTED)
    blocks = 2 * boft.model.hidden_size / 4 * 5e-6
    layers = 4 * boft.model.n_layers  # in four passes
    sharded = boft.changed(n_gpus=2, sharding="zero3")
    for question, hooks in ((boft, 1), (sharded, 2)):
        spent = sum(_seconds(question, name) for name in _OF_DEVICE)
        busy = sum(_seconds(question, name) for name in _OF_DEVICE[:-1])
        launched = (spent**4 - busy**4) ** 0.25
        assert launched == pytest.approx(layers * (blocks + 0.0017 * hooks))


def test_dora_multiplies_by_the_weight_again_and_deltas_have_a_gradient_besides(ask: Ask) -> None:
    lora = ask("llama-2-7b", "a100-sxm4-80gb", **_ADAPTED)
    plain = _seconds(lora, "compute")
    again = 2.0 * lora.tokens * lora.model.n_layers * 2 * lora.model.hidden_size**2 / (0.7 * 312e12)
    for method, products in (("dora", 3), ("loha", 4), ("lokr", 4), ("fourierft", 4)):
        added = _seconds(lora.changed(method=method), "compute") - plain
        assert added == pytest.approx(products * again, rel=0.05), method


def test_dora_reads_its_weights_for_their_norms(ask: Ask) -> None:
    lora = ask("llama-2-7b", "a100-sxm4-80gb", **_ADAPTED)
    dora = lora.changed(method="dora")
    unsloth = dora.changed(loss_kernel="unsloth")  # which leaves it to PEFT
    assert _seconds(unsloth, "adapter_elementwise") == _seconds(dora, "adapter_elementwise")
    assert _seconds(lora.changed(loss_kernel="unsloth"), "adapter_elementwise") == 0
    added = _seconds(dora, "adapter_elementwise") - _seconds(lora, "adapter_elementwise")
    weights = lora.model.n_layers * 2 * lora.model.hidden_size**2
    bandwidth = lora.gpu.memory_bandwidth_bytes_per_second if lora.gpu else None
    assert bandwidth
    assert added == pytest.approx(24 * 2 * weights / bandwidth)


def test_twice_the_batch_takes_at_most_twice_the_time(ask: Ask) -> None:
    question = ask("qwen-1.8b", "a100-sxm4-80gb", seq_len=128)
    one, two = (
        total(time_terms(question.changed(micro_batch_size=size))) for size in (1, 2)
    )  # fmt: skip
    assert one <= two <= 2 * one


def test_the_formula_needs_neither_numpy_nor_torch() -> None:
    code = (
        "import sys, registry.predict.formula.peak_memory, registry.predict.formula.step_time, "
        "registry.predict.answer.will_it_fit;"
        "print(*[m for m in ('numpy', 'torch', 'pandas', 'duckdb', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == ""
