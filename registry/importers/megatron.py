"""Megatron-LM, Megatron-DeepSpeed and NeMo: the line that they print of each iteration."""

from __future__ import annotations

import re
from statistics import median
from typing import TYPE_CHECKING, Final

from registry.importers.shared.draft import Draft, import_drafts
from registry.importers.shared.readings import largest
from registry.importers.shared.shapes import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from registry.importers.base import Imported, ImportOptions, RunFile

_STEP: Final = re.compile(r"\biteration:? +(?P<step>\d+) ?/ +(?P<all>\d+) *\|(?P<figures>.*)")
_NEMO: Final = re.compile(
    r"iteration (?P<step>\d+)/(?P<all>\d+) \|(?P<figures>.*train_step_timing in s.*)"
)
_FIGURE: Final = re.compile(
    r"\s*(?P<name>[A-Za-z][^:|=]*?)\s*[:=]\s*(?P<value>[-+0-9.eE]+)\s*(?:\||$)"
)
_MEMORY: Final = re.compile(
    r"memory \((?P<unit>MB|GB)\) \| allocated: [\d.]+ \| max allocated: (?P<allocated>[\d.]+) \| "
    r"reserved: [\d.]+ \| max reserved: (?P<reserved>[\d.]+)"
)
_ARGUMENT: Final = re.compile(r"^ *(?P<name>[a-z_]+) \.{3,} *(?P<value>\S+) *$")
#: Arguments as Megatron prints them, and the columns they are.
_COLUMNS: Final = {
    "micro_batch_size": "micro_batch_size",
    "global_batch_size": "global_batch_size",
    "seq_length": "seq_len",
    "tensor_model_parallel_size": "tensor_parallel",
    "pipeline_model_parallel_size": "pipeline_parallel",
    "world_size": "n_gpus",
}
_BYTES: Final = {"MB": 2**20, "GB": 2**30}
#: Iterations at the start that compile and warm up, where there are enough others.
_WARMUP: Final = 3
#: Rates of a line, per GPU: their names, the metric, and what one of them is.
_RATES: Final = (
    (("throughput per GPU (TFLOP/s/GPU)", "TFLOPs"), "flops_per_second", 10**12),
    (("tokens per sec per gpu", "tokens per gpu per second (tgs)"), "tokens_per_second", 1),
)


class MegatronImporter:
    """Reads a console log of Megatron or NeMo."""

    name = "megatron"
    is_single_file = False

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize lines of an iteration with its time."""
        return [file for file in files if file.kind == "text" and any(_steps(file.document))]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run of each log."""
        logs = self.main_files(files)
        drafts = [_draft(log) for log in logs]
        what = "a Megatron log" if len(logs) == 1 else f"{len(logs)} Megatron logs"
        return import_drafts(self.name, what, logs, drafts, options)


def _steps(lines: Sequence[str]) -> Iterator[dict[str, float]]:
    for line in lines:
        found = _NEMO.search(line) or _STEP.search(line)
        if not found:
            continue
        figures = {
            part["name"].replace("_", " "): value
            for part in _FIGURE.finditer(found["figures"])
            if (value := number_of(part["value"])) is not None
        }
        seconds = _seconds(figures)
        if seconds:
            yield {
                **figures,
                "seconds": seconds,
                "step": int(found["step"]),
                "all": int(found["all"]),
            }


def _seconds(figures: dict[str, float]) -> float | None:
    for name in ("elapsed time per iteration (ms)", "elapsed time per iteration ms"):
        if name in figures:
            return figures[name] / 1000
    return figures.get("train step timing in s") or figures.get("elapsed time per iteration (s)")


def _draft(log: RunFile) -> Draft:
    steps = list(_steps(log.document))
    is_nemo = "train step timing in s" in steps[0]
    draft = Draft(environment={"framework": "nemo" if is_nemo else "megatron-lm"})
    for line in log.document:
        found = _ARGUMENT.match(line)
        if found and found["name"] in _COLUMNS and found["value"].isdigit():
            draft.state(_COLUMNS[found["name"]], int(found["value"]))
    last = steps[-1]
    if last["step"] < last["all"]:
        draft.leave_open(f"the log ends at iteration {last['step']:.0f} of {last['all']:.0f}")
    _measure_speed(draft, steps)
    losses = [last[name] for name in ("lm loss", "reduced train loss") if name in last]
    draft.measure("train_loss", losses[0] if losses else None, statistic="last")
    draft.measure("n_steps", last["step"] + is_nemo)  # NeMo counts from 0
    _measure_memory(draft, log.document, steps)
    draft.cite(log)
    return draft


def _measure_speed(draft: Draft, steps: Sequence[dict[str, float]]) -> None:
    timed = steps[_WARMUP:] or steps
    said = f"of {len(timed)} lines"
    said += f", the first {_WARMUP} left out" if len(timed) < len(steps) else ""
    seconds = median(step["seconds"] for step in timed)
    draft.measure("step_time", seconds, statistic="median", reason=said)
    batch = steps[-1].get("global batch size")
    if batch:
        draft.state("global_batch_size", int(batch))
        draft.derive("samples_per_second", batch / seconds, "global batch / time of an iteration")
    for names, metric, scale in _RATES:
        rates = [step[name] for step in timed for name in names if name in step]
        if rates:
            value = median(rates) * scale
            reason = f"{said}; per GPU"
            draft.measure_process(metric, value, statistic="median", reason=reason)


def _measure_memory(draft: Draft, lines: Sequence[str], steps: Sequence[dict[str, float]]) -> None:
    found = [match.groupdict() for line in lines if (match := _MEMORY.search(line))]
    for kind in ("allocated", "reserved"):
        peak = largest(found, kind)
        if peak:
            unit = found[0]["unit"]
            said = {"raw": f"{peak:g} {unit}", "unit_reported": unit, "kind": kind}
            reason = "divided by a power of two; the fullest of the processes that print it"
            value = peak * _BYTES[unit]
            draft.measure("peak_memory", value, scope="max_gpu", reason=reason, **said)
    peak = largest(steps, "peak memory usage")
    if peak:
        draft.measure_process("peak_memory", peak, kind="allocated", unit_reported="B")
    if not draft.has("peak_memory"):
        draft.missing.append("no memory")
