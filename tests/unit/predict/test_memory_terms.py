"""Each summand of a peak is counted by hand on a decoder small enough to count on paper.

The decoder: 3 layers, width 8, MLP 20, vocabulary 50, 2 query heads and 1 key/value head of 4.
Embedding and output layer hold 2 x 50 x 8 = 800 of its 2,000 parameters; a quantizer takes the
other 1,200. A micro-batch of the tests holds 2 samples of 16 tokens: 32 tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from registry.catalogue.module_names import MODULE_NAMES
from registry.predict.formula.activations import layer_activation_bytes
from registry.predict.formula.adapters import (
    counted_as_square,
    target_widths,
    targeted,
    used,
)
from registry.predict.formula.peak_memory import Term, memory_terms
from registry.predict.formula.state import gradients, weight_bytes
from registry.predict.question import Question
from tests.unit.predict.tiny import TINY

if TYPE_CHECKING:
    from registry.predict.architecture import Architecture

CONTEXT = Term("context", "context", 1e9, 0.5)
#: LoRA of rank 2 on q (8 to 8) and v (8 to 4): 3 layers x 2 x (16 + 12) = 168 parameters in fp32.
ADAPTERS = [
    Term("adapters", "adapters", 168 * 4, 0.3),
    Term("adapter_optimizer", "optimizer", 168 * 8, 0.3),
]
GRADIENTS = Term("adapter_gradients", "gradients", 168 * 4, 0.3)
#: A frozen layer keeps 8 bytes a width, 6 an MLP width, 4 of each query and key: 64 + 120 + 48.
LAYER = Term("layer_activations", "activations", 32 * 232, 0.3, transient=True)
#: One that is trained keeps what enters its products too: 8 widths and 2 MLP widths more.
TRAINED_LAYER = LAYER._replace(value=32 * (128 + 160 + 48))
CHECKPOINTS = Term("checkpoints", "activations", 2 * 32 * 8 * 3, 0.2, transient=True)
#: fp32 copies of what enters q and v, and of their rank of 2.
INPUTS = Term("adapter_inputs", "activations", 4 * 32 * (8 + 2 + 8 + 2), 0.6, transient=True)
#: 2 + 4 + 4 + 4 bytes a token and word.
LOGITS = Term("logits", "logits", 14 * 32 * 50, 0.2, transient=True)
BACKWARD = [LAYER, CHECKPOINTS, INPUTS, LOGITS]


def lora(**settings: Any) -> Question:
    usual = {"model": TINY, "seq_len": 16, "micro_batch_size": 2, "lora_rank": 2}
    return Question(**{**usual, **settings})


def full(**settings: Any) -> Question:
    """One token: what the optimizer's step needs is more than what the backward pass does."""
    usual = {"model": TINY, "method": "full", "seq_len": 1, "micro_batch_size": 1}
    return Question(**{**usual, **settings})


def names(question: Question) -> dict[str, float]:
    return {term.name: term.value for term in memory_terms(question)}


def test_adapters_on_16_bit_weights() -> None:
    weights = Term("weights", "weights", 2000 * 2, 0.03)
    assert memory_terms(lora()) == [weights, *ADAPTERS, CONTEXT, GRADIENTS, *BACKWARD]


def test_without_checkpointing_every_layer_keeps_its_activations() -> None:
    kept = [LAYER._replace(value=3 * LAYER.value), INPUTS._replace(value=3 * INPUTS.value), LOGITS]
    assert memory_terms(lora(gradient_checkpointing=False))[-3:] == kept
    assert memory_terms(lora(gradient_checkpointing=True)) == memory_terms(lora())


@pytest.mark.parametrize("dtype", ["fp32", "tf32"])
def test_what_is_computed_in_32_bits_is_kept_in_them(dtype: str) -> None:
    found = names(lora(compute_dtype=dtype))
    assert found["weights"] == 2000 * 4
    # the two norms (64 bytes) are in fp32 either way, and no 16-bit logits are beside their copy
    assert found["layer_activations"] == 32 * (64 + 2 * (232 - 64))
    assert found["checkpoints"] == 2 * CHECKPOINTS.value
    assert found["logits"] == 12 * 32 * 50
    trained = names(full(compute_dtype=dtype, seq_len=16, micro_batch_size=2))
    assert trained["layer_activations"] == 32 * (64 + 2 * (64 + 160 + 48))


