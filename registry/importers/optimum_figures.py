"""What the figures in a report of optimum-benchmark mean.

The throughput of a JSON report is the samples of all steps by the mean seconds of one: it is
computed anew. Memory is divided by 1e6 and summed over processes and devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from registry.importers.optimum_settings import ARGUMENTS, count_in
from registry.importers.shared.shapes import number_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.importers.shared.draft import Draft

    Flat = Mapping[str, Any]

_MEGABYTE: Final = 10**6
#: Names of memory and the kinds they are; each is a sum over the devices.
_KINDS: Final = {
    "max_allocated": "allocated",
    "max_reserved": "reserved",
    "max_global_vram": "device",
}
#: How far the printed throughput may lie from samples by seconds.
_SLACK: Final = 0.01


def measure_report(draft: Draft, flat: Flat) -> None:
    """Add the figures of the steps after the warm-up, and the peak of the whole run."""
    steps = count_in(flat, ARGUMENTS + "max_steps")
    warmup = count_in(flat, "scenario.warmup_steps") or 0
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
    if not draft.has("peak_memory"):
        draft.missing.append("no memory (scenario.memory=true measures it)")


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
    processes = count_in(flat, "launcher.nproc_per_node") or 1
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
