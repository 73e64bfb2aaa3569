"""Count what models of several modalities have besides their decoder: a tower and a connector."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from registry.catalogue.encoders import count_block, linear

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from registry.catalogue.decoders import Lookup

    #: Count a tower, and what joins it to a decoder of a width, from the tower's and the whole
    #: model's fields.
    Tower = Callable[[Lookup, Lookup, int], int]


def _side(size: Any) -> int:
    """Return the side of a square, which some state twice."""
    return int(size[0] if isinstance(size, list | tuple) else size)


def _patches(get: Lookup) -> int:
    if get("num_patches"):  # SigLIP 2, whatever the images' size
        return int(get("num_patches"))
    side = _side(get("image_size")) // _side(get("patch_size"))
    return side * side


def _kernel(get: Lookup) -> int:
    return int((get("num_channels") or get("in_channels") or 3) * _side(get("patch_size")) ** 2)


def _count_siglip(get: Lookup, *, has_head: bool) -> int:
    width, middle = get("hidden_size"), get("intermediate_size")
    n_params = linear(_kernel(get), width) + _patches(get) * width + 2 * width
    n_params += get("num_hidden_layers") * count_block(width, middle)
    if has_head:  # a probe that attends to the patches
        n_params += width + count_block(width, middle) - 2 * width
    return int(n_params)


def _count_clip(get: Lookup) -> int:
    width = get("hidden_size")
    n_params = width + _kernel(get) * width + (_patches(get) + 1) * width + 4 * width
    return int(n_params + get("num_hidden_layers") * count_block(width, get("intermediate_size")))


def _count_gemma3(get: Lookup, _: Lookup, hidden: int) -> int:
    width = get("hidden_size")
    return _count_headed_siglip(get) + int(width * hidden + width)


def _count_paligemma(get: Lookup, whole: Lookup, hidden: int) -> int:
    has_head = get("vision_use_head") is True
    width = whole("projection_dim") or hidden
    return _count_siglip(get, has_head=has_head) + linear(get("hidden_size"), width)


def _count_idefics3(get: Lookup, whole: Lookup, hidden: int) -> int:
    scale = whole("scale_factor") or 2
    return _count_siglip(get, has_head=False) + int(get("hidden_size") * scale**2 * hidden)


def _count_llava(get: Lookup, whole: Lookup, hidden: int) -> int:
    """Count LLaVA's projector and the tower that its configuration names; ValueError for others."""
    kind = get("model_type")
    if kind not in _OF_LLAVA:
        raise ValueError(f"found a tower of model_type {kind!r}; expected {', '.join(_OF_LLAVA)}")
    layers = whole("vision_feature_layer")
    width = get("hidden_size") * (len(layers) if isinstance(layers, list) else 1)
    joined = width * hidden + hidden * hidden
    joined += 2 * hidden * (whole("multimodal_projector_bias") is not False)
    newline = hidden * (whole("model_type") in _WITH_NEWLINE)
    return _OF_LLAVA[kind](get) + int(joined + newline)


def _count_pixtral(get: Lookup) -> int:
    width = get("hidden_size")
    block = 4 * width * width + 3 * width * get("intermediate_size") + 2 * width
    return int(_kernel(get) * width + width + get("num_hidden_layers") * block)


def _count_headed_siglip(get: Lookup) -> int:
    return _count_siglip(get, has_head=get("vision_use_head") is not False)


#: Families with a vector that ends the rows of an image.
_WITH_NEWLINE: Final = ("llava_next", "llava_next_video", "llava_onevision")

#: Towers of LLaVA's kind by their own ``model_type``.
_OF_LLAVA: Final[Mapping[str, Callable[[Lookup], int]]] = {
    "clip_vision_model": _count_clip,
    "siglip_vision_model": _count_headed_siglip,
    "pixtral": _count_pixtral,
}


def _count_mistral3(get: Lookup, whole: Lookup, hidden: int) -> int:
    width = get("hidden_size")
    merged = width * (whole("spatial_merge_size") or 2) ** 2
    n_params = _count_pixtral(get) + width + merged * width + width * hidden + hidden * hidden
    return int(n_params + 2 * hidden * (whole("multimodal_projector_bias") is True))


def _count_qwen2_vl(get: Lookup, _: Lookup, __: int) -> int:
    width = get("embed_dim")
    merged = width * (get("spatial_merge_size") or 2) ** 2
    n_params = get("temporal_patch_size") * _kernel(get) * width
    n_params += get("depth") * count_block(width, width * get("mlp_ratio"))
    return int(n_params + 2 * width + linear(merged, merged) + linear(merged, get("hidden_size")))


