"""Hold a record against itself: figures that contradict each other are flagged, never mended."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from registry.measure.recording.record import Record

#: How far our count of samples may lie from the framework's own.
_SLACK = 0.05


#: Share of a model's parameters that a loss may have beside it, such as a temperature.
_FEW = 0.01


def cross_check(record: Record) -> None:
    """Flag what does not fit, and say in the provenance what was found and what was expected."""
    found = [
        text
        for check in (_check_batch, _check_trained, _check_samples, _check_capacity)
        if (text := check(record)) is not None
    ]
    if found:
        record.provenance["contradictions"] = found


def _check_batch(record: Record) -> str | None:
    """Samples per step are the micro-batch times accumulation times processes."""
    row = record.configuration
    expected = _product(
        row.get("micro_batch_size"), row.get("grad_accum_steps"), _processes(record)
    )
    seen = [step["samples"] for step in record.steps if "samples" in step]
    if not expected or not seen:
        return None
    typical = statistics.median_high(seen)
    if typical == expected:
        return None
    record.flags.append("figures_disagree")
    return f"samples per step: {typical} counted, {expected} by the configuration"


def _check_trained(record: Record) -> str | None:
    """What a loop's optimizer steps is in the model that the loop calls."""
    held = record.provenance.get("optimizer_params")
    trained = record.counts.get("trainable_params")
    if not held or not trained or abs(held / trained - 1) <= _FEW:
        return None
    record.flags.append("figures_disagree")
    return f"trained parameters: {trained:.0f} in the model, {held:.0f} in the optimizer"


def _processes(record: Record) -> int | None:
    row = record.configuration
    if row.get("sharding") in ("device_map", "dp"):
        return 1 if row["sharding"] == "device_map" else row.get("gpus_per_node")
    return _product(row.get("n_nodes"), row.get("gpus_per_node"))


def _product(*factors: Any) -> int | None:
    product = 1
    for factor in factors:
        if not isinstance(factor, int):
            return None
        product *= factor
    return product


def _check_samples(record: Record) -> str | None:
    """The framework's own count of samples is ours; it counts all steps that were asked for."""
    if {"resumed", "stopped_early"} & set(record.flags):
        return None
    theirs = record.provenance.get("framework_samples")
    ours = record.counts.get("n_samples")
    if not theirs or not ours or abs(ours / theirs - 1) <= _SLACK:
        return None
    record.flags.append("figures_disagree")
    return f"samples: {ours:g} counted, {theirs:g} by the framework"


def _check_capacity(record: Record) -> str | None:
    """A device's peak is within its memory."""
    memory = (record.gpu or {}).get("memory_bytes")
    peaks = [
        value
        for part in record.parts
        for kind, _, value in part["peaks"]
        if kind in ("allocated", "reserved", "device")
    ]
    if not memory or not peaks or max(peaks) <= memory:
        return None
    record.flags.append("peak_over_capacity")
    return f"peak: {max(peaks)} bytes, of {memory} that the device has"
