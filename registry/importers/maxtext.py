"""MaxText: a line for each step, with its seconds and the rates of a device.

The times are those of the host between two steps (``metric_logger.py``): the first step compiles,
and the second is but handed to the devices, which still do the first. Tokens count each sequence
at its full length, FLOPs are those of the model, without recomputation; both are of all devices,
divided by their number. Memory is printed before the first step alone: what weights and optimizer
hold, and what the compiler expects, and neither is a peak that was measured.
"""

from __future__ import annotations

import re
from itertools import groupby
from math import prod
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.draft import Draft, state_model
from registry.importers.shared.logs import (
    LogImporter,
    parse_literal,
    plain_lines,
    state_end,
    validate_growing,
)
from registry.importers.shared.readings import choose_timed
from registry.importers.shared.shapes import number_of, whole_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import ImportOptions, RunFile

_NUMBER: Final = r"\d{1,15}(?:\.\d{1,9})?"
_STEP: Final = re.compile(
    rf"completed step: (?P<step>\d{{1,12}}), seconds: (?P<seconds>{_NUMBER}), "
    rf"(?:[a-z ]{{1,40}}: \d{{1,9}}, )?TFLOP/s(?:/device)?: (?P<tflops>{_NUMBER}), "
    rf"(?:Tokens/s/device: (?P<tokens>{_NUMBER}), )?"
    r".{0,100}?\bloss: (?P<loss>\S{1,20})(?:,|$)"
)
_SETTING: Final = re.compile(r"Config param (?P<name>[a-z]\w{0,80}): (?P<value>.{0,2000})")
_DEVICES: Final = re.compile(r"Num_devices: (?P<n>\d{1,7}), shape ")
_PARAMS: Final = re.compile(r"number parameters: (?P<n>\d{1,9}\.\d{3}) billion")
_CARD: Final = re.compile(r"^TFRT (?P<name>TPU v\d\w{0,3}(?: lite)?)$")

#: Steps whose time is not that of the training: the compilation, and what waits for it.
_NOT_STEADY: Final = 2
#: Half of the last decimal of the seconds of a step.
_HALF: Final = 0.0005

_DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_OPTIMIZERS: Final = {"adamw": "adamw", "sgd": "sgd", "muon": "muon"}
_CHECKPOINTING: Final = {"full": True, "none": False}
_DATA: Final = {"synthetic": "synthetic"}
#: Parallel sizes, and the axes of the device mesh that they are the product of.
_SIZES: Final = {
    "tensor_parallel": ("tensor", "tensor_transpose", "tensor_sequence"),
    "pipeline_parallel": ("pipeline",),
    "context_parallel": ("context", "context_usp_ulysses", "sequence"),
    "expert_parallel": ("expert",),
}


class MaxtextImporter(LogImporter):
    """Reads a console log of MaxText."""

    name = "maxtext"
    what = "a MaxText log"
    expects = (
        "a console log with lines such as `completed step: 9, seconds: 5.667, TFLOP/s/device: "
        "134.924, Tokens/s/device: 8672.758, total_weights: 196608, loss: 10.374`"
    )

    def is_log(self, lines: Sequence[str]) -> bool:
        """Recognize lines of a step with its seconds and the rate of a device."""
        return any(_STEP.search(line) for line in lines if "completed step: " in line)

    def draft(self, log: RunFile, options: ImportOptions) -> Draft:
        """Return the run of a log."""
        lines = [*plain_lines(log.document)]
        found = [match for line in lines if (match := _STEP.search(line))]
        # each host may print the same step
        steps = [next(same) for _, same in groupby(found, key=lambda one: one["step"])]
        validate_growing(int(step["step"]) for step in steps)
        begun = lines[: lines.index(steps[0].string)]
        settings = _read_settings(begun)
        draft = Draft(environment={"framework": "maxtext"})
        _state_model(draft, settings, begun, options)
        _state_method(draft, settings)
        _state_batch(draft, settings, _last(_DEVICES, begun))
        _measure(draft, steps)
        _state_end(draft, lines, settings, steps)
        draft.cite(log)
        return draft


def _read_settings(lines: Sequence[str]) -> dict[str, str]:
    """Return the settings as they were printed last: a script may print those of other parts."""
    found = (_SETTING.search(line) for line in lines)
    # of an enumeration Python prints the class, as in `OptimizerType.ADAMW`
    return {
        match["name"]: re.sub(r"^[A-Z]\w{0,40}\.(?=[A-Z_0-9]+$)", "", match["value"].strip())
        for match in found
        if match
    }


def _last(pattern: re.Pattern[str], lines: Sequence[str]) -> re.Match[str] | None:
    return next((match for line in reversed(lines) if (match := pattern.search(line))), None)


def _state_model(
    draft: Draft, settings: Mapping[str, str], lines: Sequence[str], options: ImportOptions
) -> None:
    if (name := settings.get("model_name")) and name != "default":
        state_model(draft, [name], options)
    if params := _last(_PARAMS, lines):
        draft.measure("n_params", float(params["n"]) * 1e9)
    if card := _last(_CARD, lines):
        draft.state("gpu_id", options.catalogue.resolve_gpu(card["name"]) or card["name"])
    draft.lacks["gpu_id"] = "no card"


