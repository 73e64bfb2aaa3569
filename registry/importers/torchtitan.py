"""torchtitan: a line every few steps, with the memory and the rate of the process that prints.

The memory is the most that the allocator reserved since the line before, in 2^30 bytes. ``tps``
(``wps`` until 2024) are the tokens of a data-parallel rank per second, over the GPUs that share a
rank: those of one GPU, at the full length of the sequences. FLOPs are those of the model, without
recomputation, of one GPU. The first line of a session compiles and warms up.
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
    find_failure,
    parse_stamp,
    plain_lines,
    validate_growing,
)
from registry.importers.shared.readings import OF_FIRST_PROCESS, choose_timed, measure_peak

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.importers.base import ImportOptions, RunFile

_RANK: Final = re.compile(r"^\s*\[rank(?P<rank>\d{1,7})\]:")
_STEP: Final = re.compile(
    r"(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}).{0,40}"
    r"(?<!validate )step: {1,9}(?P<step>\d{1,12}) {1,9}loss: {1,9}(?P<loss>\S{1,20}) "
    r".{0,200}memory: {1,9}(?P<memory>\d{1,9}(?:\.\d{1,9})?)GiB\("
    r"[\d.]{1,12}%\) {1,9}[tw]ps: {1,9}(?P<tps>\d[\d,]{0,14})"
    r"(?: {1,9}tflops: {1,9}(?P<tflops>\d[\d,]{0,14}(?:\.\d{1,9})?))?"
)
_COUNT: Final = re.compile(r"(?P<name>[a-z][a-z ]{1,40}?) (?P<n>\d{1,12})(?=[, ]|$)")
#: Counts of the lines with which a training starts, and the columns they are.
_COLUMNS: Final = {
    "local batch size": "micro_batch_size",
    "global batch size": "global_batch_size",
    "gradient accumulation steps": "grad_accum_steps",
    "sequence length": "seq_len",
    "maximum context length": "seq_len",
    "total steps": "n_steps",
}
_STARTS: Final = re.compile(r"(?:Training starts at step|Trainer is initialized with) (?P<said>.*)")
_FIRST: Final = re.compile(r"Training starts at step (?P<n>\d{1,12})")
_MODEL: Final = re.compile(r"Model (?P<name>\S.{0,80}?) size: (?P<n>[\d,]{1,20}) total parameters")
_CARD: Final = re.compile(r"capacity: (?P<name>\S.{0,80}?) with [\d.]{1,12}GiB memory")
_VERSION: Final = re.compile(r"torchtitan version: (?P<v>\d[\w.+]{0,40})")
_MESH: Final = re.compile(
    r"device mesh with \[(?P<names>[^\]]{1,200})\], \[(?P<sizes>[\d, ]{1,80})\]"
)
_PARALLEL: Final = re.compile(r"device mesh with parallelism: (?P<sizes>[\w=, ]{1,200})")
_SIZES: Final = {
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "cp": "context_parallel",
    "ep": "expert_parallel",
}
_LORA: Final = re.compile(
    r"LoRA training active with rank=(?P<rank>\d{1,6}), "
    r"alpha=(?P<alpha>\d{1,9}(?:\.\d{1,9})?)(?![\d.])"
)
#: Sentences of what is applied to the model, and the column and the value that each states.
_SENTENCES: Final = (
    ("Applied HSDP to the model", "sharding", "hsdp"),
    ("Applied FSDP to the model", "sharding", "fsdp"),
    ("Applied DDP to the model", "sharding", "ddp"),
    ("activation checkpointing to the model", "gradient_checkpointing", True),
    ("with torch.compile", "torch_compile", True),
)
_COMPLETED: Final = "Training completed"


class TorchtitanImporter(LogImporter):
    """Reads a console log of torchtitan."""

    name = "torchtitan"
    what = "a torchtitan log"
    expects = (
        "a console log with lines such as `step: 10  loss:  9.8821  memory: 49.59GiB(35.46%)  "
        "tps: 7,026  mfu: 41.15%`"
    )

    def is_log(self, lines: Sequence[str]) -> bool:
        """Recognize lines of a step with its memory and its tokens."""
        return any(map(_STEP.search, plain_lines(lines)))

    def draft(self, log: RunFile, options: ImportOptions) -> Draft:
        """Return the run of a log."""
        lines = [*plain_lines(log.document)]
        steps = _read_steps(lines)
        validate_growing(int(step["step"]) for step in steps)
        text = "\n".join(lines)
        draft = Draft(environment={"framework": "torchtitan"})
        _state_model(draft, text, options)
        _state_method(draft, text)
        _state_start(draft, text)
        _state_mesh(draft, text)
        for sentence, column, value in _SENTENCES:
            draft.state(column, value if sentence in text else None)
        _state_end(draft, lines, int(steps[-1]["step"]))
        _measure_steps(draft, text, int(steps[-1]["step"]))
        _measure_speed(draft, steps)
        _measure_memory(draft, steps)
        draft.cite(log)
        return draft


def _read_steps(lines: Sequence[str]) -> list[re.Match[str]]:
    """Return the lines of steps, of the first of several ranks that print them."""
    found = [match for line in lines if (match := _STEP.search(line))]
    ranks = [rank["rank"] if (rank := _RANK.match(one.string)) else None for one in found]
    of_one = [one for one, rank in zip(found, ranks, strict=True) if rank == ranks[0]]
    # without a prefix, each rank prints the same step
    return [next(same) for _, same in groupby(of_one, key=lambda one: one["step"])]


def _state_model(draft: Draft, text: str, options: ImportOptions) -> None:
    model, card, version = (pattern.search(text) for pattern in (_MODEL, _CARD, _VERSION))
    if model:
        state_model(draft, [model["name"]], options)
        draft.measure("n_params", model["n"].replace(",", ""))
    if card:
        draft.state("gpu_id", options.catalogue.resolve_gpu(card["name"]) or card["name"])
    draft.lacks["gpu_id"] = "no card"
    if version:
        draft.environment["framework_version"] = version["v"]


def _state_method(draft: Draft, text: str) -> None:
    lora = _LORA.search(text)
    if lora:
        draft.state("method", "lora")
        draft.state("lora_rank", int(lora["rank"]))
        draft.state("lora_alpha", float(lora["alpha"]))
    draft.state("method", "full", "torchtitan trains all parameters unless it says LoRA")


def _state_start(draft: Draft, text: str) -> None:
    for start in _STARTS.finditer(text):
        for count in _COUNT.finditer(start["said"]):
            column = _COLUMNS.get(count["name"].removeprefix("with "))
            if column:
                draft.state(column, int(count["n"]))


def _state_mesh(draft: Draft, text: str) -> None:
    """State the parallel sizes, and the GPUs they come to: experts share those of the others."""
    sizes: dict[str, int] = {}
    if mesh := _MESH.search(text):
        names = re.findall(r"\w+", mesh["names"])
        sizes = dict(zip(names, map(int, re.findall(r"\d+", mesh["sizes"])), strict=False))
    elif said := _PARALLEL.search(text):
        sizes = {name: int(n) for name, n in re.findall(r"(\w+)=(\d{1,6})\b", said["sizes"])}
    for name, column in _SIZES.items():
        draft.state(column, sizes.get(name))
    if sizes:
        n_gpus = prod(size for name, size in sizes.items() if name != "ep")
        draft.state("n_gpus", n_gpus, "product of the device mesh")


def _state_end(draft: Draft, lines: Sequence[str], last: int) -> None:
    planned = draft.configuration.get("n_steps")
    if failure := find_failure(lines, _STEP.search):
        draft.observation |= failure
    elif not any(_COMPLETED in line for line in lines) and last != planned:
        draft.leave_open(f"the log ends at step {last}" + (f" of {planned}" if planned else ""))


def _measure_steps(draft: Draft, text: str, last: int) -> None:
    first = _FIRST.search(text)
    before = int(first["n"]) - 1 if first else 0
    if before:
        draft.note_resumed(f"it starts after step {before}", last)
    draft.measure("n_steps", last - before)


def _measure_speed(draft: Draft, steps: Sequence[re.Match[str]]) -> None:
    """Add the rates in the middle, and the time of a step by the clock between the lines."""
    timed, said = choose_timed(draft, steps, steps[1:])
    rates = [float(step["tps"].replace(",", "")) for step in timed]
    reason = f"{said}; of one GPU, at the full length of the sequences"
    draft.measure_process("tokens_per_second", median(rates), statistic="median", reason=reason)
    flops = [float(s["tflops"].replace(",", "")) for s in timed if s["tflops"]]
    if flops:
        columns = {"statistic": "median", "reason": f"{said}; per GPU"}
        draft.measure_process("flops_per_second", median(flops) * 1e12, **columns)
    _measure_time(draft, steps)
    draft.measure("train_loss", steps[-1]["loss"], statistic="last")
    draft.missing.append("no total time")


def _measure_time(draft: Draft, steps: Sequence[re.Match[str]]) -> None:
    first, last = steps[0], steps[-1]
    begun, ended = parse_stamp(first["stamp"]), parse_stamp(last["stamp"])
    done = int(last["step"]) - int(first["step"])
    if done and begun is not None and ended is not None and ended > begun:
        reason = f"clock of the log from step {first['step']} to {last['step']}"
        draft.measure("step_time", (ended - begun) / done, statistic="mean", reason=reason)


def _measure_memory(draft: Draft, steps: Sequence[re.Match[str]]) -> None:
    peak = max((float(step["memory"]) for step in steps), default=0.0)
    if peak:
        written: dict[str, Any] = {
            "kind": "reserved",
            "raw": f"{peak:.2f}GiB",
            "unit_reported": "GiB",
        }
        measure_peak(draft, peak, **written, **OF_FIRST_PROCESS)
    else:
        draft.missing.append("no memory")
