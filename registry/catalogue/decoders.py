"""What a decoder of each ``model_type`` has besides its large matrices, and its parameters counted.

The facts are those of the modeling files of transformers (or of the model's own repository). They
are enough to count the parameters to the last one; a ``model_type`` that is not listed here is read
but not counted.
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
    #: Whether a bias that depends on a flag is there where the flag is missing.
    biased_by_default: bool = False
    query_bias: Flag = False
    output_bias: Flag = False
    mlp_bias: Flag = False
    #: Vectors of one norm: 0 without parameters, 1 with a weight, 2 with a weight and a bias.
    norm_vectors: int = 1
    norms_per_layer: int = 2
    #: Norms of queries and keys: over one head, over all heads, or none.
    query_key_norm: str | None = None
    #: Rows of the matrix of learned positions beyond ``max_positions``; None without the matrix.
    extra_positions: int | None = None
    embedding_norm: bool = False
    head_bias: bool = False
    #: Whether attention and MLP share one norm where the configuration runs them in parallel.
    shares_norm: bool = False


_FLAGGED = Decoder(query_bias="attention_bias", output_bias="attention_bias")
_LLAMA = replace(_FLAGGED, mlp_bias="mlp_bias")
_QWEN3 = replace(_FLAGGED, query_key_norm="head")
_OLMO2 = replace(_FLAGGED, query_key_norm="all")
_GPT2 = Decoder(
    gated_mlp=False, tied_embeddings=True, query_bias=True, output_bias=True, mlp_bias=True,
    norm_vectors=2, extra_positions=0,
)  # fmt: skip
_GEMMA = replace(_FLAGGED, tied_embeddings=True)

DECODERS: Final[Mapping[str, Decoder]] = {
    "llama": _LLAMA,
    "granite": _LLAMA,
    "granitemoe": _FLAGGED,
    "mistral": Decoder(),
    "mixtral": Decoder(),
    "phi3": Decoder(),
    "baichuan": Decoder(),
    "internlm": Decoder(biased_by_default=True, query_bias="bias", output_bias="bias"),
    "internlm2": Decoder(query_bias="bias", output_bias="bias"),
    "chatglm": Decoder(query_bias="add_qkv_bias"),
    "qwen": Decoder(query_bias=True),
    "qwen2": Decoder(query_bias=True),
    "qwen2_moe": Decoder(query_bias=True),
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, norms_per_layer=4),
    "gemma3_text": replace(_GEMMA, norms_per_layer=4, query_key_norm="head"),
    "olmo": replace(_FLAGGED, norm_vectors=0),
    "olmo2": _OLMO2,
    "olmoe": _OLMO2,
    "cohere": Decoder(tied_embeddings=True, norms_per_layer=1),
    "stablelm": Decoder(query_bias="use_qkv_bias", norm_vectors=2),
    "nemotron": replace(_LLAMA, gated_mlp=False, norm_vectors=2),
    "starcoder2": Decoder(
        gated_mlp=False, tied_embeddings=True, biased_by_default=True, query_bias="use_bias",
        output_bias="use_bias", mlp_bias="use_bias", norm_vectors=2,
    ),
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "opt": replace(_GPT2, extra_positions=2),
    "bloom": replace(_GPT2, extra_positions=None, embedding_norm=True),
    "gpt_neox": Decoder(
        gated_mlp=False, query_bias=True, output_bias=True, mlp_bias=True, norm_vectors=2
    ),
    "gptj": Decoder(
        gated_mlp=False, mlp_bias=True, norm_vectors=2, norms_per_layer=1, head_bias=True
    ),
    "phi": Decoder(
        gated_mlp=False, query_bias=True, output_bias=True, mlp_bias=True, norm_vectors=2,
        norms_per_layer=1, head_bias=True,
    ),
    "falcon": Decoder(
        gated_mlp=False, tied_embeddings=True, query_bias="bias", output_bias="bias",
        mlp_bias="bias", norm_vectors=2, shares_norm=True,
    ),
    "mpt": Decoder(gated_mlp=False, tied_embeddings=True),
}  # fmt: skip

#: What a decoder of llama's kind is taken for where its ``model_type`` is not listed.
LLAMA_LIKE: Final = Decoder()


def has_bias(decoder: Decoder, flag: Flag, get: Lookup) -> bool:
    """Return whether there is a bias, by the configuration where it depends on a flag."""
    if isinstance(flag, bool):
        return flag
    stated = get(flag)
    return decoder.biased_by_default if stated is None else stated is True


def count_parameters(
    row: Mapping[str, Any], decoder: Decoder = LLAMA_LIKE, get: Lookup = lambda _: None
) -> int:
    """Return the parameters of a decoder: embeddings, norms, attention and MLP of all layers.

    ``row`` has the columns of ``models``; ``get`` looks up the fields of the configuration that
    have no column. Tied embeddings count once.

    >>> shape = {"n_layers": 1, "hidden_size": 4, "n_heads": 2, "n_kv_heads": 1, "head_dim": 2}
    >>> count_parameters({**shape, "intermediate_size": 8, "vocab_size": 10})
    236
    """
    hidden = row["hidden_size"]
    norms = decoder.norm_vectors * hidden
    layer = _attention(row, decoder, get) + _feed_forward(row, decoder, get)
    layer += _norms_per_layer(decoder, get) * norms
    return int(_ends(row, decoder) + row["n_layers"] * layer + norms)


def count_active_parameters(
    row: Mapping[str, Any], decoder: Decoder = LLAMA_LIKE, get: Lookup = lambda _: None
) -> int:
    """Return the parameters that one token passes through: all but the experts not chosen."""
    idle = row["n_layers"] * (row["n_experts"] - row["n_experts_active"])
    return count_parameters(row, decoder, get) - int(idle) * _mlp(row, decoder, get)


def _ends(row: Mapping[str, Any], decoder: Decoder) -> int:
    """Count what stands before the first layer and after the last."""
    hidden, vocab = row["hidden_size"], row["vocab_size"]
    n_params = (1 if row.get("tied_embeddings") else 2) * vocab * hidden
    if decoder.extra_positions is not None:
        n_params += (row["max_positions"] + decoder.extra_positions) * hidden
    n_params += decoder.embedding_norm * decoder.norm_vectors * hidden
    return int(n_params + decoder.head_bias * vocab)


def _attention(row: Mapping[str, Any], decoder: Decoder, get: Lookup) -> int:
    hidden, head = row["hidden_size"], row["head_dim"]
    query, key = row["n_heads"] * head, row["n_kv_heads"] * head
    n_params = hidden * (query + 2 * key) + query * hidden
    n_params += has_bias(decoder, decoder.query_bias, get) * (query + 2 * key)
    n_params += has_bias(decoder, decoder.output_bias, get) * hidden
    over = {"head": 2 * head, "all": query + key}
    return int(n_params + (over[decoder.query_key_norm] if decoder.query_key_norm else 0))


def _feed_forward(row: Mapping[str, Any], decoder: Decoder, get: Lookup) -> int:
    """Count the MLP of a layer; of a mixture, its experts, its router and what all tokens share."""
    each, hidden = _mlp(row, decoder, get), row["hidden_size"]
    experts = row.get("n_experts")
    if not experts:
        return each
    shared = get("shared_expert_intermediate_size")
    shared = 3 * hidden * shared + hidden if shared else 0  # with the gate that weighs it
    return int(experts * each + hidden * experts + shared)


def _mlp(row: Mapping[str, Any], decoder: Decoder, get: Lookup) -> int:
    hidden, middle = row["hidden_size"], row["intermediate_size"]
    matrices = 3 if row.get("gated_mlp", decoder.gated_mlp) else 2
    biases = (matrices - 1) * middle + hidden
    return int(matrices * hidden * middle + has_bias(decoder, decoder.mlp_bias, get) * biases)


def _norms_per_layer(decoder: Decoder, get: Lookup) -> int:
    if not decoder.shares_norm:
        return decoder.norms_per_layer
    if get("new_decoder_architecture") is True:
        return int(get("num_ln_in_parallel_attn") or 2)
    return 1 if get("parallel_attn") is not False else 2
