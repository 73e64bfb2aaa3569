"""Figures of published ``config.json`` files, and the parameters of the published checkpoints."""

from __future__ import annotations

from typing import Any, NamedTuple


class Published(NamedTuple):
    """A configuration, the parameters of its checkpoint, and columns that are easily misread."""

    config: dict[str, Any]
    n_params: int | None
    columns: dict[str, Any]


def _llama(model_type: str, sizes: tuple[int, int, int, int, int], **more: Any) -> dict[str, Any]:
    """Return a configuration in llama's names; sizes are width, layers, heads, MLP, vocabulary."""
    hidden, layers, heads, middle, vocab = sizes
    return {
        "model_type": model_type, "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "intermediate_size": middle, "vocab_size": vocab,
        "max_position_embeddings": 4096, "hidden_act": "silu", **more,
    }  # fmt: skip


_SIGLIP: dict[str, Any] = {
    "model_type": "siglip_vision_model", "hidden_size": 1152, "image_size": 896,
    "intermediate_size": 4304, "num_attention_heads": 16, "num_hidden_layers": 27,
    "patch_size": 14, "vision_use_head": False,
}  # fmt: skip

_BERT: dict[str, Any] = {
    "model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "vocab_size": 30522,
}  # fmt: skip


def _qwen_eyes(out: int) -> dict[str, Any]:
    return {
        "model_type": "qwen3_5", "depth": 27, "hidden_size": 1152, "intermediate_size": 4304,
        "num_heads": 16, "in_channels": 3, "patch_size": 16, "spatial_merge_size": 2,
        "temporal_patch_size": 2, "out_hidden_size": out, "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [],
    }  # fmt: skip


def _qwen3_5(model_type: str, **sizes: Any) -> dict[str, Any]:
    return {
        "model_type": model_type, "head_dim": 256, "vocab_size": 248320,
        "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4, "full_attention_interval": 4, **sizes,
    }  # fmt: skip


_GEMMA4_EYES: dict[str, Any] = {
    "model_type": "gemma4_vision", "hidden_size": 1152, "intermediate_size": 4304,
    "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 72,
    "position_embedding_size": 10240, "patch_size": 16, "standardize": True,
}  # fmt: skip


