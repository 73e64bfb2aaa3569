"""Count decoders whose layers are not all alike: each layer is counted by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from registry.catalogue.mixers import count_mamba2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from registry.catalogue.decoders import Lookup

    Row = Mapping[str, Any]
    Stack = Callable[[Row, Lookup], int]

#: How Nemotron-H writes its layers as one word, and what transformers calls them today.
_LETTERS: Final = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
_OLDER: Final = {"mamba": "linear_attention", "attention": "full_attention"}


def list_layers(get: Lookup) -> list[str]:
    """Return what each layer of Nemotron-H is, from its types or from the word for them.

    Empty where neither is stated: transformers takes four layers then, whatever their number is.
    """
    types = get("layers_block_type") or get("layer_types")
    if isinstance(types, list):
        return [_OLDER.get(name, str(name)) for name in types]
    word = get("hybrid_override_pattern")
    return [_LETTERS.get(letter, letter) for letter in word] if isinstance(word, str) else []


def _count_ends(row: Row) -> int:
    """Count the embedding, an output layer of its own, and the last norm."""
    hidden = row["hidden_size"]
    return int((1 if row.get("tied_embeddings") else 2) * row["vocab_size"] * hidden + hidden)


def _count_looked_up(row: Row, get: Lookup) -> int:
    """Count what layers look up for a token (Gemma 3n): the table, its projection and its norm."""
    hidden, width = row["hidden_size"], get("hidden_size_per_layer_input") or 0
    if not width:
        return 0
    every = row["n_layers"] * width
    of_layers = row["n_layers"] * (2 * hidden * width + hidden)
    return int(get("vocab_size_per_layer_input") * every + every * hidden + width + of_layers)


def is_shared(layer: int, row: Row, get: Lookup) -> bool:
    """Return whether a layer takes keys and values from an earlier one."""
    return bool(layer >= row["n_layers"] - (get("num_kv_shared_layers") or 0))


#: Every how many of Gemma 4's layers one attends to all, where nothing is said.
_GEMMA_PATTERN: Final = 6
#: Width of a head of those.
_GLOBAL_HEAD: Final = 512


def _full_after(layer: int, every: int) -> str:
    return "sliding_attention" if (layer + 1) % every else "full_attention"


def list_gemma4_types(row: Row, get: Lookup) -> list[str]:
    """Return what each layer of Gemma 4 attends to; the last one to all, whatever is stated."""
    types = get("layer_types")
    if isinstance(types, list):
        found = [*types]
    else:
        found = [_full_after(layer, _GEMMA_PATTERN) for layer in range(row["n_layers"])]
    return [*found[:-1], "full_attention"]


def gemma4_heads(layer: int, is_full: bool, row: Row, get: Lookup) -> tuple[int, int]:  # noqa: FBT001
    """Return the width of a head and the number of key heads of a layer."""
    own: Mapping[str, Any] = {}
    layers = get("per_layer_config")
    if isinstance(layers, dict):
        stated = (one for name, one in layers.items() if int(name) == layer)
        own = next((one for one in stated if isinstance(one, dict)), {})
    elif layers:
        own = {
            name: getattr(layers[layer], name, None) for name in ("head_dim", "num_key_value_heads")
        }
    elif is_full:
        gated = get("attention_k_eq_v") is True
        heads = get("num_global_key_value_heads") if gated else None
        own = {"head_dim": get("global_head_dim") or _GLOBAL_HEAD, "num_key_value_heads": heads}
    head, groups = own.get("head_dim"), own.get("num_key_value_heads")
    return head or row["head_dim"], groups or row["n_kv_heads"]


def _count_gemma4_attention(layer: int, is_full: bool, row: Row, get: Lookup) -> int:  # noqa: FBT001
    hidden, (head, groups) = row["hidden_size"], gemma4_heads(layer, is_full, row, get)
    query, biased = row["n_heads"] * head, get("attention_bias") is True
    n_params = 2 * hidden * query + head + biased * (query + hidden)
    if is_shared(layer, row, get):
        return int(n_params)
    matrices = 1 if is_full and get("attention_k_eq_v") is True else 2
    return int(n_params + matrices * groups * head * (hidden + biased) + head)


def _count_gemma4_mixture(row: Row, get: Lookup) -> int:
    """Count the experts beside a layer's MLP, their router and their norms."""
    if not row.get("n_experts"):
        return 0
    hidden, experts = row["hidden_size"], row["n_experts"]
    each = 3 * hidden * get("moe_intermediate_size")
    return int(experts * (each + hidden + 1) + 4 * hidden)


def _count_gemma4(row: Row, get: Lookup) -> int:
    hidden, types = row["hidden_size"], list_gemma4_types(row, get)
    n_params = _count_ends(row) + _count_looked_up(row, get)
    for layer in range(row["n_layers"]):
        is_full = types[layer] == "full_attention"
        doubled = get("use_double_wide_mlp") is True and is_shared(layer, row, get)
        n_params += _count_gemma4_attention(layer, is_full, row, get)
        n_params += 3 * hidden * get("intermediate_size") * (1 + doubled) + 4 * hidden
    return int(n_params + row["n_layers"] * _count_gemma4_mixture(row, get))


