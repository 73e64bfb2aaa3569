"""Settings of mlx-lm: ``adapter_config.json`` or a YAML beside the log, or the command in it.

Of the number of layers, the last are trained; ``full`` trains them as they are, but neither the
embeddings nor the head. The batch is that of all processes together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.draft import state_model
from registry.importers.shared.shapes import bool_of, number_of, section_of, whole_of
from registry.importers.shared.training_arguments import state_optimizer, target_modules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import ImportOptions, RunFile
    from registry.importers.shared.draft import Draft

_COMMAND: Final = re.compile(r"\bmlx_lm[. ]lora (?=.*--train\b)")
_ARGUMENT: Final = re.compile(r"\s-{1,2}(?P<key>[a-z][a-z-]{0,40})(?:[ =](?!-\D)(?P<value>\S+))?")
#: Keys that only its settings have.
_KEYS: Final = frozenset({"fine_tune_type", "lora_parameters", "steps_per_report"})
#: Methods by ``fine_tune_type``.
_METHODS: Final = {"lora": "lora", "dora": "dora", "full": "freeze"}
_PARTIAL: Final = "MLX's full trains the layers, not the embeddings"
#: How names of models end whose weights MLX has quantized.
_PACKED: Final = re.compile(r"[-_](?P<bits>[2-8])bit\b", re.IGNORECASE)


@dataclass(frozen=True)
class MlxLmSettings:
    """Settings by name, and the file they are from; none where the log has them itself."""

    values: Mapping[str, Any]
    file: RunFile | None = None
    #: Whether what is not among them has its default.
    is_whole: bool = True


def find_settings(log: RunFile, beside: Sequence[RunFile]) -> MlxLmSettings | None:
    """Return the settings beside a log, else those of the command in it, or None."""
    for file in beside:
        if file.kind in ("json", "yaml") and file.keys & _KEYS and "model" in file.keys:
            # the tuner writes JSON with every setting; a YAML has those that someone chose
            return MlxLmSettings(file.document, file, is_whole=file.kind == "json")
    text = "\n".join(log.document).replace("\\\n", " ")
    command = next((line for line in text.splitlines() if _COMMAND.search(line)), None)
    if command is None:
        return None
    values = {
        found["key"].replace("-", "_"): found["value"] or True
        for found in _ARGUMENT.finditer(command[command.index("mlx_lm") :])
    }
    return MlxLmSettings(values, is_whole=not values.keys() & {"config", "c"})


def state_settings(
    draft: Draft, settings: MlxLmSettings, options: ImportOptions, processes: int
) -> None:
    """State the model, the method and the batch; ``processes`` share the batch."""
    values = settings.values
    state_model(draft, [values.get("model")], options)
    _state_packing(draft, str(values.get("model", "")))
    _state_method(draft, settings)
    _state_lora(draft, section_of(values, "lora_parameters"))
    _state_batch(draft, settings, processes)
    draft.state("seq_len", whole_of(str(values.get("max_seq_length"))))
    if "seq_len" in draft.configuration:
        draft.state("length_distribution", "variable", "MLX pads to the longest of each batch")
    draft.state("gradient_checkpointing", bool_of(values.get("grad_checkpoint")))
    state_optimizer(draft, values.get("optimizer"))
    layers = values.get("num_layers", values.get("lora_layers"))
    if isinstance(number_of(layers), int | float):
        draft.provenance["trained_layers"] = int(number_of(layers) or 0)


def _state_packing(draft: Draft, model: str) -> None:
    found = _PACKED.search(model)
    if found:
        draft.state("quant_bits", int(found["bits"]), f"the model's name has {found[0][1:]}")


def _state_method(draft: Draft, settings: MlxLmSettings) -> None:
    kind = settings.values.get("fine_tune_type")
    if kind is not None:
        method = _METHODS.get(str(kind))
        draft.state("method", method, _PARTIAL if method == "freeze" else None)
    elif settings.values.get("use_dora") is True:
        draft.state("method", "dora")
    elif settings.is_whole:
        draft.state("method", "lora", "no fine_tune_type in the settings: its default")


def _state_lora(draft: Draft, parameters: Mapping[str, Any]) -> None:
    """State the sizes; MLX multiplies by its scale, so that alpha is scale x rank."""
    if not parameters or draft.configuration.get("method") not in ("lora", "dora"):
        return
    rank, scale = whole_of(str(parameters.get("rank"))), number_of(parameters.get("scale"))
    draft.state("lora_rank", rank)
    if rank and scale:
        draft.state("lora_alpha", float(scale * rank), "scale x rank in lora_parameters")
    draft.state("lora_dropout", number_of(parameters.get("dropout")))
    keys = parameters.get("keys")
    names = [str(key).rpartition(".")[2] for key in keys] if isinstance(keys, list) else None
    draft.state("lora_target_modules", target_modules(names))


def _state_batch(draft: Draft, settings: MlxLmSettings, processes: int) -> None:
    accumulated = settings.values.get("grad_accumulation_steps")
    if accumulated is None and settings.is_whole:
        draft.state("grad_accum_steps", 1, "no grad_accumulation_steps in the settings")
    else:
        draft.state("grad_accum_steps", whole_of(str(accumulated)))
    if processes > 1:
        draft.state("n_gpus", processes, f"the log is of one of {processes} processes")
    batch = whole_of(str(settings.values.get("batch_size")))
    if batch and batch % processes == 0:
        draft.state("micro_batch_size", batch // processes)
