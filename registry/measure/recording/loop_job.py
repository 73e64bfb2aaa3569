"""A training loop that somebody wrote, as a recording sees it: a model and its optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry.measure.recording.configuration import (
    find_adapters,
    is_compiled,
    is_sharded,
    optimizer_word,
    read_model,
    read_rank,
    spread_processes,
)
from registry.measure.recording.loaded import loaded
from registry.measure.recording.parameters import (
    count_elements,
    is_packed,
    read_full_sizes,
    stepped_by,
)
from registry.measure.words import dtype_word

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from registry.measure.recording.batches import Batches
    from registry.measure.recording.parameters import Parameters

#: What wrappers call the module they wrap.
_OF_FSDP = "_fsdp_wrapped_module"
_INNER = ("module", "_orig_mod", _OF_FSDP, "_forward_module")

#: Columns that follow from what a pass is: none of them is known, or no longer, where that is not.
_OF_PASSES = ("seq_len", "length_distribution", "micro_batch_size", "grad_accum_steps")

#: Dimensions of the weights of a layer that multiplies, at least.
_MATRIX = 2

#: Classes that spread a model over processes, and the contract's word.
_SHARDINGS = {
    "DistributedDataParallel": "ddp",
    "FullyShardedDataParallel": "fsdp",
    "DataParallel": "dp",
}


class LoopJob:
    """The training of the outermost module that a loop calls."""

    name = "loop"

    def __init__(self, model: Any, optimizers: list[Any]) -> None:
        self._model = model
        self._bare = unwrap(model)
        self._whole = unwrap(model, keeps_fsdp=True)
        self.optimizers = _sort_optimizers(self._bare, optimizers)
        self.is_compiled = is_compiled(model)
        self._compute_dtype: str | None = None
        self._has_seen_layer = False
        #: Whether a layer was called in a backward pass: what it gives is computed again.
        self.is_recomputed = False

    @property
    def model(self) -> Any:
        """The model itself, without what spreads or compiles it.

        FSDP's own module stays, which knows the sizes of what it has split.
        """
        return self._whole

    @property
    def config(self) -> Any:
        """The model's configuration, or that of a model in it, else what its modules show."""
        found = _find_config(self._bare)
        kind = getattr(found, "model_type", None)
        if kind and isinstance(kind, str):
            return found
        stated = vars(found) if hasattr(found, "__dict__") else found
        if not stated:
            stated = read_module_shape(self._bare)
        kind = stated.get("model_type")
        named = isinstance(kind, str) and kind
        return {**stated, "model_type": kind if named else type(self._bare).__name__.lower()}

    @property
    def device(self) -> str:
        """Kind of the device that the parameters are on."""
        return next((str(p.device.type) for p in self._model.parameters()), "cpu")

    def read_configuration(self, parameters: Parameters) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a row of ``configurations``, and the words as they were found."""
        carrying = find_adapters(self._bare)
        row = read_model(self._bare if carrying is None else carrying, parameters, _read_mixed())
        row |= _read_devices(self._model)
        classes = [type(optimizer) for optimizer in self.optimizers]
        if row["sharding"] == "ddp" and any(map(is_sharded, self.optimizers)):
            row["sharding"] = "zero1"
        row["optimizer"] = optimizer_word(self.optimizers[0]) if classes else None
        row["torch_compile"] = self.is_compiled
        provenance: dict[str, Any] = {"model_class": type(self._bare).__name__}
        if classes:
            provenance["optimizer"] = classes[0].__name__
            stepped = stepped_by(self.optimizers)
            if any(id(parameter) in stepped for parameter in self._bare.parameters()):
                sizes = read_full_sizes(self._whole)
                held = sum(count_elements(parameter, sizes) for parameter in stepped.values())
                provenance["optimizer_params"] = held
        return row, provenance

    def parts(self) -> Iterator[Any]:
        """Return all modules of the model, itself first."""
        return iter(self._model.modules())

    def note_layer(self, module: Any) -> None:
        """Note what a layer is about to compute in, if it is the first one that shows it.

        Autocast may begin and weights be cast only inside of the model, as accelerate and FSDP have
        it. Quantized weights show nothing, and need not: their layers say what they compute in.
        """
        held = {**vars(module), **module._parameters}  # noqa: SLF001 - FSDP leaves plain tensors, and a parametrized weight is computed
        weight: Any = held.get("weight")
        is_matrix = getattr(weight, "ndim", 0) >= _MATRIX and not hasattr(module, "num_embeddings")
        if self._has_seen_layer or not is_matrix:
            return
        self._has_seen_layer = True
        mixed = _read_mixed()
        if mixed is not None or not is_packed(weight):
            self._compute_dtype = mixed or dtype_word(weight.dtype)

    def read_length(self, batches: Batches) -> dict[str, Any]:
        """Return lengths, batch, accumulation and the number format, as they were seen."""
        row = batches.read_length() if batches.are_clear else dict.fromkeys(_OF_PASSES)
        if self._compute_dtype is not None:
            row["compute_dtype"] = self._compute_dtype
        if self.is_recomputed:
            row["gradient_checkpointing"] = True
        row.pop("padding_free", None)
        if batches.sizes and batches.are_clear:
            size, n_replicas = batches.sizes.most_common(1)[0][0], count_replicas(self._model)
            row |= {} if size % n_replicas else {"micro_batch_size": size // n_replicas}
        if batches.per_step:
            row["grad_accum_steps"] = batches.per_step.most_common(1)[0][0] or None
        return row

    def output_folder(self) -> Path | None:
        """Return None: a loop does not say where it writes."""
        return None


def _sort_optimizers(model: Any, optimizers: list[Any]) -> list[Any]:
    """Return the optimizers of a model's parameters, that of the most first.

    A loop may train several models. All of them where they hold copies alone.
    """
    if len(optimizers) <= 1:
        return optimizers
    own = {id(parameter) for parameter in model.parameters()}
    shares = [
        sum(count_elements(held) for each, held in stepped_by([optimizer]).items() if each in own)
        for optimizer in optimizers
    ]
    order = sorted(range(len(optimizers)), key=lambda place: -shares[place])
    return [optimizers[place] for place in order if shares[place] or not any(shares)]


def unwrap(model: Any, *, keeps_fsdp: bool = False) -> Any:
    """Return the module inside of what spreads, compiles or precision-wraps it."""
    for _ in range(len(_INNER) + 2):
        if keeps_fsdp and hasattr(model, _OF_FSDP):
            break
        inner = (getattr(model, name, None) for name in _INNER)
        found = next((module for module in inner if hasattr(module, "parameters")), None)
        if found is None or found is model:
            break
        model = found
    return model


def _find_config(model: Any) -> Any:
    """Return the configuration that says a model's shape."""
    for module in model.modules():
        config = getattr(module, "config", None)
        if config is not None and not isinstance(config, str | int | float):
            return config if isinstance(config, dict) or hasattr(config, "__dict__") else None
    return None


