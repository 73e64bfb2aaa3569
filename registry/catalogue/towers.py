"""Count what models of several modalities have besides their decoder: a tower and a connector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from registry.catalogue.encoders import count_block, linear

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from registry.catalogue.decoders import Lookup

    #: Count a tower, and what joins it to a decoder of a width, from the tower's and the whole
    #: model's fields.
    Tower = Callable[[Lookup, Lookup, int], int]


def _patches(get: Lookup) -> int:
    side = int(get("image_size")) // int(get("patch_size"))
    return side * side


def _kernel(get: Lookup) -> int:
    return (get("num_channels") or get("in_channels") or 3) * int(get("patch_size")) ** 2


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
    newline = hidden * (whole("model_type") in ("llava_next", "llava_next_video"))
    return _OF_LLAVA[kind](get) + int(joined + newline)


def _count_pixtral(get: Lookup) -> int:
    width = get("hidden_size")
    block = 4 * width * width + 3 * width * get("intermediate_size") + 2 * width
    return int(_kernel(get) * width + width + get("num_hidden_layers") * block)


def _count_headed_siglip(get: Lookup) -> int:
    return _count_siglip(get, has_head=get("vision_use_head") is not False)


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
    block = 4 * linear(width, width) + 2 * linear(width, middle) + linear(middle, width) + 2 * width
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
}

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
}
