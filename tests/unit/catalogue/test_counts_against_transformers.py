"""Counted parameters are those of the modules that transformers builds (with the extra train)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.catalogue.hf_config import parse_hf_config
from registry.catalogue.meta_model import build_on_meta, count_modules, count_on_meta

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

GPT2: dict[str, Any] = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64}
PLAIN: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 20,
    "max_position_embeddings": 64,
}  # fmt: skip
NARROW = {name: size for name, size in PLAIN.items() if name != "intermediate_size"}
GROUPED = {**PLAIN, "num_key_value_heads": 2, "head_dim": 4}
MIXTURE = {**GROUPED, "num_experts_per_tok": 2}
MANY_EXPERTS = {**MIXTURE, "num_experts": 4, "moe_intermediate_size": 12}

SMALL: dict[str, list[dict[str, Any]]] = {
    "llama": [GROUPED, {**GROUPED, "attention_bias": True, "mlp_bias": True}],
    "mistral": [GROUPED],
    "granite": [GROUPED],
    "phi3": [GROUPED],
    "mixtral": [{**MIXTURE, "num_local_experts": 4}],
    "granitemoe": [{**MIXTURE, "num_local_experts": 4}],
    "olmoe": [MANY_EXPERTS | {"moe_intermediate_size": None}],
    "qwen2": [GROUPED, {**GROUPED, "tie_word_embeddings": True}],
    "qwen2_moe": [{**MANY_EXPERTS, "shared_expert_intermediate_size": 24}],
    "qwen3": [GROUPED, {**GROUPED, "attention_bias": True}],
    "qwen3_moe": [MANY_EXPERTS],
    "gemma": [GROUPED, {**GROUPED, "attention_bias": True}],
    "gemma2": [GROUPED],
    "gemma3_text": [GROUPED],
    "olmo": [GROUPED, {**GROUPED, "attention_bias": True}],
    "olmo2": [GROUPED],
    "cohere": [GROUPED],
    "stablelm": [GROUPED, {**GROUPED, "use_qkv_bias": True}],
    "nemotron": [GROUPED, {**GROUPED, "attention_bias": True, "mlp_bias": True}],
    "starcoder2": [GROUPED, {**GROUPED, "use_bias": False}],
    "gpt2": [GPT2, {**GPT2, "n_inner": 24}],
    "gpt_bigcode": [GPT2, {**GPT2, "multi_query": False}],
    "gptj": [{**GPT2, "rotary_dim": 4}],
    "opt": [{**NARROW, "ffn_dim": 24, "word_embed_proj_dim": 16}],
    "bloom": [{"hidden_size": 16, "n_layer": 2, "n_head": 4}],
    "gpt_neox": [PLAIN],
    "phi": [GROUPED | {"head_dim": None}],
    "mpt": [{"d_model": 16, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}],
    "falcon": [
        NARROW,
        {**NARROW, "new_decoder_architecture": True, "num_kv_heads": 2},
        {**NARROW, "multi_query": False, "parallel_attn": False, "bias": True},
    ],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model_type", "config"),
    [(model_type, config) for model_type, configs in SMALL.items() for config in configs],
)
def test_the_count_is_that_of_the_modules(model_type: str, config: dict[str, Any]) -> None:
    stated = {name: value for name, value in config.items() if value is not None}
    live = transformers.AutoConfig.for_model(
        model_type, vocab_size=50, pad_token_id=0, bos_token_id=0, eos_token_id=0, **stated
    )
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(live)
    model.tie_weights()
    built = sum(parameter.numel() for parameter in model.parameters())
    assert parse_hf_config(live)["n_params"] == built
    assert parse_hf_config(live.to_dict())["n_params"] == built


#: What layers of Gemma 3n look up: 2 x 70 x 8.
LOOKED_UP = {**GROUPED, "vocab_size_per_layer_input": 70, "hidden_size_per_layer_input": 8}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "gemma4_text", "num_kv_shared_layers": 0, **LOOKED_UP},
        {"model_type": "gemma3n_text", "num_kv_shared_layers": 0, "laurel_rank": 4, **LOOKED_UP},
    ],
    ids=lambda config: config["model_type"],
)
def test_what_layers_look_up_is_that_of_the_modules(config: dict[str, Any]) -> None:
    built = build_on_meta({**config, "vocab_size": 70})
    sizes = {name: parameter.numel() for name, parameter in built.named_parameters()}
    (found,) = (size for name, size in sizes.items() if "embed_tokens_per_layer" in name)
    assert parse_hf_config(config)["layer_embedding_params"] == found == 2 * 70 * 8
    without = parse_hf_config({**config, "hidden_size_per_layer_input": 0})
    assert "layer_embedding_params" not in without


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_sees_is_counted_with_its_tower() -> None:
    text = {"model_type": "qwen3_5_text", **GROUPED, "vocab_size": 50}
    tower = {"depth": 2, "hidden_size": 16, "num_heads": 4, "intermediate_size": 20}
    alone = count_on_meta({"model_type": "qwen3_5", "text_config": text})["n_params"]
    whole = {"model_type": "qwen3_5", "text_config": text, "vision_config": tower}
    assert count_on_meta(whole)["n_params"] > alone


@pytest.mark.filterwarnings("ignore")
def test_what_transformers_writes_is_counted_again() -> None:
    """Infinity is an object there, which its own classes do not take."""
    config = {"model_type": "bamba", **GROUPED, "vocab_size": 50, "attn_layer_indices": [1]}
    mixer = {"mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 4}
    built = build_on_meta(config | mixer)
    written = json.loads(built.config.to_json_string(use_diff=False))
    assert written["time_step_limit"] == [0.0, {"__float__": "Infinity"}]
    assert count_on_meta(written) == count_modules(built)
