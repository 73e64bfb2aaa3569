from __future__ import annotations

from typing import Any

import pytest

from registry.measure.trial_settings import Settings
from registry.predict.dryrun import KINDS, DryRun, Recipe, dry_run, run_in_child

for package in ("torch", "transformers", "peft", "bitsandbytes"):
    pytest.importorskip(package, exc_type=ImportError)

HIDDEN, INNER, LAYERS, VOCAB = 256, 512, 2, 4000
LINEAR_PER_LAYER = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * INNER
SOURCE: dict[str, Any] = {
    "kind": "config",
    "config": {
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "vocab_size": VOCAB,
        "tie_word_embeddings": False,
    },
}
N_PARAMS = LAYERS * (LINEAR_PER_LAYER + 2 * HIDDEN) + HIDDEN + 2 * VOCAB * HIDDEN
ROUNDING = 512 * 100


def run(recipe: Recipe | None = None, **settings: Any) -> DryRun:
    stated = {"seq_len": 256, "micro_batch_size": 4, **settings}
    return dry_run(Settings("small", **stated), SOURCE, recipe=recipe)


def test_the_breakdown_adds_up_to_the_peak() -> None:
    found = run()
    assert tuple(found.breakdown) == KINDS
    assert sum(found.breakdown.values()) == found.peak_allocated_bytes
    assert found.peak_reserved_bytes >= found.peak_allocated_bytes


def test_the_same_question_has_the_same_answer() -> None:
    one, other = run(lora_dropout=0.1), run(lora_dropout=0.1)
    assert one.peak_allocated_bytes == other.peak_allocated_bytes
    assert one.peak_reserved_bytes == other.peak_reserved_bytes


def test_weights_take_two_bytes_each_in_bf16() -> None:
    weights = run().breakdown["weights"]
    assert 2 * N_PARAMS <= weights <= 2 * N_PARAMS + ROUNDING


def test_adapters_are_held_in_fp32_unless_the_recipe_says_otherwise() -> None:
    found = run()
    assert 4 * found.trainable_params <= found.breakdown["adapters"]
    half = run(Recipe(adapters_fp32=False))
    assert half.breakdown["adapters"] < found.breakdown["adapters"]


def test_adam_keeps_two_states_of_what_it_trains() -> None:
    found = run(seq_len=16, micro_batch_size=1, method="full", optimizer="adamw_torch_fused")
    assert found.trainable_params == N_PARAMS
    assert found.breakdown["optimizer"] >= 2 * 2 * N_PARAMS
    assert found.breakdown["gradients"] >= 2 * N_PARAMS


def test_nf4_packs_two_weights_into_a_byte_with_a_scale_per_64() -> None:
    weights = run(quantization="nf4", dtype="bf16").breakdown["weights"]
    packed = LAYERS * LINEAR_PER_LAYER * (0.5 + 4 / 64)
    in_fp32 = 4 * (N_PARAMS - LAYERS * LINEAR_PER_LAYER)
    assert packed + in_fp32 <= weights <= packed + in_fp32 + ROUNDING


def test_double_quantization_takes_less_than_single() -> None:
    single = run(quantization="nf4").breakdown["weights"]
    assert run(quantization="nf4", double_quant=True).breakdown["weights"] < single


def test_int8_keeps_its_inputs_under_the_newer_checkpointing_only() -> None:
    stated: dict[str, Any] = {
        "quantization": "int8",
        "dtype": "fp16",
        "gradient_checkpointing": True,
    }
    newer = run(**stated).peak_allocated_bytes
    older = run(Recipe(reentrant=True), **stated).peak_allocated_bytes
    plain = run(quantization="int8", dtype="fp16").peak_allocated_bytes
    assert older < newer < plain


def test_checkpointing_takes_less_and_recomputes_dropout_alike() -> None:
    kept = run(lora_dropout=0.1).peak_allocated_bytes
    assert run(lora_dropout=0.1, gradient_checkpointing=True).peak_allocated_bytes < kept


def test_dropout_keeps_a_mask_of_a_byte_where_its_input_has_a_gradient() -> None:
    without = run(lora_target_modules=("q_proj",)).peak_allocated_bytes
    with_dropout = run(lora_target_modules=("q_proj",), lora_dropout=0.1).peak_allocated_bytes
    layers_after_the_first = LAYERS - 1
    assert with_dropout - without == 4 * 256 * HIDDEN * layers_after_the_first