def test_eager_attention_keeps_its_scores_in_8_bytes() -> None:
    # 2 heads x 32 tokens x 16 tokens, as scores, fp32 softmax and 16-bit probabilities
    matrix = Term("attention_matrix", "activations", (2 + 4 + 2) * 2 * 32 * 16, 0.5, transient=True)
    assert matrix in memory_terms(lora(attention="eager"))
    every_layer = memory_terms(lora(attention="eager", gradient_checkpointing=False))
    assert matrix._replace(value=3 * matrix.value) in every_layer
    assert "attention_matrix" not in names(lora(attention="sdpa"))


@pytest.mark.parametrize("method", [None, "bitsandbytes"])
def test_bitsandbytes_in_4_bits(method: str | None) -> None:
    assert memory_terms(lora(quant_bits=4, quant_method=method)) == [
        Term("quantized_weights", "weights", 600, 0.04),
        Term("scales", "weights", 1200 * 4 / 64, 0.5),
        Term("embeddings", "weights", 800 * 2, 0.03),
        Term("fp32_embeddings", "weights", 800 * 2, 0.25),
        *ADAPTERS,
        CONTEXT,
        GRADIENTS,
        *BACKWARD[:-1],
        LOGITS._replace(value=16 * 32 * 50),  # the output layer is in fp32
    ]


def test_gptq_in_4_bits() -> None:
    assert memory_terms(lora(quant_bits=4, quant_method="gptq")) == [
        Term("quantized_weights", "weights", 600, 0.04),
        Term("scales", "weights", 1200 * 2.5 / 128, 0.5),
        Term("embeddings", "weights", 800 * 2, 0.03),
        *ADAPTERS,
        CONTEXT,
        GRADIENTS,
        *BACKWARD,
    ]


def test_what_layers_look_up_is_not_quantized() -> None:
    model = replace(TINY, layer_embedding_params=10**6, n_params=TINY.n_params + 10**6)
    plain, found = names(lora(quant_bits=4)), names(lora(model=model, quant_bits=4))
    assert found["quantized_weights"] == plain["quantized_weights"]
    assert found["embeddings"] == plain["embeddings"] + 2 * 10**6
    assert found["fp32_embeddings"] == plain["fp32_embeddings"] + 2 * 10**6


def test_8_bits_have_one_scale_a_row_which_weighs_nothing() -> None:
    found = names(lora(quant_bits=8))
    assert found["quantized_weights"] == 1200
    assert "scales" not in found
    assert names(lora(quant_bits=3))["quantized_weights"] == 450
    assert names(lora(quant_bits=4))["scales"] == 75
    assert names(lora(quant_bits=3))["scales"] == 1200 * 2.5 / 128  # bitsandbytes has no 3 bits


@pytest.mark.parametrize(
    ("settings", "each"),
    [
        ({"double_quant": True}, 1 / 64 + 4 / (64 * 256)),
        ({"double_quant": False}, 4 / 64),
        ({}, 4 / 64),
        ({"loss_kernel": "unsloth"}, 1 / 64 + 4 / (64 * 256)),
        ({"loss_kernel": "unsloth", "double_quant": False}, 4 / 64),
        ({"quant_method": "gptq", "double_quant": True}, 2.5 / 128),
    ],
)
def test_constants_that_are_quantized_too_take_a_quarter(
    settings: dict[str, Any], each: float
) -> None:
    """127 thousandths of a bit each, which is 0.373 bits less (QLoRA, section 3)."""
    assert names(lora(quant_bits=4, **settings))["scales"] == pytest.approx(1200 * each)
    assert names(lora(quant_bits=4, double_quant=True))["scales"] * 8 / 1200 == pytest.approx(
        0.127, abs=0.001
    )


