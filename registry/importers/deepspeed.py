"""DeepSpeed: the lines that its engine prints while it trains, DeepSpeed-Chat's included.

``RunningAvgSamplesPerSec`` counts the samples of all processes, the first steps left out; memory is
the first process's, divided by 2^30.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from registry.importers.shared.draft import Draft, import_drafts
from registry.importers.shared.readings import OF_FIRST_PROCESS, measure_peak
from registry.importers.shared.training_arguments import state_training_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.importers.base import Imported, ImportOptions, RunFile

_STEP: Final = re.compile(
    r"global_step=(?P<step>\d+), RunningAvgSamplesPerSec=(?P<mean>[\d.]+), "
    r"CurrSamplesPerSec=(?P<now>[\d.]+)"
    r"(?:, MemAllocated=(?P<memory>[\d.]+)GB, MaxMemAllocated=(?P<peak>[\d.]+)GB)?"
)
#: What DeepSpeed-Chat's first step prints of each batch.
_CHAT: Final = re.compile(
    r"Model Parameters: (?P<params>[\d.]+) B, Latency: (?P<latency>[\d.]+)s, "
    r"TFLOPs: (?P<tflops>[\d.]+), Samples/sec: (?P<rate>[\d.]+), Time/seq [\d.]+s, "
    r"Batch Size: (?P<batch>\d+), Sequence Length: (?P<length>\d+)"
)
#: Settings as the engine prints its configuration.
_SETTING: Final = re.compile(
    r"(?P<key>train_micro_batch_size_per_gpu|gradient_accumulation_steps|train_batch_size|world_size|"
    r"zero_optimization_stage|bfloat16_enabled|fp16_enabled)\"?(?: *\.{2,}|:) *(?P<value>\w+)"
)
_VERSION: Final = re.compile(r"DeepSpeed info: version=(?P<version>\d[\w.]*)")
_OOM: Final = re.compile(r"OutOfMemoryError|CUDA out of memory")


class DeepspeedImporter:
    """Reads a console log of DeepSpeed."""

    name = "deepspeed"
    is_single_file = False

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize the engine's line of speed, or DeepSpeed-Chat's."""
        return [
            file
            for file in files
            if file.kind == "text"
            and any(_STEP.search(line) or _CHAT.search(line) for line in file.document)
        ]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run of each log."""
        logs = self.main_files(files)
        drafts = [_draft(log) for log in logs]
        what = "a DeepSpeed log" if len(logs) == 1 else f"{len(logs)} DeepSpeed logs"
        return import_drafts(self.name, what, logs, drafts, options)


def _draft(log: RunFile) -> Draft:
    draft = Draft(environment={"framework": "deepspeed"})
    _state_settings(draft, log.document)
    steps = [found for line in log.document if (found := _STEP.search(line))]
    chats = [found for line in log.document if (found := _CHAT.search(line))]
    if any(map(_OOM.search, log.document)):
        draft.observation["outcome"] = "oom"
    else:
        draft.leave_open("the log does not say whether the run went to its end")
    _measure_steps(draft, steps)
    if chats and not steps:
        _measure_chat(draft, chats)
    draft.missing.append("no total time")
    draft.cite(log)
    return draft


def _state_settings(draft: Draft, lines: Sequence[str]) -> None:
    said: dict[str, str] = {}
    for line in lines:
        for found in _SETTING.finditer(line):
            said.setdefault(found["key"], found["value"])
        version = _VERSION.search(line)
        if version:
            draft.environment["deepspeed_version"] = version["version"].rstrip(".,")
    for key, column in (
        ("train_micro_batch_size_per_gpu", "micro_batch_size"),
        ("gradient_accumulation_steps", "grad_accum_steps"),
        ("train_batch_size", "global_batch_size"),
        ("world_size", "n_gpus"),
    ):
        draft.state(column, int(said[key]) if said.get(key, "").isdigit() else None)
    flags = {
        "bf16": said.get("bfloat16_enabled") == "True",
        "fp16": said.get("fp16_enabled") == "True",
    }
    stage = said.get("zero_optimization_stage", "")
    stated = {"deepspeed": {"zero_optimization": {"stage": int(stage)}}} if stage.isdigit() else {}
    state_training_arguments(draft, {**flags, **stated})


def _measure_steps(draft: Draft, steps: Sequence[re.Match[str]]) -> None:
    if not steps:
        return
    last = steps[-1]
    draft.measure("n_steps", int(last["step"]))
    reason = "RunningAvgSamplesPerSec of the last line: all processes, the first steps left out"
    draft.measure(
        "samples_per_second", float(last["mean"]), raw=last["mean"], statistic="mean", reason=reason
    )
    peaks = [float(found["peak"]) for found in steps if found["peak"]]
    if peaks and max(peaks) > 0:
        raw = f"{max(peaks):g}GB"
        measure_peak(
            draft, max(peaks), **OF_FIRST_PROCESS, kind="allocated", raw=raw, unit_reported="GB"
        )
    else:
        draft.missing.append("no memory")


def _measure_chat(draft: Draft, chats: Sequence[re.Match[str]]) -> None:
    """Add the figures of DeepSpeed-Chat's supervised step: the batch in the middle."""
    rates = sorted(float(found["rate"]) for found in chats)
    reason = f"of {len(rates)} lines; all processes"
    draft.measure("samples_per_second", rates[len(rates) // 2], statistic="median", reason=reason)
    draft.state("seq_len", int(chats[-1]["length"]))
    draft.provenance["batch_size_printed"] = int(chats[-1]["batch"])
    draft.missing.append("no memory")