def _read_mixed() -> str | None:
    """Return the number format that autocast computes in at this moment."""
    torch = loaded("torch")
    for kind in ("cuda", "cpu"):
        if torch.is_autocast_enabled(kind):
            return dtype_word(torch.get_autocast_dtype(kind))
    return None


def _read_devices(model: Any) -> dict[str, Any]:
    world = read_rank()[1]
    sharding = _read_sharding(model)
    n_nodes, per_node = spread_processes(world)
    if world == 1:
        devices = {str(p.device) for p in model.parameters() if p.device.type == "cuda"}
        if sharding == "dp":
            per_node = count_replicas(model)
            sharding = "dp" if per_node > 1 else "none"
        elif len(devices) > 1:
            per_node, sharding = len(devices), "device_map"
        elif sharding in ("ddp", "fsdp"):  # around one process, which shares with nobody
            sharding = "none"
    return {"n_nodes": n_nodes, "gpus_per_node": per_node, "sharding": sharding}


def count_replicas(model: Any) -> int:
    """Return how many devices of this process a batch is split over; on the CPU there is one."""
    if _read_sharding(model) != "dp":
        return 1
    return max(len(getattr(model, "device_ids", ())), 1)


def _read_sharding(model: Any) -> str | None:
    for module in (model, unwrap(model)):
        names = {base.__name__ for base in type(module).__mro__}
        found = next((word for name, word in _SHARDINGS.items() if name in names), None)
        if found is not None:
            return found
        if "FSDPModule" in names:
            return "fsdp"
        if "DeepSpeedEngine" in names:
            stage = int(module.zero_optimization_stage())
            return f"zero{stage}" if stage else "ddp"
    return "none" if read_rank()[1] == 1 else None


# The shape of a model that carries no configuration, from its modules.

_Row = dict[str, Any]


def read_module_shape(model: Any) -> _Row:
    """Return what a model's modules show of its shape, in the names of a ``config.json``.

    Vocabulary and width are those of the largest embedding, the layers those of the longest list of
    modules; heads are stated by an attention module or by none.
    """
    modules = list(model.modules())
    tables = [m for m in modules if hasattr(m, "num_embeddings") and hasattr(m, "embedding_dim")]
    lists = [m for m in modules if type(m).__name__ == "ModuleList"]
    row: _Row = {}
    if tables:
        largest = max(tables, key=lambda module: int(module.num_embeddings))
        row["vocab_size"] = int(largest.num_embeddings)
        row["hidden_size"] = int(largest.embedding_dim)
    if lists:
        row["num_hidden_layers"] = max(len(module) for module in lists)
    return {**row, **_read_heads(modules)}


def _read_heads(modules: list[Any]) -> _Row:
    for module in modules:
        heads = (getattr(module, "num_heads", None), getattr(module, "num_kv_heads", None))
        if all(isinstance(number, int) and number for number in heads):
            return {"num_attention_heads": heads[0], "num_key_value_heads": heads[1]}
    return {}