def test_quantized_weights_are_sharded_with_all_their_parts() -> None:
    found = names(lora(quant_bits=4, n_gpus=2, sharding="fsdp"))
    parts = ("quantized_weights", "scales", "embeddings", "fp32_embeddings", "gathered")
    # gathered: what the other card holds, embeddings in 2 bytes and the rest in half a one
    assert [found[name] for name in parts] == [300, 37.5, 800, 800, 2 * 800 + 200 / 2]


@pytest.mark.parametrize(
    ("settings", "width"),
    [
        ({}, 2),
        ({"compute_dtype": "fp16"}, 2),
        ({"compute_dtype": "fp32"}, 4),
        ({"compute_dtype": "tf32"}, 4),
        ({"compute_dtype": "fp8"}, 2),
        ({"compute_dtype": "bf16", "param_dtype": "fp32"}, 4),
        ({"param_dtype": "other"}, 2),
    ],
)
def test_a_weight_takes_the_bytes_of_its_dtype(settings: dict[str, str], width: int) -> None:
    assert weight_bytes(lora(**settings)) == width


def test_full_training_in_16_bits_takes_10_bytes_a_parameter_and_2_more_in_the_step() -> None:
    assert memory_terms(full()) == [
        Term("weights", "weights", 2 * 2000, 0.03),
        Term("full_optimizer", "optimizer", (2 + 2) * 2000, 0.15),
        CONTEXT,
        Term("full_gradients", "gradients", 2 * 2000, 0.1),
        Term("step_temporaries", "optimizer", 2 * 2000, 0.5),
    ]


def test_full_training_in_fp32_takes_twice_that() -> None:
    widths = names(full(param_dtype="fp32"))
    del widths["context"]
    assert widths.pop("cast_weights") == 2 * 1200  # autocast's 16-bit copies of the products
    assert widths == {
        "weights": 8000, "full_gradients": 8000, "full_optimizer": 16000, "step_temporaries": 8000,
    }  # fmt: skip


def test_the_peak_is_the_larger_of_the_backward_pass_and_the_step() -> None:
    long = full(seq_len=16, micro_batch_size=2)
    assert memory_terms(long)[-3:] == [TRAINED_LAYER, CHECKPOINTS, LOGITS]
    assert "step_temporaries" not in names(long)
    assert "logits" not in names(full())


def tied(**settings: Any) -> dict[str, float]:
    return names(full(model=replace(TINY, tied_embeddings=True), **settings))


def test_a_tied_embedding_has_two_gradients_and_their_sum_at_the_end_of_the_backward_pass() -> None:
    assert tied(optimizer="sgd")["step_temporaries"] == 2 * 2 * 50 * 8
    assert tied(optimizer="adamw_torch")["step_temporaries"] == 2 * 2000  # the step needs more
    assert "step_temporaries" not in names(full(optimizer="sgd"))


def test_adafactor_holds_four_copies_of_the_largest_parameter_in_fp32() -> None:
    assert names(full(optimizer="adafactor"))["step_temporaries"] == 4 * 4 * 50 * 8
    assert "step_temporaries" not in names(lora(optimizer="adafactor", seq_len=1))


MIXED = Term("full_mixed_optimizer", "optimizer", (4 + 4 + 4) * 2000 / 2, 0.1)
WIDE = Term("full_fp32_gradients", "gradients", 4 * 2000 / 2, 0.5)
#: Gradients and parameters in flight: at least 5e7 elements of 4 bytes.
BUCKETS = Term("buckets", "context", 2e8, 0.7)
STEP = Term("step_temporaries", "optimizer", 4 * 2000 / 2, 0.5)


@pytest.mark.parametrize(
    ("stage", "weights", "gradients"), [("zero1", 4000, 4000), ("zero2", 4000, 2000)]
)
def test_deepspeed_keeps_fp32_copies_and_spreads_them(
    stage: str, weights: int, gradients: int
) -> None:
    assert memory_terms(full(sharding=stage, n_gpus=2)) == [
        Term("weights", "weights", weights, 0.03),
        WIDE,
        MIXED,
        CONTEXT,
        BUCKETS,
        Term("full_gradients", "gradients", gradients, 0.1),
        STEP,
    ]


