"""Count the parameters of a decoder from its shape and its family's layout, to the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from registry.catalogue.decoders import Decoder, has_bias
from registry.catalogue.mixers import MIXERS, read_kimi
from registry.catalogue.stacks import ATTENTIONS, STACKS, list_layers, nemotron_expert

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from registry.catalogue.decoders import Lookup

    Row = Mapping[str, Any]

#: What a decoder of llama's kind is taken for where no layout is given.
LLAMA_LIKE: Final = Decoder()


def _indexers(row: Row, get: Lookup) -> int:
    """Count DeepSeek's indexers, which choose the tokens that layers attend to."""
    hidden, head, heads = row["hidden_size"], get("index_head_dim"), get("index_n_heads")
    each = get("q_lora_rank") * heads * head + hidden * (head + heads) + 2 * head
    return _count_indexed(row["n_layers"], get) * int(each)


def _count_indexed(n_layers: int, get: Lookup) -> int:
    """Return how many layers have an indexer: others take over what an earlier one chose."""
    stated = get("indexer_types") or get("index_topk_pattern")
    if stated:
        return sum(kind in ("full", "F") for kind in stated[:n_layers])
    every, offset = max(get("index_topk_freq") or 1, 1), get("index_skip_topk_offset")
    first = 1 - (2 if offset is None else offset)
    return sum(max(layer + first, 0) % every == 0 for layer in range(n_layers))


#: Rows of Llama 3.2's embedding for what stands for images, which its output layer lacks.
_IMAGE_ROWS: Final = 8


def _crossed(row: Row, get: Lookup) -> int:
    """Count what layers that attend to images have besides: two gates and norms of the heads."""
    layers = get("cross_attention_layers")
    n_crossed = sum(layer < row["n_layers"] for layer in layers)
    return int(n_crossed * (2 + 2 * row["head_dim"]) + _IMAGE_ROWS * row["hidden_size"])


#: What layers of single families have besides: parameters of all layers.
EXTRAS: Final[Mapping[str, Callable[[Row, Lookup], int]]] = {
    "two": lambda row, _: 2 * int(row["n_layers"]),  # the slopes of apertus' activation
    "inner_norms": lambda row, _: (
        int(row["hidden_size"] + row["intermediate_size"]) * int(row["n_layers"])
    ),
    "lambdas": lambda row, _: 4 * int(row["head_dim"] * row["n_layers"]),
    "sinks": lambda row, _: int(row["n_heads"] * row["n_layers"]),
    "indexer": _indexers,
    "crossed": _crossed,
    "mamba2_beside": lambda row, get: int(row["n_layers"]) * MIXERS["mamba2"](row, get),
    "no_last_norm": lambda *_: 0,
}

#: What families call the number of experts that all tokens pass through.
SHARED_COUNTS: Final = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")

#: Layers of these types have no attention.
_WITHOUT_ATTENTION: Final = frozenset({"linear_attention", "conv", "mamba", "recurrent"})


def count_parameters(row: Row, decoder: Decoder = LLAMA_LIKE, get: Lookup = lambda _: None) -> int:
    """Return the parameters of a decoder: embeddings, norms, attention and MLP of all layers.

    ``row`` has the columns of ``models``; ``get`` looks up the fields of the configuration that
    have no column. Tied embeddings count once.

    >>> shape = {"n_layers": 1, "hidden_size": 4, "n_heads": 2, "n_kv_heads": 1, "head_dim": 2}
    >>> count_parameters({**shape, "intermediate_size": 8, "vocab_size": 10})
    236
    """
    if decoder.stack is not None:
        return STACKS[decoder.stack](row, get)
    n_layers, norm = row["n_layers"], decoder.norm_vectors * row["hidden_size"]
    n_sparse = count_mixture_layers(row, decoder, get)
    n_attention = count_attention_layers(row, decoder, get)
    n_params = _attentions(n_attention, row, decoder, get)
    if decoder.mixer is not None:
        n_params += (n_layers - n_attention) * MIXERS[decoder.mixer](row, get)
    n_params += n_sparse * _mixture(row, decoder, get)
    n_params += (n_layers - n_sparse) * _dense(row, decoder, get)
    n_params += n_layers * _norms_per_layer(decoder, get) * norm
    if decoder.extra is not None:
        n_params += EXTRAS[decoder.extra](row, get)
    n_params += _ends(row, decoder, get) + (0 if decoder.extra == "no_last_norm" else norm)
    return int(n_params)


