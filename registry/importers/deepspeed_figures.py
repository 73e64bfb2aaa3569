"""What the lines of DeepSpeed mean.

``RunningAvgSamplesPerSec`` counts the samples of all processes in the time from forward to step,
the first steps left out. Memory is the first process's, divided by 2^30. DeepSpeed-Chat's own line
has one process's micro-batch and its seconds. In RLHF two engines print into one another, so
that only the line of the whole round says how long a step took.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Final

from registry.importers.shared.logs import parse_stamp, validate_growing
from registry.importers.shared.readings import OF_FIRST_PROCESS, measure_peak

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.importers.shared.draft import Draft

_TIMER: Final = re.compile(
    r"(?:\[(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\].*)?"
    r"(?:global_step=|\] \d+/)(?P<step>\d{1,15}), "
    r"RunningAvgSamplesPerSec=(?P<mean>\d{1,15}\.?\d{0,30}), "
    r"CurrSamplesPerSec=(?P<now>\d{1,15}\.?\d{0,30})"
    r"(?:, MemAllocated=[\d.]+GB, MaxMemAllocated=(?P<peak>\d{1,15}\.?\d{0,30})GB)?"
)
#: The engine's own count, which goes on where the timer begins anew after a restart.
_ENGINE: Final = re.compile(r"\[Rank 0\] step=(?P<step>\d{1,15}), skipped=(?P<skipped>\d{1,15})")
_CHAT: Final = re.compile(
    r"Model Parameters: \S+(?: B)?, Latency: [\d.]+s, TFLOPs: [\d.]+, "
    r"Samples/sec: (?P<rate>\d{1,15}\.?\d{0,30}), Time/seq [\d.]+s, "
    r"Batch Size: (?P<batch>\d{1,15}), Sequence Length: (?P<length>\d{1,15})"
)
_ROUND: Final = re.compile(
    r"\|E2E latency=(?P<seconds>\d{1,15}\.?\d{0,30})s .*\|CurSamplesPerSec=[\d.]+ "
    r"\|AvgSamplesPerSec=(?P<mean>\d{1,15}\.?\d{0,30})"
)
#: Steps below which a rate is not steady, and the share of skipped ones that makes it too fast.
_FEW: Final = 20
_MOST_SKIPPED: Final = 0.1
#: Fewest intervals of the clock from which a batch can be told.
_INTERVALS: Final = 3
#: How far the batch that the clock gives may lie from a whole number of micro-batches.
CLOCK_SLACK: Final = 0.02


@dataclass(frozen=True)
class Lines:
    """The lines of a log that have figures."""

    timers: Sequence[re.Match[str]]
    engine: Sequence[re.Match[str]]
    chats: Sequence[re.Match[str]]
    rounds: Sequence[re.Match[str]]

    @property
    def is_training(self) -> bool:
        """Whether there is a line of speed."""
        return bool(self.timers or self.chats or self.rounds)

    def batch_by_clock(self) -> float | None:
        """Return the samples of a step: rate x seconds between lines / steps between them."""
        if self.rounds:
            return None  # the timer sees the training of a round, not the round
        clock = [
            (at, int(line["step"]), float(line["now"]))
            for line in self.timers
            if line["at"] and (at := parse_stamp(line["at"])) is not None
        ]
        batches = [
            now * (at - before) / (step - earlier)
            for (before, earlier, _), (at, step, now) in pairwise(clock)
            if step > earlier
        ]
        return median(batches) if len(batches) >= _INTERVALS else None


def read_lines(document: Sequence[str]) -> Lines:
    """Return the lines with figures."""
    found = (
        [match for line in document if (match := pattern.search(line))]
        for pattern in (_TIMER, _ENGINE, _CHAT, _ROUND)
    )
    return Lines(*found)


def measure_lines(draft: Draft, lines: Lines) -> None:
    """Add the figures of a log; raise SubmissionError where its steps go back."""
    if lines.rounds:
        _measure_rounds(draft, lines.rounds)
    elif lines.timers:
        _measure_timers(draft, lines)
    else:
        _measure_chat(draft, lines.chats)
    measure_deepspeed_peak(draft, lines.timers)
    if not draft.has("peak_memory"):
        draft.missing.append("no memory")


def _measure_timers(draft: Draft, lines: Lines) -> None:
    validate_growing(int(line["step"]) for line in lines.timers)
    last = lines.timers[-1]
    draft.measure("n_steps", int(last["step"]))
    reason = "RunningAvgSamplesPerSec of the last line: all processes, the first steps left out"
    draft.measure(
        "samples_per_second", float(last["mean"]), raw=last["mean"], statistic="mean", reason=reason
    )
    _flag_steps(draft, lines, int(last["step"]))


def _flag_steps(draft: Draft, lines: Lines, timed: int) -> None:
    """Flag steps of before a restart, and steps too few or skipped to be a steady rate."""
    done = int(lines.engine[-1]["step"]) if lines.engine else timed
    skipped = int(lines.engine[-1]["skipped"]) if lines.engine else 0
    if done > timed + _FEW:
        draft.flags.add("resumed")
        draft.last_step = done
        draft.inferences["flags"] = f"the engine counts {done} steps, its timer {timed}"
        skipped = 0
    if timed < _FEW or skipped > _MOST_SKIPPED * timed:
        draft.flags.add("short_run")


def _measure_chat(draft: Draft, chats: Sequence[re.Match[str]]) -> None:
    """Add DeepSpeed-Chat's figures: those of the first process's micro-batch in the middle."""
    reason = f"of {len(chats)} lines; micro-batch / seconds, first process"
    rate = median(float(found["rate"]) for found in chats)
    draft.measure_process("samples_per_second", rate, statistic="median", reason=reason)
    draft.state("seq_len", int(chats[-1]["length"]))
    draft.state("micro_batch_size", int(chats[-1]["batch"]))


def _measure_rounds(draft: Draft, rounds: Sequence[re.Match[str]]) -> None:
    """Add the figures of RLHF: a round is generation and training of actor and critic."""
    draft.state("objective", "ppo", "the line of a round of RLHF")
    draft.measure("n_steps", len(rounds))
    seconds = median(float(found["seconds"]) for found in rounds)
    reason = f"E2E latency of {len(rounds)} rounds, generation included"
    draft.measure("step_time", seconds, statistic="median", reason=reason)
    mean = rounds[-1]["mean"]
    reason = "AvgSamplesPerSec of the last round: all processes, generation included"
    draft.measure("samples_per_second", float(mean), raw=mean, statistic="mean", reason=reason)


def measure_deepspeed_peak(draft: Draft, timers: Sequence[re.Match[str]]) -> None:
    """Add the largest peak of the timer's lines; where it writes none, nothing."""
    peaks = [float(found["peak"]) for found in timers if found["peak"]]
    if peaks and max(peaks) > 0:
        raw = f"{max(peaks):g}GB"
        measure_peak(
            draft, max(peaks), **OF_FIRST_PROCESS, kind="allocated", raw=raw, unit_reported="GB"
        )
