"""What a decoder of each ``model_type`` has besides its large matrices.

The facts are those of the modeling files of transformers (or of the model's own repository); a test
holds the counts that follow from them to the modules that transformers builds. A ``model_type``
that is not listed here is read but not counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    #: Look up a field of a configuration by name; None where it is missing.
    Lookup = Callable[[str], Any]

#: Whether there is a bias: always, never, or where this flag of the configuration is set.
Flag = bool | str


@dataclass(frozen=True)
class Decoder:
    """The layout that the decoders of one ``model_type`` share."""

    gated_mlp: bool = True
    #: Whether the output layer shares the embedding where the configuration does not say.
    tied_embeddings: bool = False
    #: Whether its class can share them at all.
    can_tie: bool = True
    #: Whether a bias that depends on a flag is there where the flag is missing.
    biased_by_default: bool = False
    query_bias: Flag = False
    output_bias: Flag = False
    mlp_bias: Flag = False
    #: Vectors of one norm: 0 without parameters, 1 with a weight, 2 with a weight and a bias.
    norm_vectors: int = 1
    norms_per_layer: int = 2
    #: Norms of queries and keys: over one head, over all heads, or none; and the flag they need.
    query_key_norm: str | None = None
    query_key_norm_flag: str | None = None
    #: Rows of the matrix of learned positions beyond ``max_positions``; None without the matrix.
    extra_positions: int | None = None
    embedding_norm: bool = False
    head_bias: Flag = False
    #: Whether attention and MLP share one norm: where this flag runs them in parallel, or (True) by
    #: Falcon's rules.
    shares_norm: Flag = False
    #: Whether queries, keys and values pass through narrow matrices (DeepSeek's latent attention).
    is_latent: bool = False
    #: Whether the output of the attention has a gate as wide as the queries.
    gated_attention: bool = False
    gate_bias: Flag = False
    #: Field with the width of the MLP of layers that have no experts.
    dense_width: str = "intermediate_size"
    #: What all tokens share in a mixture: an expert with a gate of its own, a number of experts, an
    #: MLP of a width of its own, or one more expert.
    shared_expert: str | None = None
    #: Parameters of the router for each expert, besides its matrix.
    router_vectors: int = 0
    #: Whether the experts have biases.
    expert_bias: bool = False
    #: What a layer has that no other family has; see ``registry.catalogue.counting.EXTRAS``.
    extra: str | None = None
    #: What layers without attention have instead; see ``registry.catalogue.mixers.MIXERS``.
    mixer: str | None = None
    #: Every how many layers there is one with attention where ``layer_types`` is missing; 0: none.
    attention_every: int = 1
    #: Layers at the start that are left out of that.
    attention_from: int = 0
    #: Layers at the start that have no experts where the configuration does not say.
    dense_layers: int = 0
    #: What counts the attention of all layers; see ``registry.catalogue.stacks.ATTENTIONS``.
    attention: str | None = None
    #: What counts the whole decoder, layer by layer; see ``registry.catalogue.stacks.STACKS``.
    stack: str | None = None


_FLAGGED = Decoder(query_bias="attention_bias", output_bias="attention_bias")
_LLAMA = replace(_FLAGGED, mlp_bias="mlp_bias")
_QUERIES = Decoder(query_bias="attention_bias")
_QWEN3 = replace(_FLAGGED, query_key_norm="head")
_QWEN3_NEXT = replace(
    _QWEN3, gated_attention=True, gate_bias="attention_bias", shared_expert="gated", mixer="delta",
    attention_every=4,
)  # fmt: skip
_OLMO2 = replace(_FLAGGED, query_key_norm="all")
_GPT2 = Decoder(
    gated_mlp=False, tied_embeddings=True, query_bias=True, output_bias=True, mlp_bias=True,
    norm_vectors=2, extra_positions=0,
)  # fmt: skip
_GEMMA = replace(_FLAGGED, tied_embeddings=True)
_GEMMA3 = replace(_GEMMA, norms_per_layer=4, query_key_norm="head")
_LATENT = Decoder(is_latent=True, query_bias="attention_bias")
_DEEPSEEK = replace(_LATENT, shared_expert="counted")
_INDEXED = replace(_DEEPSEEK, dense_layers=3, extra="indexer")
_GLM4_MOE = replace(
    _QUERIES, shared_expert="counted", query_key_norm="head", query_key_norm_flag="use_qk_norm"
)
_ERNIE = replace(_LLAMA, query_bias="use_bias", output_bias="use_bias", mlp_bias="use_bias")
_GPTJ = Decoder(gated_mlp=False, mlp_bias=True, norm_vectors=2, norms_per_layer=1, head_bias=True)
_GEMMA4 = replace(_GEMMA, stack="gemma4")
_LFM2 = Decoder(tied_embeddings=True, query_key_norm="head", mixer="short_convolution")
_COHERE = replace(_FLAGGED, tied_embeddings=True, norms_per_layer=1)

DECODERS: Final[Mapping[str, Decoder]] = {
    "llama": _LLAMA,
    "cwm": _LLAMA,
    "iquestcoder": _LLAMA,
    "granite": _LLAMA,
    "granite_swa": replace(_LLAMA, tied_embeddings=True, extra="sinks"),
    "granitemoe": _FLAGGED,
    "granitemoe_swa": replace(_FLAGGED, shared_expert="wide", extra="sinks"),
    "granitemoeshared": replace(_FLAGGED, shared_expert="wide"),
    "granitemoehybrid": replace(_FLAGGED, shared_expert="wide", mixer="mamba2"),
    "bamba": replace(_LLAMA, mixer="mamba2", attention_every=0),
    "falcon_h1": replace(_LLAMA, extra="mamba2_beside"),
    "nemotron_h": replace(_LLAMA, gated_mlp=False, can_tie=False, stack="nemotron_h"),
    "smollm3": _LLAMA,
    "helium": replace(_LLAMA, output_bias=False),
    "hyperclovax": _LLAMA,
    "arcee": replace(_LLAMA, gated_mlp=False),
    "apertus": replace(_FLAGGED, gated_mlp=False, query_key_norm="head", extra="two"),
    "bitnet": replace(_FLAGGED, extra="inner_norms"),
    "diffllama": replace(_FLAGGED, extra="lambdas"),
    "seed_oss": replace(_LLAMA, output_bias="attention_out_bias"),
    "exaone": Decoder(),
    "exaone4": Decoder(query_key_norm="head"),
    "exaone_moe": Decoder(query_key_norm="head", shared_expert="counted"),
    "ernie4_5": _ERNIE,
    "ernie4_5_moe": replace(
        _ERNIE, shared_expert="counted", router_vectors=1, head_bias="use_bias"
    ),
    "glm": replace(_QUERIES, biased_by_default=True),
    "glm4": replace(_QUERIES, biased_by_default=True, norms_per_layer=4),
    "glm4v_text": Decoder(query_bias=True, norms_per_layer=4),
    "glm4v_moe_text": replace(_QUERIES, biased_by_default=True, shared_expert="counted"),
    "glm4_moe": _GLM4_MOE,
    "glm4_moe_lite": _DEEPSEEK,
    "solar_open": _GLM4_MOE,
    "mistral": Decoder(),
    "ministral": Decoder(),
    "ministral3": Decoder(),
    "mixtral": Decoder(),
    "minimax": Decoder(mixer="lightning", attention_every=2),
    "minimax_m2": Decoder(query_key_norm="all"),
    "phi3": Decoder(),
    "phimoe": replace(_FLAGGED, norm_vectors=2, head_bias="lm_head_bias"),
    "dbrx": Decoder(),
    "baichuan": Decoder(),
    "internlm": Decoder(biased_by_default=True, query_bias="bias", output_bias="bias"),
    "internlm2": Decoder(query_bias="bias", output_bias="bias"),
    "internlm3": _LLAMA,
    "chatglm": Decoder(query_bias="add_qkv_bias"),
    "deepseek": replace(_FLAGGED, shared_expert="counted"),
    "dots1": replace(_FLAGGED, query_key_norm="head", shared_expert="counted"),
    "bailing_moe": Decoder(  # Ling and Ring, of both generations
        query_bias="use_qkv_bias", output_bias="use_bias", shared_expert="counted",
        query_key_norm="head", query_key_norm_flag="use_qk_norm",
    ),
    "deepseek_v2": replace(_DEEPSEEK, mlp_bias="mlp_bias"),
    "deepseek_v3": _DEEPSEEK,
    "deepseek_v32": _INDEXED,
    "glm_moe_dsa": _INDEXED,
    "kimi_k2": _DEEPSEEK,
    "kimi_linear": replace(
        _DEEPSEEK, can_tie=False, mixer="kimi_delta", attention_every=4, attention_from=1,
        dense_layers=1,
    ),
    "mistral4": _DEEPSEEK,
    "xverse": Decoder(),
    "youtu": _LATENT,
    "hunyuan_v1_dense": replace(_FLAGGED, query_key_norm="head"),
    "hunyuan_v1_moe": replace(_FLAGGED, query_key_norm="head", shared_expert="one"),
    "minicpm": replace(_LLAMA, tied_embeddings=True),
    "minicpm3": replace(_LATENT, tied_embeddings=True, mlp_bias="mlp_bias"),
    "gpt_oss": replace(_FLAGGED, biased_by_default=True, expert_bias=True, extra="sinks"),
    "mllama_text_model": Decoder(can_tie=False, extra="crossed"),
    "llama4_text": replace(_FLAGGED, shared_expert="one", dense_width="intermediate_size_mlp"),
    "qwen": Decoder(query_bias=True),
    "qwen2": Decoder(query_bias=True),
    "mimo": Decoder(query_bias=True),
    "mimo_v2_flash": replace(_QUERIES, attention="mimo_v2", dense_layers=1),
    "qwen2_5_omni_text": Decoder(query_bias=True),
    "qwen2_moe": Decoder(query_bias="qkv_bias", biased_by_default=True, shared_expert="gated"),
    "qwen2_vl_text": Decoder(query_bias=True),
    "qwen2_5_vl_text": Decoder(query_bias=True),
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_vl_moe_text": _QWEN3,
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_5_text": _QWEN3_NEXT,
    "qwen3_5_moe_text": _QWEN3_NEXT,
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, norms_per_layer=4),
    "gemma3_text": _GEMMA3,
    "gemma3n_text": replace(_GEMMA, stack="gemma3n"),
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": _GEMMA4,
    "recurrent_gemma": replace(
        _GEMMA, output_bias=True, mlp_bias=True, mixer="recurrent", attention_every=3
    ),
    "vaultgemma": _GEMMA,
    "olmo": replace(_FLAGGED, norm_vectors=0),
    "olmo2": _OLMO2,
    "olmo3": _OLMO2,
    "olmo_hybrid": replace(_OLMO2, mixer="delta", attention_every=4),
    "olmoe": _OLMO2,
    "flex_olmo": _OLMO2,
    "cohere": replace(_COHERE, query_key_norm="all", query_key_norm_flag="use_qk_norm"),
    "cohere2": _COHERE,
    "afmoe": replace(
        _FLAGGED, norms_per_layer=4, query_key_norm="head", gated_attention=True,
        shared_expert="counted", router_vectors=1,
    ),
    "lfm2": _LFM2,
    "lfm2_moe": _LFM2,
    "jamba": Decoder(mixer="mamba"),
    "nanochat": replace(_FLAGGED, gated_mlp=False, norm_vectors=0),
    "stablelm": Decoder(
        query_bias="use_qkv_bias", norm_vectors=2, shares_norm="use_parallel_residual"
    ),
    "nemotron": replace(_LLAMA, gated_mlp=False, norm_vectors=2),
    "persimmon": Decoder(
        gated_mlp=False, query_bias=True, output_bias=True, mlp_bias=True, norm_vectors=2,
        query_key_norm="head", query_key_norm_flag="qk_layernorm",
    ),
    "jais2": replace(_LLAMA, gated_mlp=False, biased_by_default=True, norm_vectors=2),
    "starcoder2": Decoder(
        gated_mlp=False, tied_embeddings=True, biased_by_default=True, query_bias="use_bias",
        output_bias="use_bias", mlp_bias="use_bias", norm_vectors=2,
    ),
    "gpt2": _GPT2,
    "openai-gpt": replace(_GPT2, extra="no_last_norm"),
    "gpt_bigcode": _GPT2,
    "gpt_neo": replace(_GPT2, query_bias=False),
    "biogpt": replace(_GPT2, extra_positions=2),
    "opt": replace(
        _GPT2, biased_by_default=True, query_bias="enable_bias", output_bias="enable_bias",
        mlp_bias="enable_bias", extra_positions=2,
    ),
    "xglm": replace(_GPT2, extra_positions=None),
    "bloom": replace(_GPT2, extra_positions=None, embedding_norm=True),
    "gpt_neox": Decoder(
        gated_mlp=False, biased_by_default=True, query_bias="attention_bias",
        output_bias="attention_bias", mlp_bias=True, norm_vectors=2,
    ),
    "gptj": _GPTJ,
    "codegen": _GPTJ,
    "phi": replace(_GPTJ, query_bias=True, output_bias=True),
    "falcon": Decoder(
        gated_mlp=False, tied_embeddings=True, query_bias="bias", output_bias="bias",
        mlp_bias="bias", norm_vectors=2, shares_norm=True,
    ),
    "mpt": Decoder(gated_mlp=False, tied_embeddings=True),
}  # fmt: skip


def has_bias(decoder: Decoder, flag: Flag, get: Lookup) -> bool:
    """Return whether there is a bias, by the configuration where it depends on a flag."""
    if isinstance(flag, bool):
        return flag
    stated = get(flag)
    return decoder.biased_by_default if stated is None else stated is True
