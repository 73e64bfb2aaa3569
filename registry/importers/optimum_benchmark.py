"""optimum-benchmark: its report as JSON, and the CSV tables of reports of 2023 and 2024.

Both are one flat set of names, ``backend.peft_config.r``. A report's throughput in JSON is the
samples of all steps by the mean time of one: it is computed from the times instead. Memory is
divided by 1e6 and summed over processes and devices; times of the warm-up stand apart.

What the figures in a report of optimum-benchmark mean.

The throughput of a JSON report is the samples of all steps by the mean seconds of one: it is
computed anew. Memory is divided by 1e6 and summed over processes and devices.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from registry.importers.base import Imported, Refusal, join_imported
from registry.importers.shared.draft import Draft, import_drafts, state_model
from registry.importers.shared.shapes import number_of, whole_of
from registry.importers.shared.training_arguments import (
    DTYPES,
    state_lora_sizes,
    state_quantization,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from registry.importers.base import ImportOptions, RunFile

    Flat = dict[str, Any]

_COLUMN: Final = "training.throughput(samples/s)"
#: Names that changed, in front of the others: what a scenario and a report were called before.
_RENAMED: Final = {"benchmark.": "scenario.", "training.": "train."}
_EMPTY: Final[tuple[Any, ...]] = ("", None, "None", [], {})
_RESULTS: Final = re.compile(
    r"(?P<prefix>.*)(?P<what>training_results\.csv|benchmark_report\.json)$"
)
#: Where the settings stand that belong to a file of results.
_SETTINGS: Final = {
    "training_results.csv": "hydra_config.yaml",
    "benchmark_report.json": "benchmark_config.json",
}


class OptimumBenchmarkImporter:
    """Reads reports of trainings; of an inference nothing is taken."""

    name = "optimum-benchmark"
    is_single_file = False
    expects = (
        "a benchmark.json with report and config, or a benchmark_report.json beside its "
        "benchmark_config.json"
    )

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize a report with the configuration in it, or its two files beside each other."""
        names = {file.name for file in files}
        whole = [file for file in files if "report" in file.keys and "config" in file.keys]
        parts = [] if whole else [file for file in files if _is_report(file)]
        return [file for file in (*whole, *parts) if _settings_name(file) in {*names, None}]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run of each report, or of each row of a table of reports."""
        found = [self._read_report(report, files, options) for report in self.main_files(files)]
        return join_imported(found)

    def _read_report(
        self, report: RunFile, files: Sequence[RunFile], options: ImportOptions
    ) -> Imported:
        settings = [file for file in files if file.name == _settings_name(report)]
        drafts = []
        for number, flat in enumerate(_runs(report, settings), start=1):
            draft = _draft(flat, options)
            place = f"row {number}" if report.kind == "csv" else None
            draft.cite(report, place)
            drafts.append(draft)
        if not drafts:
            reason = "a benchmark of inference; nothing was trained in it"
            return Imported(refused=(Refusal(report.path, reason),))
        used = [report, *settings]
        what = "a report of optimum-benchmark"
        return import_drafts(self.name, what, used, drafts, options, kind="benchmark")


def _is_report(file: RunFile) -> bool:
    if file.kind == "csv":
        return bool(file.document) and _COLUMN in file.document[0]
    return {"overall", "warmup", "train"} <= file.keys or {"load", "forward"} <= file.keys


def _settings_name(report: RunFile) -> str | None:
    """Return the name of the file with the settings, or None where the report has them itself."""
    found = _RESULTS.fullmatch(report.name)
    has_them = report.kind == "csv" and "model" in report.document[0]
    if found is None or has_them or "config" in report.keys:
        return None
    return found["prefix"] + _SETTINGS[found["what"]]


def _runs(report: RunFile, settings: Sequence[RunFile]) -> Iterator[Flat]:
    beside = dict(_flatten(settings[0].document)) if settings else {}
    for entry in report.document if report.kind == "csv" else [report.document]:
        flat = beside | {_rename(key): value for key, value in _flatten(entry)}
        if any(key.startswith("train.") for key in flat):
            yield {key: value for key, value in flat.items() if value not in _EMPTY}


def _flatten(entry: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in entry.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield _rename(f"{prefix}{key}"), value


def _rename(key: str) -> str:
    key = key.removeprefix("config.").removeprefix("report.")
    return next(
        (new + key[len(old) :] for old, new in _RENAMED.items() if key.startswith(old)), key
    )


def _draft(flat: Flat, options: ImportOptions) -> Draft:
    draft = Draft(environment={"framework": "optimum-benchmark"})
    run_id = flat.get("name", flat.get("experiment_name"))
    draft.observation |= {"run_id": str(run_id)} if run_id else {}
    _state_settings(draft, flat, options)
    _measure_report(draft, flat)
    return draft


_MEGABYTE: Final = 10**6
#: Names of memory and the kinds they are; each is a sum over the devices.
_KINDS: Final = {
    "max_allocated": "allocated",
    "max_reserved": "reserved",
    "max_global_vram": "device",
}
#: How far the printed throughput may lie from samples by seconds.
_SLACK: Final = 0.01


def _measure_report(draft: Draft, flat: Flat) -> None:
    """Add the figures of the steps after the warm-up, and the peak of the whole run."""
    steps = _count_in(flat, _ARGUMENTS + "max_steps")
    warmup = _count_in(flat, "scenario.warmup_steps") or 0
    draft.measure("n_steps", steps)
    seconds = number_of(flat.get("train.runtime(s)"))
    if seconds and steps and steps > warmup:
        reason = f"{seconds:g} s / {steps - warmup} steps, {warmup} of warm-up left out"
        draft.derive("step_time", seconds / (steps - warmup), reason, statistic="mean")
        draft.measure("total_time", flat.get("overall_training.runtime(s)"), unit_reported="s")
        rate = flat.get("train.throughput(samples/s)")
        draft.measure("samples_per_second", rate, raw=str(rate), reason="after the warm-up")
    if number_of(flat.get("train.latency.mean")):
        _measure_latency(draft, flat, warmup)
    for name, kind in _KINDS.items():
        _measure_memory(draft, flat.get(f"train.memory.{name}"), kind)
    if draft.configuration.get("gpu_id") == "cpu":
        _measure_memory(draft, flat.get("train.memory.max_ram"), "host_rss")
    draft.note_lack("peak_memory", "no memory (scenario.memory=true measures it)")


def _measure_latency(draft: Draft, flat: Flat, warmup: int) -> None:
    """Add the time of a step, and the rate of all processes that follows from it."""
    mean = float(number_of(flat.get("train.latency.mean")) or 0)
    said = f"of the steps after {warmup} of warm-up"
    for name, statistic in (("mean", "mean"), ("p50", "median")):
        value = flat.get(f"train.latency.{name}")
        draft.measure("step_time", value, statistic=statistic, unit_reported="s", reason=said)
    micro, accumulated = (
        draft.configuration.get(column, 1) for column in ("micro_batch_size", "grad_accum_steps")
    )
    processes = _count_in(flat, "launcher.nproc_per_node") or 1
    exact = micro * accumulated * processes / mean
    printed = number_of(flat.get("train.throughput.value"))
    reason = f"{micro} x {accumulated} x {processes} samples / {mean:g} s"
    if printed and abs(printed - exact) > _SLACK * exact:
        reason += f"; the report prints {printed:g}, samples of all steps / seconds of one"
    draft.derive("samples_per_second", exact, reason)


def _measure_memory(draft: Draft, value: Any, kind: str) -> None:
    number = number_of(value)
    if number:
        reason = "divided by 1e6; warm-up included, summed over the devices and processes"
        draft.measure(
            "peak_memory",
            number * _MEGABYTE,
            kind=kind,
            unit_reported="MB",
            raw=f"{number:g} MB",
            reason=reason,
        )


# What the configuration in a report of optimum-benchmark says, one flat mapping for each.

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
_ARGUMENTS: Final = "scenario.training_arguments."
_QUANTIZATION: Final = "backend.quantization_config."
_METHODS: Final = {"bnb": "bitsandbytes", "bitsandbytes": "bitsandbytes", "gptq": "gptq"}


def _state_settings(draft: Draft, flat: Flat, options: ImportOptions) -> None:
    """State what the configuration in a report says."""
    for key, column in _ENVIRONMENT.items():
        if key in flat:
            draft.environment[column] = str(flat[key]).strip()
    state_model(draft, [flat.get("backend.model", flat.get("model"))], options)
    _state_cards(draft, flat, options)
    _state_method(draft, flat)
    draft.state("micro_batch_size", _count_in(flat, _ARGUMENTS + "per_device_train_batch_size"))
    accumulated = _count_in(flat, _ARGUMENTS + "gradient_accumulation_steps")
    draft.state("grad_accum_steps", accumulated)
    if accumulated is None:
        draft.state("grad_accum_steps", 1, "the Trainer's default")
    draft.state("seq_len", _count_in(flat, "scenario.dataset_shapes.sequence_length"))
    draft.state("length_distribution", "full", "sequences made up by optimum-benchmark")
    if str(flat.get("backend.no_weights")) == "True":
        draft.state("weights", "random")
    draft.state("torch_compile", str(flat.get("backend.torch_compile")) == "True" or None)


def _count_in(flat: Flat, key: str) -> int | None:
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
        state_lora_sizes(draft, sizes, _count_in(sizes, "r"), sizes.get("target_modules"))
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
        bits=_count_in(said, "bits") or (4 if is_4bit else 8 if is_8bit else None),
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
    draft.state("n_gpus", _count_in(flat, "launcher.nproc_per_node") or len(ids) or None)
