"""Small configurations that vary what the current families may vary, by ``model_type``."""

from __future__ import annotations

from typing import Any, Final

Row = dict[str, Any]

PLAIN: Final[Row] = {
    "hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 40, "vocab_size": 70, "pad_token_id": 0,
}  # fmt: skip
HEADS: Final[Row] = {**PLAIN, "head_dim": 8}
LONG: Final[Row] = {**HEADS, "num_hidden_layers": 12}
BIASED: Final[Row] = {"attention_bias": True}
DELTA: Final[Row] = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 6,
    "linear_value_head_dim": 10,
}  # fmt: skip
MIXTURE: Final[Row] = {
    "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
    "shared_expert_intermediate_size": 18,
}  # fmt: skip
ROUTED: Final[Row] = {
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12,
    "n_shared_experts": 1,
}  # fmt: skip
KV_LATENT: Final[Row] = {
    "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 10,
}  # fmt: skip
LATENT: Final[Row] = {**KV_LATENT, "q_lora_rank": 12}
INDEXED: Final[Row] = {**PLAIN, **LATENT, **ROUTED, "index_head_dim": 8, "index_n_heads": 3}
KIMI: Final[Row] = {"num_experts": 4, "num_experts_per_token": 2, "moe_intermediate_size": 12}
MAMBA: Final[Row] = {
    "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 6,
}  # fmt: skip
LOOKED_UP: Final[Row] = {"vocab_size_per_layer_input": 60, "hidden_size_per_layer_input": 8}
GEMMA_MIXTURE: Final[Row] = {
    **HEADS, "hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": 4,
    "top_k_experts": 2, "moe_intermediate_size": 12,
}  # fmt: skip
ONE_FOR_BOTH: Final[Row] = {
    "global_head_dim": 16, "attention_k_eq_v": True, "num_global_key_value_heads": 1,
}  # fmt: skip
LLAMA4: Final[Row] = {**HEADS, "num_local_experts": 4, "intermediate_size_mlp": 50}
NEMOTRON: Final[Row] = {
    "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "intermediate_size": 40, "vocab_size": 70, "mamba_num_heads": 6, "mamba_head_dim": 4,
    "n_groups": 2, "ssm_state_size": 5, "moe_intermediate_size": 12, "n_routed_experts": 4,
    "moe_shared_expert_intermediate_size": 14,
}  # fmt: skip
MIMO: Final[Row] = {
    **HEADS, "v_head_dim": 6, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 12,
}  # fmt: skip
CONVOLVED: Final[Row] = {**PLAIN, "layer_types": ["conv", "full_attention"] * 3}

EYES: Final[Row] = {
    "depth": 2, "hidden_size": 16, "num_heads": 4, "intermediate_size": 20, "out_hidden_size": 32,
}  # fmt: skip
VIT: Final[Row] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 20,
}  # fmt: skip
SIGLIP: Final[Row] = {
    **VIT, "model_type": "siglip_vision_model", "image_size": 28, "patch_size": 14,
}  # fmt: skip
HEADLESS: Final[Row] = {**SIGLIP, "vision_use_head": False}
LLAMA3_EYES: Final[Row] = {
    "hidden_size": 16, "num_hidden_layers": 3, "num_global_layers": 2, "attention_heads": 4,
    "intermediate_size": 20, "image_size": 28, "patch_size": 14, "max_num_tiles": 4,
    "intermediate_layers_indices": [0, 2], "vision_output_dim": 48,
}  # fmt: skip
MOON_EYES: Final[Row] = {
    **VIT, "pos_emb_height": 6, "pos_emb_width": 5, "merge_kernel_size": [2, 2],
}  # fmt: skip
LLAMA4_EYES: Final[Row] = {
    **VIT, "intermediate_size": 64, "vision_output_dim": 20, "image_size": 28,
    "projector_input_dim": 20, "projector_output_dim": 20,
}  # fmt: skip
GEMMA_EYES: Final[Row] = {
    **VIT, "num_key_value_heads": 2, "head_dim": 6, "position_embedding_size": 50,
}  # fmt: skip
GEMMA_EARS: Final[Row] = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "output_proj_dims": 24,
    "conv_kernel_size": 3, "subsampling_conv_channels": [8, 4],
}  # fmt: skip
OMNI_EARS: Final[Row] = {
    "d_model": 16, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 20,
    "num_mel_bins": 10, "output_dim": 32,
}  # fmt: skip


