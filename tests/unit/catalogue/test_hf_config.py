"""One reader knows how each family spells its config.json, and counts what it knows exactly."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from registry.catalogue.hf_config import (
    check_hf_config,
    describe_stored_weights,
    format_hf_config,
    is_hf_config,
    linear_modules,
    parse_hf_config,
)
from registry.contract.resources import parse_yaml
from registry.store.folder import curated_dir
from tests.unit.catalogue.configs import PUBLISHED
from tests.unit.catalogue.varied import VARIED

CURATED: list[dict[str, Any]] = parse_yaml(
    (curated_dir() / "catalogue" / "models.yaml").read_bytes()
)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_config_gives_the_published_figures(name: str) -> None:
    config, n_params, columns = PUBLISHED[name]
    row = parse_hf_config(config)
    assert row.get("n_params") == n_params
    assert {column: row[column] for column in columns} == columns


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_live_configuration_reads_like_its_json(name: str) -> None:
    config = dict(PUBLISHED[name].config)
    for part in ("text_config", "vision_config"):
        if part in config:
            config[part] = SimpleNamespace(**config[part])
    assert parse_hf_config(SimpleNamespace(**config)) == parse_hf_config(PUBLISHED[name].config)


@pytest.mark.parametrize(
    "row", [row for row in CURATED if row["vocab_size"]], ids=lambda row: row["model_id"]
)
def test_a_row_of_the_catalogue_survives_the_way_to_a_config_and_back(row: dict[str, Any]) -> None:
    there = parse_hf_config(format_hf_config(row))
    if row["model_type"] in NEEDS_MORE:
        return
    counts = {"n_params", "n_active_params"}
    assert {column: row[column] for column in {*there} - counts if row[column] is not None} == {
        column: there[column] for column in {*there} - counts if row[column] is not None
    }
    assert there["n_params"] == row["n_params"]


#: Families whose layout has more to it than the columns of the catalogue hold.
NEEDS_MORE = {
    *("deepseek_v2", "deepseek_v3", "qwen2_moe", "glm4_moe", "glm4_moe_lite", "ernie4_5_moe"),
    *("llama4_text", "qwen3_next", "jamba", "phimoe", "gpt_oss", "t5", "bart", "whisper", "albert"),
    *("roberta", "xlm-roberta", "bert", "distilbert", "llava", "gemma3", "mistral3", "qwen2_vl"),
    *("qwen2_5_vl", "falcon", "glm4", "mpt", "smollm3", "gpt_neo", "cohere", "stablelm"),
    *("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "nemotron_h", "modernbert", "dbrx"),
    *("deepseek", "lfm2", "gemma4", "gemma3n", "mllama", "granitemoehybrid", "falcon_h1"),
    *("minicpm3", "hunyuan_v1_dense", "deepseek_v32", "kimi_k25", "kimi_linear", "glm_moe_dsa"),
    *("voxtral", "glm4v"),
}


def test_a_config_of_the_catalogue_has_the_names_of_its_family() -> None:
    shape = {"n_layers": 2, "hidden_size": 8, "intermediate_size": 16, "n_heads": 2, "head_dim": 4}
    assert format_hf_config({"model_type": "qwen", **shape})["intermediate_size"] == 32
    assert format_hf_config({"model_type": "gpt2", **shape})["n_inner"] == 16
    assert "head_dim" not in format_hf_config({"model_type": "llama", **shape})
    wide = format_hf_config({"model_type": "llama", **shape, "head_dim": 8, "n_experts": 4})
    assert wide == {
        "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 16,
        "moe_intermediate_size": 16, "num_attention_heads": 2, "head_dim": 8,
        "num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2,
    }  # fmt: skip


def test_figures_that_are_no_sizes_are_left_out_and_named() -> None:
    config = {
        "model_type": "llama",
        "hidden_size": "4096",
        "num_hidden_layers": True,
        "head_dim": 0,
    }
    assert parse_hf_config(config) == {
        "model_type": "llama", "tied_embeddings": False, "attention_bias": False,
        "gated_mlp": True,
    }  # fmt: skip
    assert check_hf_config(config) == [
        "num_hidden_layers: found True; expected a whole number above 0",
        "hidden_size: found '4096'; expected a whole number above 0",
        "head_dim: found 0; expected a whole number above 0",
    ]


def test_a_size_of_each_layer_is_one_where_all_are_alike() -> None:
    assert check_hf_config({"intermediate_size": [8192] * 30}) == []
    (problem,) = check_hf_config({"intermediate_size": [8192, 4096] * 30})
    assert problem.endswith("…; expected a whole number above 0"), problem


DIVISOR = "one that divides the 8 attention heads"


@pytest.mark.parametrize(
    ("stated", "found", "expected"),
    [
        ({"hidden_size": 10**30}, f"hidden_size: found {10**30}", "a number below 10,000,000"),
        ({"num_layers": 10**7}, "num_layers: found 10000000", "a number below 10,000,000"),
        ({"num_key_value_heads": 7}, "num_key_value_heads: found 7", DIVISOR),
        ({"num_kv_heads": 16}, "num_kv_heads: found 16", DIVISOR),
        (
            {"num_local_experts": 4, "num_experts_per_tok": 8},
            "num_experts_per_tok: found 8",
            "at most the 4 experts of a layer",
        ),
    ],
)
def test_sizes_that_no_model_has_are_told(
    stated: dict[str, int], found: str, expected: str
) -> None:
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8}
    assert check_hf_config({"model_type": "newcomer", **shape, **stated}) == [
        f"{found}; expected {expected}"
    ]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("deepseek_v3", "qk_nope_head_dim"),
        ("newcomer", "qk_rope_head_dim"),
        ("bart", "decoder_layers"),
        ("lfm2", "block_multiple_of"),
        ("lfm2", "block_ffn_dim_multiplier"),
    ],
)
@pytest.mark.parametrize("value", ["128", [1], float("nan"), True])
def test_a_figure_that_sizes_follow_from_is_told_where_it_is_no_number(
    kind: str, name: str, value: Any
) -> None:
    config = {"model_type": kind, **SMALL, "kv_lora_rank": 4, "block_ff_dim": 64, name: value}
    assert "hidden_size" in parse_hf_config(config)
    (problem,) = check_hf_config(config)
    assert problem == f"{name}: found {value!r}; expected a number"


def test_positions_without_a_limit_are_no_problem() -> None:
    assert check_hf_config({"model_type": "qwen2", "model_max_length": 10**24}) == []


@pytest.mark.parametrize("name", PUBLISHED)
def test_no_published_config_has_a_problem(name: str) -> None:
    assert check_hf_config(PUBLISHED[name].config) == []


@pytest.mark.parametrize("part", ["text_config", None])
def test_a_type_that_is_no_name_is_told(part: str | None) -> None:
    config = {"model_type": ["llama"], "hidden_size": 4096, "num_hidden_layers": 2}
    assert check_hf_config({part: config} if part else config) == [
        "model_type: found ['llama']; expected the name of a family"
    ]


def test_a_field_that_varies_by_layer_is_the_one_that_config_json_states() -> None:
    class Varying(SimpleNamespace):
        def __getattribute__(self, name: str) -> Any:
            if name in ("num_key_value_heads", "head_dim"):
                raise RuntimeError("may vary across layers")  # as transformers 5.23 has it
            return super().__getattribute__(name)

    config = PUBLISHED["Qwen3-0.6B"].config
    assert parse_hf_config(Varying(**config)) == parse_hf_config(config)


def test_lfm2_says_by_older_names_which_layers_attend_and_how_wide_it_is() -> None:
    attending = [2, 5, 8, 10, 12, 14]
    shape = {
        "model_type": "lfm2", "hidden_size": 2048, "num_hidden_layers": 16, "vocab_size": 65536,
        "num_attention_heads": 32, "num_key_value_heads": 8, "conv_L_cache": 3,
        "block_ff_dim": 12288, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 256,
    }  # fmt: skip
    types = ["full_attention" if n in attending else "conv" for n in range(16)]
    # 1.17 B, as LiquidAI/LFM2-1.2B says of itself
    for config in (
        {**shape, "layer_types": types},
        {**shape, "full_attn_idxs": attending},
        {**shape, "full_attn_idxs": attending, "intermediate_size": 8192},
    ):
        assert parse_hf_config(config)["n_params"] == 1_170_340_608


def test_minicpm_shares_its_embedding_where_nothing_else_is_said() -> None:
    assert parse_hf_config({"model_type": "minicpm"})["tied_embeddings"] is True


def test_gemma_4_says_by_a_name_of_its_own_how_many_experts_a_token_has() -> None:
    row = parse_hf_config({"text_config": {"num_hidden_layers": 2, "top_k_experts": 8}})
    assert row["n_experts_active"] == 8


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (None, None),
        ({"quant_method": "fp8"}, "in 8 bits"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "in 4 bits"),
        ({"quant_method": "gptq", "bits": 3}, "in 3 bits"),
        ({"quant_algo": "NVFP4", "quant_method": "modelopt"}, "in 4 bits"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 8}},
                    "group_1": {"weights": {"num_bits": 4}},
                },
            },
            "in 4 and 8 bits",
        ),
        ({"quant_algo": "MIXED_PRECISION"}, "quantized (MIXED_PRECISION)"),
        ({"config_groups": {"a": None}}, "quantized (by a method that it does not name)"),
    ],
)
def test_weights_that_are_stored_quantized_are_described(
    stored: dict[str, Any] | None, words: str | None
) -> None:
    assert describe_stored_weights({"quantization_config": stored}) == words
    inside = {"num_hidden_layers": 2, "quantization_config": stored}
    assert describe_stored_weights({"text_config": inside}) == words


def test_no_experts_are_no_problem() -> None:
    config = {"model_type": "llama", "num_local_experts": 0, "num_experts_per_tok": 0}
    assert check_hf_config(config) == []
    assert "n_experts" not in parse_hf_config(config)


def test_nothing_is_read_from_nothing() -> None:
    assert parse_hf_config({}) == {}


@pytest.mark.parametrize(
    ("activation", "gated"), [("silu", True), ("geglu", True), ("relu2", False), ("gelu", None)]
)
def test_the_activation_hints_at_a_gate_where_the_family_is_not_listed(
    activation: str,
    gated: bool | None,  # noqa: FBT001 - a parameter of the test, not of a call
) -> None:
    row = parse_hf_config({"model_type": "newcomer", "hidden_act": activation})
    assert row.get("gated_mlp") is gated


#: Query and key widths of 12 and 6, an MLP of 20, 3 layers of width 8.
SMALL = {
    "num_hidden_layers": 3, "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 6, "intermediate_size": 20, "vocab_size": 50, "max_position_embeddings": 64,
}  # fmt: skip
QUERIES, OUTPUT = 12 + 6 + 6, 8
GATED, PLAIN = 20 + 20 + 8, 20 + 8


@pytest.mark.parametrize(
    ("model_type", "flag", "added"),
    [
        ("llama", "attention_bias", QUERIES + OUTPUT),
        ("llama", "mlp_bias", GATED),
        ("granite", "mlp_bias", GATED),
        ("granitemoe", "attention_bias", QUERIES + OUTPUT),
        ("internlm", "bias", QUERIES + OUTPUT),
        ("internlm2", "bias", QUERIES + OUTPUT),
        ("chatglm", "add_qkv_bias", QUERIES),
        ("qwen3", "attention_bias", QUERIES + OUTPUT),
        ("qwen3_moe", "attention_bias", QUERIES + OUTPUT),
        ("gemma", "attention_bias", QUERIES + OUTPUT),
        ("gemma2", "attention_bias", QUERIES + OUTPUT),
        ("olmo", "attention_bias", QUERIES + OUTPUT),
        ("olmo2", "attention_bias", QUERIES + OUTPUT),
        ("olmoe", "attention_bias", QUERIES + OUTPUT),
        ("stablelm", "use_qkv_bias", QUERIES),
        ("nemotron", "attention_bias", QUERIES + OUTPUT),
        ("nemotron", "mlp_bias", PLAIN),
        ("starcoder2", "use_bias", QUERIES + OUTPUT + PLAIN),
    ],
)
def test_a_flag_adds_the_biases_it_names(model_type: str, flag: str, added: int) -> None:
    without = parse_hf_config({"model_type": model_type, **SMALL, flag: False})
    with_bias = parse_hf_config({"model_type": model_type, **SMALL, flag: True})
    assert with_bias["n_params"] - without["n_params"] == 3 * added
    assert (without["attention_bias"], with_bias["attention_bias"]) == (False, flag != "mlp_bias")


@pytest.mark.parametrize(("model_type", "flag"), [("starcoder2", "use_bias"), ("internlm", "bias")])
def test_some_families_have_biases_unless_they_say_otherwise(model_type: str, flag: str) -> None:
    silent = parse_hf_config({"model_type": model_type, **SMALL})
    assert silent == parse_hf_config({"model_type": model_type, **SMALL, flag: True})
    assert silent["attention_bias"] is True


def test_a_layer_without_a_gate_and_with_norms_of_two_vectors() -> None:
    attention = 8 * (12 + 6 + 6) + 12 * 8
    layer = attention + 2 * 8 * 20 + 2 * 16
    counted = parse_hf_config({"model_type": "nemotron", **SMALL})
    assert counted["n_params"] == 2 * 50 * 8 + 3 * layer + 16


def test_falcons_norms_depend_on_how_its_parts_run() -> None:
    falcon = {"model_type": "falcon", **SMALL, "num_kv_heads": 1}
    shared = parse_hf_config({**falcon, "parallel_attn": True})["n_params"]
    norm = 3 * 2 * 8
    assert parse_hf_config({**falcon, "parallel_attn": False})["n_params"] == shared + norm
    new = {**falcon, "new_decoder_architecture": True}
    assert parse_hf_config(new)["n_params"] == shared + norm
    assert parse_hf_config({**new, "num_ln_in_parallel_attn": 1})["n_params"] == shared


@pytest.mark.parametrize(
    ("model_type", "field"),
    [
        ("chatglm", {"position_encoding_2d": True}),
        ("phi", {"qk_layernorm": True}),
        ("mpt", {"no_bias": False}),
        ("opt", {"word_embed_proj_dim": 4}),
        ("opt", {"layer_norm_elementwise_affine": False}),
        ("opt", {"do_layer_norm_before": False}),
        ("opt", {"_remove_final_layer_norm": True}),
    ],
)
def test_a_layout_that_is_not_known_is_not_counted(model_type: str, field: dict[str, Any]) -> None:
    assert "n_params" in parse_hf_config({"model_type": model_type, **SMALL})
    row = parse_hf_config({"model_type": model_type, **SMALL, **field})
    assert "n_params" not in row
    assert row["hidden_size"] == 8


@pytest.mark.parametrize("part", ["text_config", "llm_config", "language_config"])
def test_the_decoder_of_a_model_of_several_modalities_is_read(part: str) -> None:
    config = {"model_type": "vlm", "hidden_size": 99, part: {"model_type": "qwen2", **SMALL}}
    row = parse_hf_config(config)
    assert (row["model_type"], row["hidden_size"], row["attention_bias"]) == ("vlm", 8, True)
    assert check_hf_config(config) == []


def test_configurations_are_told_from_other_documents() -> None:
    assert all(is_hf_config(published.config) for published in PUBLISHED.values())
    others: list[Any] = [
        [],
        {},
        {"model_type": "llama"},
        {"num_hidden_layers": 2},
        {"model_type": 1},
    ]
    assert not any(is_hf_config(other) for other in others)


@pytest.mark.parametrize(
    ("column", "name"),
    [
        *(("n_layers", name) for name in ("num_hidden_layers", "n_layer", "num_layers")),
        *(("hidden_size", name) for name in ("hidden_size", "n_embd", "d_model")),
        *(("intermediate_size", name) for name in ("intermediate_size", "ffn_dim", "n_inner")),
        ("intermediate_size", "moe_intermediate_size"),
        *(("n_heads", name) for name in ("num_attention_heads", "n_head", "n_heads")),
        *(("n_kv_heads", name) for name in ("num_key_value_heads", "num_kv_heads", "n_head_kv")),
        *(("head_dim", name) for name in ("head_dim", "kv_channels")),
        *(("vocab_size", name) for name in ("vocab_size", "padded_vocab_size")),
        *(("max_positions", name) for name in ("n_positions", "seq_length", "model_max_length")),
        *(("n_experts", name) for name in ("num_local_experts", "n_routed_experts")),
        *(("n_experts_active", name) for name in ("num_experts_per_token", "moe_topk")),
    ],
)
def test_a_figure_is_found_under_each_of_its_names(column: str, name: str) -> None:
    others = {"hidden_size": 8, "num_attention_heads": 2}
    if column in ("hidden_size", "n_heads"):
        others = {}
    assert parse_hf_config({**others, name: 7})[column] == 7


def test_tied_embeddings_are_those_of_the_model_then_of_its_text_part() -> None:
    def tied(model: dict[str, bool], text: dict[str, bool]) -> bool:
        part = {"model_type": "qwen2", **SMALL, **text}
        row = parse_hf_config({"model_type": "vlm", "text_config": part, **model})
        return bool(row["tied_embeddings"])

    stated, denied = {"tie_word_embeddings": True}, {"tie_word_embeddings": False}
    assert tied(stated, denied)
    assert not tied(denied, stated)
    assert tied({}, stated)
    assert not tied({}, {})


def test_what_an_unlisted_family_says_of_its_biases_is_taken() -> None:
    for says in (True, False):
        row = parse_hf_config({"model_type": "newcomer", **SMALL, "attention_bias": says})
        assert row["attention_bias"] is says
    assert "attention_bias" not in parse_hf_config({"model_type": "newcomer", **SMALL})
    row = {"model_type": "newcomer", "attention_bias": True}
    assert format_hf_config(row) == row


@pytest.mark.parametrize("model_type", ["gpt2", "gpt_bigcode", "gptj", "bloom", "falcon", "mpt"])
def test_families_without_a_width_of_the_mlp_have_four_times_the_models(model_type: str) -> None:
    config = {"model_type": model_type, "hidden_size": 8}
    assert parse_hf_config(config)["intermediate_size"] == 32
    assert "intermediate_size" not in parse_hf_config({**config, "model_type": "newcomer"})


def test_mpt_says_how_many_times_the_models_width_its_mlp_has() -> None:
    config = {"model_type": "mpt", "d_model": 8, "expansion_ratio": 2}
    assert parse_hf_config(config)["intermediate_size"] == 16


@pytest.mark.parametrize(
    ("model_type", "name"),
    [
        ("gptj", "n_inner"), ("bloom", "n_inner"), ("opt", "ffn_dim"),
        ("llama", "intermediate_size"),
        ("falcon", "ffn_hidden_size"), ("chatglm", "ffn_hidden_size"),
    ],
)  # fmt: skip
def test_the_width_of_the_mlp_is_written_under_the_familys_name(model_type: str, name: str) -> None:
    config = format_hf_config({"model_type": model_type, "intermediate_size": 9})
    assert config == {"model_type": model_type, name: 9}


def test_a_mixture_without_its_active_experts_has_no_active_parameters() -> None:
    mixture = {"model_type": "mixtral", **SMALL, "num_local_experts": 4}
    mixture["num_experts_per_tok"] = None  # as JSON's null: not what the class has
    assert "n_active_params" not in parse_hf_config(mixture)
    dense = parse_hf_config({"model_type": "llama", **SMALL, "num_experts_per_tok": 2})
    assert "n_active_params" not in dense


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "t5", "d_model": 8, "num_layers": None, "vocab_size": 9},
        {"model_type": "t5", "d_model": 8, "num_layers": 2, "num_heads": 0, "vocab_size": 9},
        {"model_type": "whisper", "d_model": 8, "num_hidden_layers": 2, "vocab_size": 9},
        {"model_type": "llama", **SMALL, "num_hidden_layers": 10**15},
        {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", **SMALL},
         "vision_config": {"hidden_size": "8", "patch_size": 0}},
    ],
)  # fmt: skip
def test_what_cannot_be_counted_is_left_out_without_an_error(config: dict[str, Any]) -> None:
    assert "n_params" not in parse_hf_config(config)


@pytest.mark.parametrize(
    ("family", "field", "value"),
    [
        ("gemma4_text", "per_layer_config", "x"),
        ("gemma4_text", "per_layer_config", {"0": 1}),
        ("nemotron_h", "hybrid_override_pattern", 3),
        ("nemotron_h", "hybrid_override_pattern", "MXM"),
        ("kimi_linear", "linear_attn_config", [1]),
        ("bamba", "attn_layer_indices", {"a": 1}),
    ],
)
def test_fields_of_layers_that_are_none_end_in_no_traceback(
    family: str, field: str, value: Any
) -> None:
    config = {"model_type": family, **VARIED[family][0], field: value}
    assert parse_hf_config(config)["hidden_size"] == 32
    linear_modules(config)


def test_the_type_of_each_layer_decides_not_their_number() -> None:
    """As in transformers, which ignores the number of Nemotron-H's layers; else nothing is said."""
    config = {"model_type": "nemotron_h", **VARIED["nemotron_h"][0]}
    assert "n_params" in parse_hf_config(config)
    assert "n_params" not in parse_hf_config({**config, "num_hidden_layers": 7})
    without = {name: value for name, value in config.items() if "pattern" not in name}
    assert "n_params" not in parse_hf_config({**without, "num_hidden_layers": 4})