def test_zero_3_spreads_the_weights_too_and_gathers_some() -> None:
    assert memory_terms(full(sharding="zero3", n_gpus=2)) == [
        Term("weights", "weights", 2000, 0.03),
        Term("gathered", "weights", 2 * 1000, 0.6),
        WIDE,
        MIXED,
        CONTEXT,
        BUCKETS,
        Term("full_gradients", "gradients", 2000, 0.1),
        STEP,
    ]


@pytest.mark.parametrize("sharding", ["fsdp", "hsdp"])
def test_fsdp_shards_fp32_states_and_gathers_two_layers_and_the_root(sharding: str) -> None:
    assert memory_terms(full(sharding=sharding, n_gpus=2)) == [
        Term("weights", "weights", 4 * 1000, 0.03),
        # of the other card's 1,000: 800 of embeddings, and 200 of the layers
        Term("gathered", "weights", 2 * 1000, 0.6),
        Term("full_optimizer", "optimizer", 8 * 1000, 0.15),
        CONTEXT,
        Term("full_gradients", "gradients", 4 * 1000, 0.1),
        # half a layer of 400 and half the embeddings, before they are reduced
        Term("unit_gradients", "gradients", 2 * (400 + 800) / 2, 0.6),
        Term("step_temporaries", "optimizer", 4 * 1000, 0.5),
    ]


def test_hsdp_shards_within_a_host() -> None:
    assert names(full(sharding="hsdp", n_gpus=4, n_nodes=2))["weights"] == 4 * 1000
    assert names(full(sharding="fsdp", n_gpus=4, n_nodes=2))["weights"] == 4 * 500


def test_stated_weights_go_before_fsdps_fp32() -> None:
    assert names(full(sharding="fsdp", n_gpus=2, param_dtype="bf16"))["weights"] == 2 * 1000


@pytest.mark.parametrize(
    ("sharding", "weights", "gradients", "optimizer"),
    [
        ("fsdp_grad_op", 4000, 2000, 4000),
        ("device_map", 2000, 2000, 4000),
        ("ddp", 4000, 4000, 8000),
        (None, 4000, 4000, 8000),
    ],
)
def test_what_each_sharding_spreads_over_two_cards(
    sharding: str | None, weights: int, gradients: int, optimizer: int
) -> None:
    found = names(full(sharding=sharding, n_gpus=2))
    assert found["weights"] == weights
    assert found["full_gradients"] == gradients
    assert found["full_optimizer"] == optimizer
    assert found["step_temporaries"] == optimizer / 2
    assert "gathered" not in found


@pytest.mark.parametrize(
    ("sharding", "spread"),
    [
        ("ddp", (1, 1, 1)), ("zero1", (1, 1, 2)), ("zero2", (1, 2, 2)), ("zero3", (2, 2, 2)),
        ("fsdp", (2, 2, 2)),
    ],
)  # fmt: skip
def test_adapters_are_sharded_like_what_they_are(
    sharding: str, spread: tuple[int, int, int]
) -> None:
    found = names(lora(sharding=sharding, n_gpus=2, seq_len=1, micro_batch_size=1))
    parts = ("adapters", "adapter_gradients", "adapter_optimizer")
    assert tuple(found[name] for name in parts) == (
        672 / spread[0], 672 / spread[1], 1344 / spread[2],
    )  # fmt: skip


@pytest.mark.parametrize(("n_params", "gathered"), [(2_000_000_000, 2e9), (8_000_000_000, 3e9)])
def test_deepspeed_gathers_a_billion_and_a_half_parameters_at_most(
    n_params: int, gathered: float
) -> None:
    model = replace(TINY, n_params=n_params)
    assert names(full(model=model, sharding="zero3", n_gpus=2))["gathered"] == gathered