def count_active_parameters(row: Row, decoder: Decoder, get: Lookup) -> int:
    """Return the parameters that one token passes through: all but the experts not chosen."""
    idle = count_mixture_layers(row, decoder, get) * (row["n_experts"] - row["n_experts_active"])
    return count_parameters(row, decoder, get) - int(idle) * _expert(row, decoder, get)


def count_mixture_layers(row: Row, decoder: Decoder, get: Lookup) -> int:
    """Return how many layers have experts; families say it in eight ways."""
    n_layers = int(row["n_layers"])
    if not row.get("n_experts"):
        return 0
    if decoder.stack == "nemotron_h":
        return list_layers(get).count("moe")
    types, listed = get("mlp_layer_types"), get("moe_layers")
    if isinstance(types, list):
        return types[:n_layers].count("sparse")  # of all layers, even where fewer are kept
    if isinstance(listed, list):
        return sum(layer in listed for layer in range(n_layers))
    return sum(_has_experts(layer, decoder, get) for layer in range(n_layers))


def _has_experts(layer: int, decoder: Decoder, get: Lookup) -> bool:
    """Return whether a layer has experts, by the rules of the families that do not list them."""
    step = get("decoder_sparse_step") or get("interleave_moe_layer_step") or 1
    period, offset = get("expert_layer_period") or 1, get("expert_layer_offset") or 0
    stated = (get("first_k_dense_replace"), get("num_dense_layers"), decoder.dense_layers)
    first = next(number for number in stated if number is not None)
    first = max(first, get("moe_layer_start_index") or 0)
    last = get("moe_layer_end_index")
    is_last = last is not None and last >= 0 and layer > last
    dense = get("mlp_only_layers") or ()
    return (
        layer >= first
        and not is_last
        and layer not in dense
        and (layer + 1) % step == 0
        and (layer + 1) % (get("moe_layer_interval") or 1) == 0
        and layer % period == offset
    )


def count_attention_layers(row: Row, decoder: Decoder, get: Lookup) -> int:
    """Return how many layers have attention; in the others is what ``Decoder.mixer`` names."""
    n_layers = int(row["n_layers"])
    if decoder.stack == "nemotron_h":
        return list_layers(get).count("full_attention")
    if decoder.mixer is None:
        return n_layers
    types = get("layer_types") or get("layers_block_type")
    if isinstance(types, list):
        return sum(name not in _WITHOUT_ATTENTION for name in types[:n_layers])
    listed = _list_attention(n_layers, get)
    if listed is not None:
        return sum(layer in listed for layer in range(n_layers))
    every = get("full_attention_interval") or decoder.attention_every
    return (n_layers - decoder.attention_from) // int(every) if every else 0


def _list_attention(n_layers: int, get: Lookup) -> Sequence[int] | None:
    """Return the layers with attention as hybrids list them that do not name all types; or None."""
    of_kimi = read_kimi(get).get("full_attn_layers")
    if of_kimi:
        return [layer - 1 for layer in of_kimi]
    if period := get("attn_layer_period"):
        return range(get("attn_layer_offset") or 0, n_layers, period)
    if blocks := get("block_types"):  # RecurrentGemma's, over and over
        return [layer for layer in range(n_layers) if blocks[layer % len(blocks)] == "attention"]
    listed = get("full_attn_idxs") or get("attn_layer_indices")
    return listed if isinstance(listed, list) else None


def _ends(row: Row, decoder: Decoder, get: Lookup) -> int:
    """Count what stands before the first layer and after the last."""
    hidden, vocab = row["hidden_size"], row["vocab_size"]
    n_params = (1 if row.get("tied_embeddings") else 2) * vocab * hidden
    if decoder.extra_positions is not None:
        n_params += (row["max_positions"] + decoder.extra_positions) * hidden
    n_params += decoder.embedding_norm * decoder.norm_vectors * hidden
    return int(n_params + has_bias(decoder, decoder.head_bias, get) * vocab)


def _attentions(n_layers: int, row: Row, decoder: Decoder, get: Lookup) -> int:
    if decoder.attention is not None:
        return ATTENTIONS[decoder.attention](row, get)
    return n_layers * _attention(row, decoder, get)


def _attention(row: Row, decoder: Decoder, get: Lookup) -> int:
    if decoder.is_latent or get("kv_lora_rank"):
        return _latent_attention(row, get)
    hidden, head = row["hidden_size"], row["head_dim"]
    query, key = row["n_heads"] * head, row["n_kv_heads"] * head
    n_params = hidden * (query + 2 * key) + query * hidden
    n_params += decoder.gated_attention * hidden * query
    n_params += has_bias(decoder, decoder.gate_bias, get) * query
    n_params += has_bias(decoder, decoder.query_bias, get) * (query + 2 * key)
    n_params += has_bias(decoder, decoder.output_bias, get) * hidden
    return int(n_params + _query_key_norms(decoder, get, head, query + key))


