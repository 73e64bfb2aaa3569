"""Each summand of a micro-batch's time is counted by hand on the decoder of the memory's tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from registry.predict.architecture import Accelerator
from registry.predict.formula import step_time
from registry.predict.formula.flops import count_flops
from registry.predict.formula.peak_memory import Term
from registry.predict.formula.step_time import time_terms
from registry.predict.question import Question
from tests.unit.predict.tiny import TINY

#: So slow that the launching of kernels does not count.
SLOW = Accelerator("slow", 10**9, memory_bandwidth_bytes_per_second=1e3, peak_flops_bf16=1e3)

#: 32 tokens through 1,600 parameters of matrices (the look-up of 50 x 8 computes nothing), and
#: causal attention over 16 tokens: 2 x 3 layers x width 8 a token.
FORWARD = 2 * 1600 * 32 + 2 * 3 * 8 * 16 * 32
ATTENTION = 2 * 3 * 8 * 16 * 32
#: Checkpointing repeats all but the output layer.
AGAIN = FORWARD - 2 * 50 * 8 * 32
LORA_HARDWARE = FORWARD + (FORWARD + ATTENTION + 2 * 168 * 32) + AGAIN


#: What adapters move of a token in a layer and pass: 16 bytes for each of 8 inputs of q_proj and
#: v_proj, 8 for each of their 8 and 4 outputs.
ADAPTED = 16 * (8 + 8) + 8 * (8 + 4)


def lora(**settings: Any) -> Question:
    usual = {
        "model": TINY, "gpu": SLOW, "seq_len": 16, "micro_batch_size": 2, "lora_rank": 2,
        "grad_accum_steps": 5,
    }  # fmt: skip
    return Question(**{**usual, **settings})


def full(**settings: Any) -> Question:
    return lora(**{"method": "full", "lora_rank": None, **settings})


def near(value: float, rel: float | None = None) -> Any:
    return pytest.approx(value, rel=rel)


def seconds(question: Question) -> dict[str, float]:
    return {term.name: term.value for term in time_terms(question)}


def test_operations_of_adapters_and_of_full_training() -> None:
    adapters = count_flops(lora())
    assert (adapters.forward, adapters.recompute) == (FORWARD, AGAIN)
    assert adapters.backward == FORWARD + ATTENTION + 2 * 168 * 32
    assert adapters.model == adapters.forward + adapters.backward
    assert adapters.hardware == LORA_HARDWARE
    everything = count_flops(full(gradient_checkpointing=False))
    assert everything.backward == FORWARD + ATTENTION + 2 * 1600 * 32
    assert everything.recompute == 0


def test_operations_of_a_shorter_sample_and_of_tied_embeddings() -> None:
    assert count_flops(lora(), 8).forward == 2 * 1600 * 16 + 2 * 3 * 8 * 8 * 16
    tied = replace(TINY, tied_embeddings=True)
    assert count_flops(lora(model=tied)).forward == FORWARD + 2 * 400 * 32


def test_operations_of_a_mixture_are_those_of_its_active_parameters() -> None:
    mixture = replace(TINY, n_active_params=1500)
    assert count_flops(lora(model=mixture)).forward == FORWARD - 2 * 500 * 32


def test_compute_takes_its_operations_at_seven_tenths_of_the_peak() -> None:
    compute, elementwise, beside, *rest = time_terms(lora())
    assert compute == Term(
        "compute", "compute", near(LORA_HARDWARE / (0.7 * 1e3)), 0.3, transient=True
    )
    # 3 reads and writes of 2 bytes, 4 passes, 3 layers; 40 bytes a token and word of the logits
    moved = 6 * 32 * 4 * 3 * (8 * 8 + 4 * 20) + 40 * 32 * 50
    assert elementwise == Term("elementwise", "compute", near(moved / 1e3), 0.5, transient=True)
    moved = 32 * 4 * 3 * ADAPTED
    assert beside == Term("adapter_elementwise", "compute", near(moved / 1e3), 0.5, transient=True)
    assert rest[-1] == Term("update", "optimizer", 28 * 168 / 1e3 / 5, 0.5)


def test_without_checkpointing_there_are_three_passes() -> None:
    moved = 6 * 32 * 3 * 3 * 144 + 40 * 32 * 50
    assert seconds(lora(gradient_checkpointing=False))["elementwise"] == near(moved / 1e3)


@pytest.mark.parametrize(
    ("settings", "launched"),
    [
        ({}, 0.0017 * 4 * 3),
        ({"gradient_checkpointing": False}, 0.0017 * 3 * 3),
        ({"sharding": "zero3"}, 0.0017 * 2 * 4 * 3),
        ({"sharding": "fsdp"}, 0.0017 * 2 * 4 * 3),
        ({"sharding": "zero2"}, 0.0017 * 4 * 3),
        ({"method": "full", "lora_rank": None}, 0.0012 * 4 * 3),
        ({"quant_bits": 4}, 0.0023 * 4 * 3),
        ({"quant_bits": 4, "quant_method": "gptq"}, 0.0017 * 4 * 3),
    ],
)
def test_a_fast_card_waits_for_the_launching_of_kernels(
    settings: dict[str, Any], launched: float
) -> None:
    fast = Accelerator("fast", 10**9, memory_bandwidth_bytes_per_second=1e12, peak_flops_bf16=1e12)
    term = next(term for term in time_terms(lora(gpu=fast, **settings)) if term.name == "launch")
    assert term.value == near(launched, rel=1e-3)
    assert (term.part, term.doubt, term.transient) == ("launch", 0.4, False)


def test_launching_and_computing_overlap_as_a_smooth_maximum() -> None:
    launched = 0.0017 * 4 * 3
    peak = LORA_HARDWARE / 0.7 / (launched / 2)  # computing and moving take half of it each
    moved = 6 * 32 * 4 * 3 * 144 + 40 * 32 * 50 + 32 * 4 * 3 * ADAPTED
    bandwidth = moved / (launched / 2)
    even = Accelerator(
        "even", 10**9, memory_bandwidth_bytes_per_second=bandwidth, peak_flops_bf16=peak
    )  # fmt: skip
    found = seconds(lora(gpu=even))
    moved_seconds = found["elementwise"] + found["adapter_elementwise"]
    assert found["compute"] == near(moved_seconds)
    assert found["compute"] + moved_seconds + found["launch"] == near(launched * 2**0.25)


def test_adapters_on_more_modules_take_longer_and_unsloths_kernels_move_nothing_for_them() -> None:
    few, all_of = lora(), lora(lora_target_modules=("all-linear",))
    assert seconds(all_of)["adapter_elementwise"] > 2 * seconds(few)["adapter_elementwise"]
    for without in ({"loss_kernel": "unsloth"}, {"method": "ia3", "lora_rank": None}):
        assert "adapter_elementwise" not in seconds(lora(**without))
    assert "adapter_elementwise" not in seconds(full())


def test_an_unknown_card_is_taken_for_an_a100() -> None:
    found = seconds(lora(gpu=None))
    assert found["compute"] == near(LORA_HARDWARE / (0.7 * 312e12))
    assert found["update"] == near(28 * 168 / 2e12 / 5)


def test_eager_attention_moves_its_matrix() -> None:
    # 3 layers x 2 heads x 16² x 2 samples, 32 bytes a score over half of 4 passes
    term = next(t for t in time_terms(lora(attention="eager")) if t.name == "attention_matrix")
    moved = near(32 * 3 * 2 * 16 * 16 * 2 * 4 / 2 / 1e3)
    assert term == Term("attention_matrix", "compute", moved, 0.6, transient=True)
    assert "attention_matrix" not in seconds(lora())


@pytest.mark.parametrize(
    ("method", "bits", "times"), [("bitsandbytes", 4, 2), ("gptq", 4, 8), ("awq", 4, 4)]
)
def test_quantized_weights_are_read_and_written_in_16_bits(
    method: str, bits: int, times: int
) -> None:
    question = lora(quant_bits=bits, quant_method=method)
    term = next(term for term in time_terms(question) if term.part == "quantization")
    moved = times * 3 * 1200 * (2 + 0.5) / 1e3  # in 3 of the 4 passes
    assert term == Term(f"dequantize_{method}", "quantization", near(moved), 0.6)


def test_bitsandbytes_in_8_bits_costs_by_the_token() -> None:
    terms = {term.name: term for term in time_terms(lora(quant_bits=8))}
    work = near(0.8 * LORA_HARDWARE / (0.7 * 1e3))
    assert terms["int8_products"] == Term(
        "int8_products", "quantization", work, 0.6, transient=True
    )
    assert "dequantize_bitsandbytes" in seconds(lora(quant_bits=4))
    assert seconds(lora(quant_bits=8, quant_method="gptq"))["dequantize_gptq"] == near(
        8 * 3 * 1200 * 3 / 1e3
    )


def test_the_update_is_shared_by_the_micro_batches_of_a_step_and_by_shards() -> None:
    assert seconds(full())["update"] == near(28 * 2000 / 1e3 / 5)
    assert seconds(full(sharding="zero3", n_gpus=2))["update"] == near(28 * 1000 / 5e3)
    assert seconds(full(sharding="zero2", n_gpus=2))["update"] == near(28 * 2000 / 5e3)


#: Bytes a second between devices, in tests: NVLink's and PCI Express's.
FAST_LINK, SLOW_LINK = 8.0, 2.0


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have links as slow as the card, so that what crosses them shows."""
    monkeypatch.setattr(step_time, "NVLINK", FAST_LINK)
    monkeypatch.setattr(step_time, "PCI_EXPRESS", SLOW_LINK)