def _qwen(**more: Any) -> Row:
    return {**HEADS, **DELTA, **more}


def _sees(eyes: Row, text: Row, **more: Any) -> Row:
    return {"vision_config": eyes, "text_config": text, **more}


def _of(kind: str, **more: Any) -> Row:
    return {**PLAIN, "model_type": kind, **more}


TIED: Final[Row] = {"tie_word_embeddings": True}
UNTIED: Final[Row] = {"tie_word_embeddings": False}
ALTERNATING: Final = ["sliding_attention", "full_attention"]
LINEAR: Final = ["linear_attention", "full_attention"]

VARIED: Final[dict[str, list[Row]]] = {
    "qwen3_next": [_qwen(**MIXTURE, **BIASED)],
    "qwen3_5_text": [
        _qwen(), _qwen(**BIASED, **TIED, layer_types=LINEAR * 3), _qwen(full_attention_interval=2),
    ],
    "qwen3_5_moe_text": [
        _qwen(**MIXTURE), _qwen(**MIXTURE, **BIASED, **TIED, layer_types=["full_attention"] * 6),
    ],
    "qwen3_5": [
        _sees(EYES, _qwen()),
        _sees({**EYES, "patch_size": 8, "spatial_merge_size": 3}, _qwen(**BIASED), **TIED),
    ],
    "qwen3_5_moe": [
        _sees(EYES, _qwen(**MIXTURE)),
        _sees(EYES, _qwen(**MIXTURE, full_attention_interval=3), **TIED),
    ],
    "gemma4_text": [
        {**HEADS, **LOOKED_UP}, {**HEADS, **LOOKED_UP, **ONE_FOR_BOTH, **BIASED}, GEMMA_MIXTURE,
        {**LONG, **LOOKED_UP, "num_kv_shared_layers": 4, "use_double_wide_mlp": True, **UNTIED,
         "layer_types": ALTERNATING * 6},
        {**HEADS, **LOOKED_UP, "num_experts": 4, "top_k_experts": 2},  # and no block of them
    ],
    "gemma4": [
        _sees(GEMMA_EYES, {**HEADS, **LOOKED_UP}),
        _sees({**GEMMA_EYES, "standardize": True, "use_clipped_linears": True}, GEMMA_MIXTURE),
        _sees(GEMMA_EYES, {**HEADS, **LOOKED_UP}, audio_config=GEMMA_EARS),
        {"text_config": {**HEADS, **LOOKED_UP}, "audio_config": GEMMA_EARS, **UNTIED},
    ],
    "gemma4_unified_text": [
        {**HEADS, **ONE_FOR_BOTH},
        {**LONG, "num_kv_shared_layers": 4, "use_double_wide_mlp": True, **UNTIED,
         "layer_types": ALTERNATING * 6},
    ],
    "gemma4_unified": [
        _sees({"patch_size": 4, "mm_embed_dim": 20, "mm_posemb_size": 9, "output_proj_dims": 20},
              HEADS),
        _sees({"patch_size": 4}, HEADS, audio_config={"audio_embed_dim": 30}, **UNTIED),
    ],
    "llama4_text": [
        {**LLAMA4, **BIASED}, {**LLAMA4, "interleave_moe_layer_step": 2, **TIED},
    ],
    "llama4": [
        _sees(LLAMA4_EYES, LLAMA4),
        _sees({**LLAMA4_EYES, "image_size": 56}, {**LLAMA4, "moe_layers": [1, 3]}, **TIED),
    ],
    "glm4v": [
        _sees(EYES, PLAIN), _sees(EYES, {**PLAIN, **TIED}),
        _sees({**EYES, **BIASED, "patch_size": 7, "spatial_merge_size": 3}, PLAIN, **TIED),
    ],
    "glm46v": [_sees(EYES, PLAIN), _sees({**EYES, **BIASED, "image_size": 28}, PLAIN, **TIED)],
    "glm4v_moe": [
        _sees(EYES, {**PLAIN, **ROUTED}),
        _sees(EYES, {**HEADS, **ROUTED, "attention_bias": False, "first_k_dense_replace": 2},
              **TIED),
    ],
    "mllama": [
        _sees(LLAMA3_EYES, {**PLAIN, "cross_attention_layers": [1, 4]}, **UNTIED),
        _sees({**LLAMA3_EYES, "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]],
               "max_num_tiles": 2}, {**PLAIN, "cross_attention_layers": [3]}, **UNTIED),
    ],
    "kimi_k25": [
        _sees(MOON_EYES, {**_of("deepseek_v3"), **LATENT, **ROUTED}, projection_hidden_size=16),
        _sees({**MOON_EYES, "merge_kernel_size": [2, 3]},
              {**_of("deepseek_v3"), **LATENT, **ROUTED, "first_k_dense_replace": 1},
              projection_hidden_size=20, **TIED),
    ],
    "helium": [{**HEADS, "num_attention_heads": 4, **BIASED, "mlp_bias": True}],
    "deepseek_v2": [{**PLAIN, **LATENT, **ROUTED, "first_k_dense_replace": 2, "mlp_bias": True}],
    "minicpm3": [{**PLAIN, **LATENT, "mlp_bias": True}],
    "ernie4_5_moe": [
        {**HEADS, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 12,
         "moe_num_shared_experts": 1, "use_bias": True, **UNTIED},
    ],
    "qwen2_moe": [{**PLAIN, **MIXTURE, "qkv_bias": False}],
    "stablelm": [{**PLAIN, "use_parallel_residual": True}],
    "opt": [
        {"hidden_size": 32, "word_embed_proj_dim": 32, "num_hidden_layers": 3, "ffn_dim": 40,
         "num_attention_heads": 4, "vocab_size": 70, "enable_bias": False},
    ],
    "gpt_neox": [
        {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 70,
         "intermediate_size": 40, "attention_bias": False},
    ],
    "ernie": [{**PLAIN, "use_task_id": True, "task_type_vocab_size": 3}],
    "dots1": [
        {**HEADS, **ROUTED, "first_k_dense_replace": 2},
        {**HEADS, **ROUTED, "n_shared_experts": 2, **BIASED, **TIED},
    ],
    "internvl": [
        _sees({**VIT, **BIASED, "image_size": [28, 28], "norm_type": "rms_norm",
               "use_qk_norm": True}, _of("qwen2"), **UNTIED),
        _sees({**VIT, "image_size": [56, 56], "use_mean_pooling": False, "use_mask_token": True,
               "use_absolute_position_embeddings": False}, _of("qwen3", head_dim=8), **TIED),
    ],
    "gemma3n_text": [
        {**HEADS, **LOOKED_UP, "num_kv_shared_layers": 2, "laurel_rank": 4,
         "layer_types": ALTERNATING * 3},
        {**HEADS, **LOOKED_UP, "num_kv_shared_layers": 0, "laurel_rank": 3, "altup_num_inputs": 2,
         **UNTIED, **BIASED},
    ],
    "mistral4": [
        {**PLAIN, **LATENT, **ROUTED},
        {**PLAIN, **LATENT, **ROUTED, "first_k_dense_replace": 2, **BIASED, **TIED},
    ],
    "deepseek_v32": [
        INDEXED, {**INDEXED, "first_k_dense_replace": 1, **BIASED, **TIED},
        {**INDEXED, "mlp_layer_types": ["sparse", "dense"] * 3},
    ],
    "glm_moe_dsa": [
        INDEXED, {**INDEXED, "index_topk_freq": 2, **TIED},
        {**INDEXED, "index_topk_pattern": "FSSFSS", **BIASED},
    ],
    "falcon_h1": [
        {**PLAIN, **MAMBA, "mamba_d_ssm": 64},
        {**PLAIN, **MAMBA, "mamba_d_ssm": None, "mamba_rms_norm": True, "mamba_proj_bias": True,
         "projectors_bias": True, **BIASED, "mlp_bias": True, **TIED, "mamba_conv_bias": False},
        {**HEADS, "mamba_d_ssm": 24, "mamba_n_heads": 6, "mamba_d_head": 4},
    ],
    "nemotron_h": [
        {**NEMOTRON, "hybrid_override_pattern": "M-M*-M"},
        {**NEMOTRON, "hybrid_override_pattern": "MEM*EM-", "mlp_bias": True, "use_bias": True,
         **TIED},
        {**NEMOTRON, "layers_block_type": ["linear_attention", "moe", "full_attention"],
         "moe_latent_size": 10, "use_conv_bias": False},
        {**NEMOTRON, "hybrid_override_pattern": "MEE*", "moe_latent_size": 10, "mlp_bias": True,
         "mamba_d_conv": 3, "mamba_n_groups": 3},
    ],
    "lfm2_vl": [
        _sees({**VIT, "num_patches": 9}, CONVOLVED, projector_hidden_size=30),
        _sees({**VIT, "vision_use_head": False}, {**PLAIN, "block_auto_adjust_ff_dim": False},
              projector_bias=False, projector_use_layernorm=False, **UNTIED),
    ],
    "lfm2_moe": [
        {**CONVOLVED, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12},
        {**CONVOLVED, "num_experts": 4, "num_dense_layers": 0, "conv_bias": True, **UNTIED},
    ],
    "kimi_linear": [
        {**PLAIN, **KV_LATENT, **KIMI, "linear_head_dim": 6, "linear_num_heads": 3},
        {**PLAIN, **LATENT, **KIMI, "first_k_dense_replace": 2, **BIASED, **TIED,
         "linear_attn_config": {"head_dim": 5, "num_heads": 2, "short_conv_kernel_size": 3,
                                "full_attn_layers": [3, 6], "kda_layers": [1, 2, 4, 5]}},
        {**LONG, **LATENT, **KIMI},
    ],
    "llava_onevision": [
        _sees(SIGLIP, _of("qwen2")),
        _sees(HEADLESS, _of("qwen2", **TIED), multimodal_projector_bias=False),
    ],
    "granite_swa": [PLAIN, {**PLAIN, **BIASED, "mlp_bias": True, **UNTIED}],
    "granitemoe_swa": [
        {**PLAIN, "num_local_experts": 4, "num_experts_per_tok": 2, **UNTIED},
        {**PLAIN, "num_local_experts": 4, "num_experts_per_tok": 2, **BIASED, **TIED},
        {**PLAIN, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 24},
    ],
    "recurrent_gemma": [
        {**PLAIN, "lru_width": 48}, {**PLAIN, "block_types": ["recurrent", "attention"], **UNTIED},
        {**PLAIN, "num_hidden_layers": 5, "conv1d_width": 3, **BIASED},
    ],
    "olmo_hybrid": [
        {**PLAIN, **DELTA}, {**PLAIN, **DELTA, "layer_types": LINEAR * 3, **BIASED, **TIED},
    ],
    "bamba": [
        {**PLAIN, **MAMBA, "attn_layer_indices": [1, 3]},
        {**PLAIN, **MAMBA, "mamba_conv_bias": False, "mamba_proj_bias": True, **BIASED,
         "mlp_bias": True, **TIED},
    ],
    "exaone4_5": [
        _sees({**EYES, "num_key_value_heads": 2}, _of("exaone4")),
        _sees({**EYES, "num_key_value_heads": 4, "spatial_merge_size": 3}, _of("exaone4"), **TIED),
    ],
    "cohere2_vision": [
        _sees(SIGLIP, _of("cohere2"), alignment_intermediate_size=44),
        _sees(HEADLESS, _of("cohere2", **BIASED), downsample_factor=4, **UNTIED),
    ],
    "aya_vision": [
        _sees(SIGLIP, _of("cohere2"), alignment_intermediate_size=44),
        _sees(HEADLESS, _of("cohere2", **BIASED), downsample_factor=4, **UNTIED),
    ],
    "deepseek_vl": [
        _sees(SIGLIP, _of("llama")), _sees(HEADLESS, _of("llama", **BIASED), **UNTIED),
    ],
    "mimo_v2_flash": [
        MIMO, {**MIMO, **BIASED, **TIED, "layer_types": ["full_attention", "sliding_attention"] * 3,
               "mlp_layer_types": ["sparse", "dense"] * 3},
    ],
    "hunyuan_v1_dense": [HEADS, {**HEADS, **BIASED, **TIED}],
    "hunyuan_v1_moe": [
        {**HEADS, "num_experts": 4, "moe_topk": 2},
        {**HEADS, "num_experts": 4, "moe_topk": [2] * 6, **BIASED, **TIED},
    ],
    "qwen2_5_omni_thinker": [
        _sees(EYES, PLAIN, audio_config=OMNI_EARS),
        _sees(EYES, {**PLAIN, **TIED}, audio_config={**OMNI_EARS, "encoder_layers": 3}, **TIED),
    ],
}  # fmt: skip