def _count_gemma3n(row: Row, get: Lookup) -> int:
    """Count Gemma 3n's decoder: alternating updates, and a low-rank path beside the attention."""
    hidden, head = row["hidden_size"], row["head_dim"]
    query, key = row["n_heads"] * head, row["n_kv_heads"] * head
    inputs, biased = get("altup_num_inputs"), get("attention_bias") is True
    layer = 2 * hidden * query + head + biased * (query + hidden) + 4 * hidden
    layer += 3 * hidden * row["intermediate_size"]
    layer += inputs**2 + inputs**3 + inputs * hidden + 2 * hidden  # alternating updates
    layer += 2 * hidden * get("laurel_rank") + hidden
    n_own = row["n_layers"] - (get("num_kv_shared_layers") or 0)
    n_params = row["n_layers"] * layer + n_own * (2 * key * (hidden + biased) + head)
    n_params += 2 * (inputs - 1) * hidden * hidden
    return int(n_params + _count_ends(row) + _count_looked_up(row, get))


def _count_nemotron_h(row: Row, get: Lookup) -> int:
    """Count Nemotron-H, each of whose layers is one thing: a mixer, attention, an MLP, experts."""
    counted = {
        "linear_attention": _count_nemotron_mamba,
        "full_attention": _count_plain_attention,
        "mlp": _count_nemotron_mlp,
        "moe": _count_nemotron_mixture,
    }
    layers = list_layers(get)
    if len(layers) != row["n_layers"]:
        raise ValueError(f"found {len(layers)} types of {row['n_layers']} layers")
    n_params = sum(counted[kind](row, get) + row["hidden_size"] for kind in layers)
    return int(n_params + _count_ends(row))


def _count_nemotron_mamba(row: Row, get: Lookup) -> int:
    heads, biased = get("mamba_num_heads"), get("use_bias") is True
    groups = get("n_groups") if get("mamba_n_groups") is None else get("mamba_n_groups")
    return count_mamba2(
        row["hidden_size"], heads, heads * get("mamba_head_dim"),
        2 * groups * get("ssm_state_size"), get("mamba_d_conv") or get("conv_kernel"),
        convolution_bias=get("use_conv_bias") is not False, biases=(biased, biased),
    )  # fmt: skip


def _count_plain_attention(row: Row, _: Lookup) -> int:
    return int(2 * row["hidden_size"] * row["head_dim"] * (row["n_heads"] + row["n_kv_heads"]))


def _count_two(hidden: int, width: int, get: Lookup) -> int:
    """Count an MLP without a gate."""
    return int(2 * hidden * width + (get("mlp_bias") is True) * (hidden + width))


def _count_nemotron_mlp(row: Row, get: Lookup) -> int:
    return _count_two(row["hidden_size"], get("intermediate_size"), get)


def nemotron_expert(row: Row, get: Lookup) -> int:
    """Return the parameters of one of Nemotron-H's experts, which may work in a narrower width."""
    return int(2 * (get("moe_latent_size") or row["hidden_size"]) * get("moe_intermediate_size"))


def _count_nemotron_mixture(row: Row, get: Lookup) -> int:
    hidden, experts, narrow = row["hidden_size"], row["n_experts"], get("moe_latent_size") or 0
    n_params = experts * (nemotron_expert(row, get) + hidden)
    n_params += _count_two(hidden, narrow, get) * bool(narrow)  # into the width and out of it
    return int(n_params + _count_two(hidden, get("moe_shared_expert_intermediate_size"), get))


def list_mimo_windows(row: Row, get: Lookup) -> Iterator[bool]:
    """Yield whether each layer attends to a window."""
    types = get("layer_types")
    for layer in range(row["n_layers"]):
        if isinstance(types, list):
            yield types[layer] == "sliding_attention"
        else:
            yield layer != 0 and (layer + 1) % 6 != 0


def _count_mimo_attention(row: Row, get: Lookup) -> int:
    """Count the attention of all layers of MiMo-V2: windows have more key heads, and sinks."""
    hidden, heads, biased = row["hidden_size"], row["n_heads"], get("attention_bias") is True
    query, value, n_params = heads * row["head_dim"], get("v_head_dim"), 0
    for is_window in list_mimo_windows(row, get):
        key = row["n_kv_heads"] * (1 + is_window) * (row["head_dim"] + value)
        n_params += (query + key) * (hidden + biased) + heads * value * hidden + is_window * heads
    return int(n_params)


#: Counts of whole decoders by the name that ``Decoder.stack`` gives.
STACKS: Final[Mapping[str, Stack]] = {
    "gemma4": _count_gemma4,
    "gemma3n": _count_gemma3n,
    "nemotron_h": _count_nemotron_h,
}

#: Counts of the attention of all layers by the name that ``Decoder.attention`` gives.
ATTENTIONS: Final[Mapping[str, Stack]] = {"mimo_v2": _count_mimo_attention}
