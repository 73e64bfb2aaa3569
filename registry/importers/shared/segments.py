"""Separate the runs that one progress log holds: restarts, and runs that wrote at the same time.

A run's steps and elapsed time only grow, and its total stays. What two runs could both have
written is not guessed at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from registry.errors import SubmissionError

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
            _validate_number_of_runs(len(segments) + 1)
            segments.append(Segment([progress]))
            continue
        gap = min(progress.step - segment.last.step for segment in fitting)
        nearest = [segment for segment in fitting if progress.step - segment.last.step == gap]
        if len(nearest) > 1:
            for segment in nearest:
                segment.is_ambiguous = True
        nearest[-1].entries.append(progress)
    return segments


def _validate_number_of_runs(n_runs: int) -> None:
    if n_runs > _MOST_RUNS:
        raise SubmissionError(
            f"found more than {_MOST_RUNS} runs in one log, expected a few; split the log"
        )


def seconds_of_evaluations(segment: Segment) -> tuple[int, float]:
    """Return the evaluations of a run and their seconds: an entry of its own at the step before."""
    count, seconds = 0, 0.0
    for before, entry in zip(segment.entries, segment.entries[1:], strict=False):
        if "eval_loss" in entry.entry and entry.step == before.step:
            count += 1
            seconds += entry.elapsed - before.elapsed
    return count, seconds
