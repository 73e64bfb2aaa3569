"""Files of a run's folder of Weights & Biases: the settings that the Trainer hands over, the card.

``config.yaml`` wraps each value as ``{value: …}`` and holds the model's own configuration as well:
its ``max_length`` is that of generated text unless the training has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.shapes import count_of
from registry.importers.shared.training_arguments import state_adapter, state_bitsandbytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.importers.base import ImportOptions, RunFile
    from registry.importers.shared.draft import Draft

_MACHINE: Final = frozenset({"gpu", "gpu_count"})


def is_wandb_config(file: RunFile) -> bool:
    """Return whether a file is the ``config.yaml`` of a run."""
    return file.kind == "yaml" and "_wandb" in file.keys


def is_wandb_metadata(file: RunFile) -> bool:
    """Return whether a file is the ``wandb-metadata.json`` of a run, of a machine with cards."""
    return file.kind == "json" and file.keys >= _MACHINE


def unwrap_config(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a ``config.yaml``.

    >>> unwrap_config({"bf16": {"value": True, "desc": None}, "_wandb": {"value": {}}})
    {'bf16': True, '_wandb': {}}
    """
    return {
        key: one["value"]
        for key, one in document.items()
        if isinstance(one, dict) and "value" in one
    }


def state_wandb_model(draft: Draft, args: Mapping[str, Any]) -> list[Any]:
    """State adapters and quantization of the model's configuration; return what it is called."""
    names = [args.get("model_name_or_path")]
    adapters = args.get("peft_config")
    for adapter in adapters.values() if isinstance(adapters, dict) else ():
        if isinstance(adapter, dict) and "peft_type" in adapter:
            state_adapter(draft, adapter)
            names.append(adapter.get("base_model_name_or_path"))
    quantized = args.get("quantization_config")
    if isinstance(quantized, dict):
        state_bitsandbytes(draft, quantized)
    return [*names, args.get("_name_or_path")]


def state_wandb_machine(draft: Draft, machine: Mapping[str, Any], options: ImportOptions) -> None:
    """State the card; how many there are only where there is one, for others may be idle."""
    name = machine.get("gpu")
    if isinstance(name, str):
        draft.state("gpu_id", options.catalogue.resolve_gpu(name) or name, "wandb-metadata.json")
    if count_of(machine.get("gpu_count")) == 1:
        draft.state("n_gpus", 1, "gpu_count of wandb-metadata.json")