def test_eager_attention_grows_with_the_square_of_the_sequence_and_sdpa_does_not() -> None:
    def activations(attention: str, seq_len: int) -> int:
        found = run(attention=attention, seq_len=seq_len, micro_batch_size=1, method="full")
        return found.breakdown["activations"] + found.breakdown["logits"]

    growth = {name: activations(name, 2048) / activations(name, 512) for name in ("sdpa", "eager")}
    assert growth["sdpa"] < 4.5
    assert growth["eager"] > 6


def test_flash2_keeps_what_sdpa_keeps_and_says_so() -> None:
    flash = run(attention="flash2")
    assert flash.peak_allocated_bytes == run(attention="sdpa").peak_allocated_bytes
    assert flash.notes[0] == "flash2 executed as sdpa without a mask, which keeps the same tensors"


def test_logits_are_counted_in_fp32_beside_the_dtype_of_the_model() -> None:
    logits = run().breakdown["logits"]
    elements = 4 * 256 * VOCAB
    assert 8 * elements <= logits <= 12 * elements + 3 * 2**20


def test_gradients_stay_between_micro_batches() -> None:
    one = run(method="full", optimizer="sgd")
    two = run(method="full", optimizer="sgd", grad_accum_steps=2)
    assert two.peak_allocated_bytes - one.peak_allocated_bytes > N_PARAMS
    assert run(method="full", optimizer="sgd", grad_accum_steps=8).peak_allocated_bytes == (
        two.peak_allocated_bytes
    )


def test_paged_state_of_large_parameters_lies_outside_the_allocator() -> None:
    paged = run(method="full", optimizer="paged_adamw_32bit")
    large = 2 * VOCAB * HIDDEN + LAYERS * 3 * HIDDEN * INNER  # the others have under 100,000
    assert paged.paged_bytes == 8 * large
    assert run(method="full").paged_bytes == 0


def test_8_bit_state_takes_less_than_32_bit_state() -> None:
    stated: dict[str, Any] = {"method": "full", "seq_len": 16, "micro_batch_size": 1}
    in_8bit = run(optimizer="adamw_8bit", **stated).peak_allocated_bytes
    assert in_8bit < run(optimizer="adamw_torch_fused", **stated).peak_allocated_bytes


@pytest.mark.parametrize("optimizer", ["adafactor", "sgd", "lion_8bit", "adamw_torch_fused"])
def test_every_optimizer_makes_a_step(optimizer: str) -> None:
    assert run(optimizer=optimizer).peak_allocated_bytes > 2 * N_PARAMS


@pytest.mark.parametrize(
    ("method", "peft"),
    [
        ("dora", {}),
        ("ia3", {}),
        ("prompt_tuning", {"num_virtual_tokens": 4}),
        ("loha", {}),  # these two draw a number in each module
        ("lokr", {}),
    ],
)
def test_methods_beside_lora_are_executed(method: str, peft: dict[str, Any]) -> None:
    found = run(method=method, peft=peft)
    assert 0 < found.trainable_params < N_PARAMS / 10


def test_ddp_adds_buckets_the_size_of_the_gradients() -> None:
    alone = run(method="full", optimizer="sgd")
    several = run(method="full", optimizer="sgd", n_gpus=2, sharding="ddp")
    buckets = several.peak_allocated_bytes - alone.peak_allocated_bytes
    assert 2 * N_PARAMS <= buckets <= 2 * N_PARAMS + 2**20


def test_outputs_that_a_loop_keeps_are_logits_at_the_peak() -> None:
    let_go = run(Recipe(outputs_fp32=False)).breakdown["logits"]
    kept = run(Recipe(outputs_fp32=False, keeps_outputs=True)).breakdown["logits"]
    in_bf16 = 2 * 4 * 256 * VOCAB
    assert in_bf16 <= kept - let_go <= in_bf16 + 2**20


@pytest.mark.parametrize("loss", ["upcast", "shifted", "plain"])
def test_every_recipe_of_a_loss_is_executed(loss: str) -> None:
    assert run(Recipe(loss=loss)).breakdown["logits"] >= 2 * 4 * 256 * VOCAB


def test_a_child_gives_what_the_function_gives() -> None:
    answer = run_in_child(Settings("small", seq_len=256, micro_batch_size=4), SOURCE)
    found = run()
    assert answer["peak_allocated_bytes"] == found.peak_allocated_bytes
    assert answer["peak_reserved_bytes"] == found.peak_reserved_bytes
    assert answer["breakdown"] == found.breakdown


