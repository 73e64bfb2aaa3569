"""Count and describe a live model's parameters, whatever wraps or packs them.

What FSDP's flat parameters hold, of which each process has a part.

Its first version lays the parameters of a module end to end in one and splits that over the
processes. What the module then shows is that one, or what is left here of each.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from registry.measure.recording.own_lora import is_own_lora
from registry.measure.words import dtype_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Parts of the names of tables of positions, which some models never train (Whisper's encoder).
_POSITIONS = ("position", "pos_emb", "sinusoid")

#: Parts of parameter names that PEFT adds beside the base model's own: AdaLoRA keeps its ranks so,
#: and Llama-Adapter all that it trains.
_ADDED = ("modules_to_save.", "prompt_encoder.", "trainable_tokens_", ".ranknum.", ".adaption_")


@dataclass(frozen=True)
class Parameters:
    """What a model's parameters add up to."""

    n_params: int
    n_base_params: int
    n_trainable: int
    n_trainable_base: int
    param_dtype: str | None
    trains_embeddings: bool
    #: Whether nothing is left as it is but positions.
    is_all_trained: bool


def is_finite(value: Any) -> bool:
    """Return whether a number, or the first one of a tensor, is finite; True where none is at hand.

    FSDP leaves tensors behind that hold nothing, which must not be read.
    """
    with suppress(Exception):  # whatever the job has in its place
        held = getattr(value, "_local_tensor", value)
        if hasattr(held, "untyped_storage"):
            held = held.detach()[(0,) * held.ndim] if held.untyped_storage().nbytes() else 0
        return math.isfinite(held)
    return True


def count_parameters(model: Any, optimizers: Iterable[Any] = ()) -> Parameters:
    """Count a model's parameters; one that is packed to a few bits counts as what it holds.

    Where all that the optimizers hold is the model's own, nothing else of it is trained, gradients
    or not; else they hold copies, or parameters of another model too.
    """
    embeddings = _embedding_parameters(model)
    sizes = read_full_sizes(model)
    named = list(model.named_parameters())  # held, so that no two have one identity
    trained = {id(each) for _, each in named if each.requires_grad}
    stepped = set(stepped_by(optimizers))
    if stepped and stepped <= trained:
        trained = stepped
    prefix = adapter_prefix(model)
    totals: Counter[str] = Counter()
    dtypes: Counter[str] = Counter()
    trains_embeddings = False
    for name, parameter in named:
        count = count_elements(parameter, sizes)
        is_base = not is_added(name, prefix)
        totals["all"] += count
        totals["base"] += count * is_base
        is_trained = id(parameter) in trained
        totals["trainable"] += count * is_trained
        totals["trainable_base"] += count * (is_trained and is_base)
        totals["left"] += count * (not is_trained and not any(map(name.__contains__, _POSITIONS)))
        if is_base and not is_packed(parameter):
            dtypes[str(parameter.dtype)] += count
        if is_trained:
            trains_embeddings |= id(parameter) in embeddings or _is_saved_embedding(name)
    common = dtypes.most_common(1)
    return Parameters(
        n_params=totals["all"],
        n_base_params=totals["base"],
        n_trainable=totals["trainable"],
        n_trainable_base=totals["trainable_base"],
        param_dtype=dtype_word(common[0][0]) if common else None,
        trains_embeddings=trains_embeddings,
        is_all_trained=not totals["left"],
    )


def stepped_by(optimizers: Iterable[Any]) -> dict[int, Any]:
    """Return the trained parameters that optimizers hold, by their identity."""
    return {
        id(parameter): parameter
        for optimizer in optimizers
        for group in getattr(optimizer, "param_groups", ())
        for parameter in group["params"]
        if parameter.requires_grad
    }


def count_elements(parameter: Any, sizes: Mapping[int, int] = MappingProxyType({})) -> int:
    """Return the number of weights a parameter holds; ``sizes`` are those of split ones."""
    if id(parameter) in sizes:
        return sizes[id(parameter)]
    state = getattr(parameter, "quant_state", None)
    if state is not None and getattr(state, "shape", None) is not None:
        return math.prod(state.shape)
    sharded = getattr(parameter, "ds_numel", None)  # DeepSpeed ZeRO-3 leaves an empty tensor
    count = int(sharded if sharded is not None else parameter.numel())
    if type(parameter).__name__ == "Params4bit":
        return count * 2 * int(parameter.element_size())
    return count


def is_packed(parameter: Any) -> bool:
    """Return whether a parameter holds quantized weights."""
    return type(parameter).__name__ in ("Params4bit", "Int8Params") or not (
        parameter.is_floating_point()
    )


def adapter_prefix(model: Any) -> str | None:
    """Return what the names of PEFT's own parameters hold, such as ``lora_``.

    What PEFT wraps may be the model itself or a module in it.
    """
    for module in (model, *(model.modules() if hasattr(model, "modules") else ())):
        prefix = getattr(getattr(module, "base_model", None), "prefix", None)
        if isinstance(prefix, str) and prefix:
            return prefix
    return None


def is_added(name: str, prefix: str | None) -> bool:
    """Return whether a parameter was added to the base model."""
    if any(part in name for part in _ADDED) or is_own_lora(name):
        return True
    return prefix is not None and prefix in name


def _is_saved_embedding(name: str) -> bool:
    return "modules_to_save." in name and ("embed" in name or "lm_head" in name)


def _embedding_parameters(model: Any) -> set[int]:
    """Return the parameters of embeddings and output layer, as the model or one in it names them.

    Where none does, those of all its embeddings.
    """
    modules = list(model.modules()) if hasattr(model, "modules") else []
    named = (found for module in (model, *modules) if (found := _named_embeddings(module)))
    embeddings = next(named, [one for one in modules if type(one).__name__ == "Embedding"])
    flat_of = _read_flat_of(model)
    flat = {flat_of[id(module)] for module in embeddings if id(module) in flat_of}
    return flat | {id(parameter) for module in embeddings for parameter in module.parameters()}


def _named_embeddings(model: Any) -> list[Any]:
    found: list[Any] = []
    for getter in ("get_input_embeddings", "get_output_embeddings"):
        try:
            module = getattr(model, getter)()
        except (AttributeError, NotImplementedError):
            continue
        if module is not None:
            found.append(module)
    return found


def read_full_sizes(model: Any) -> dict[int, int]:
    """Return how many weights each split parameter has in all processes, by its identity."""
    sizes: dict[int, int] = {}
    for flat in _find_flat(model):
        each = [math.prod(shape) for shape in flat._shapes]  # noqa: SLF001 - FSDP offers no other way
        sizes[id(flat)] = sum(each)
        shown = getattr(flat, "_params", None) or ()
        sizes |= {id(part): size for part, size in zip(shown, each, strict=False)}
    return sizes


def _read_flat_of(model: Any) -> dict[int, int]:
    """Return the identity of the flat parameter that has a module's own, by the module's."""
    return {
        id(info.module): id(flat)
        for flat in _find_flat(model)
        for info in flat._param_infos  # noqa: SLF001 - likewise
    }


def _find_flat(model: Any) -> Iterator[Any]:
    for module in model.modules() if hasattr(model, "modules") else ():
        flat = getattr(vars(module).get("_handle"), "flat_param", None)
        if flat is not None:
            yield flat
