"""What the configuration in a report of optimum-benchmark says, one flat mapping for each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.draft import state_model
from registry.importers.shared.shapes import whole_of
from registry.importers.shared.training_arguments import (
    DTYPES,
    state_lora_sizes,
    state_quantization,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.importers.base import ImportOptions
    from registry.importers.shared.draft import Draft

    Flat = Mapping[str, Any]

_ENVIRONMENT: Final = {
    "backend.version": "torch_version",
    "environment.optimum_benchmark_version": "framework_version",
    "environment.transformers_version": "transformers_version",
    "environment.accelerate_version": "accelerate_version",
    "environment.peft_version": "peft_version",
    "environment.python_version": "python_version",
    "environment.cpu": "cpu",
}
#: Where Hugging Face's training arguments stand.
ARGUMENTS: Final = "scenario.training_arguments."
_QUANTIZATION: Final = "backend.quantization_config."
_METHODS: Final = {"bnb": "bitsandbytes", "bitsandbytes": "bitsandbytes", "gptq": "gptq"}


def state_settings(draft: Draft, flat: Flat, options: ImportOptions) -> None:
    """State what the configuration in a report says."""
    for key, column in _ENVIRONMENT.items():
        if key in flat:
            draft.environment[column] = str(flat[key]).strip()
    state_model(draft, [flat.get("backend.model", flat.get("model"))], options)
    _state_cards(draft, flat, options)
    _state_method(draft, flat)
    draft.state("micro_batch_size", count_in(flat, ARGUMENTS + "per_device_train_batch_size"))
    accumulated = count_in(flat, ARGUMENTS + "gradient_accumulation_steps")
    draft.state("grad_accum_steps", accumulated)
    if accumulated is None:
        draft.state("grad_accum_steps", 1, "the Trainer's default")
    draft.state("seq_len", count_in(flat, "scenario.dataset_shapes.sequence_length"))
    draft.state("length_distribution", "full", "sequences made up by optimum-benchmark")
    if str(flat.get("backend.no_weights")) == "True":
        draft.state("weights", "random")
    draft.state("torch_compile", str(flat.get("backend.torch_compile")) == "True" or None)


def count_in(flat: Flat, key: str) -> int | None:
    """Return a whole number that stands under a name, also as text, or None."""
    return whole_of(flat.get(key))


def _state_method(draft: Draft, flat: Flat) -> None:
    """State the adapters and what the weights beneath them are in."""
    dtype = DTYPES.get(str(flat.get("backend.torch_dtype")))
    adapter = flat.get("backend.peft_type", flat.get("backend.peft_strategy"))
    draft.state("method", str(adapter).lower() if adapter else "full")
    sizes = {
        key.rpartition(".")[2]: value
        for key, value in flat.items()
        if key.startswith("backend.peft_config.")
    }
    if adapter:
        state_lora_sizes(draft, sizes, count_in(sizes, "r"), sizes.get("target_modules"))
    said = {
        key.removeprefix(_QUANTIZATION): value
        for key, value in flat.items()
        if key.startswith(_QUANTIZATION)
    }
    scheme = said.get("quant_method", flat.get("backend.quantization_scheme"))
    scheme = scheme or flat.get("backend.quantization_strategy")
    is_4bit = str(said.get("load_in_4bit")) == "True"
    is_8bit = str(said.get("load_in_8bit")) == "True"
    state_quantization(
        draft,
        method=_METHODS.get(str(scheme), scheme),
        bits=count_in(said, "bits") or (4 if is_4bit else 8 if is_8bit else None),
        kind=said.get("bnb_4bit_quant_type", "fp4" if is_4bit else None),
    )
    if is_4bit and "bnb_4bit_quant_type" not in said:
        draft.inferences["quant_type"] = "BitsAndBytesConfig's default"
    if not scheme:
        draft.state("param_dtype", dtype)
    draft.state("compute_dtype", DTYPES.get(str(said.get("bnb_4bit_compute_dtype"))) or dtype)


def _state_cards(draft: Draft, flat: Flat, options: ImportOptions) -> None:
    """State the card that the machine has, and how many the run used of it."""
    if str(flat.get("device", flat.get("backend.device"))) == "cpu":
        draft.state("gpu_id", "cpu", "device: cpu")
        draft.state("n_gpus", 1, "device: cpu")
        return
    names = flat.get("environment.gpus", flat.get("environment.gpu", ""))
    found = re.findall(r"[^\[\]'\",]+[^\[\]'\",\s]", str(names))
    draft.state("gpu_id", options.catalogue.resolve_gpu(found[0].strip()) if found else None)
    ids = flat.get("backend.device_ids", flat.get("hydra.job.env_set.CUDA_VISIBLE_DEVICES"))
    ids = str(ids).split(",") if ids not in (None, "") else found
    draft.state("n_gpus", count_in(flat, "launcher.nproc_per_node") or len(ids) or None)
