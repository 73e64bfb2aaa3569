"""Benchmark tables of fms-acceleration: one CSV row per run of its benchmark script.

Constant columns are dropped by the script that writes the table, and the GPU stands in the file's
name only. ``mem_nvidia_mem_reserved`` is MiB: nvidia-smi's peak less its first reading, the mean
over the GPUs. The torch columns are bytes of the first process. The tokens per second are those of
one process: on N GPUs a part in N of samples per second times tokens per sample.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from registry.errors import SubmissionError
from registry.importers.base import Imported, Refusal, join_imported
from registry.importers.shared.draft import Draft, import_drafts, state_model
from registry.importers.shared.shapes import number_of
from registry.importers.shared.totals import HALF_RATE
from registry.importers.shared.training_arguments import (
    DTYPES,
    state_lora_sizes,
    state_quantization,
    state_upcast_weights,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import ImportOptions, RunFile

_COLUMNS: Final = frozenset({"framework_config", "num_gpus", "mem_nvidia_mem_reserved"})

#: Columns that nothing else of an observation holds as written.
_CELLS: Final = ("epoch", "framework_config", "learning_rate", "model_name_or_path", "torch_dtype")

_VERSIONS: Final = frozenset(
    f"{name}_version"
    for name in (
        *("torch", "transformers", "peft", "trl", "accelerate", "bitsandbytes"),
        *("deepspeed", "flash_attn"),
    )
)

_MEBIBYTE: Final = 2**20

#: Words of a framework configuration's name that accelerate a run, and what they mean.
_KERNELS: Final = {
    "foak": "fms-foak",
    "liger": "liger",
    "scattermoe": "scattermoe",
    "multipack": "fms-multipack",
}
_QUANTIZED: Final = {"bnb": ("bitsandbytes", "nf4"), "autogptq": ("gptq", "int4")}
_PLUGIN: Final = "the producer's configuration of that name"

#: How far a ratio of rounded figures may lie from a whole number.
_NEAR: Final = 0.02
_NEAR_LENGTH: Final = 0.004


class FmsAccelerationImporter:
    """Reads a benchmark table, each row as a run of its own."""

    name = "fms-acceleration"
    is_single_file = False
    expects = "a table of fms-acceleration's benchmarks with the columns that its script writes"

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize a table with the columns that the script always writes."""
        return [file for file in files if _is_table(file)]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return one submission per table, with one observation per row.

        Rows that are alike are kept apart: they are runs of their own.
        """
        return join_imported(
            _read_table(file, _requirements(file, files), options)
            for file in self.main_files(files)
        )


def _read_table(file: RunFile, listing: RunFile | None, options: ImportOptions) -> Imported:
    drafts = [
        _draft(file, row, number, options) for number, row in enumerate(file.document, start=1)
    ]
    for draft in drafts:
        _state_packages(draft, listing)
    used = [file] if listing is None else [file, listing]
    what = f"{len(drafts)} rows of an fms-acceleration benchmark"
    try:
        found = import_drafts(
            FmsAccelerationImporter.name, what, used, drafts, options, kind="benchmark"
        )
    except SubmissionError as error:
        return Imported(refused=(Refusal(file.path, "; ".join(error.problems)),))
    missing = []
    silent = sum(draft.observation.get("outcome") == "unknown" for draft in drafts)
    if silent:
        missing.append(f"{file.name}: {silent} rows have memory, no speed and no stated reason")
    if listing is None:
        missing.append(f"{file.name}: no versions of packages (requirements.txt)")
    return replace(found, missing=(*found.missing, *missing))


def _requirements(table: RunFile, files: Sequence[RunFile]) -> RunFile | None:
    """Return the list of packages that is named as the table is, from its folder."""
    fitting = []
    for file in files:
        start, word, end = file.path.stem.partition("requirements")
        stem = table.path.stem
        beside = file.path.parent == table.path.parent and file.kind == "text"
        if word and beside and stem.startswith(start) and stem.endswith(end):
            fitting.append((len(end), file))
    return max(fitting, key=lambda pair: pair[0], default=(0, None))[1]


def _state_packages(draft: Draft, listing: RunFile | None) -> None:
    """State the versions in a list of packages as pip writes it."""
    for line in listing.document if listing else ():
        name, _, version = line.partition("==")
        column = f"{name.strip().lower().replace('-', '_')}_version"
        if version and column in _VERSIONS:
            draft.environment[column] = version.strip()
        elif name.strip() == "fms-hf-tuning" and version:
            draft.environment["framework_version"] = version.strip()


def _is_table(file: RunFile) -> bool:
    return file.kind == "csv" and bool(file.document) and file.document[0].keys() >= _COLUMNS


def _draft(file: RunFile, row: Mapping[str, str], number: int, options: ImportOptions) -> Draft:
    draft = Draft(environment={"framework": "fms-hf-tuning"})
    draft.observation["run_id"] = f"{file.name}, row {number}"
    state_model(draft, [row.get("model_name_or_path")], options)
    _state_method(draft, row)
    _state_framework(draft, row["framework_config"])
    _state_devices(draft, file, row, options)
    draft.state("micro_batch_size", _integer(row.get("per_device_train_batch_size")))
    draft.state("grad_accum_steps", _integer(row.get("gradient_accumulation_steps")))
    draft.state("objective", "sft", "fms-hf-tuning's sft_trainer")
    draft.state("param_dtype", DTYPES.get(row.get("torch_dtype", "")))
    _state_compute(draft, row)
    state_upcast_weights(draft)
    _measure_memory(draft, row)
    _measure_speed(draft, row)
    if not draft.has("total_time"):
        draft.leave_open("memory without speed; the source gives no reason")
    cells = {name: row[name] for name in _CELLS if row.get(name)}
    draft.cite(file, f"row {number}", row=number, cells=cells)
    return draft


def _state_method(draft: Draft, row: Mapping[str, str]) -> None:
    method = row.get("peft_method")
    if method:
        draft.state("method", method)
        state_lora_sizes(draft, row, _integer(row.get("r")), row.get("target_modules"))
    else:
        draft.state("method", "full", "the row has no peft_method")


def _state_framework(draft: Draft, name: str) -> None:
    """State what the name of the framework configuration stands for."""
    draft.provenance["framework_config"] = name
    words = name.split("-")
    for word, (method, kind) in _QUANTIZED.items():
        if word in words:
            state_quantization(draft, method=method, bits=4, kind=kind)
            for column in ("quant_method", "quant_bits", "quant_type"):
                draft.inferences[column] = _PLUGIN
    draft.state("kernels", sorted(_KERNELS[w] for w in words if w in _KERNELS) or None)
    if "padding-free" in name:
        draft.state("padding_free", True)  # noqa: FBT003 - the value of a column
    parallel = re.search(r"-ep(\d+)", name)
    if parallel:
        draft.state("expert_parallel", int(parallel[1]))
        draft.state("kernels", ["scattermoe"])


def _state_devices(
    draft: Draft, file: RunFile, row: Mapping[str, str], options: ImportOptions
) -> None:
    n_gpus = _integer(row["num_gpus"])
    draft.state("n_gpus", n_gpus)
    draft.state("n_nodes", 1, "the benchmark script starts its processes on one host")
    draft.state("gpus_per_node", n_gpus, "all on one host")
    if n_gpus is not None and n_gpus > 1:
        draft.state("sharding", "fsdp", "the producer's accelerate.yaml: FSDP, full shard")
    parts = re.split(r"_+", file.path.stem)
    spans = combinations(range(len(parts) + 1), 2)
    for start, end in sorted(spans, key=lambda span: span[0] - span[1]):  # the longest first
        found = options.catalogue.resolve_gpu("-".join(parts[start:end]))
        if found is not None:
            draft.state("gpu_id", found, f"{'_'.join(parts[start:end])} in the file's name")
            return
    draft.lacks["gpu_id"] = "no card in the file's name"


def _state_compute(draft: Draft, row: Mapping[str, str]) -> None:
    for column, dtype in (("bf16", "bf16"), ("fp16", "fp16")):
        if row.get(column, "").lower() == "true":
            draft.state("compute_dtype", dtype, f"{column} in the row")


def _measure_memory(draft: Draft, row: Mapping[str, str]) -> None:
    n_gpus = draft.configuration.get("n_gpus")
    raw = row["mem_nvidia_mem_reserved"]
    mebibytes = number_of(raw)
    if mebibytes is not None:
        draft.flags.add("memory_is_delta")
        one = {"scope": "per_gpu", "device_index": 0} if n_gpus == 1 else {"scope": "mean_gpu"}
        shared = {"kind": "device", "raw": raw, "unit_reported": "MiB", "reading": "MiB"}
        reason = "peak of nvidia-smi less its first reading; mean over the GPUs"
        draft.measure("peak_memory", mebibytes * _MEBIBYTE, **one, **shared, reason=reason)
        if n_gpus is not None and n_gpus > 1:
            total, reason = mebibytes * _MEBIBYTE * n_gpus, f"mean over the GPUs x {n_gpus}"
            draft.derive("peak_memory", total, reason, kind="device")
    shared = {"kind": "allocated", "unit_reported": "B", "reason": "first process"}
    draft.measure_process("peak_memory", row.get("mem_peak_torch_mem_alloc_in_bytes"), **shared)
    draft.measure_process("memory", row.get("mem_torch_mem_alloc_in_bytes"), **shared)


def _measure_speed(draft: Draft, row: Mapping[str, str]) -> None:
    seconds = number_of(row.get("train_runtime"))
    rate = number_of(row.get("train_steps_per_second"))
    samples = number_of(row.get("train_samples_per_second"))
    if not seconds:
        return
    draft.measure("total_time", seconds, raw=row["train_runtime"], unit_reported="s")
    draft.measure("train_loss", row.get("train_loss"))
    draft.measure("samples_per_second", samples, raw=row.get("train_samples_per_second"))
    draft.measure("steps_per_second", rate, raw=row.get("train_steps_per_second"))
    if rate and samples:
        _measure_steps(draft, seconds, rate)
        _state_accumulation(draft, samples / rate)
        _measure_tokens(draft, row, samples)


def _measure_steps(draft: Draft, seconds: float, rate: float) -> None:
    """Add the time per step where the rounded rate allows one whole number of steps only."""
    low, high = (rate - HALF_RATE) * seconds, (rate + HALF_RATE) * seconds
    steps = round(rate * seconds)
    if steps < 1 or high - low >= 1 or not low <= steps <= high:
        steps = 0
    reason = f"{seconds:g} s x {rate:g} steps/s = {steps} steps"
    if steps:
        draft.state("n_steps", steps, reason)
    draft.derive(
        "step_time",
        seconds / steps if steps else 1 / rate,
        f"{seconds:g} s / {steps} steps" if steps else "1 / steps per second",
        statistic="mean",
        low=None if steps else 1 / (rate + HALF_RATE),
        high=None if steps or rate <= HALF_RATE else 1 / (rate - HALF_RATE),
    )


def _state_accumulation(draft: Draft, batch: float) -> None:
    micro, n_gpus = (draft.configuration.get(c) for c in ("micro_batch_size", "n_gpus"))
    if not micro or not n_gpus:
        return
    steps = batch / micro / n_gpus
    if round(steps) >= 1 and abs(steps - round(steps)) <= _NEAR * steps:
        reason = "samples per step / batch per device / GPUs"
        draft.state("grad_accum_steps", round(steps), reason)


def _measure_tokens(draft: Draft, row: Mapping[str, str], samples: float) -> None:
    rate, n_gpus = number_of(row.get("train_tokens_per_second")), draft.configuration.get("n_gpus")
    if not rate or not n_gpus:
        return
    raw = row["train_tokens_per_second"]
    if n_gpus == 1:
        draft.measure("tokens_per_second", rate, raw=raw)
    else:
        draft.measure_process("tokens_per_second", rate, raw=raw)
        reason = f"the rate of one process x {n_gpus}"
        draft.derive("tokens_per_second", rate * n_gpus, reason)
    _state_length(draft, rate * n_gpus / samples)


def _state_length(draft: Draft, length: float) -> None:
    """State the sequence length where every sample has the same: packed to a power of two."""
    for whole in (1024, 2048, 4096, 8192):
        if abs(length - whole) <= _NEAR_LENGTH * whole:
            reason = f"tokens per second / samples per second = {length:.0f}"
            draft.state("seq_len", whole, reason)
            draft.state("length_distribution", "full", reason)
            draft.state("packing", True, reason)  # noqa: FBT003 - the value of a column


def _integer(text: Any) -> int | None:
    number = number_of(text)
    return int(number) if number is not None and number == int(number) else None
