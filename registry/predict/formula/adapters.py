"""The modules of a layer that carry adapters: their widths, by the names that families use."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from registry.catalogue.module_names import ALL_LINEAR, ENDS, last_name

if TYPE_CHECKING:
    from registry.predict.architecture import Architecture

#: What PEFT targets in llama-like models where nothing is said.
DEFAULT_TARGETS = ("q_proj", "v_proj")
#: The same of families of which it targets others.
_OTHER_DEFAULTS = {"nemotron_h": ("q_proj", "k_proj", "v_proj", "o_proj")}
_ALL = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_PLAIN = ("q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj")
#: Names of families, in the terms of llama's. Fused modules count as one matrix.
_NAMES = {
    "c_attn": "qkv", "query_key_value": "qkv", "W_pack": "qkv", "qkv_proj": "qkv",
    "dense": "o_proj", "w1": "up_proj", "w2": "gate_proj", "gate_up_proj": "gate_up",
    "dense_h_to_4h": "up_proj", "dense_4h_to_h": "down_proj", "fc1": "up_proj", "fc2": "down_proj",
    "Wqkv": "qkv", "out_proj": "o_proj", "c_fc": "up_proj", "fc_in": "up_proj",
    "fc_out": "down_proj", "wqkv": "qkv", "wo": "o_proj",
}  # fmt: skip
#: Names that mean something else in one family.
_NAMES_OF = {"internlm2": {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}}
#: What was fused, in the terms of llama's.
_FUSED = {"qkv": ("q_proj", "k_proj", "v_proj"), "gate_up": ("gate_proj", "up_proj")}
#: Modules of the MLP, in the terms of llama's.
MLP = frozenset({"gate_proj", "up_proj", "down_proj", "gate_up"})


class Target(NamedTuple):
    """Modules of one name and shape that carry an adapter; names are llama's."""

    name: str
    inputs: int
    outputs: int
    #: How many a layer has on average, and how many of them a token passes through.
    copies: float
    used: float


def list_targets(model: Architecture, targets: tuple[str, ...] | None) -> list[Target]:
    """Return the modules with an adapter: those that a configuration listed, else as llama's."""
    if not model.modules:
        return [
            Target(name, inner, outer, copies(model, name), used(model, name))
            for name, inner, outer in target_widths(model, targets)
        ]
    usual = _OTHER_DEFAULTS.get(model.model_type or "", DEFAULT_TARGETS)
    names = {last_name(target) for target in targets or usual}
    return [
        Target(name if name in _ALL else _NAMES.get(name, name), inner, outer, share, share)
        for name, inner, outer, number in model.modules
        if name in names or ALL_LINEAR in names
        for share in [number / model.n_layers]
    ]


def target_widths(
    model: Architecture, targets: tuple[str, ...] | None
) -> list[tuple[str, int, int]]:
    """Return name, width of the input and of the output of each module of a layer with an adapter.

    Names are llama's. Modules of other names than a decoder's count as a square matrix. Qwen's
    ``c_proj`` names two modules.
    """
    widths = _widths(model)
    square = (model.hidden_size,) * 2
    names = _named(model, targets or DEFAULT_TARGETS)
    return [(name, *widths.get(name, square)) for name in names]


def targeted(model: Architecture, targets: tuple[str, ...] | None) -> frozenset[str] | None:
    """Return the matrices that targets stand for, in llama's terms; None where nothing is said.

    They are the same for ``all-linear`` and for the names of all that a family's layers have.
    """
    if targets is None:
        return None
    return frozenset(part for name in _named(model, targets) for part in _FUSED.get(name, (name,)))


def counted_as_square(model: Architecture, targets: tuple[str, ...] | None) -> list[str]:
    """Return the targets of which no shape is known, so that each counts as a square matrix.

    Embeddings and the output layer are not among them: their names at least are known.
    """
    if model.modules:
        widths = {name: (inner, outer) for name, inner, outer, _ in model.modules}
        listed = {*widths, *ENDS, ALL_LINEAR}
        return [target for target in targets or () if last_name(target) not in listed]
    widths = _widths(model)
    return [
        target
        for target in targets or ()
        if last_name(target) not in ENDS
        and any(name not in widths for name in _named(model, (target,)))
    ]


def copies(model: Architecture, name: str) -> float:
    """Return how many of a module a layer has on average: each expert has an MLP of its own.

    Layers without experts have one, which counts as wide as an expert's.
    """
    return _on_average(model, model.n_experts, name)


def used(model: Architecture, name: str) -> float:
    """Return how many of them a token passes through."""
    return _on_average(model, model.n_experts_active, name)


def _on_average(model: Architecture, experts: int | None, name: str) -> float:
    share = model.mixture_layers / model.n_layers if model.n_experts and name in MLP else 0
    return 1 + share * ((experts or 1) - 1)


def _named(model: Architecture, targets: tuple[str, ...]) -> list[str]:
    found = _expanded(model, targets)
    names = {**_NAMES, **_NAMES_OF.get(model.model_type or "", {})}
    # what hybrids call out_proj beside o_proj is another matrix
    other = "out_proj" if "o_proj" in found else None
    return [name if name == other else names.get(name, name) for name in found]


def _expanded(model: Architecture, targets: tuple[str, ...]) -> list[str]:
    if ALL_LINEAR in targets:
        return list(_ALL if model.gated_mlp else _PLAIN)
    names = [name for target in targets for name in _both(target)]
    return list(dict.fromkeys(names))


def _both(target: str) -> tuple[str, ...]:
    """Return the name without its path; the two modules of a ``c_proj`` that has none.

    An expert that all tokens share keeps its path: it is none of those that tokens are routed to.
    """
    path, _, name = target.rpartition(".")
    if "shared" in path:
        return (target,)
    if name != "c_proj":
        return (name,)
    named = {"attn": ("o_proj",), "mlp": ("down_proj",)}
    return named.get(last_name(path), ("o_proj", "down_proj"))


def _widths(model: Architecture) -> dict[str, tuple[int, int]]:
    hidden, middle = model.hidden_size, model.intermediate_size
    query, key = model.n_heads * model.head_dim, model.n_kv_heads * model.head_dim
    return {
        "q_proj": (hidden, query),
        "k_proj": (hidden, key),
        "v_proj": (hidden, key),
        "o_proj": (query, hidden),
        "gate_proj": (hidden, middle),
        "up_proj": (hidden, middle),
        "down_proj": (middle, hidden),
        "qkv": (hidden, query + 2 * key),
        "gate_up": (hidden, 2 * middle),
    }
