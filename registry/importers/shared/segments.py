"""Separate the runs that one progress log holds: restarts, and runs that wrote at the same time.

A run's steps and elapsed time only grow, and its total stays. What two runs could both have
written is not guessed at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from registry.errors import SubmissionError, UnitError
from registry.importers.shared.totals import Evaluations
from registry.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Most runs in one log: each entry is held against the last of every run.
_MOST_RUNS: Final = 200


@dataclass(frozen=True)
class ProgressEntry:
    """One entry of a progress log: its line, step, steps in all, and seconds since the start."""

    line: int
    step: int
    total: int
    elapsed: float
    entry: dict[str, Any]


@dataclass
class Segment:
    """The entries of one run, in order."""

    entries: list[ProgressEntry] = field(default_factory=list)
    is_ambiguous: bool = False

    @property
    def first(self) -> ProgressEntry:
        """The first entry."""
        return self.entries[0]

    @property
    def last(self) -> ProgressEntry:
        """The last entry."""
        return self.entries[-1]

    @property
    def is_complete(self) -> bool:
        """Whether the run reached its last step."""
        return self.last.step >= self.last.total

    @property
    def lines(self) -> str:
        """The lines of the log, for a message."""
        return f"lines {self.first.line} to {self.last.line}"

    @property
    def end(self) -> str:
        """Where the log ends, for a message on a run that is not complete."""
        return f"the log ends at step {self.last.step} of {self.last.total}"

    def accepts(self, progress: ProgressEntry) -> bool:
        """Return whether an entry can follow the last one."""
        return (
            progress.total == self.last.total
            and progress.step >= self.last.step
            and progress.elapsed >= self.last.elapsed
        )


def split_segments(entries: Iterable[ProgressEntry]) -> list[Segment]:
    """Return the runs in a log, in order of their first entry; raise SubmissionError for too many.

    An entry that fits several runs goes to the one with the nearest step; where two are as near,
    both are marked as ambiguous.
    """
    segments: list[Segment] = []
    for progress in entries:
        fitting = [segment for segment in segments if segment.accepts(progress)]
        if not fitting:
            if len(segments) == _MOST_RUNS:
                raise SubmissionError(
                    f"found more than {_MOST_RUNS} runs in one log, expected a few; split the log"
                )
            segments.append(Segment([progress]))
            continue
        gap = min(progress.step - segment.last.step for segment in fitting)
        nearest = [segment for segment in fitting if progress.step - segment.last.step == gap]
        if len(nearest) > 1:
            for segment in nearest:
                segment.is_ambiguous = True
        nearest[-1].entries.append(progress)
    return segments


def parse_clock(text: str) -> float | None:
    """Return the seconds of a clock in a log, or None."""
    try:
        return parse_duration(text, where="clock").value
    except UnitError:
        return None


def sum_segment_evaluations(segment: Segment) -> Evaluations:
    """Return the evaluations of a run and their seconds: an entry of its own at the step before."""
    seconds = [
        entry.elapsed - before.elapsed
        for before, entry in pairwise(segment.entries)
        if "eval_loss" in entry.entry and entry.step == before.step
    ]
    return Evaluations(len(seconds), sum(seconds))
