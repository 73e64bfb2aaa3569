"""Hold each recorded figure against an independent one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]

#: How far two measurements of one thing may lie apart on a machine that does other work.
TOLERANCE = 0.02

#: Columns of a case's configuration, in the order of the page.
COLUMNS = (
    "method",
    "lora_rank",
    "micro_batch_size",
    "grad_accum_steps",
    "global_batch_size",
    "seq_len",
    "n_gpus",
    "sharding",
    "packing",
)


@dataclass(frozen=True)
class Comparison:
    """One recorded figure beside the independent one; ``fits`` is None where there is none."""

    name: str
    recorded: Any
    independent: Any
    source: str
    fits: bool | None


def compare(trial: Row, tolerance: float = TOLERANCE) -> list[Comparison]:
    """Return the comparisons of a trial that was recorded."""
    return [*_compare_told(trial), *_compare_measured(trial, tolerance)]


def _compare_told(trial: Row) -> list[Comparison]:
    """Compare what the command stated with what was recorded."""
    told, recorded = trial["told"], trial["recorded"]
    names = [name for name in COLUMNS if name in told]
    found = [
        Comparison(name, recorded.get(name), told[name], "the command", _equals(trial, name))
        for name in names
    ]
    counted = trial["independent"].get("n_steps")
    same = None if counted is None else recorded["n_steps"] == counted
    return [*found, Comparison("steps", recorded["n_steps"], counted, "own stopwatch", same)]


def _equals(trial: Row, name: str) -> bool:
    recorded, told = trial["recorded"].get(name), trial["told"][name]
    if name == "seq_len":  # the limit where the trainer states one, else the longest row
        return recorded in (told, trial["independent"].get("width"))
    return bool(recorded == told)


def _compare_measured(trial: Row, tolerance: float) -> list[Comparison]:
    seen, recorded = trial["independent"], trial["recorded"]
    rate = seen.get("steps_per_second")
    batch = trial["told"].get("global_batch_size")
    rows = (
        ("step time, s", "step_time", seen.get("step_time"), "own stopwatch"),
        ("samples/s", "samples_per_second", rate and batch and rate * batch, "own stopwatch"),
        ("peak memory, MiB", "peak_memory_bytes", seen.get("peak_memory_bytes"), "psutil, outside"),
    )
    return [
        Comparison(
            name,
            recorded.get(column),
            other,
            source,
            _is_near(recorded.get(column), other, tolerance),
        )
        for name, column, other, source in rows
    ]


def _is_near(recorded: float | None, independent: float | None, tolerance: float) -> bool | None:
    if not independent:
        return None
    return recorded is not None and abs(recorded / independent - 1) <= tolerance
