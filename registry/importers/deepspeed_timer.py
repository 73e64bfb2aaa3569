"""The line of speed that DeepSpeed's ThroughputTimer prints, and what it counts.

Since release 0.8.0 it counts optimizer steps (``global_step=``) beside micro-batches. Until 0.7.7
it has one count, ``0/40,``: the calls of the engine's ``step``, which are micro-batches. Its rate
is of all processes in both, from the third of what it counts on, in the time from forward to step
alone. Source: ``ThroughputTimer`` in ``deepspeed/utils/timer.py`` and its calls in
``deepspeed/runtime/engine.py`` of https://github.com/deepspeedai/DeepSpeed, releases 0.1.0 to
0.16.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Final

from registry.importers.shared.logs import parse_stamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NUMBER: Final = r"\d{1,15}\.?\d{0,30}"
_LINE: Final = re.compile(
    r"(?:\[(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\].*?)?"
    r"(?:(?:micro_step=(?P<micro>\d{1,15})/)?global_step=(?P<step>\d{1,15})"
    r"|(?<![\w./])\d{1,15}/(?P<calls>\d{1,15})), "
    rf"(?P<name>(?:RunningAvg)?SamplesPerSec)=(?P<mean>{_NUMBER})"
    rf"(?:, CurrSamplesPerSec={_NUMBER})?"
    rf"(?:, MemAllocated=[\d.]+GB, MaxMemAllocated=(?P<peak>{_NUMBER})GB)?"
)
#: The engine's own count of optimizer steps, which goes on where the timer begins anew.
ENGINE: Final = re.compile(
    r"(?:\[Rank 0\]|rank:0) step=(?P<step>\d{1,15}), skipped=(?P<skipped>\d{1,15})"
)
#: What the timer counts before it starts its clock.
_UNTIMED: Final = 2
#: Fewest intervals of the clock from which a batch can be told.
_INTERVALS: Final = 3
#: Fewest pairs of counts from which the micro-batches of a step can be told.
_PAIRS: Final = 2


@dataclass(frozen=True)
class TimerLine:
    """One line: what it counts, its running mean of samples per second, and the peak in GiB.

    ``micro_batches`` is what ``count`` is of in a line of before 0.8.0; in one of later it stands
    beside the count of steps, where the line has it.
    """

    count: int
    is_of_steps: bool
    micro_batches: int | None
    name: str
    mean: str
    at: float | None = None
    peak: float | None = None

    @property
    def seconds_per_sample(self) -> float | None:
        """The timed seconds since the start over the samples of one count, or None."""
        rate = float(self.mean)
        return (self.count - _UNTIMED) / rate if rate and self.count > _UNTIMED else None


def parse_timer_line(line: str) -> TimerLine | None:
    """Return a line of the timer, or None for any other."""
    found = _LINE.search(line)
    if found is None:
        return None
    micro = found["micro"] or found["calls"]
    return TimerLine(
        count=int(found["step"] or found["calls"]),
        is_of_steps=found["step"] is not None,
        micro_batches=int(micro) if micro else None,
        name=found["name"],
        mean=found["mean"],
        at=parse_stamp(found["at"]) if found["at"] else None,
        peak=float(found["peak"]) if found["peak"] else None,
    )


def batch_by_clock(lines: Sequence[TimerLine]) -> float | None:
    """Return the samples of one count: the time between two lines by the log's clock and by rate.

    The rate of a line is of all that was timed before it, so that two of them tell the time
    between the lines per sample of a count. None where too few lines have a clock.
    """
    batches = [
        (line.at - before.at) / (timed - earlier)
        for before, line in pairwise(lines)
        if before.at is not None
        and line.at is not None
        and (earlier := before.seconds_per_sample) is not None
        and (timed := line.seconds_per_sample) is not None
        and timed > earlier
    ]
    return median(batches) if len(batches) >= _INTERVALS else None


def find_accumulation(lines: Sequence[str], last: TimerLine) -> tuple[int, str] | None:
    """Return the micro-batches of a step and how they are told, or None where they are not.

    A line of 0.8.0 and later has both counts; that they are equal says nothing, since some clients
    call the engine's ``step`` for whole steps only. Before, the engine's line of its steps stands
    ahead of the timer's of micro-batches.
    """
    if last.is_of_steps:
        micro = last.micro_batches or 0
        accumulated = micro // last.count if last.count else 0
        if accumulated > 1 and accumulated * last.count == micro:
            return accumulated, f"{micro} micro-batches in {last.count} steps of the timer"
        return None
    pairs = list(_paired_counts(lines))
    grown = {
        (micro - before) / (step - earlier)
        for (earlier, before), (step, micro) in pairwise(pairs)
        if step > earlier
    }
    if len(pairs) < _PAIRS or len(grown) != 1:
        return None
    ratio = grown.pop()
    if ratio < 1 or ratio % 1:
        return None
    (first, begun), (step, micro) = pairs[0], pairs[-1]
    reason = f"{micro - begun} micro-batches of the timer in {step - first} steps of the engine"
    return int(ratio), reason


def _paired_counts(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the engine's steps and the timer's micro-batches where its line is the next."""
    step: int | None = None
    for line in lines:
        if engine := ENGINE.search(line):
            step = int(engine["step"])
        elif step is not None and (timer := parse_timer_line(line)):
            yield step, timer.count
            step = None