def _count_qwen2_5_vl(get: Lookup, _: Lookup, __: int) -> int:
    width, middle = get("hidden_size"), get("intermediate_size")
    merged = width * (get("spatial_merge_size") or 2) ** 2
    heads = get("num_heads") or 1
    groups = (get("num_key_value_heads") or heads) / heads  # EXAONE 4.5 has fewer
    block = 2 * linear(width, width) + 2 * linear(width, round(width * groups)) + 2 * width
    block += 2 * linear(width, middle) + linear(middle, width)
    n_params = get("temporal_patch_size") * _kernel(get) * width + get("depth") * block + width
    return int(n_params + linear(merged, merged) + linear(merged, get("out_hidden_size")))


def _count_qwen3_vl(get: Lookup, _: Lookup, __: int) -> int:
    width = get("hidden_size")
    merged = width * (get("spatial_merge_size") or 2) ** 2
    merger = linear(merged, merged) + linear(merged, get("out_hidden_size"))
    n_params = linear(get("temporal_patch_size") * _kernel(get), width)
    n_params += get("num_position_embeddings") * width
    n_params += get("depth") * count_block(width, get("intermediate_size"))
    stacked = len(get("deepstack_visual_indexes") or ())
    return int(n_params + 2 * width + merger + stacked * (2 * merged + merger))


def _count_glm4v(get: Lookup, _: Lookup, __: int) -> int:
    """Count GLM-4.1V's tower, whose MLPs are as wide as the decoder."""
    width, out = get("hidden_size"), get("out_hidden_size")
    block = 4 * width * width + 3 * width * out + 2 * width
    block += 3 * width * (get("attention_bias") is True)
    n_params = _patches(get) * width + linear(get("temporal_patch_size") * _kernel(get), width)
    n_params += get("depth") * block + 2 * width
    n_params += linear(width * (get("spatial_merge_size") or 2) ** 2, out)
    return int(n_params + out * out + 2 * out + 3 * out * get("intermediate_size"))


def _count_llama4(get: Lookup, _: Lookup, hidden: int) -> int:
    width, middle = get("hidden_size"), get("intermediate_size")
    out = get("projector_output_dim")
    n_params = _kernel(get) * width + (_patches(get) + 2) * width + 4 * width
    n_params += get("num_hidden_layers") * count_block(width, middle)
    n_params += middle * get("projector_input_dim") + out * out
    return int(n_params + get("vision_output_dim") * hidden)


def _count_internvl(get: Lookup, whole: Lookup, hidden: int) -> int:
    width, qkv = get("hidden_size"), 3 * (get("attention_bias") is True)
    norm = width * (1 if get("norm_type") == "rms_norm" else 2)
    block = count_block(width, get("intermediate_size")) - 3 * width + qkv * width  # no biases
    block += 2 * norm - 4 * width + 2 * width  # the norms, and what scales both branches
    block += 2 * width * (get("use_qk_norm") is True)
    n_params = linear(_kernel(get), width) + width + get("num_hidden_layers") * block
    n_params += (_patches(get) + 1) * width * (get("use_absolute_position_embeddings") is not False)
    n_params += width * (get("use_mask_token") is True)
    n_params += 2 * width * (get("use_mean_pooling") is False)
    merged = width * round(1 / (whole("downsample_ratio") or 0.5)) ** 2
    return int(n_params + 2 * merged + linear(merged, hidden) + linear(hidden, hidden))


def _count_internvl_chat(get: Lookup, whole: Lookup, hidden: int) -> int:
    """Count the tower of InternVL's own code, which has other names for what its layers have."""
    names = {"attention_bias": get("qkv_bias") is True}
    names["use_qk_norm"] = get("qk_normalization") is not False
    return _count_internvl(lambda name: names.get(name, get(name)), whole, hidden)


def _count_kimi(get: Lookup, whole: Lookup, hidden: int) -> int:
    """Count MoonViT, whose published configurations have other names than transformers."""
    width = get("vt_hidden_size") or get("hidden_size")
    middle = get("vt_intermediate_size") or get("intermediate_size")
    layers = get("vt_num_hidden_layers") or get("num_hidden_layers")
    height = get("init_pos_emb_height") or get("pos_emb_height")
    breadth = get("init_pos_emb_width") or get("pos_emb_width")
    joined = get("mm_hidden_size") or whole("projection_hidden_size")
    sides = get("merge_kernel_size") or 2
    merged = width * (prod(sides) if isinstance(sides, list | tuple) else sides**2)
    n_params = linear(_kernel(get), width) + height * breadth * width
    n_params += layers * count_block(width, middle) + 2 * width + 2 * joined
    return int(n_params + linear(merged, merged) + linear(merged, hidden))


#: How Llama 3.2's tower may lay out the tiles of an image, where nothing is said.
_LAYOUTS: Final = 8


