"""NVIDIA's DeepLearningExamples: BERT on SQuAD and Transformer-XL, as Lambda's benchmark runs them.

A text may bundle several files, each after a line ``##### FILE name``; a monitor of nvidia-smi is
``NAME_monitor.csv`` beside ``NAME.txt``. Rates are those of all GPUs, first steps included. The
batch that BERT's script takes is one process's, Transformer-XL's that of all.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from statistics import median
from typing import TYPE_CHECKING, Final

from registry.importers.shared.draft import Draft, import_drafts
from registry.importers.shared.logs import OUT_OF_MEMORY
from registry.importers.shared.monitor import Monitor, measure_monitor, parse_monitor
from registry.importers.shared.shapes import number_of, whole_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from registry.catalogue import Catalogue
    from registry.importers.base import Imported, ImportOptions, RunFile

_FILE: Final = re.compile(r"##### FILE (?P<name>\S+)")
_ARGUMENT: Final = re.compile(r"\b(?P<key>[a-z_0-9]+)=(?P<value>'[^']*'|[\w.+-]+)")
_PROCESSES: Final = re.compile(r"--nproc_per_node=(?P<count>\d{1,15})")
_SYSTEM: Final = re.compile(r"^(?P<count>\d{1,15})x(?=[A-Z\d])")
#: Folders of a name that has the system: system, task, log.
_DEEP: Final = 2


class DeeplearningExamplesImporter:
    """Reads the logs, alone or bundled by system."""

    name = "deeplearning-examples"
    is_single_file = False
    expects = (
        "a console log of NVIDIA's DeepLearningExamples with the line of its speed at the end of "
        "a training"
    )

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize the line with which a training of the two ends."""
        return [
            file for file in files if file.kind == "text" and any(map(_has_rate, file.document))
        ]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run of each log, with the monitor that a bundle has beside it."""
        logs = self.main_files(files)
        drafts: list[Draft] = []
        for log in logs:
            drafts += _read_log(log, options)
        what = "logs of DeepLearningExamples"
        return import_drafts(self.name, what, logs, drafts, options, kind="benchmark")


def _read_log(log: RunFile, options: ImportOptions) -> Iterator[Draft]:
    parts = dict(_split(log))
    for name, lines in parts.items():
        monitor = parts.get(name.replace(".txt", "_monitor.csv"))
        if any(_has_rate(line) or OUT_OF_MEMORY.search(line) for line in lines):
            draft = _draft(name, lines, options)
            if monitor and (found := parse_monitor([line.split(",") for line in monitor])):
                _measure_monitor(draft, found)
            draft.provenance["files"] = {log.name: log.sha256}
            draft.cite(log, name if len(parts) > 1 else None)
            yield draft


def _measure_monitor(draft: Draft, monitor: Monitor) -> None:
    if draft.observation.get("outcome") != "oom":
        measure_monitor(draft, monitor)


def _split(log: RunFile) -> Iterator[tuple[str, list[str]]]:
    """Yield the files of a bundle; a log that is none is one, named by its last folders."""
    lines: list[str] = []
    name = "/".join(log.path.parts[-3:])
    for line in log.document:
        found = _FILE.match(line)
        if found:
            if lines:
                yield name, lines
            name, lines = found["name"], []
        else:
            lines.append(line)
    yield name, lines


def _draft(name: str, lines: Sequence[str], options: ImportOptions) -> Draft:
    draft = Draft(environment={"framework": "deeplearning-examples"})
    draft.observation["run_id"] = "/".join(PurePath(name).parts[-2:])
    printed = next((line for line in lines if "Namespace(" in line), "")
    said = {found["key"]: found["value"].strip("'") for found in _ARGUMENT.finditer(printed)}
    command = next((line for line in lines if _PROCESSES.search(line)), "")
    _state_hardware(draft, name, command, options.catalogue)
    draft.state("method", "full", "NVIDIA's script trains all parameters")
    draft.state("compute_dtype", "fp16" if said.get("fp16") == "True" else None)
    draft.state("n_steps", _count_in(said, "max_steps") or _count_in(said, "max_step"))
    if not any(map(_has_rate, lines)):  # what ran out of memory before is of an earlier attempt
        draft.observation["outcome"] = "oom"
    is_bert = "max_seq_length" in said or "squad" in name
    (_measure_bert if is_bert else _measure_xl)(draft, said, [name, *lines])
    return draft


def _state_hardware(draft: Draft, name: str, command: str, catalogue: Catalogue) -> None:
    """State the card by the longest part of the system's name that is one, and how many."""
    system = PurePath(name).parts[-3] if len(PurePath(name).parts) > _DEEP else ""
    words = (
        re.sub(r"(?<=[a-z])(?=RTX)", " ", system)
        .replace("PCIe5", "PCIe")
        .replace("NVlink", "")
        .split("_")
    )
    counts = [int(found["count"]) for word in words if (found := _SYSTEM.match(word))]
    parts = [_SYSTEM.sub("", word) for word in words]
    spans = [parts[i:j] for i in range(len(parts)) for j in range(len(parts), i, -1)]
    spans.sort(key=len, reverse=True)
    gpu = next((gpu for span in spans if (gpu := catalogue.resolve_gpu(" ".join(span)))), None)
    draft.state("gpu_id", gpu, f"the system {system}")
    processes = _PROCESSES.search(command)
    draft.state("n_gpus", int(processes["count"]) if processes else None)
    if gpu:
        draft.state("n_gpus", counts[0] if counts else 1, f"the system {system}")
    if gpu is None:
        draft.lacks["gpu_id"] = f"no card of the catalogue in {system!r}"


# What the lines of NVIDIA's scripts for BERT on SQuAD and for Transformer-XL mean.