def waits(question: Question, crossing: float) -> float:
    """Return the seconds by which what crosses a link is longer than the computation beside it."""
    busy = sum(term.value for term in time_terms(question) if term.part in ("compute", "launch"))
    return float((busy**4 + crossing**4) ** 0.25 - busy)


@pytest.mark.usefixtures("links")
@pytest.mark.parametrize(
    ("interconnect", "gpu", "speed"),
    [
        ("nvlink", {"gpu_id": "x"}, FAST_LINK),
        ("nvswitch", {"gpu_id": "x"}, FAST_LINK),
        ("pcie", {"gpu_id": "a100-sxm4-80gb"}, SLOW_LINK),
        (None, {"gpu_id": "a100-sxm4-80gb"}, FAST_LINK),
        (None, {"gpu_id": "rtx-3090"}, SLOW_LINK),
        (None, {"gpu_id": "b200", "memory_bandwidth_bytes_per_second": 8e12}, FAST_LINK),
        (None, {"gpu_id": "h100-pcie-80gb", "memory_bandwidth_bytes_per_second": 8e12}, SLOW_LINK),
        (None, {"gpu_id": "h100-nvl", "memory_bandwidth_bytes_per_second": 8e12}, SLOW_LINK),
        (
            None,
            {"gpu_id": "a100-80gb", "memory_bytes": 80 * 2**30}
            | {"memory_bandwidth_bytes_per_second": None},
            FAST_LINK,
        ),
    ],
)
def test_gradients_are_reduced_over_the_link(
    interconnect: str | None, gpu: dict[str, Any], speed: float
) -> None:
    question = full(n_gpus=4, interconnect=interconnect, gpu=replace(SLOW, **gpu))
    (term,) = (term for term in time_terms(question) if term.part == "communication")
    reduced = waits(question, 8 * 2000 * 3 / 4 / speed / 5)
    assert reduced > 0
    assert term == Term("reduce", "communication", near(reduced), 0.8)


