"""The events in a log of the Trainer, each with the clock of its line in whole seconds."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from registry.errors import SubmissionError
from registry.importers.shared.logs import parse_stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A line's clock, as LLaMA-Factory and as transformers print it.
STAMP: Final = re.compile(
    r"\[(?:INFO|WARNING)\|(?:[\w.]+:\d+\] )?(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"
)
_LOSS: Final = re.compile(
    r"'loss': (?P<loss>\d{1,15}\.?\d{0,30}).*'epoch': (?P<epoch>\d{1,15}\.?\d{0,30})"
)
_RATE: Final = re.compile(r"'throughput': (?P<tokens>\d{1,15}\.?\d{0,30})")
_CHECKPOINT: Final = re.compile(r"Saving model checkpoint to .*checkpoint-(?P<step>\d{1,15})")
_RESUMED: Final = re.compile(r"Continuing training from global step (?P<step>\d{1,15})")
_METRIC: Final = re.compile(
    r"(?:'(?P<key>train_\w+|epoch)': |^ *(?P<name>train_\w+|epoch) += +)(?P<value>[\d.:]+)"
)


@dataclass
class Progress:
    """What happened in a log, each with the seconds of the clock."""

    begun: float | None = None
    ended: float | None = None
    last: float = 0.0
    n_evaluations: int = 0
    resumed_at: int = 0
    checkpoint: int = 0
    losses: list[tuple[float, float, float]] = field(default_factory=list)
    tokens_per_second: str | None = None
    metrics: dict[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether the log says that the training ended."""
        return self.ended is not None or "train_runtime" in self.metrics


def read_progress(lines: Sequence[str]) -> Progress:
    """Return the events of a log; raise SubmissionError unless one training began in it."""
    progress = Progress()
    for line in lines:
        stamp = STAMP.search(line)
        at = parse_stamp(stamp["at"]) if stamp else None
        progress.last = progress.last if at is None else at
        if "***** Running training" in line and progress.begun is not None:
            raise SubmissionError("several trainings in one log; split it")
        _take_line(progress, line)
    if progress.begun is None:
        raise SubmissionError("evaluation or prediction only; nothing was trained here")
    return progress


def _take_line(progress: Progress, line: str) -> None:
    if "***** Running training" in line:
        progress.begun = progress.last
    elif "Training completed." in line:
        progress.ended = progress.last
    elif "***** Running Evaluation" in line and progress.begun and not progress.ended:
        progress.n_evaluations += 1
    if found := _RESUMED.search(line):
        progress.resumed_at = int(found["step"])
    if found := _CHECKPOINT.search(line):
        progress.checkpoint = int(found["step"])
    if found := _LOSS.search(line):
        progress.losses.append((progress.last, float(found["loss"]), float(found["epoch"])))
    if found := _RATE.search(line):
        progress.tokens_per_second = found["tokens"]
    if "train_" in line or progress.ended:
        for found in _METRIC.finditer(line):
            progress.metrics.setdefault(found["key"] or found["name"], found["value"])
