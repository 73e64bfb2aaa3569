"""Count a configuration's parameters on transformers' own modules, where it is installed.

Nothing is downloaded and no memory is taken: the modules are built on torch's meta device. A
configuration may name code to run; only what describes a shape reaches transformers.
"""

from __future__ import annotations

import re
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from registry.catalogue.hf_config import parse_hf_config, read_field, read_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Fields by which transformers finds code, kernels, weights or folders.
LOADS: Final = re.compile(
    r"auto_map|attn_impl|quantization_config|backbone|custom|(?<!conv_)kernel(?!_size)|(?<![a-z])code(?![a-z])|_path$"
)

#: Auto classes of models with a head that is trained, in the order in which they are tried.
_HEADS: Final = (
    "AutoModelForCausalLM",
    "AutoModelForImageTextToText",
    "AutoModelForMultimodalLM",
    "AutoModelForMaskedLM",
)
_HEADS_OF_TWO: Final = ("AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq")


def can_build() -> bool:
    """Return whether torch and transformers are installed; neither is loaded."""
    return find_spec("torch") is not None and find_spec("transformers") is not None


def count_on_meta(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``n_params`` of the modules that a configuration makes; nothing where there are none.

    Of a mixture also ``n_active_params``: without the experts that are not chosen; and where the
    configuration leaves it to the class, whether the embeddings are tied. Nothing too where the
    modules have other sizes than it states: transformers ignores fields in places that it does not
    know, as in configurations of LLaVA's own code. Takes seconds: torch and transformers are
    loaded.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = build_on_meta(config)
    except Exception:  # noqa: BLE001 - transformers raises whatever a configuration leads it to
        return {}
    stated = parse_hf_config(config)
    built = parse_hf_config(model.config)
    if any(name in stated and stated[name] != built.get(name) for name in _SIZES):
        return {}
    counts = count_modules(model)
    return counts if "tied_embeddings" in stated else counts | _read_tied(model)


#: Columns of sizes that a configuration and its modules share.
_SIZES: Final = ("n_layers", "hidden_size", "vocab_size")


def _read_tied(model: Any) -> dict[str, bool]:
    """Return whether a live model's output layer is its embedding, where it has both."""
    inside, outside = model.get_input_embeddings(), model.get_output_embeddings()
    weights = (getattr(inside, "weight", None), getattr(outside, "weight", None))
    known = all(weight is not None for weight in weights)
    return {"tied_embeddings": weights[0] is weights[1]} if known else {}


def count_modules(model: Any) -> dict[str, int]:
    """Return the parameters of a live model, and those that a token passes through."""
    named = dict(model.named_parameters())
    counts = {"n_params": sum(parameter.numel() for parameter in named.values())}
    text = model.config.get_text_config()
    sizes_of = read_sizes(lambda name: read_field(text, name))
    experts, active = sizes_of.get("n_experts"), sizes_of.get("n_experts_active")
    inside = sum(
        parameter.numel()
        for name, parameter in named.items()
        if ".experts." in name or _is_stack(parameter, experts)
    )
    if experts and active and inside:
        counts["n_active_params"] = counts["n_params"] - inside * (experts - active) // experts
    return counts


def _is_stack(parameter: Any, experts: int | None) -> bool:
    """Return whether a parameter holds the matrices of all experts (JetMoE, Granite)."""
    shape: tuple[int, ...] = getattr(parameter, "shape", ())
    return len(shape) == _MATRICES and shape[0] == experts


#: Dimensions of several matrices.
_MATRICES: Final = 3


def build_on_meta(config: Mapping[str, Any]) -> Any:
    """Return a configuration's model on the meta device, with its language head."""
    torch, transformers = import_module("torch"), import_module("transformers")
    stated = without_code(config)
    live = transformers.AutoConfig.for_model(stated.pop("model_type"), **stated)
    heads = (*_HEADS_OF_TWO, *_HEADS) if getattr(live, "is_encoder_decoder", False) else _HEADS
    if stated.get("vision_config"):  # whose head for text alone has no tower
        heads = ("AutoModelForImageTextToText", *heads)
    auto = next(
        found
        for name in heads
        if (found := getattr(transformers, name, None))  # of its release, and not of all
        and type(live) in found._model_mapping  # noqa: SLF001
    )
    with torch.device("meta"):
        model = auto.from_config(live)
    model.tie_weights()
    return model


def without_code(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without the fields that name code, kernels or files."""
    return {
        name: _plain(value)
        for name, value in config.items()
        if isinstance(name, str) and not LOADS.search(name)
    }


def _plain(value: Any) -> Any:
    """Return a value of a configuration; transformers 5 writes infinity as an object."""
    if isinstance(value, dict):
        return float(value["__float__"]) if [*value] == ["__float__"] else without_code(value)
    return [*map(_plain, value)] if isinstance(value, list) else value