@pytest.mark.usefixtures("links")
def test_sharded_weights_are_gathered_in_each_pass_but_one() -> None:
    question = full(n_gpus=4, sharding="zero3")
    terms = {term.name: term for term in time_terms(question)}
    gathered, reduced = 2 * 2000 * 3 * 3 / 4 / SLOW_LINK, 8 * 2000 * 3 / 4 / SLOW_LINK / 5
    share = waits(question, gathered + reduced) / (gathered + reduced)
    assert terms["gather"] == Term("gather", "communication", near(gathered * share), 0.7)
    assert terms["reduce"] == Term("reduce", "communication", near(reduced * share), 0.8)
    for settings in ({"sharding": "zero2"}, {"sharding": "zero3", "offload": "params"}):
        assert "gather" not in seconds(full(n_gpus=4, **settings))


@pytest.mark.usefixtures("links")
def test_what_crosses_a_fast_link_costs_next_to_nothing_beside_a_long_computation() -> None:
    question = full(n_gpus=4, sharding="zero3", interconnect="nvlink")
    longer = question.changed(micro_batch_size=64)
    assert seconds(longer)["gather"] < 0.02 * seconds(question)["gather"]


def test_one_card_and_a_device_map_communicate_nothing() -> None:
    for settings in ({"n_gpus": 1}, {"n_gpus": 2, "sharding": "device_map"}):
        assert not {"reduce", "gather"} & set(seconds(full(**settings)))