def test_ddp_keeps_the_gradients_twice() -> None:
    assert names(full(sharding="ddp", n_gpus=2))["ddp_buckets"] == 2 * 2000
    assert names(lora(sharding=None, n_gpus=2))["ddp_buckets"] == 4 * 168
    assert "ddp_buckets" not in names(full(sharding="ddp"))


@pytest.mark.parametrize(
    ("trained", "held"),
    [(49_999_999, 2e8), (50_000_001, 200_000_004), (400_000_000, 1.6e9), (500_000_001, 2e9)],
)
def test_buckets_hold_what_is_trained_within_their_bounds(trained: int, held: float) -> None:
    assert names(lora(sharding="zero2", trainable_params=trained))["buckets"] == held


@pytest.mark.parametrize(
    ("optimizer", "bytes_each"),
    [
        ("adam", 8), ("adam_8bit", 2 + 8 / 256),
        ("adamw", 8), ("adamw_torch_fused", 8), ("adamw_apex_fused", 8), ("lion", 4),
        ("adamw_8bit", 2 + 8 / 256), ("lion_8bit", 1 + 4 / 256), ("adafactor", 0.004),
    ],
)  # fmt: skip
def test_an_optimizer_keeps_so_many_bytes_of_an_fp32_parameter(
    optimizer: str, bytes_each: float
) -> None:
    found = names(lora(optimizer=optimizer))["adapter_optimizer"]
    assert found == pytest.approx(168 * bytes_each)


@pytest.mark.parametrize(
    "optimizer", ["sgd", "paged_adamw_32bit", "paged_adamw_8bit", "paged_lion_32bit"]
)
def test_sgd_and_paged_optimizers_keep_nothing_on_the_card(optimizer: str) -> None:
    assert "adapter_optimizer" not in names(lora(optimizer=optimizer))


@pytest.mark.parametrize("optimizer", ["sgd", "adamw_torch_fused", "adamw_8bit"])
def test_an_update_in_place_has_no_temporaries(optimizer: str) -> None:
    assert "step_temporaries" in names(full(optimizer="adamw_torch"))
    assert "step_temporaries" not in names(full(optimizer=optimizer))


@pytest.mark.parametrize(("optimizer", "n_states"), [("adamw_8bit", 2), ("lion_8bit", 1)])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_8_bit_optimizers_keep_the_states_of_embeddings_in_fp32(
    optimizer: str, n_states: int, dtype: str
) -> None:
    eight_bits = (1 + 4 / 256) * n_states
    expected = (2000 - 400) * eight_bits + 400 * 4 * n_states
    found = names(full(optimizer=optimizer, param_dtype=dtype))["full_optimizer"]
    assert found == pytest.approx(expected)


def test_trained_embeddings_have_a_copy_gradients_and_moments() -> None:
    trained = [
        Term("embedding_copies", "weights", 2 * 800, 0.1),
        Term("embedding_optimizer", "optimizer", 4 * 800, 0.15),
        Term("embedding_gradients", "gradients", 2 * 800, 0.1),
    ]
    found = memory_terms(lora(trains_embeddings=True))
    assert [term for term in found if term.name.startswith("embedding_")] == trained
    assert (
        names(lora(trains_embeddings=True, sharding="zero3", n_gpus=2))["embedding_copies"] == 800
    )


def test_the_step_counts_adapters_in_fp32_and_embeddings_in_their_dtype() -> None:
    question = lora(trains_embeddings=True, seq_len=1, micro_batch_size=1, lora_rank=40)
    # 40 x 28 x 3 = 3360 adapters of 4 bytes and 800 embedding parameters of 2
    assert names(question)["step_temporaries"] == 3360 * 4 + 800 * 2
    spread = names(question.changed(sharding="fsdp", n_gpus=2))
    assert spread["step_temporaries"] == (3360 * 4 + 800 * 2) / 2


def test_offloading_everything_holds_a_window_of_the_weights_alone() -> None:
    question = full(offload="optimizer_and_params", seq_len=16, micro_batch_size=2)
    assert memory_terms(question) == [
        Term("offload_window", "weights", 2 * 2000, 0.6), CONTEXT, TRAINED_LAYER, CHECKPOINTS,
        LOGITS,
    ]  # fmt: skip


