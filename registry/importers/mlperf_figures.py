"""Figures of an MLPerf log: its clock, its statistics, its last evaluation."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.shapes import count_of, number_of, section_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.importers.shared.draft import Draft

    Event = dict[str, Any]

_OUTCOMES: Final = {"success": "ok", "aborted": "interrupted"}
#: Events of statistics, the metric they hold, and what is said of them.
_RATES: Final = (
    ("throughput", "samples_per_second", "blocks; all accelerators, evaluation left out"),
    ("train_step_time", "step_time", "blocks; mean of a block's steps"),
    ("train_step_timing in s", "step_time", "steps"),
)


def measure_events(draft: Draft, events: Sequence[Event]) -> None:
    """Add the time, the rates and the loss that the events of a log hold."""
    times = {event["key"]: number_of(event.get("time_ms")) for event in events}
    start, stop = times.get("run_start"), times.get("run_stop")
    if start is not None and stop is not None and stop > start:
        status = next(
            section_of(e, "metadata").get("status") for e in events if e["key"] == "run_stop"
        )
        draft.observation["outcome"] = _OUTCOMES.get(str(status), "unknown")
        draft.flags.add("includes_evaluation")
        reason = "run_stop - run_start; evaluations included, initialization left out"
        draft.derive("total_time", (stop - start) / 1000, reason)
    else:
        draft.leave_open("the log has no run_start and run_stop")
        draft.missing.append("no total time: the log has no run_start and run_stop")
    losses = [
        event.get("value") for event in events if event["key"] in ("eval_loss", "eval_accuracy")
    ]
    draft.measure("eval_loss", losses[-1] if losses else None, reason="last evaluation")
    counts = (count_of(section_of(event, "metadata").get("samples_count")) for event in events)
    draft.measure("n_samples", max((count for count in counts if count), default=None))
    _measure_rates(draft, events)
    draft.missing.append("no memory: MLPerf logs hold none")


def _measure_rates(draft: Draft, events: Sequence[Event]) -> None:
    for key, metric, said in _RATES:
        values = [
            rate
            for event in events
            if event["key"] == "tracked_stats"
            and (rate := number_of(section_of(event, "value").get(key)))
        ]
        if not values:
            continue
        value, reason = median(values), f"of {len(values)} {said}"
        if key == "throughput" and draft.observation.get("model_reported") == "gpt3":
            reason += "; GPT-3's logs count tokens under this name"
            draft.measure("tokens_per_second", value, statistic="median", reason=reason)
        else:
            draft.measure(metric, value, statistic="median", reason=reason)