def _count_mllama(get: Lookup, _: Lookup, hidden: int) -> int:
    """Count Llama 3.2's tower: its positions depend on how an image is cut into tiles."""
    width, tokens, extra = get("hidden_size"), _patches(get) + 1, get("num_global_layers")
    layouts = len(get("supported_aspect_ratios") or range(_LAYOUTS)) + 1
    tiles = layouts * get("max_num_tiles") * width
    block = count_block(width, get("intermediate_size")) - 4 * width  # no biases in attention
    n_params = width + _kernel(get) * width + tokens * width + tokens * tiles + 2 * tiles + 3
    n_params += 4 * width + (get("num_hidden_layers") + extra) * block + 2 * extra
    return int(n_params + linear(get("vision_output_dim"), hidden))


def _count_lfm2_vl(get: Lookup, whole: Lookup, hidden: int) -> int:
    merged = get("hidden_size") * whole("downsample_factor") ** 2
    middle, biased = whole("projector_hidden_size"), whole("projector_bias") is not False
    joined = merged * middle + middle * hidden + biased * (middle + hidden)
    joined += 2 * merged * (whole("projector_use_layernorm") is not False)
    return _count_headed_siglip(get) + int(joined)


def _count_cohere(get: Lookup, whole: Lookup, hidden: int) -> int:
    """Count Cohere's towers: half of what the first matrix yields gates the other half."""
    merged = get("hidden_size") * (whole("downsample_factor") or 2) ** 2
    middle = whole("alignment_intermediate_size") or hidden
    n_params = linear(merged, middle) + linear(middle // 2, hidden)
    n_params += 2 * merged * (whole("model_type") == "aya_vision")  # a norm
    return _count_headed_siglip(get) + int(n_params)


def _count_deepseek_vl(get: Lookup, _: Lookup, hidden: int) -> int:
    return _count_headed_siglip(get) + linear(get("hidden_size"), hidden) + linear(hidden, hidden)


def _count_gemma4(get: Lookup, _: Lookup, hidden: int) -> int:
    width, head = get("hidden_size"), get("head_dim")
    heads = get("num_attention_heads") + get("num_key_value_heads")
    block = 2 * width * head * heads + 2 * head + 3 * width * get("intermediate_size") + 4 * width
    n_params = 2 * get("position_embedding_size") * width + _kernel(get) * width
    return int(n_params + get("num_hidden_layers") * block + width * hidden)


def _count_gemma4_sound(get: Lookup, hidden: int) -> int:
    """Count Gemma 4's conformer, and what joins it to the decoder."""
    width, out = get("hidden_size"), get("output_proj_dims")
    first, second = get("subsampling_conv_channels") or (128, 32)
    head = width // get("num_attention_heads")
    block = 16 * width * width + 4 * width + 5 * width * width + head  # two MLPs, attention
    block += 3 * width * width + width * get("conv_kernel_size") + 2 * width + 3 * width
    n_params = 9 * first + first + 9 * first * second + second + first // 4 * second * width
    n_params += get("num_hidden_layers") * block + linear(width, out)
    return int(n_params + out * hidden)


def _count_omni_sound(get: Lookup, _: int) -> int:
    """Count Qwen2.5-Omni's ears: Whisper's encoder, whose keys have no bias."""
    width, out = get("d_model"), get("output_dim")
    block = count_block(width, get("encoder_ffn_dim")) - width
    n_params = 3 * width * (get("num_mel_bins") + width) + 2 * width  # two convolutions
    n_params += get("encoder_layers") * block + 2 * width
    return int(n_params + linear(width, out) + 2 * out)


def _count_gemma4_unified(get: Lookup, _: Lookup, hidden: int) -> int:
    """Count what embeds patches where there is no tower."""
    width, kernel = get("mm_embed_dim"), 3 * (get("patch_size") * get("pooling_kernel_size")) ** 2
    n_params = 2 * get("mm_posemb_size") * width + 2 * kernel + linear(kernel, width) + 4 * width
    return int(n_params + (get("output_proj_dims") or width) * hidden)


def _count_gemma4_unified_sound(get: Lookup, hidden: int) -> int:
    return int(get("audio_embed_dim") * hidden)


#: Towers by the ``model_type`` of the whole model.
TOWERS: Final[Mapping[str, Tower]] = {
    "gemma3": _count_gemma3,
    "paligemma": _count_paligemma,
    "idefics3": _count_idefics3,
    "smolvlm": _count_idefics3,
    "llava": _count_llava,
    "llava_next": _count_llava,
    "llava_next_video": _count_llava,
    "mistral3": _count_mistral3,
    "qwen2_vl": _count_qwen2_vl,
    "qwen2_5_vl": _count_qwen2_5_vl,
    "qwen3_vl": _count_qwen3_vl,
    "qwen3_vl_moe": _count_qwen3_vl,
    "qwen3_5": _count_qwen3_vl,  # without what is stacked deeper
    "qwen3_5_moe": _count_qwen3_vl,
    "gemma4": _count_gemma4,
    "gemma4_unified": _count_gemma4_unified,
    "llama4": _count_llama4,
    "glm4v": _count_glm4v,
    "glm4v_moe": _count_glm4v,
    "glm46v": _count_glm4v,
    "internvl": _count_internvl,
    "internvl_chat": _count_internvl_chat,
    "kimi_k25": _count_kimi,
    "mllama": _count_mllama,
    "lfm2_vl": _count_lfm2_vl,
    "llava_onevision": _count_llava,
    "exaone4_5": _count_qwen2_5_vl,
    "qwen2_5_omni_thinker": _count_qwen2_5_vl,
    "cohere2_vision": _count_cohere,
    "aya_vision": _count_cohere,
    "deepseek_vl": _count_deepseek_vl,
}

#: Towers for sound by the ``model_type`` of the whole model.
SOUND_TOWERS: Final[Mapping[str, Callable[[Lookup, int], int]]] = {
    "gemma4": _count_gemma4_sound,
    "gemma4_unified": _count_gemma4_unified_sound,
    "qwen2_5_omni_thinker": _count_omni_sound,
}

#: Families that may be without a tower: they have what their configuration states.
MAY_LACK_TOWERS: Final = frozenset({"gemma4", "gemma4_unified"})

#: Families that take over from the text part that embeddings are tied.
TIED_BY_TEXT: Final = frozenset(
    {
        *("glm4v", "glm4v_moe", "glm46v", "llava", "llava_next", "llava_next_video"),
        *("llava_onevision", "qwen2_vl", "qwen2_5_vl"),
    }
)

#: Families whose text part alone says whether embeddings are tied.
TIED_INSIDE: Final = frozenset({"llama4"})

#: The decoder's ``model_type`` where the configuration of the text part does not say it.
TEXT_TYPES: Final[Mapping[str, str]] = {
    "gemma3": "gemma3_text",
    "paligemma": "gemma",
    "idefics3": "llama",
    "smolvlm": "llama",
    "llava": "llama",
    "llava_next": "llama",
    "mistral3": "mistral",
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_unified_text",
    "llama4": "llama4_text",
    "glm4v": "glm4v_text",
    "glm4v_moe": "glm4v_moe_text",
    "glm46v": "glm4v_text",
    "internvl": "qwen2",
    "kimi_k25": "deepseek_v3",
    "mllama": "mllama_text_model",
    "lfm2_vl": "lfm2",
    "llava_onevision": "qwen2",
    "exaone4_5": "exaone4",
    "qwen2_5_omni_thinker": "qwen2_5_omni_text",
    "cohere2_vision": "cohere2",
    "aya_vision": "cohere2",
    "deepseek_vl": "llama",
}

#: The tower's ``model_type`` where its configuration does not say it.
TOWER_TYPES: Final[Mapping[str, str]] = {
    "gemma3": "siglip_vision_model",
    "paligemma": "siglip_vision_model",
    "idefics3": "idefics3_vision",
    "smolvlm": "smolvlm_vision",
    "llava": "clip_vision_model",
    "llava_next": "clip_vision_model",
    "llava_next_video": "clip_vision_model",
    "mistral3": "pixtral",
    "qwen2_vl": "qwen2_vl_vision",
    "qwen2_5_vl": "qwen2_5_vl_vision",
    "qwen3_vl": "qwen3_vl_vision",
    "qwen3_vl_moe": "qwen3_vl_moe_vision",
    "qwen3_5": "qwen3_5_vision",
    "qwen3_5_moe": "qwen3_5_moe_vision",
    "gemma4": "gemma4_vision",
    "gemma4_unified": "gemma4_unified_vision",
    "llama4": "llama4_vision_model",
    "glm4v": "glm4v_vision",
    "glm4v_moe": "glm4v_moe_vision",
    "glm46v": "glm4v_vision",
    "internvl": "internvl_vision",
    "internvl_chat": "intern_vit_6b",
    "kimi_k25": "kimi_k25_vision",
    "mllama": "mllama_vision_model",
    "lfm2_vl": "siglip2_vision_model",
    "llava_onevision": "siglip_vision_model",
    "exaone4_5": "exaone4_5_vision",
    "qwen2_5_omni_thinker": "qwen2_5_omni_vision_encoder",
    "cohere2_vision": "siglip_vision_model",
    "aya_vision": "siglip_vision_model",
    "deepseek_vl": "siglip_vision_model",
}

#: The same of towers for sound.
SOUND_TYPES: Final[Mapping[str, str]] = {
    "gemma4": "gemma4_audio",
    "gemma4_unified": "gemma4_unified_audio",
    "qwen2_5_omni_thinker": "qwen2_5_omni_audio_encoder",
}