@pytest.mark.parametrize("sharding", [None, "zero1"])
def test_offloading_the_optimizer_leaves_weights_and_gradients(sharding: str | None) -> None:
    found = names(full(offload="optimizer", sharding=sharding))
    assert (found["weights"], found["full_gradients"]) == (4000, 4000)
    assert not {"full_optimizer", "full_mixed_optimizer", "step_temporaries"} & set(found)


def test_zero_2_sends_its_gradients_to_the_optimizer_on_the_host() -> None:
    found = names(full(offload="optimizer", sharding="zero2", n_gpus=2))
    assert found["weights"] == 4000
    assert "full_gradients" not in found


def test_offloading_the_weights_leaves_the_optimizer() -> None:
    found = names(full(offload="params"))
    assert found["full_optimizer"] == 4 * 2000
    assert "weights" not in found
    assert memory_terms(lora(offload="params"))[:3] == [
        Term("offload_window", "weights", 4000, 0.6),
        *ADAPTERS,
    ]


@pytest.mark.parametrize("offload", [None, "none", "activations"])
def test_offloading_nothing_or_activations_leaves_the_weights(offload: str | None) -> None:
    assert names(full(offload=offload))["weights"] == 4000


def test_offloaded_activations_are_those_of_two_layers() -> None:
    assert names(lora(offload="activations"))["checkpoints"] == 2 * 32 * 8 * 2
    without = lora(offload="activations", gradient_checkpointing=False)
    assert names(without)["layer_activations"] == 2 * LAYER.value


@pytest.mark.parametrize("sharding", ["fsdp", "hsdp", "fsdp_grad_op"])
def test_fsdp_1_holds_inputs_of_frozen_layers_and_their_gradients_to_the_end(sharding: str) -> None:
    small = replace(TINY, vocab_size=2)  # whose logits are not the peak
    asked = lora(model=small, sharding=sharding, n_gpus=2)
    held = names(asked)
    assert held["checkpoints"] == 2 * CHECKPOINTS.value
    assert "logits" not in held
    for other in ({"fsdp_version": 2}, {"sharding": "ddp"}):
        assert names(asked.changed(**other))["checkpoints"] == CHECKPOINTS.value
    assert "checkpoints" not in names(asked.changed(gradient_checkpointing=False))


def test_logits_are_the_peak_of_fsdp_where_they_outweigh_what_is_held_to_the_end() -> None:
    held = names(lora(sharding="fsdp", n_gpus=2))
    assert (held["checkpoints"], held["logits"]) == (CHECKPOINTS.value, LOGITS.value)


def test_gradients_that_are_not_accumulated_are_not_there_when_the_backward_pass_starts() -> None:
    long = {"seq_len": 16, "micro_batch_size": 2}
    assert "full_gradients" in names(full(**long, grad_accum_steps=2))
    assert "full_gradients" not in names(full(**long, grad_accum_steps=1))
    assert "full_gradients" in names(full(grad_accum_steps=1))


def test_an_optimizer_in_the_backward_pass_holds_the_gradients_of_one_module() -> None:
    found = names(full(optimizer_in_backward=True, seq_len=1, gradient_checkpointing=True))
    assert "full_gradients" not in found
    assert "step_temporaries" not in found
    (held,) = gradients(full(optimizer_in_backward=True))
    assert held.value == 2 * 50 * 8  # the embedding's, in 16 bits


def test_adapters_updated_in_the_backward_pass_hold_the_gradients_of_one_layer() -> None:
    (held,) = gradients(lora(optimizer_in_backward=True))
    assert held.value == 4 * 168 / 3
    (embedding,) = gradients(lora(optimizer_in_backward=True, trains_embeddings=True))
    assert embedding.value == 2 * 50 * 8