def _gemma4(*, num_hidden_layers: int, **sizes: Any) -> dict[str, Any]:
    """Return the text part of a Gemma 4, every sixth of whose layers attends to all."""
    types = [*["sliding_attention"] * 5, "full_attention"] * (num_hidden_layers // 6)
    return {
        "model_type": "gemma4_text", "num_hidden_layers": num_hidden_layers, "head_dim": 256,
        "global_head_dim": 512, "vocab_size": 262144, "attention_k_eq_v": True,
        "hidden_size_per_layer_input": 0, "layer_types": types, **sizes,
    }  # fmt: skip


def _internvl(decoder: dict[str, Any], **tower: Any) -> dict[str, Any]:
    """Return a configuration of InternVL's own code."""
    small = {
        "model_type": "intern_vit_6b", "hidden_size": 1024, "image_size": 448,
        "intermediate_size": 4096, "norm_type": "layer_norm", "num_attention_heads": 16,
        "num_hidden_layers": 24, "patch_size": 14, "qk_normalization": False, "qkv_bias": True,
    }  # fmt: skip
    return {
        "model_type": "internvl_chat", "downsample_ratio": 0.5, "force_image_size": 448,
        "llm_config": decoder, "vision_config": {**small, **tower},
    }  # fmt: skip


PUBLISHED: dict[str, Published] = {
    "Llama-2-7b": Published(
        _llama("llama", (4096, 32, 32, 11008, 32000), tie_word_embeddings=False),
        6_738_415_616,
        {"n_kv_heads": 32, "head_dim": 128, "gated_mlp": True, "attention_bias": False},
    ),
    "Llama-3-8B": Published(
        _llama("llama", (4096, 32, 32, 14336, 128256), num_key_value_heads=8, attention_bias=False),
        8_030_261_248,
        {"n_kv_heads": 8, "tied_embeddings": False},
    ),
    "Llama-3.2-1B": Published(
        _llama("llama", (2048, 16, 32, 8192, 128256), num_key_value_heads=8, head_dim=64,
               tie_word_embeddings=True),
        1_235_814_400,
        {"tied_embeddings": True},
    ),
    "Mistral-7B-v0.1": Published(
        _llama("mistral", (4096, 32, 32, 14336, 32000), num_key_value_heads=8),
        7_241_732_096,
        {},
    ),
    "Mixtral-8x7B-v0.1": Published(
        _llama("mixtral", (4096, 32, 32, 14336, 32000), num_key_value_heads=8, num_local_experts=8,
               num_experts_per_tok=2),
        46_702_792_704,
        {"n_experts": 8, "n_experts_active": 2, "n_active_params": 12_879_925_248},
    ),
    "Qwen-7B": Published(
        {"model_type": "qwen", "hidden_size": 4096, "num_hidden_layers": 32,
         "num_attention_heads": 32, "intermediate_size": 22016, "vocab_size": 151936,
         "kv_channels": 128, "seq_length": 8192, "no_bias": True, "tie_word_embeddings": False},
        7_721_324_544,
        {"intermediate_size": 11008, "attention_bias": True, "max_positions": 8192},
    ),
    "Qwen2.5-0.5B": Published(
        _llama("qwen2", (896, 24, 14, 4864, 151936), num_key_value_heads=2,
               tie_word_embeddings=True),
        494_032_768,
        {"attention_bias": True, "head_dim": 64},
    ),
    "Qwen2.5-7B-Instruct-AWQ": Published(
        _llama("qwen2", (3584, 28, 28, 18944, 152064), num_key_value_heads=4,
               quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128}),
        7_615_616_512,  # the figures of the architecture, whatever the checkpoint packs
        {"tied_embeddings": False},
    ),
    "Qwen3-0.6B": Published(
        _llama("qwen3", (1024, 28, 16, 3072, 151936), num_key_value_heads=8, head_dim=128,
               tie_word_embeddings=True, attention_bias=False),
        596_049_920,
        {"head_dim": 128, "attention_bias": False},
    ),
    "Qwen3-30B-A3B": Published(
        _llama("qwen3_moe", (2048, 48, 32, 6144, 151936), num_key_value_heads=4, head_dim=128,
               moe_intermediate_size=768, num_experts=128, num_experts_per_tok=8,
               decoder_sparse_step=1, mlp_only_layers=[], tie_word_embeddings=False),
        30_532_122_624,
        {"intermediate_size": 768, "n_experts": 128, "n_active_params": 3_353_032_704},
    ),
    "Qwen1.5-MoE-A2.7B": Published(
        _llama("qwen2_moe", (2048, 24, 16, 5632, 151936), num_key_value_heads=16,
               moe_intermediate_size=1408, shared_expert_intermediate_size=5632, num_experts=60,
               num_experts_per_tok=4, tie_word_embeddings=False),
        14_315_784_192,
        {"intermediate_size": 1408, "n_experts_active": 4},
    ),
    "gemma-2b": Published(
        _llama("gemma", (2048, 18, 8, 16384, 256000), num_key_value_heads=1, head_dim=256,
               hidden_act="gelu"),
        2_506_172_416,
        {"n_kv_heads": 1, "head_dim": 256, "gated_mlp": True, "tied_embeddings": True},
    ),
    "gemma-2-9b": Published(
        _llama("gemma2", (3584, 42, 16, 14336, 256000), num_key_value_heads=8, head_dim=256,
               hidden_act="gelu_pytorch_tanh"),
        9_241_705_984,
        {"gated_mlp": True},
    ),
    "gemma-3-1b-pt": Published(
        _llama("gemma3_text", (1152, 26, 4, 6912, 262144), num_key_value_heads=1, head_dim=256),
        999_885_952,
        {"tied_embeddings": True},
    ),
    "gpt2": Published(
        {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
         "n_ctx": 1024, "vocab_size": 50257, "activation_function": "gelu_new", "n_inner": None},
        124_439_808,
        {"intermediate_size": 3072, "gated_mlp": False, "tied_embeddings": True,
         "max_positions": 1024, "attention_bias": True, "head_dim": 64},
    ),
    "gpt2-xl": Published(
        {"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024,
         "vocab_size": 50257},
        1_557_611_200,
        {},
    ),
    "gpt_bigcode-santacoder": Published(
        {"model_type": "gpt_bigcode", "n_embd": 2048, "n_layer": 24, "n_head": 16,
         "n_positions": 2048, "n_inner": 8192, "vocab_size": 49280, "multi_query": True},
        1_124_886_528,
        {"n_kv_heads": 1},
    ),
    "opt-1.3b": Published(
        {"model_type": "opt", "hidden_size": 2048, "num_hidden_layers": 24, "ffn_dim": 8192,
         "num_attention_heads": 32, "vocab_size": 50272, "max_position_embeddings": 2048,
         "word_embed_proj_dim": 2048, "activation_function": "relu"},
        1_315_758_080,
        {"intermediate_size": 8192, "gated_mlp": False, "tied_embeddings": True},
    ),
    "opt-350m": Published(  # projects its embeddings and has no last norm: not counted
        {"model_type": "opt", "hidden_size": 1024, "num_hidden_layers": 24, "ffn_dim": 4096,
         "num_attention_heads": 16, "vocab_size": 50272, "max_position_embeddings": 2048,
         "word_embed_proj_dim": 512},
        None,
        {"hidden_size": 1024},
    ),
    "bloom-7b1": Published(
        {"model_type": "bloom", "hidden_size": 4096, "n_layer": 30, "n_head": 32,
         "vocab_size": 250880, "seq_length": 2048},
        7_069_016_064,
        {"intermediate_size": 16384, "gated_mlp": False, "max_positions": 2048},
    ),
    "bloom-7b1 in its own words": Published(
        {"model_type": "bloom", "n_embed": 4096, "n_layer": 30, "num_attention_heads": 32,
         "vocab_size": 250880},
        7_069_016_064,
        {"hidden_size": 4096, "intermediate_size": 16384},
    ),
    "bloom": Published(
        {"model_type": "bloom", "n_embed": 14336, "hidden_size": 14336, "n_layer": 70,
         "num_attention_heads": 112, "vocab_size": 250880, "seq_length": 2048},
        176_247_271_424,
        {"n_heads": 112},
    ),
    "falcon-7b": Published(
        {"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32,
         "num_attention_heads": 71, "vocab_size": 65024, "multi_query": True,
         "parallel_attn": True, "bias": False, "new_decoder_architecture": False, "alibi": False},
        6_921_720_704,
        {"n_kv_heads": 1, "head_dim": 64, "intermediate_size": 18176, "gated_mlp": False},
    ),
    "falcon-40b": Published(
        {"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60,
         "num_attention_heads": 128, "num_kv_heads": 8, "vocab_size": 65024, "bias": False,
         "new_decoder_architecture": True, "parallel_attn": True},
        41_303_293_952,
        {"n_kv_heads": 8},
    ),
    "falcon-rw-1b": Published(
        {"model_type": "falcon", "hidden_size": 2048, "num_hidden_layers": 24,
         "num_attention_heads": 32, "vocab_size": 50304, "bias": True, "parallel_attn": False,
         "multi_query": False, "alibi": True, "new_decoder_architecture": False},
        1_311_625_216,
        {"n_kv_heads": 32, "attention_bias": True},
    ),
    "OLMo-2-1124-7B": Published(
        _llama("olmo2", (4096, 32, 32, 11008, 100352), attention_bias=False),
        7_298_617_344,
        {"tied_embeddings": False},
    ),
    "c4ai-command-r-v01": Published(
        _llama("cohere", (8192, 40, 64, 22528, 256000), use_qk_norm=False),
        34_980_831_232,
        {"tied_embeddings": True},
    ),
    "pythia-160m": Published(
        {"model_type": "gpt_neox", "hidden_size": 768, "num_hidden_layers": 12,
         "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 50304,
         "max_position_embeddings": 2048, "hidden_act": "gelu", "tie_word_embeddings": False},
        162_322_944,
        {"gated_mlp": False, "attention_bias": True},
    ),
    "gpt-neox-20b": Published(
        {"model_type": "gpt_neox", "hidden_size": 6144, "num_hidden_layers": 44,
         "num_attention_heads": 64, "intermediate_size": 24576, "vocab_size": 50432,
         "max_position_embeddings": 2048},
        20_554_567_680,
        {"tied_embeddings": False},
    ),
    "gpt-j-6b": Published(
        {"model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16, "n_inner": None,
         "n_positions": 2048, "vocab_size": 50400, "tie_word_embeddings": False},
        6_050_882_784,
        {"head_dim": 256, "attention_bias": False},
    ),
    "phi-2": Published(
        {"model_type": "phi", "hidden_size": 2560, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 10240,
         "vocab_size": 51200, "hidden_act": "gelu_new", "qk_layernorm": False},
        2_779_683_840,
        {"gated_mlp": False},
    ),
    "Phi-3-mini-4k-instruct": Published(
        _llama("phi3", (3072, 32, 32, 8192, 32064), num_key_value_heads=32),
        3_821_079_552,
        {"head_dim": 96},
    ),
    "starcoder2-3b": Published(
        {"model_type": "starcoder2", "hidden_size": 3072, "num_hidden_layers": 30,
         "num_attention_heads": 24, "num_key_value_heads": 2, "intermediate_size": 12288,
         "vocab_size": 49152, "use_bias": True, "hidden_act": "gelu_pytorch_tanh"},
        3_030_371_328,
        {"gated_mlp": False, "attention_bias": True},
    ),
    "mpt-7b": Published(
        {"model_type": "mpt", "d_model": 4096, "n_layers": 32, "n_heads": 32,
         "expansion_ratio": 4, "vocab_size": 50432, "max_seq_len": 2048, "no_bias": True},
        6_649_286_656,
        {"intermediate_size": 16384, "max_positions": 2048},
    ),
    "chatglm3-6b": Published(
        {"model_type": "chatglm", "hidden_size": 4096, "num_layers": 28,
         "num_attention_heads": 32, "multi_query_attention": True, "multi_query_group_num": 2,
         "kv_channels": 128, "ffn_hidden_size": 13696, "padded_vocab_size": 65024,
         "seq_length": 8192, "add_qkv_bias": True, "add_bias_linear": False,
         "tie_word_embeddings": False},
        6_243_584_000,
        {"n_kv_heads": 2, "attention_bias": True, "gated_mlp": True, "vocab_size": 65024},
    ),
    "chatglm-6b": Published(  # the first generation has another layout: not counted
        {"model_type": "chatglm", "hidden_size": 4096, "num_layers": 28,
         "num_attention_heads": 32, "inner_hidden_size": 16384, "vocab_size": 130528,
         "max_sequence_length": 2048, "position_encoding_2d": True},
        None,
        {"intermediate_size": 16384},
    ),
    "Baichuan2-7B-Base": Published(
        _llama("baichuan", (4096, 32, 32, 11008, 125696), tie_word_embeddings=False),
        7_505_973_248,
        {"attention_bias": False},
    ),
    "internlm2-7b": Published(
        _llama("internlm2", (4096, 32, 32, 14336, 92544), num_key_value_heads=8, bias=False),
        7_737_708_544,
        {},
    ),
    "stablelm-3b-4e1t": Published(
        _llama("stablelm", (2560, 32, 32, 6912, 50304), num_key_value_heads=32, use_qkv_bias=False),
        2_795_443_200,
        {"attention_bias": False},
    ),
    "OLMo-7B-hf": Published(
        _llama("olmo", (4096, 32, 32, 11008, 50304), num_key_value_heads=32),
        6_888_095_744,
        {},
    ),
    "OLMoE-1B-7B-0924": Published(
        _llama("olmoe", (2048, 16, 16, 1024, 50304), num_key_value_heads=16, num_experts=64,
               num_experts_per_tok=8),
        6_919_161_856,
        {"n_experts": 64},
    ),
    "granite-3.0-3b-a800m-instruct": Published(
        _llama("granitemoe", (1536, 32, 24, 512, 49155), num_key_value_heads=8,
               num_local_experts=40, num_experts_per_tok=8, tie_word_embeddings=True),
        3_298_793_472,
        {"n_active_params": 882_874_368},
    ),
    "DeepSeek-V3": Published(  # without the layer that predicts a second token
        _llama("deepseek_v3", (7168, 61, 128, 18432, 129280), num_key_value_heads=128,
               moe_intermediate_size=2048, n_routed_experts=256, num_experts_per_tok=8,
               n_shared_experts=1, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64,
               v_head_dim=128, tie_word_embeddings=False),
        671_026_404_352,
        {"intermediate_size": 2048, "n_experts": 256, "head_dim": 192, "gated_mlp": True},
    ),
    "DeepSeek-V2-Lite": Published(  # its queries are not narrowed
        _llama("deepseek_v2", (2048, 27, 16, 10944, 102400), num_key_value_heads=16,
               moe_intermediate_size=1408, n_routed_experts=64, num_experts_per_tok=6,
               n_shared_experts=2, first_k_dense_replace=1, kv_lora_rank=512, q_lora_rank=None,
               qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128),
        15_706_484_224,
        {"n_experts_active": 6, "intermediate_size": 1408},
    ),
    "Kimi-K2-Instruct": Published(  # DeepSeek-V3's layout under a name of its own
        _llama("kimi_k2", (7168, 61, 64, 18432, 163840), num_key_value_heads=64,
               first_k_dense_replace=1, moe_intermediate_size=2048, n_routed_experts=384,
               num_experts_per_tok=8, n_shared_experts=1, q_lora_rank=1536, kv_lora_rank=512,
               qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
               tie_word_embeddings=False),
        1_026_408_209_408,
        {"n_active_params": 32_861_477_888},
    ),
    "dots.llm1": Published(
        _llama("dots1", (4096, 62, 32, 10944, 152064), num_key_value_heads=32,
               moe_intermediate_size=1408, n_routed_experts=128, num_experts_per_tok=6,
               n_shared_experts=2, first_k_dense_replace=1, tie_word_embeddings=False),
        142_774_373_888,
        {"n_active_params": 14_016_581_120},
    ),
    "Ling-lite": Published(  # 16.8 B and 2.75 B by its card
        _llama("bailing_moe", (2048, 28, 16, 1408, 126464), num_key_value_heads=4,
               moe_intermediate_size=1408, num_experts=64, num_experts_per_tok=6,
               num_shared_experts=2, first_k_dense_replace=0, use_bias=False, use_qkv_bias=False,
               tie_word_embeddings=False),
        16_801_974_272,
        {"n_active_params": 2_753_153_024},
    ),
    "Ling-mini-2.0": Published(  # 16 B and 1.4 B by its card
        _llama("bailing_moe", (2048, 20, 16, 5120, 157184), num_key_value_heads=4, head_dim=128,
               moe_intermediate_size=512, num_experts=256, num_experts_per_tok=8,
               num_shared_experts=1, first_k_dense_replace=1, use_bias=False, use_qkv_bias=False,
               use_qk_norm=True, tie_word_embeddings=False),
        16_255_638_528,
        {"n_active_params": 1_432_968_192},
    ),
    "InternVL2-8B": Published(  # 8.08 B by its card
        _internvl(
            _llama("internlm2", (4096, 32, 32, 14336, 92553), num_key_value_heads=8, bias=False,
                   tie_word_embeddings=False)
        ),
        8_075_365_376,
        {"hidden_size": 4096},
    ),
    "InternVL3-8B": Published(  # 7.94 B by its card
        _internvl(
            _llama("qwen2", (3584, 28, 28, 18944, 151674), num_key_value_heads=4,
                   tie_word_embeddings=False)
        ),
        7_944_373_760,
        {"model_type": "internvl_chat", "vocab_size": 151674},
    ),
    "InternVL3-78B": Published(  # 78.4 B by its card
        _internvl(
            _llama("qwen2", (8192, 80, 64, 29568, 151674), num_key_value_heads=8,
                   tie_word_embeddings=False),
            hidden_size=3200, intermediate_size=12800, num_attention_heads=25, num_hidden_layers=45,
            norm_type="rms_norm", qk_normalization=True, qkv_bias=False,
        ),
        78_408_318_336,
        {"n_layers": 80},
    ),
    "Kimi-K2.5": Published(
        {"model_type": "kimi_k25", "tie_word_embeddings": False,
         "text_config": _llama(
             "kimi_k2", (7168, 61, 64, 18432, 163840), num_key_value_heads=64,
             first_k_dense_replace=1, moe_intermediate_size=2048, n_routed_experts=384,
             num_experts_per_tok=8, n_shared_experts=1, q_lora_rank=1536, kv_lora_rank=512,
             qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, tie_word_embeddings=False),
         "vision_config": {
             "init_pos_emb_height": 64, "init_pos_emb_width": 64, "merge_kernel_size": [2, 2],
             "mm_hidden_size": 1152, "patch_size": 14, "text_hidden_size": 7168,
             "vt_hidden_size": 1152, "vt_intermediate_size": 4304, "vt_num_attention_heads": 16,
             "vt_num_hidden_layers": 27}},
        1_026_879_353_328,
        {"n_active_params": 33_332_621_808},
    ),
    "EXAONE-4.5-33B": Published(  # its decoder has a type that transformers does not
        {"model_type": "exaone4_5", "tie_word_embeddings": False,
         "text_config": _llama("exaone4_5_text", (5120, 64, 40, 27392, 153600),
                               num_key_value_heads=8),
         "vision_config": {
             "model_type": "exaone4_5_vision", "depth": 28, "hidden_size": 2048, "in_channels": 3,
             "intermediate_size": 5120, "num_heads": 32, "num_key_value_heads": 8,
             "out_hidden_size": 5120, "patch_size": 14, "spatial_merge_size": 2,
             "temporal_patch_size": 2}},
        33_813_987_328,
        {"tied_embeddings": False},
    ),
    "Llama-3.2-11B-Vision": Published(
        {"model_type": "mllama",
         "text_config": _llama(
             "mllama_text_model", (4096, 40, 32, 14336, 128256), num_key_value_heads=8,
             cross_attention_layers=[3, 8, 13, 18, 23, 28, 33, 38], tie_word_embeddings=False),
         "vision_config": {
             "model_type": "mllama_vision_model", "attention_heads": 16, "hidden_size": 1280,
             "image_size": 560, "intermediate_size": 5120, "max_num_tiles": 4, "patch_size": 14,
             "intermediate_layers_indices": [3, 7, 15, 23, 30], "num_global_layers": 8,
             "num_hidden_layers": 32, "vision_output_dim": 7680}},
        10_670_220_835,
        {"vocab_size": 128256, "n_layers": 40},
    ),
    "gpt-oss-20b": Published(
        _llama("gpt_oss", (2880, 24, 64, 2880, 201088), num_key_value_heads=8, head_dim=64,
               num_local_experts=32, num_experts_per_tok=4),
        20_914_757_184,
        {"n_experts": 32, "attention_bias": True},
    ),
    "llava-1.5-7b-hf": Published(
        {"model_type": "llava", "tie_word_embeddings": False,
         "text_config": _llama("llama", (4096, 32, 32, 11008, 32064)),
         "vision_config": {
             "model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336,
             "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24,
             "patch_size": 14, "projection_dim": 768}},
        7_063_427_072,
        {"hidden_size": 4096, "vocab_size": 32064, "model_type": "llava", "gated_mlp": True},
    ),
    "gemma-3-4b-pt": Published(  # as published: what the class has by itself is left out
        {"model_type": "gemma3",
         "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
                         "model_type": "gemma3_text", "num_hidden_layers": 34},
         "vision_config": _SIGLIP},
        4_300_079_472,
        {"n_heads": 8, "n_kv_heads": 4, "head_dim": 256, "vocab_size": 262208},
    ),
    "gemma-3-27b-pt": Published(
        {"model_type": "gemma3",
         "text_config": {"hidden_size": 5376, "intermediate_size": 21504, "head_dim": 128,
                         "model_type": "gemma3_text", "num_hidden_layers": 62,
                         "num_attention_heads": 32, "num_key_value_heads": 16},
         "vision_config": _SIGLIP},
        27_432_406_640,
        {"n_heads": 32, "tied_embeddings": True},
    ),
    "Qwen2-VL-7B": Published(  # the text's fields stand beside the tower's
        _llama("qwen2_vl", (3584, 28, 28, 18944, 152064), num_key_value_heads=4,
               tie_word_embeddings=False,
               vision_config={
                   "depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16,
                   "in_chans": 3, "hidden_size": 3584, "patch_size": 14,
                   "spatial_merge_size": 2, "temporal_patch_size": 2}),
        8_291_375_616,
        {"hidden_size": 3584, "attention_bias": True},
    ),
    "Qwen2.5-VL-7B": Published(
        _llama("qwen2_5_vl", (3584, 28, 28, 18944, 152064), num_key_value_heads=4,
               tie_word_embeddings=False,
               vision_config={
                   "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
                   "in_chans": 3, "out_hidden_size": 3584, "patch_size": 14,
                   "spatial_merge_size": 2, "temporal_patch_size": 2}),
        8_292_166_656,
        {"hidden_size": 3584},
    ),
    "Mistral-Small-3.1-24B": Published(
        {"model_type": "mistral3", "tie_word_embeddings": False,
         "text_config": _llama("mistral", (5120, 40, 32, 32768, 131072), head_dim=128,
                               num_key_value_heads=8, tie_word_embeddings=False),
         "vision_config": {
             "model_type": "pixtral", "hidden_size": 1024, "image_size": 1540, "head_dim": 64,
             "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24,
             "patch_size": 14}},
        24_011_361_280,
        {"head_dim": 128},
    ),
    "flan-t5-xl": Published(
        {"model_type": "t5", "d_model": 2048, "d_ff": 5120, "d_kv": 64, "num_heads": 32,
         "num_layers": 24, "num_decoder_layers": 24, "vocab_size": 32128,
         "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        2_849_757_184,
        {"n_layers": 48, "n_heads": 32},
    ),
    "whisper-large-v3": Published(
        {"model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32,
         "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "encoder_attention_heads": 20,
         "decoder_attention_heads": 20, "num_mel_bins": 128, "vocab_size": 51866},
        1_543_490_560,
        {"n_layers": 64},
    ),
    "deepseek-moe-16b-base": Published(
        _llama("deepseek", (2048, 28, 16, 10944, 102400), num_key_value_heads=16,
               n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6,
               moe_intermediate_size=1408, first_k_dense_replace=1, moe_layer_freq=1,
               tie_word_embeddings=False),
        16_375_728_128,
        {"n_experts": 64, "n_active_params": 2_828_650_496},
    ),
    "EXAONE-3.5-7.8B-Instruct": Published(
        {"model_type": "exaone", "hidden_size": 4096, "intermediate_size": 14336, "num_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 102400,
         "activation_function": "silu", "tie_word_embeddings": False},
        7_818_448_896,
        {"n_kv_heads": 8, "gated_mlp": True},
    ),
    "XVERSE-13B": Published(
        _llama("xverse", (5120, 40, 40, 13824, 100278), tie_word_embeddings=False),
        13_715_031_040,
        {},
    ),
    "c4ai-command-r-plus": Published(  # queries and keys of each head are normed
        _llama("cohere", (12288, 64, 96, 33792, 256000), num_key_value_heads=8, use_qk_norm=True),
        103_810_674_688,
        {"tied_embeddings": True},
    ),
    "falcon-mamba-7b": Published(  # ``expand`` is not that of its width
        {"model_type": "falcon_mamba", "hidden_size": 4096, "num_hidden_layers": 64, "expand": 16,
         "intermediate_size": 8192, "state_size": 16, "conv_kernel": 4, "time_step_rank": 256,
         "vocab_size": 65024, "tie_word_embeddings": False},
        7_272_665_088,
        {"intermediate_size": 8192},
    ),
    "pixtral-12b": Published(  # LLaVA's class with another tower
        {"model_type": "llava", "tie_word_embeddings": False,
         "text_config": _llama("mistral", (5120, 40, 32, 14336, 131072), num_key_value_heads=8,
                               head_dim=128),
         "vision_config": {
             "model_type": "pixtral", "hidden_size": 1024, "image_size": 1024, "head_dim": 64,
             "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24,
             "patch_size": 16}},
        12_682_739_712,
        {"head_dim": 128},
    ),
    "LLaVA with SigLIP": Published(
        {"model_type": "llava", "tie_word_embeddings": False,
         "text_config": _llama("mistral", (5120, 40, 32, 14336, 131072), num_key_value_heads=8,
                               head_dim=128),
         "vision_config": {**_SIGLIP, "image_size": 384}},
        12_692_892_528,
        {},
    ),
    "LLaVA with a tower that is not known": Published(
        {"model_type": "llava", "tie_word_embeddings": False,
         "text_config": _llama("mistral", (5120, 40, 32, 14336, 131072)),
         "vision_config": {"model_type": "dinov2", "hidden_size": 1024, "num_hidden_layers": 24}},
        None,
        {"hidden_size": 5120},
    ),
    "GLM-4.7-Flash cut to five layers": Published(  # the list is of all that there were
        _llama("glm4_moe_lite", (2048, 5, 20, 10240, 154880), num_key_value_heads=20,
               mlp_layer_types=["dense"] + ["sparse"] * 46),
        3_260_313_856,
        {"n_active_params": 995_389_696},
    ),
    "BERT with an output layer of its own": Published(
        {**_BERT, "tie_word_embeddings": False},
        132_985_716,
        {"gated_mlp": False},
    ),
    "ALBERT with three groups of two layers": Published(
        {**_BERT, "model_type": "albert", "embedding_size": 128, "vocab_size": 30000,
         "num_hidden_groups": 3, "inner_group_num": 2, "tie_word_embeddings": False},
        50_531_040,
        {"gated_mlp": False},
    ),
    "Hunyuan-A13B-Instruct": Published(  # a value for each layer
        _llama("hunyuan_v1_moe", (4096, 32, 32, 3072, 128167), num_key_value_heads=8,
               moe_intermediate_size=[3072] * 32, moe_topk=[8] * 32, num_experts=64),
        80_918_155_264,
        {"intermediate_size": 3072, "n_experts_active": 8},
    ),
    "MiniCPM3-4B": Published(  # values as wide as the hidden size over the heads
        _llama("minicpm3", (2560, 62, 40, 6400, 73448), q_lora_rank=768, kv_lora_rank=256,
               qk_nope_head_dim=64, qk_rope_head_dim=32, tie_word_embeddings=True),
        4_073_875_968,
        {"head_dim": 96},
    ),
    "dbrx-base": Published(  # attention and MLP have parts of their own
        {"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40,
         "max_seq_len": 32768, "vocab_size": 100352, "attn_config": {"kv_n_heads": 8},
         "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}},
        131_596_523_520,
        {"n_kv_heads": 8, "intermediate_size": 10752, "n_active_params": 36_469_708_800},
    ),
    "MiMo-7B-Base": Published(
        _llama("mimo", (4096, 36, 32, 11008, 151680), num_key_value_heads=8),
        7_622_619_136,
        {"gated_mlp": True},
    ),
    # counted by the banners of Unsloth's notebooks, less the adapters: see the catalogue
    "Qwen3.5-27B": Published(
        {"model_type": "qwen3_5", "tie_word_embeddings": False, "vision_config": _qwen_eyes(5120),
         "text_config": _qwen3_5("qwen3_5_text", hidden_size=5120, num_hidden_layers=64,
                                 num_attention_heads=24, num_key_value_heads=4,
                                 intermediate_size=17408, linear_num_value_heads=48)},
        27_356_728_560,
        {"n_layers": 64, "head_dim": 256, "n_kv_heads": 4},
    ),
    "Qwen3.5-35B-A3B": Published(
        {"model_type": "qwen3_5_moe", "tie_word_embeddings": False,
         "vision_config": _qwen_eyes(2048),
         "text_config": _qwen3_5("qwen3_5_moe_text", hidden_size=2048, num_hidden_layers=40,
                                 num_attention_heads=16, num_key_value_heads=2,
                                 moe_intermediate_size=512, shared_expert_intermediate_size=512,
                                 num_experts=256, num_experts_per_tok=8,
                                 linear_num_value_heads=32)},
        35_107_181_936,
        {"n_active_params": 3_901_560_176, "intermediate_size": 512},
    ),
    "gemma-4-31B": Published(
        {"model_type": "gemma4", "tie_word_embeddings": True, "audio_config": None,
         "vision_config": _GEMMA4_EYES,
         "text_config": _gemma4(hidden_size=5376, num_hidden_layers=60, num_attention_heads=32,
                                num_key_value_heads=16, num_global_key_value_heads=4,
                                intermediate_size=21504)},
        31_273_086_512,
        {"head_dim": 256, "n_kv_heads": 16},
    ),
    "gemma-4-26B-A4B": Published(
        {"model_type": "gemma4", "tie_word_embeddings": True, "audio_config": None,
         "vision_config": _GEMMA4_EYES,
         "text_config": _gemma4(hidden_size=2816, num_hidden_layers=30, num_attention_heads=16,
                                num_key_value_heads=8, num_global_key_value_heads=2,
                                intermediate_size=2112, moe_intermediate_size=704,
                                num_experts=128, top_k_experts=8, enable_moe_block=True)},
        25_805_933_872,
        {"n_active_params": 4_395_322_672, "n_experts": 128, "intermediate_size": 704},
    ),
    "Nemotron-3-Nano-30B-A3B": Published(
        {"model_type": "nemotron_h", "hidden_size": 2688, "num_hidden_layers": 52,
         "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
         "intermediate_size": 1856, "moe_intermediate_size": 1856,
         "moe_shared_expert_intermediate_size": 3712, "n_routed_experts": 128,
         "num_experts_per_tok": 6, "vocab_size": 131072, "mamba_num_heads": 64,
         "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4,
         "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"},
        31_577_937_344,
        {"n_active_params": 3_580_073_408, "gated_mlp": False},
    ),
    "Nemotron-H-8B-Base-8K": Published(  # the activation of the MLP says that it has no gate
        {"model_type": "nemotron_h", "hidden_size": 4096, "num_hidden_layers": 52,
         "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 21504,
         "mlp_hidden_act": "relu2", "vocab_size": 131072},
        None,
        {"gated_mlp": False},
    ),
    "Nemotron-H by transformers 5": Published(  # a name for each layer, and no number of them
        {"model_type": "nemotron_h", "hidden_size": 4096, "intermediate_size": 21504,
         "layers_block_type": ["linear_attention", "mlp", "full_attention"]},
        1_401_497_984,
        {"n_layers": 3},
    ),
    "a family that is not listed": Published(
        _llama("newcomer", (1024, 8, 8, 2048, 32000), num_key_value_heads=2),
        None,
        {"gated_mlp": True, "n_kv_heads": 2},
    ),
}  # fmt: skip