def _query_key_norms(decoder: Decoder, get: Lookup, head: int, width: int) -> int:
    flag = decoder.query_key_norm_flag
    if decoder.query_key_norm is None or (flag is not None and get(flag) is not True):
        return 0
    vectors = max(decoder.norm_vectors, 1)
    return vectors * (2 * head if decoder.query_key_norm == "head" else width)


def _latent_attention(row: Row, get: Lookup) -> int:
    """Count DeepSeek's attention: what the narrow matrices yield is normed and widened again."""
    hidden, heads = row["hidden_size"], row["n_heads"]
    narrow, rotary = get("kv_lora_rank"), get("qk_rope_head_dim") or 0
    plain, value = get("qk_nope_head_dim") or 0, get("v_head_dim") or hidden // heads
    query, rank = heads * (plain + rotary), get("q_lora_rank")
    biased = get("attention_bias") is True
    n_params = hidden * rank + rank + rank * query if rank else hidden * query
    n_params += hidden * (narrow + rotary) + narrow + narrow * heads * (plain + value)
    n_params += heads * value * hidden
    return int(n_params + biased * ((rank or 0) + narrow + rotary + hidden))


def _dense(row: Row, decoder: Decoder, get: Lookup) -> int:
    return _mlp(row, decoder, get, dense_width(row, decoder, get))


def dense_width(row: Row, decoder: Decoder, get: Lookup) -> int:
    """Return the width of the MLP of a layer without experts."""
    width = row["intermediate_size"]
    if row.get("n_experts"):
        width = get(decoder.dense_width) or width
    elif decoder.shared_expert == "wide":
        width = get("shared_intermediate_size") or width
    return int(width)


def _mixture(row: Row, decoder: Decoder, get: Lookup) -> int:
    """Count the experts of a layer, their router and what all tokens share."""
    experts, hidden = row.get("n_experts") or 0, row["hidden_size"]
    n_params = experts * _expert(row, decoder, get) + hidden * experts
    n_params += (decoder.router_vectors + decoder.expert_bias) * experts
    return int(n_params + _shared(row, decoder, get))


def _expert(row: Row, decoder: Decoder, get: Lookup) -> int:
    if decoder.stack == "nemotron_h":
        return nemotron_expert(row, get)
    width, hidden = row["intermediate_size"], row["hidden_size"]
    biases = decoder.expert_bias * (2 * width + hidden)
    return int(_matrices(row, decoder) * hidden * width + biases)


def _shared(row: Row, decoder: Decoder, get: Lookup) -> int:
    width = shared_width(row, decoder, get)
    if decoder.shared_expert == "gated":
        return (3 * width + bool(width)) * int(row["hidden_size"])  # with the gate that weighs it
    if decoder.shared_expert == "wide":
        return 3 * width * int(row["hidden_size"])
    return _mlp(row, decoder, get, width) if width else 0


def shared_width(row: Row, decoder: Decoder, get: Lookup) -> int:
    """Return the width of what all tokens of a mixture share; 0 where there is nothing."""
    match decoder.shared_expert:
        case "gated":
            return int(get("shared_expert_intermediate_size") or 0)
        case "counted":
            number = next((count for name in SHARED_COUNTS if (count := get(name))), 0)
            return int(number) * int(row["intermediate_size"])
        case "wide":
            return int(get("shared_intermediate_size") or 0)
        case "one":
            return int(row["intermediate_size"])
    return 0


def _mlp(row: Row, decoder: Decoder, get: Lookup, width: int) -> int:
    hidden, matrices = row["hidden_size"], _matrices(row, decoder)
    biases = (matrices - 1) * width + hidden
    return int(matrices * hidden * width + has_bias(decoder, decoder.mlp_bias, get) * biases)


def _matrices(row: Row, decoder: Decoder) -> int:
    return 3 if row.get("gated_mlp", decoder.gated_mlp) else 2


def _norms_per_layer(decoder: Decoder, get: Lookup) -> int:
    if isinstance(decoder.shares_norm, str) and get(decoder.shares_norm) is True:
        return 1
    if decoder.shares_norm is not True:
        return decoder.norms_per_layer + 2 * (get("use_post_norm") is True)
    if get("new_decoder_architecture") is True:
        return int(get("num_ln_in_parallel_attn") or 2)
    return 1 if get("parallel_attn") is not False else 2