def test_offloaded_weights_cross_from_the_host_where_the_optimizer_runs() -> None:
    offload = "optimizer_and_params"
    terms = {term.name: term for term in time_terms(full(n_gpus=2, offload=offload))}
    moved = near(2 * 2000 * 4 / 2 / 1.2e10)
    assert terms["host_transfer"] == Term("host_transfer", "offload", moved, 0.5)
    updated = near(28 * 2000 / 2.5e10 / 5)
    assert terms["host_update"] == Term("host_update", "offload", updated, 0.8)
    assert "update" not in terms
    assert not {"host_transfer", "host_update"} & set(seconds(full()))
    assert "host_update" not in seconds(full(offload="params"))


def test_with_the_optimizer_alone_gradients_go_and_weights_come_once_a_step() -> None:
    found = seconds(full(n_gpus=2, offload="optimizer"))
    assert found["host_transfer"] == near(4 * 2000 / 2 / 1.2e10 / 5)
    assert "update" not in found


@pytest.mark.usefixtures("links")
def test_between_hosts_gradients_cross_the_network() -> None:
    inside = full(n_gpus=4, sharding="zero2", interconnect="nvlink")
    assert seconds(inside.changed(n_nodes=2))["reduce"] > seconds(inside)["reduce"]


@pytest.mark.usefixtures("links")
def test_hsdp_gathers_within_a_host_and_reduces_shares_between_them() -> None:
    question = full(n_gpus=4, n_nodes=2, sharding="hsdp", interconnect="nvlink")
    terms = seconds(question)
    gathered = 2 * 2000 * 3 / 2 / FAST_LINK
    reduced = 8 * 2000 * (1 / 2 / FAST_LINK + 1 / 2 / 2 / SLOW_LINK) / 5
    share = waits(question, gathered + reduced) / (gathered + reduced)
    assert (terms["gather"], terms["reduce"]) == (near(gathered * share), near(reduced * share))


@pytest.mark.usefixtures("links")
@pytest.mark.parametrize(
    ("gpu_id", "bandwidth", "times"),
    [("h100-sxm5-80gb", 3.35e12, 4), ("a100-sxm4-80gb", 2.04e12, 2), ("rtx-4090", 1.0e12, 1)],
)
def test_cards_on_boards_have_a_port_each_between_hosts(
    monkeypatch: pytest.MonkeyPatch, gpu_id: str, bandwidth: float, times: int
) -> None:
    monkeypatch.setattr(step_time, "NETWORK_400G", 4 * SLOW_LINK)
    monkeypatch.setattr(step_time, "NETWORK_200G", 2 * SLOW_LINK)
    gpu = replace(SLOW, gpu_id=gpu_id, memory_bandwidth_bytes_per_second=bandwidth)
    question = full(n_gpus=4, n_nodes=2, gpu=gpu)
    crossing = 8 * 2000 * 3 / 4 / (times * SLOW_LINK) / 5
    assert seconds(question)["reduce"] == near(waits(question, crossing))


def test_samples_that_are_shorter_on_average_take_less_time_and_attention() -> None:
    question = lora(mean_tokens=8)
    shorter = 2 * 1600 * 16 + 2 * 3 * 8 * 8 * 16
    assert count_flops(question, question.mean_sample_tokens).forward == shorter
    assert seconds(question)["elementwise"] == near((6 * 16 * 4 * 3 * 144 + 40 * 16 * 50) / 1e3)
    assert lora(mean_tokens=99).mean_sample_tokens == 16