_BERT: Final = re.compile(
    r"e2e_train_time : (?P<seconds>\d{1,15}\.?\d{0,30}) +"
    r"training_sequences_per_second : (?P<rate>\d{1,15}\.?\d{0,30}) "
    r"+final_loss : (?P<loss>\d{1,15}\.?\d{0,30})"
)
_XL: Final = re.compile(r"^Training throughput: (?P<rate>\d{1,15}\.?\d{0,30}) tok/s")
_XL_TIME: Final = re.compile(r"^Training time: (?P<minutes>\d{1,15}\.?\d{0,30}) minutes")
_XL_STEP: Final = re.compile(
    r"\| ms/batch +(?P<milliseconds>\d{1,15}\.?\d{0,30}) \| tok/s +(?P<rate>\d{1,15}\.?\d{0,30})"
)
_PARAMS: Final = re.compile(r"^#params = (?P<count>\d{1,15})")
_SIZES: Final = {"512": "base", "1024": "large"}
#: More than the samples that SQuAD 1.1 makes at a length of 384, which are about 88,500.
_MOST_FEATURES: Final = 90_000
#: How far the tokens of a step may lie from a batch, by rounding.
_SLACK: Final = 0.02


def _has_rate(line: str) -> bool:
    """Return whether a line is that with which a training ends."""
    return bool(_BERT.search(line) or _XL.match(line))


def _measure_bert(draft: Draft, said: Mapping[str, str], lines: Sequence[str]) -> None:
    """Add the figures of BERT; ``--bert_model`` says large of both sizes, the configuration not."""
    size = "large" if any("bert_large" in line for line in lines) else "base"
    draft.state("model_id", f"bert-{size}-uncased", "the configuration file of the model")
    draft.state("seq_len", _count_in(said, "max_seq_length"))
    accumulated = _count_in(said, "gradient_accumulation_steps") or 1
    batch = _count_in(said, "train_batch_size")
    draft.state("grad_accum_steps", accumulated)
    draft.state("micro_batch_size", batch // accumulated if batch else None)
    found = next((match for line in lines if (match := _BERT.search(line))), None)
    if found is None:
        return
    seconds = float(found["seconds"])
    draft.measure("total_time", seconds, raw=found["seconds"], unit_reported="s")
    draft.measure("train_loss", found["loss"])
    epochs = number_of(said.get("num_train_epochs")) or 1
    if float(found["rate"]) * seconds > _MOST_FEATURES * epochs:
        _leave_rate(draft, found["rate"], epochs)
        return
    reason = "all GPUs, the first steps included"
    draft.measure("samples_per_second", found["rate"], raw=found["rate"], reason=reason)
    steps = draft.configuration.get("n_steps")
    if steps:
        reason = f"{seconds:g} s / {steps} steps, the first included"
        draft.derive("step_time", seconds / steps, reason, statistic="mean")


def _leave_rate(draft: Draft, rate: str, epochs: float) -> None:
    """Leave out a rate of steps that were asked for, where the epochs ended before them."""
    draft.flags.add("figures_disagree")
    draft.provenance["rate_printed"] = rate
    steps = draft.configuration.pop("n_steps", None)
    draft.missing.append(
        f"no rate: it prints {rate} samples/s of {steps} steps, more than {epochs:g} epochs hold"
    )


def _measure_xl(draft: Draft, said: Mapping[str, str], lines: Sequence[str]) -> None:
    """Add the figures of Transformer-XL, a model that is described by its count of parameters."""
    size = _SIZES.get(said.get("d_model", ""), said.get("d_model", "unknown"))
    model = f"transformer-xl-{size}-wt103"
    n_params = next((int(found["count"]) for line in lines if (found := _PARAMS.match(line))), None)
    described = {"model_id": model, "n_params": n_params, "source": "#params in the log"}
    draft.models = [{key: value for key, value in described.items() if value}]
    draft.state("model_id", model, "d_model of the log")
    draft.state("objective", "pretrain", "training from scratch")
    draft.state("weights", "random", "training from scratch")
    draft.state("seq_len", _count_in(said, "tgt_len"))
    for line in lines:
        if found := _XL.match(line):
            reason = "all GPUs"
            draft.measure("tokens_per_second", found["rate"], raw=found["rate"], reason=reason)
        if found := _XL_TIME.match(line):
            minutes = float(found["minutes"])
            bounds = {"low": (minutes - 0.005) * 60, "high": (minutes + 0.005) * 60}
            said_so = {"raw": found["minutes"], "unit_reported": "min"}
            draft.measure("total_time", minutes * 60, **bounds, **said_so)
    steps = [found for line in lines if (found := _XL_STEP.search(line))]
    if steps and draft.has("tokens_per_second"):
        _measure_xl_steps(draft, said, steps)


def _measure_xl_steps(
    draft: Draft, said: Mapping[str, str], steps: Sequence[re.Match[str]]
) -> None:
    """Add the time of a step; tokens in it tell whether the batch is that of all GPUs."""
    seconds = median(float(found["milliseconds"]) for found in steps) / 1000
    reason = f"of {len(steps)} lines of ten steps"
    draft.measure("step_time", seconds, statistic="median", reason=reason)
    batch, length = _count_in(said, "batch_size"), _count_in(said, "tgt_len")
    tokens = median(float(found["rate"]) for found in steps) * seconds
    if batch and length and abs(tokens - batch * length) < _SLACK * tokens:
        reason = f"tok/s x seconds of a step: {tokens:.0f} tokens, {batch} x {length}"
        draft.state("global_batch_size", batch, reason)


def _count_in(said: Mapping[str, str], key: str) -> int | None:
    """Return a count that an argument states, also as ``200.0``, or None."""
    return whole_of(said.get(key))
