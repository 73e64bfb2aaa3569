"""Put what was recorded into the form of a submission."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from registry.measure.recording.ranks import merge_peaks
from registry.measure.trial_settings import RECORDER_VERSION

if TYPE_CHECKING:
    from registry.measure.failure import Failure

Row = dict[str, Any]

#: Flag of a training during which others went on in the same process.
AT_ONCE = "side_by_side"

#: Fewer measured steps than this make no steady rate.
_STEADY_STEPS = 5


@dataclass
class Record:
    """Everything known of one observation, before it is put into columns."""

    run_id: str
    observed_at: str
    configuration: Row
    environment: Row
    model: Row
    gpu: Row | None
    steps: list[Row] = field(default_factory=list)
    parts: list[Row] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    provenance: Row = field(default_factory=dict)
    model_reported: str | None = None
    failure: Failure | None = None
    failed_step: int | None = None
    flags: list[str] = field(default_factory=list)


def note_missing(record: Record, n_ranks: int) -> None:
    """State what is not known: what all processes did, where some left nothing, and shared memory.

    A process has one peak, which is that of no training where several went on at once.
    """
    if AT_ONCE in record.flags:
        record.provenance["memory_not_stated"] = "several trainings went on at once in one process"
        record.flags = [flag for flag in record.flags if flag != "shared_process"]
        record.parts = [{**part, "peaks": []} for part in record.parts]
        record.steps = [
            {name: value for name, value in step.items() if not name.endswith("_bytes")}
            for step in record.steps
        ]
    if len(record.parts) < n_ranks:
        record.provenance["ranks_missing"] = n_ranks - len(record.parts)
        counted = ("tokens", "samples")
        record.steps = [
            {name: value for name, value in step.items() if name not in counted}
            for step in record.steps
        ]


def build_submission(record: Record) -> Row:
    """Return the submission of one recorded run."""
    title = f"Recorded run {record.run_id}"
    submission: Row = {
        "schema_version": 1,
        "source": {"source_id": f"run-{record.run_id}", "title": title, "kind": "run"},
        "models": [record.model],
        "observations": [build_observation(record)],
    }
    if record.gpu is not None and record.gpu["gpu_id"] != "cpu":
        submission["gpus"] = [record.gpu]
    return submission


def build_observation(record: Record) -> Row:
    """Return one observation with its figures and samples."""
    known = {name: value for name, value in record.configuration.items() if value is not None}
    configuration = {"model_id": record.model["model_id"], **known}
    if record.gpu is not None:
        configuration["gpu_id"] = record.gpu["gpu_id"]
    observation = {
        "outcome": "ok",
        "evidence": "measured",
        "phase": "train",
        "observed_at": record.observed_at,
        "run_id": record.run_id,
        "model_reported": record.model_reported,
        "flags": sorted(set(record.flags) | _flags(record)),
        "provenance": {"recorder": RECORDER_VERSION, **record.provenance},
        "inferences": _inferences(record),
        "configuration": configuration,
        "environment": record.environment,
        "measurements": build_measurements(record),
        "samples": record.steps,
        **_outcome(record),
    }
    return {name: value for name, value in observation.items() if value not in (None, [], {})}


def _inferences(record: Record) -> Row:
    """Return why a length is known that nobody stated; a trial's plan states its own."""
    stated = record.provenance.get("length_limit") or "spec" in record.provenance
    if stated or "seq_len" not in record.configuration:
        return {}
    return {"seq_len": "the longest sequence that was seen"}


def _outcome(record: Record) -> Row:
    if record.failure is None:
        return {}
    return {
        "outcome": record.failure.outcome,
        "outcome_detail": record.failure.detail,
        "phase": record.failure.phase,
        "failed_step": record.failed_step,
    }


def _flags(record: Record) -> set[str]:
    flags = set()
    measured = [step for step in record.steps if not step.get("warmup")]
    if record.steps and len(measured) < _STEADY_STEPS:
        flags.add("short_run")
    if record.seconds.get("eval_time"):
        flags.add("includes_evaluation")
    return flags


def build_measurements(record: Record) -> list[Row]:
    """Return the figures of a record; those of steps leave the warm-up out."""
    measured = [step for step in record.steps if not step.get("warmup")]
    figures = [
        *_step_times([step["seconds"] for step in measured]),
        *_rates(measured),
        *_peaks(record),
        *_longest(record),
    ]
    for metric, value in {**record.seconds, **record.counts}.items():
        if math.isfinite(value):
            figures.append(_figure(metric, value))
    return figures


def _figure(metric: str, value: float, **more: Any) -> Row:
    return {"metric": metric, "value": float(value), **more}


def _step_times(seconds: list[float]) -> list[Row]:
    if not seconds:
        return []
    figures = {
        "median": statistics.median(seconds),
        "mean": statistics.fmean(seconds),
        "p90": quantile(seconds, 0.9),
    }
    if len(seconds) > 1:
        figures["std"] = statistics.stdev(seconds)
    return [_figure("step_time", value, statistic=name) for name, value in figures.items()]


def quantile(values: list[float], share: float) -> float:
    """Return a quantile by linear interpolation between the order statistics (numpy's default).

    >>> quantile([1.0, 2.0, 3.0], 0.5)
    2.0
    """
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _longest(record: Record) -> list[Row]:
    """Return the longest sequence that was seen, where the configuration allows longer ones.

    After a step that ran out of memory and was given up, it may be one that no peak is of. Longer
    ones may be of a process that left nothing, or of an evaluation that ran out of memory.
    """
    in_evaluation = record.failure is not None and record.failure.phase == "evaluate"
    if in_evaluation or "ranks_missing" in record.provenance:
        return []
    seen = [int(part.get("longest") or 0) for part in record.parts]
    limit = record.configuration.get("seq_len") or 0
    is_given_up = "recovered_from_oom" in record.flags
    if is_given_up or not seen or not all(seen) or max(seen) >= limit:
        return []
    return [_figure("sequence_length", max(seen), statistic="max")]


def _rates(measured: list[Row]) -> list[Row]:
    seconds = sum(step["seconds"] for step in measured)
    figures = []
    for metric, name in (("samples_per_second", "samples"), ("tokens_per_second", "tokens")):
        if seconds and all(name in step for step in measured):
            figures.append(_figure(metric, sum(step[name] for step in measured) / seconds))
    return figures


def _peaks(record: Record) -> list[Row]:
    on_cpu = record.gpu is not None and record.gpu["gpu_id"] == "cpu"
    figures = []
    for kind, devices in merge_peaks(record.parts, on_cpu=on_cpu).items():
        if "ranks_missing" not in record.provenance and _all_show(kind, record.parts):
            total = sum(devices.values())
            figures.append(_figure("peak_memory", total, statistic="max", kind=kind))
        if kind == "host_rss" and not on_cpu:
            continue  # a process of the host is no device
        for device, value in sorted(devices.items()):
            place = {"scope": "per_gpu", "device_index": device, "kind": kind}
            figures.append(_figure("peak_memory", value, statistic="max", **place))
    return figures


def _all_show(kind: str, parts: list[Row]) -> bool:
    """Return whether every process has a peak of a kind: one may end before it has any."""
    return all(any(found == kind for found, _, _ in part["peaks"]) for part in parts)
