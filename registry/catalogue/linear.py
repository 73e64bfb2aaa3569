"""List the linear modules of a decoder's layers: what adapters go on, with names and widths.

Experts are none: in the families that are listed, all versions of transformers hold those of a
layer in one tensor. Towers are left out.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from registry.catalogue.counting import (
    count_attention_layers,
    count_mixture_layers,
    dense_width,
    shared_width,
)
from registry.catalogue.decoders import DECODERS
from registry.catalogue.stacks import (
    gemma4_heads,
    is_shared,
    list_gemma4_types,
    list_layers,
    list_mimo_windows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from registry.catalogue.decoders import Lookup

    Row = Mapping[str, Any]
    #: Name, width of the input and of the output, and how many there are.
    Found = Iterator[tuple[str, int, int, int]]


class LinearModule(NamedTuple):
    """Linear modules of one name and shape."""

    name: str
    inputs: int
    outputs: int
    #: How many there are in all layers.
    copies: int


def list_linear(row: Row, get: Lookup) -> tuple[LinearModule, ...]:
    """Return the linear modules of a decoder's layers; none for a family that is not listed."""
    listed = LINEAR.get(get("model_type") or "")
    found: Counter[tuple[str, int, int]] = Counter()
    for name, inputs, outputs, copies in listed(row, get) if listed else ():
        found[name, int(inputs), int(outputs)] += copies
    return tuple(LinearModule(*module, copies) for module, copies in found.items() if copies)


def _attention(row: Row, get: Lookup) -> Found:
    decoder = DECODERS[get("model_type")]
    n_layers, hidden = count_attention_layers(row, decoder, get), row["hidden_size"]
    query, key = row["n_heads"] * row["head_dim"], row["n_kv_heads"] * row["head_dim"]
    yield "q_proj", hidden, query * (1 + decoder.gated_attention), n_layers  # Qwen's gate with it
    yield "k_proj", hidden, key, n_layers
    yield "v_proj", hidden, key, n_layers
    yield "o_proj", query, hidden, n_layers


def _mlp(hidden: int, width: int, copies: int, *, fused: bool = False) -> Found:
    if fused:
        yield "gate_up_proj", hidden, 2 * width, copies
    else:
        yield "gate_proj", hidden, width, copies
        yield "up_proj", hidden, width, copies
    yield "down_proj", width, hidden, copies


def _plain(row: Row, get: Lookup, *, fused: bool = False) -> Found:
    """Yield attention, MLPs and shared experts."""
    decoder, hidden = DECODERS[get("model_type")], row["hidden_size"]
    n_sparse = count_mixture_layers(row, decoder, get)
    width = dense_width(row, decoder, get)
    yield from _attention(row, get)
    yield from _mlp(hidden, width, row["n_layers"] - n_sparse, fused=fused)
    if n_sparse and (shared := shared_width(row, decoder, get)):
        yield from _mlp(hidden, shared, n_sparse)


def _llama4(row: Row, get: Lookup) -> Found:
    sparse = count_mixture_layers(row, DECODERS[get("model_type")], get)
    yield from _plain(row, get)
    yield "router", row["hidden_size"], row.get("n_experts") or 0, sparse


def _delta(row: Row, get: Lookup) -> Found:
    """Yield Qwen 3.5's: its delta networks have a matrix for each thing, unlike Qwen3-Next's."""
    decoder, hidden = DECODERS[get("model_type")], row["hidden_size"]
    yield from _plain(row, get)
    if get("shared_expert_intermediate_size"):
        sparse = count_mixture_layers(row, decoder, get)
        yield "shared_expert_gate", hidden, 1, sparse
    n_layers = row["n_layers"] - count_attention_layers(row, decoder, get)
    heads = get("linear_num_value_heads")
    value = heads * get("linear_value_head_dim")
    key = get("linear_num_key_heads") * get("linear_key_head_dim")
    yield "in_proj_qkv", hidden, 2 * key + value, n_layers
    yield "in_proj_z", hidden, value, n_layers
    yield "in_proj_a", hidden, heads, n_layers
    yield "in_proj_b", hidden, heads, n_layers
    yield "out_proj", value, hidden, n_layers


def _mamba2(hidden: int, heads: int, inner: int, states: int, copies: int) -> Found:
    yield "in_proj", hidden, 2 * inner + states + heads, copies
    yield "out_proj", inner, hidden, copies