def run_of(family: str, config: dict[str, Any] | None = None, **settings: Any) -> DryRun:
    source = {**SOURCE["config"], "model_type": family, **(config or {})}
    stated = {"seq_len": 256, "micro_batch_size": 4, **settings}
    return dry_run(Settings("small", **stated), {"kind": "config", "config": source})


GEMMA = {"head_dim": 64}
GPT2 = {"n_embd": HIDDEN, "n_layer": LAYERS, "n_head": 4, "n_positions": 512, "n_inner": INNER}
OPT = {"ffn_dim": INNER, "word_embed_proj_dim": HIDDEN, "max_position_embeddings": 512}
MIXTRAL = {"num_local_experts": 4, "num_experts_per_tok": 2}


def test_gemma_2_is_executed_with_flash_attention_whose_scores_are_capped_inside() -> None:
    flash = run_of("gemma2", GEMMA, attention="flash2", method="full")
    eager = run_of("gemma2", GEMMA, attention="eager", method="full")
    matrix = 4 * 4 * 256 * 256  # samples, heads, scores
    assert eager.peak_allocated_bytes - flash.peak_allocated_bytes > 6 * LAYERS * matrix


def test_dropout_of_attention_is_made_again_in_the_kernel() -> None:
    """GPT-2 has dropout in attention; sdpa on a CPU would then hold the whole matrix."""
    stated: dict[str, Any] = {"lora_target_modules": ("c_attn",)}
    none = run_of("gpt2", {**GPT2, "attn_pdrop": 0.0}, **stated)
    assert run_of("gpt2", GPT2, **stated).peak_allocated_bytes == none.peak_allocated_bytes


def test_of_opt_no_layer_is_dropped() -> None:
    """OPT draws a number for each layer, whose value a fake has not."""
    asked: dict[str, Any] = {"lora_target_modules": ("q_proj",)}
    none = run_of("opt", {**OPT, "layerdrop": 0.0}, **asked)
    found = run_of("opt", {**OPT, "layerdrop": 0.9}, **asked)
    assert found.peak_allocated_bytes == none.peak_allocated_bytes


def test_layers_of_gpt_2_are_quantized_too() -> None:
    linear = LAYERS * (4 * HIDDEN * HIDDEN + 2 * HIDDEN * INNER)
    stated: dict[str, Any] = {"lora_target_modules": ("c_attn",), "dtype": "bf16"}
    weights = run_of("gpt2", GPT2, quantization="nf4", **stated).breakdown["weights"]
    rest = (2 * VOCAB + 512) * HIDDEN + LAYERS * (9 * HIDDEN + INNER) + 2 * HIDDEN
    assert weights == pytest.approx(linear * (0.5 + 4 / 64) + 4 * rest, rel=0.02)


def test_fused_experts_stay_unquantized_and_are_held_in_fp32() -> None:
    """bitsandbytes quantizes linear layers; PEFT prepares what is left in fp32."""
    found = run_of("mixtral", MIXTRAL, quantization="nf4", lora_target_modules=("q_proj",))
    experts = LAYERS * 4 * 3 * HIDDEN * INNER
    rest = 2 * VOCAB * HIDDEN + LAYERS * 4 * HIDDEN
    quantized = LAYERS * 4 * HIDDEN * HIDDEN * (0.5 + 4 / 64)
    counted = 4 * (experts + rest) + quantized
    assert found.breakdown["weights"] == pytest.approx(counted, rel=0.02)


def test_weights_in_fp32_take_four_bytes_under_autocast() -> None:
    found = run(Recipe(weights_fp32=True), method="full")
    assert 4 * N_PARAMS <= found.breakdown["weights"] <= 4 * N_PARAMS + ROUNDING


def test_adapters_go_where_the_family_has_its_projections() -> None:
    asked: dict[str, Any] = {"lora_target_modules": ("q_proj", "v_proj")}
    source = {"kind": "config", "config": {**SOURCE["config"], "model_type": "gpt2", **GPT2}}
    settings = Settings("small", seq_len=64, **asked)
    found = dry_run(settings, source, recipe=Recipe(family_targets=True))
    assert found.trainable_params == LAYERS * 8 * (HIDDEN + 3 * HIDDEN)


def test_recurrent_layers_without_fused_kernels_are_told() -> None:
    delta = {
        "full_attention_interval": 2, "num_experts": 0, "linear_num_key_heads": 2,
        "linear_num_value_heads": 2, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
    }  # fmt: skip
    found = run_of("qwen3_next", delta, lora_target_modules=("q_proj",))
    assert any("recurrent layers" in note for note in found.notes)
    assert not any("recurrent layers" in note for note in run().notes)