@pytest.mark.parametrize(
    ("kernel", "held"),
    [("whole", 14 * 50), ("chunked", 5.5 * 50), ("unsloth", 2 * 50), ("liger", 10 * 8)],
)
def test_logits_are_held_as_the_loss_kernel_holds_them(kernel: str, held: float) -> None:
    assert names(lora(loss_kernel=kernel))["logits"] == 32 * held
    assert lora(loss_kernel="whole") != lora()
    assert memory_terms(lora(loss_kernel="whole")) == memory_terms(lora())


def test_unsloth_leaves_the_embeddings_in_16_bits() -> None:
    assert "fp32_embeddings" not in names(lora(quant_bits=4, loss_kernel="unsloth"))


def test_autocast_copies_the_products_of_one_checkpointed_layer_of_frozen_weights() -> None:
    assert names(lora(param_dtype="fp32"))["cast_weights"] == 2 * 1200 / 3
    every = lora(param_dtype="fp32", gradient_checkpointing=False)
    assert names(every)["cast_weights"] == 2 * 1200


def test_an_mlp_without_a_gate_keeps_less() -> None:
    plain = replace(TINY, gated_mlp=False)
    assert layer_activation_bytes(lora(model=plain)) == 32 * (4 * 8 + 2 * 20 + 48)
    assert layer_activation_bytes(full(model=plain)) == 1 * (8 * 8 + 4 * 20 + 48)


def test_only_what_is_beyond_2048_tokens_fragments() -> None:
    question = lora(seq_len=2050, length_distribution="variable")
    held = Term("fragmentation", "fragmentation", 10 * 2 * 2 * 50, 1.0, transient=True)
    assert memory_terms(question)[-1] == held
    assert "fragmentation" not in names(question.changed(seq_len=2048))
    assert "fragmentation" not in names(question.changed(length_distribution="full"))


def test_a_mixture_keeps_the_activations_of_its_chosen_experts() -> None:
    mixture = replace(TINY, n_experts=8, n_experts_active=2)
    assert layer_activation_bytes(lora(model=mixture)) == 32 * (64 + 6 * 2 * 20 + 48)


def test_active_parameters_say_what_shared_experts_add() -> None:
    # 800 of embeddings and 3 x (192 of attention + 3 x 8 x 60 of MLPs) are active
    mixture = replace(TINY, n_experts=8, n_experts_active=2, n_active_params=800 + 3 * (192 + 1440))
    assert mixture.attention_params == 192
    assert mixture.mlp_width == 60


def adapter_params(model: Architecture, rank: int, targets: tuple[str, ...] | None) -> int:
    return Question(model, lora_rank=rank, lora_target_modules=targets).adapter_params


def test_each_expert_has_its_adapter_and_a_token_meets_the_chosen_ones() -> None:
    mixture = replace(TINY, n_experts=8, n_experts_active=2)
    assert adapter_params(mixture, 2, ("up_proj",)) == 3 * 8 * 2 * (8 + 20)
    assert used(mixture, "up_proj") == 2


def test_experts_that_are_one_tensor_have_no_adapters() -> None:
    mixture = replace(TINY, n_experts=8, n_experts_active=2)
    settings: dict[str, Any] = {
        "quant_bits": 4,
        "lora_rank": 2,
        "lora_target_modules": ("all-linear",),
    }
    each = Question(mixture, **settings)
    fused = each.changed(quantized_experts=False)
    attention = ("q_proj", "k_proj", "v_proj", "o_proj")
    assert fused.adapter_params == adapter_params(TINY, 2, attention)
    assert each.adapter_params > fused.adapter_params
    kept = [
        sum(term.value for term in memory_terms(one) if term.name == "adapter_inputs")
        for one in (each, fused)
    ]
    assert kept[0] > kept[1] > 0


#: Queries of width 12, keys and values of width 6: no module is as wide as the model on both sides.
WIDE_HEADS = replace(TINY, head_dim=6)