def _beside_mamba2(row: Row, get: Lookup) -> Found:
    """Yield Falcon-H1's, with Mamba in all layers, and Bamba's, with Mamba in the others."""
    decoder, hidden = DECODERS[get("model_type")], row["hidden_size"]
    yield from _plain(row, get)
    others = row["n_layers"] - count_attention_layers(row, decoder, get)
    yield from _mamba2(
        hidden, get("mamba_n_heads"),
        get("mamba_d_ssm") or (get("mamba_expand") or 2) * hidden,
        2 * get("mamba_n_groups") * get("mamba_d_state"),
        others if decoder.mixer else row["n_layers"],
    )  # fmt: skip


def _nemotron_h(row: Row, get: Lookup) -> Found:
    hidden, n_of = row["hidden_size"], Counter(list_layers(get))
    heads = get("mamba_num_heads")
    groups = get("mamba_n_groups") or get("n_groups")
    inner, states = heads * get("mamba_head_dim"), 2 * groups * get("ssm_state_size")
    yield from _mamba2(hidden, heads, inner, states, n_of["linear_attention"])
    yield from _attention(row, get)
    shared, narrow = get("moe_shared_expert_intermediate_size") or 0, get("moe_latent_size") or 0
    for width, copies in ((get("intermediate_size"), n_of["mlp"]), (shared, n_of["moe"])):
        yield "up_proj", hidden, width, copies
        yield "down_proj", width, hidden, copies
    if narrow:
        yield "fc1_latent_proj", hidden, narrow, n_of["moe"]
        yield "fc2_latent_proj", narrow, hidden, n_of["moe"]


def _gemma4(row: Row, get: Lookup) -> Found:
    hidden, types = row["hidden_size"], list_gemma4_types(row, get)
    for layer, kind in enumerate(types):
        yield from _gemma4_attention(layer, kind == "full_attention", row, get)
        doubled = get("use_double_wide_mlp") is True and is_shared(layer, row, get)
        yield from _mlp(hidden, get("intermediate_size") * (1 + doubled), 1)
    if row.get("n_experts"):
        yield "proj", hidden, row["n_experts"], row["n_layers"]  # the router's
    if width := get("hidden_size_per_layer_input"):
        yield "per_layer_input_gate", hidden, width, row["n_layers"]
        yield "per_layer_projection", width, hidden, row["n_layers"]
        yield "per_layer_model_projection", hidden, row["n_layers"] * width, 1


def _gemma4_attention(layer: int, is_full: bool, row: Row, get: Lookup) -> Found:  # noqa: FBT001 - of a layer
    hidden, (head, groups) = row["hidden_size"], gemma4_heads(layer, is_full, row, get)
    yield "q_proj", hidden, row["n_heads"] * head, 1
    yield "o_proj", row["n_heads"] * head, hidden, 1
    if not is_shared(layer, row, get):
        yield "k_proj", hidden, groups * head, 1
        yield "v_proj", hidden, groups * head, int(not (is_full and get("attention_k_eq_v")))


def _mimo(row: Row, get: Lookup) -> Found:
    hidden, head, value = row["hidden_size"], row["head_dim"], get("v_head_dim")
    decoder = DECODERS[get("model_type")]
    for is_window in list_mimo_windows(row, get):
        groups = row["n_kv_heads"] * (1 + is_window)
        yield "q_proj", hidden, row["n_heads"] * head, 1
        yield "k_proj", hidden, groups * head, 1
        yield "v_proj", hidden, groups * value, 1
        yield "o_proj", row["n_heads"] * value, hidden, 1
    dense = row["n_layers"] - count_mixture_layers(row, decoder, get)
    yield from _mlp(hidden, dense_width(row, decoder, get), dense)


#: Families whose modules are listed, by the decoder's ``model_type``.
LINEAR: Final[Mapping[str, Callable[[Row, Lookup], Found]]] = {
    "qwen3_5_text": _delta,
    "qwen3_5_moe_text": _delta,
    "gemma4_text": _gemma4,
    "gemma4_unified_text": _gemma4,
    "llama4_text": _llama4,
    "glm4v_text": partial(_plain, fused=True),
    "glm4v_moe_text": _plain,
    "nemotron_h": _nemotron_h,
    "falcon_h1": _beside_mamba2,
    "bamba": _beside_mamba2,
    "mimo_v2_flash": _mimo,
}
