"""What the lines of DeepSpeed mean.

``RunningAvgSamplesPerSec`` (``SamplesPerSec`` until 0.6.7) counts the samples of all processes in
the time from forward to step, the first two steps left out, before 0.8.0 the first two
micro-batches. Memory, which it has since 0.6.0, is the first process's, divided by 2^30.
DeepSpeed-Chat's own line has one process's micro-batch and its seconds. In RLHF two engines print
into one another, so that only the line of the whole round says how long a step took.

Two kinds of lines are not read, since releases differ in what they mean. ``time (ms) | forward:``
has all micro-batches of a step, but from 0.4.0 to 0.5.6 the last one only. ``iter time (s):`` of
the pipeline's engine is too small by the factor of ``steps_per_print`` in these releases, and was
in milliseconds for a while in 2022; its rate was too small by that factor in 0.3.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from registry.importers.deepspeed_timer import ENGINE, TimerLine, batch_by_clock, parse_timer_line
from registry.importers.shared.logs import validate_growing
from registry.importers.shared.micro_batches import Iterations, accumulation_of, measure_iterations
from registry.importers.shared.readings import OF_FIRST_PROCESS, measure_peak

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.importers.base import ImportOptions
    from registry.importers.shared.draft import Draft

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
#: How far the batch that the clock gives may lie from a whole number of micro-batches.
CLOCK_SLACK: Final = 0.02


@dataclass(frozen=True)
class Lines:
    """The lines of a log that have figures."""

    timers: Sequence[TimerLine]
    engine: Sequence[re.Match[str]]
    chats: Sequence[re.Match[str]]
    rounds: Sequence[re.Match[str]]

    @property
    def is_training(self) -> bool:
        """Whether there is a line of speed."""
        return bool(self.timers or self.chats or self.rounds)

    def batch_by_clock(self) -> float | None:
        """Return the samples of a step, before 0.8.0 of a micro-batch, of all processes."""
        # the timer sees the training of a round, not the round
        return None if self.rounds else batch_by_clock(self.timers)


def read_lines(document: Sequence[str]) -> Lines:
    """Return the lines with figures."""
    engine, chats, rounds = (
        [match for line in document if (match := pattern.search(line))]
        for pattern in (ENGINE, _CHAT, _ROUND)
    )
    timers = [timer for line in document if (timer := parse_timer_line(line))]
    return Lines(timers, engine, chats, rounds)


def measure_lines(draft: Draft, lines: Lines, options: ImportOptions) -> None:
    """Add the figures of a log; raise SubmissionError where its steps go back."""
    if lines.rounds:
        _measure_rounds(draft, lines.rounds)
    elif lines.timers:
        _measure_timers(draft, lines, options)
    else:
        _measure_chat(draft, lines.chats)
    measure_deepspeed_peak(draft, lines.timers)
    draft.note_lack("peak_memory", "no memory")


def _measure_timers(draft: Draft, lines: Lines, options: ImportOptions) -> None:
    validate_growing(line.count for line in lines.timers)
    last = lines.timers[-1]
    first = "steps" if last.is_of_steps else "two micro-batches"
    reason = f"{last.name} of the last line: all processes, the first {first} left out"
    draft.measure(
        "samples_per_second", float(last.mean), raw=last.mean, statistic="mean", reason=reason
    )
    if last.is_of_steps:
        draft.measure("n_steps", last.count)
    else:
        measure_iterations(draft, Iterations(done=last.count, seconds=None), options)
    _flag_steps(draft, lines, _count_steps(draft, last, options))


def _count_steps(draft: Draft, last: TimerLine, options: ImportOptions) -> int | None:
    """Return the optimizer steps that the timer counts, or None where it does not tell them."""
    if last.is_of_steps:
        return last.count
    accumulated = accumulation_of(draft, options)
    return last.count // accumulated if accumulated else None


def _flag_steps(draft: Draft, lines: Lines, timed: int | None) -> None:
    """Flag steps of before a restart, and steps too few or skipped to be a steady rate."""
    most = lines.timers[-1].count if timed is None else timed
    done = int(lines.engine[-1]["step"]) if lines.engine else most
    skipped = int(lines.engine[-1]["skipped"]) if lines.engine else 0
    if done > most + _FEW:
        draft.note_resumed(f"the engine counts {done} steps, its timer {most}", done)
        skipped, done = 0, most
    steps = done if timed is None else timed
    if steps < _FEW or skipped > _MOST_SKIPPED * steps:
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


def measure_deepspeed_peak(draft: Draft, timers: Sequence[TimerLine]) -> None:
    """Add the largest peak of the timer's lines; where it writes none, nothing."""
    peaks = [line.peak for line in timers if line.peak is not None]
    if peaks and max(peaks) > 0:
        raw = f"{max(peaks):g}GB"
        measure_peak(
            draft, max(peaks), **OF_FIRST_PROCESS, kind="allocated", raw=raw, unit_reported="GB"
        )