def _state_method(draft: Draft, settings: Mapping[str, str]) -> None:
    lora = parse_literal(settings.get("lora", ""), {})
    if isinstance(lora, dict) and lora.get("enable_lora") is True:
        draft.state("method", "lora")
        draft.state("lora_rank", whole_of(lora.get("lora_rank")))
        draft.state("lora_alpha", number_of(lora.get("lora_alpha")))
    draft.state("method", "full", "MaxText trains all parameters unless it enables LoRA")
    named = [name for name in ("sft", "dpo") if settings.get(f"use_{name}") == "True"]
    if settings:
        objective = named[0] if len(named) == 1 else None if named else "pretrain"
        draft.state("objective", objective, "use_sft, use_dpo")
    draft.state("optimizer", _OPTIMIZERS.get(settings.get("opt_type", "").lower()))
    draft.state("param_dtype", _DTYPES.get(settings.get("weight_dtype", "")))
    if settings.get("quantization", "").lower() in ("", "none"):  # else its products are another's
        draft.state("compute_dtype", _DTYPES.get(settings.get("dtype", "")))
    draft.state("gradient_checkpointing", _CHECKPOINTING.get(settings.get("remat_policy", "")))
    if settings.get("attention") == "dot_product":
        draft.state("attention", "eager")
    draft.state("data", _DATA.get(settings.get("dataset_type", "").lower()))


def _state_batch(draft: Draft, settings: Mapping[str, str], devices: re.Match[str] | None) -> None:
    draft.state("seq_len", whole_of(settings.get("max_target_length")))
    draft.state("grad_accum_steps", whole_of(settings.get("gradient_accumulation_steps")))
    draft.state("global_batch_size", whole_of(settings.get("global_batch_size_to_train_on")))
    sizes = {
        column: prod(_size(settings, axis) for axis in axes) for column, axes in _SIZES.items()
    }
    for column, size in sizes.items():
        draft.state(column, size if size > 1 else None)
    if prod(sizes.values()) == sizes["expert_parallel"]:  # each device has samples of its own
        draft.state("micro_batch_size", whole_of(settings.get("per_device_batch_size")))
    draft.lacks["n_gpus"] = "no count of devices"
    if devices:
        n_gpus = int(devices["n"])
        draft.state("n_gpus", n_gpus)
        draft.state("sharding", _sharding(settings, n_gpus), "the axes of the device mesh")


def _size(settings: Mapping[str, str], axis: str) -> int:
    """Return over how many devices an axis goes, within a slice and over slices; 1 for the rest."""
    sizes = (whole_of(settings.get(f"{link}_{axis}_parallelism")) for link in ("ici", "dcn"))
    return prod(size or 1 for size in sizes)


def _sharding(settings: Mapping[str, str], n_gpus: int) -> str | None:
    """Return what the weights are split by: FSDP takes the devices of a slice that are left."""
    slices = whole_of(settings.get("num_slices")) or 1
    if n_gpus == 1 or settings.get("ici_fsdp_parallelism") != "-1":
        return None
    others = prod(_size(settings, axis) for axes in _SIZES.values() for axis in axes)
    if others * slices >= n_gpus:
        return None
    return "hsdp" if slices > 1 and _size(settings, "fsdp") == 1 else "fsdp"


def _measure(draft: Draft, steps: Sequence[re.Match[str]]) -> None:
    timed, said = choose_timed(draft, steps, steps[_NOT_STEADY:])
    seconds = median(float(step["seconds"]) for step in timed)
    bounds = {"low": seconds - _HALF, "high": seconds + _HALF} if seconds > _HALF else {}
    draft.measure("step_time", seconds, statistic="median", reason=said, **bounds)
    columns: dict[str, Any] = {"scope": "mean_gpu", "statistic": "median"}
    if tokens := [float(step["tokens"]) for step in timed if step["tokens"]]:
        reason = f"{said}; at the full length of the sequences"
        draft.measure("tokens_per_second", median(tokens), reason=reason, **columns)
    reason = f"{said}; of the model, without recomputation"
    flops = round(median(float(step["tflops"]) for step in timed) * 1e12)
    draft.measure("flops_per_second", flops, reason=reason, **columns)
    draft.measure("n_steps", int(steps[-1]["step"]) - int(steps[0]["step"]) + 1)
    draft.measure("train_loss", steps[-1]["loss"], statistic="last")
    draft.missing += ["no memory while it trains", "no total time"]


def _state_end(
    draft: Draft,
    lines: Sequence[str],
    settings: Mapping[str, str],
    steps: Sequence[re.Match[str]],
) -> None:
    first, last = int(steps[0]["step"]), int(steps[-1]["step"])
    if settings and first > 1:
        draft.note_resumed(f"its first step is {first}", last)
    planned = whole_of(settings.get("steps"))
    is_done = planned is not None and last >= planned - 1
    ends = f"the log ends at step {last}" + (f" of {planned}" if planned else "")
    state_end(draft, lines, _STEP.search, None if is_done else ends)