@pytest.mark.parametrize(
    ("target", "inputs", "outputs"),
    [
        ("q_proj", 8, 12), ("k_proj", 8, 6), ("v_proj", 8, 6), ("o_proj", 12, 8),
        ("gate_proj", 8, 20), ("up_proj", 8, 20), ("down_proj", 20, 8),
        ("c_attn", 8, 24), ("query_key_value", 8, 24), ("W_pack", 8, 24), ("qkv_proj", 8, 24),
        ("dense", 12, 8), ("w1", 8, 20), ("w2", 8, 20), ("gate_up_proj", 8, 40),
        ("dense_h_to_4h", 8, 20), ("dense_4h_to_h", 20, 8), ("fc1", 8, 20), ("fc2", 20, 8),
        ("out_proj", 12, 8), ("Wqkv", 8, 24), ("c_fc", 8, 20), ("fc_in", 8, 20), ("fc_out", 20, 8),
        ("of another name", 8, 8),
    ],
)  # fmt: skip
def test_an_adapter_is_two_matrices_of_its_rank(target: str, inputs: int, outputs: int) -> None:
    assert adapter_params(WIDE_HEADS, 2, (target,)) == 3 * 2 * (inputs + outputs)
    assert [widths[1:] for widths in target_widths(WIDE_HEADS, (target,))] == [(inputs, outputs)]


@pytest.mark.parametrize("family", MODULE_NAMES)
def test_all_modules_of_a_family_by_name_are_all_linear(family: str) -> None:
    names = MODULE_NAMES[family]
    model = replace(TINY, gated_mlp=bool({"gate_proj", "gate_up_proj"} & set(names)))
    assert targeted(model, names) == targeted(model, ("all-linear",))


def test_internlm2_has_names_of_its_own_that_mean_something_else_elsewhere() -> None:
    model = replace(WIDE_HEADS, model_type="internlm2")
    found = target_widths(model, ("wqkv", "wo", "w1", "w2", "w3"))
    assert [name for name, *_ in found] == ["qkv", "o_proj", "gate_proj", "down_proj", "up_proj"]
    assert counted_as_square(model, ("wqkv", "w2")) == []


def test_a_hybrids_out_proj_is_not_its_o_proj() -> None:
    assert adapter_params(WIDE_HEADS, 1, ("o_proj", "out_proj")) == 3 * (20 + 16)


def test_a_shared_expert_is_none_of_the_routed_ones() -> None:
    mixture = replace(WIDE_HEADS, n_experts=4, n_experts_active=2)
    names = ("q_proj", "mlp.shared_expert.down_proj")
    assert [name for name, *_ in target_widths(mixture, names)] == list(names)
    (routed,) = target_widths(mixture, ("mlp.down_proj",))
    assert routed == ("down_proj", 20, 8)


def test_groups_of_targets_count_each_module_once() -> None:
    every = 20 + 14 + 14 + 20 + 28 + 28 + 28
    assert adapter_params(WIDE_HEADS, 1, ("all-linear",)) == 3 * every
    plain = replace(WIDE_HEADS, gated_mlp=False)
    assert adapter_params(plain, 1, ("all-linear",)) == 3 * (every - 28)
    assert adapter_params(WIDE_HEADS, 1, None) == 3 * (20 + 14)
    assert adapter_params(WIDE_HEADS, 1, ("c_proj",)) == 3 * (20 + 28)
    assert adapter_params(WIDE_HEADS, 1, ("c_proj", "down_proj")) == 3 * (20 + 28)
    assert adapter_params(WIDE_HEADS, 1, ("w1", "w2", "c_proj")) == 3 * (28 + 28 + 20 + 28)


def test_stated_trainable_parameters_go_before_counted_ones() -> None:
    assert lora(trainable_params=1000).adapter_params == 1000
    assert lora(trainable_params=1000, trains_embeddings=True).adapter_params == 200
    assert lora(trainable_params=100, trains_embeddings=True).adapter_params == 0
    assert lora(trains_embeddings=True).trained_params == 168 + 800
    assert (full().adapter_params, full().trained_params) == (0, 2000)


def test_tied_embeddings_are_held_once() -> None:
    tied = replace(TINY, tied_embeddings=True)
    assert names(lora(model=tied, quant_bits=4))["embeddings"] == 400 * 2
    assert names(lora(model=tied, quant_bits=4))["quantized_weights"] == 1600 / 2
