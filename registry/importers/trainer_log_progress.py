"""The events in a log of the Trainer, each with the clock of its line in whole seconds."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from registry.errors import SubmissionError
from registry.importers.shared.efficiency import TIMED
from registry.importers.shared.explain import NO_TOTALS
from registry.importers.shared.logs import (
    LONGEST_DETAIL,
    OUT_OF_MEMORY,
    STOPPED,
    parse_stamp,
    printed_entries,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A line's clock, as LLaMA-Factory and as transformers print it.
STAMP: Final = re.compile(
    r"\[(?:INFO|WARNING)\|(?:[\w.]+:\d+\] )?(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)"
)
#: The totals that the Trainer prints at the end, beside a loss: some versions print a runtime at
#: each step. transformers 5 prints texts of four digits. Tried at the first brace alone: at each of
#: many, a line takes the square of its length.
TOTALS: Final = re.compile(r"^[^{]*\{(?=.*'train_loss': ).*'train_runtime': '?\d")
#: The same in the list that scripts print below ``***** train metrics *****``.
LISTED: Final = re.compile(r"^ *train_runtime += +\d")
#: The total time as scripts after Unsloth's templates print it, of a Trainer that printed none.
SECONDS: Final = re.compile(r"^(?P<value>\d{1,15}(?:\.\d{1,15})?) seconds used for training")
_NUMBER: Final = r"\d{1,15}\.?\d{0,30}(?:e[+-]?\d{1,3})?"
_LOSS: Final = re.compile(
    rf"'loss': '?(?P<loss>{_NUMBER}).{{0,2000}}'epoch': '?(?P<epoch>{_NUMBER})"
)
_EVALUATION: Final = re.compile(rf"'eval_runtime': '?(?P<seconds>{_NUMBER})")
_BAR: Final = re.compile(r"\| *(?P<done>\d{1,15})/(?P<planned>\d{1,15}) \[")
_RATE: Final = re.compile(r"'throughput': (?P<tokens>\d{1,15}\.?\d{0,30})")
_CHECKPOINT: Final = re.compile(r"Saving model checkpoint to .*checkpoint-(?P<step>\d{1,15})")
#: Lines of a training that failed before any total: a loss, or the Trainer in the traceback.
_TRAINS: Final = re.compile(rf"{_LOSS.pattern}|transformers/trainer\.py")
#: Intervals of losses after which a first loss is not that of the beginning.
_RESUMED_AFTER: Final = 1.5
#: By how much an epoch that is printed with two decimals may be off.
_HALF: Final = 0.005
_RESUMED: Final = re.compile(r"Continuing training from global step (?P<step>\d{1,15})")
_METRIC: Final = re.compile(
    r"(?:'(?P<key>train_\w+|epoch|num_input_tokens_seen)': |^ *(?P<name>train_\w+|epoch) += +)'?"
    r"(?P<value>(?:\d{1,4} days?, )?[\d.:]+(?:e[+-]?\d{1,3})?|nan|inf)"
)


def ran_out_of_memory(lines: Sequence[str]) -> bool:
    """Return whether a text is that of a Trainer that ran out of memory."""
    return any(map(OUT_OF_MEMORY.search, lines)) and any(map(_TRAINS.search, lines))


@dataclass
class Progress:
    """What happened in a log, each with the seconds of the clock.

    ``evaluations`` are the seconds of those that print them, ``bars`` the lengths of progress bars
    that came to their end.
    """

    #: None where no line has a clock.
    begun: float | None = None
    has_begun: bool = False
    has_clock: bool = False
    ended: float | None = None
    last: float = 0.0
    n_evaluations: int = 0
    resumed_at: int = 0
    checkpoint: int = 0
    losses: list[tuple[float, float, float]] = field(default_factory=list)
    #: Entries with the times of single steps, which a callback of Liger-Kernel's prints.
    timed: list[dict[str, Any]] = field(default_factory=list)
    evaluations: list[float] = field(default_factory=list)
    bars: set[int] = field(default_factory=set)
    tokens_per_second: str | None = None
    metrics: dict[str, str] = field(default_factory=dict)
    #: Whether it says that someone ended it.
    is_stopped: bool = False
    #: What it says of running out of memory; empty where it does not.
    out_of_memory: str = ""

    @property
    def began_later(self) -> bool:
        """Whether the first loss lies further on than one interval of losses: a resumed run."""
        epochs = [epoch for _, _, epoch in self.losses[:2]]
        if len(epochs) < 2:  # noqa: PLR2004 - an interval has two ends
            return False
        are_rounded = all(round(epoch, 2) == epoch for epoch in epochs)
        interval = epochs[1] - epochs[0] + are_rounded * 2 * _HALF
        return epochs[0] - are_rounded * _HALF > _RESUMED_AFTER * interval

    @property
    def is_complete(self) -> bool:
        """Whether the log says that the training ended."""
        return self.ended is not None or "train_runtime" in self.metrics


def read_progress(lines: Sequence[str]) -> Progress:
    """Return the events of a log; raise SubmissionError unless one training is in it."""
    progress = Progress()
    totals = [line for line in lines if TOTALS.search(line)]
    listed = [line for line in lines if LISTED.search(line)]
    spent = [line for line in lines if SECONDS.search(line)]
    # scripts that print what `train` returns print the totals twice
    returned = [line for line in totals if "TrainOutput(" in line]
    if max(*map(len, (returned, listed, spent)), len(totals) - len(returned)) > 1:
        raise SubmissionError("several training runs in one log; split it")
    timed = [line for line in lines if TIMED in line]
    progress.timed = [entry for entry in printed_entries(timed) if TIMED in entry]
    for line in lines:
        stamp = STAMP.search(line)
        at = parse_stamp(stamp["at"]) if stamp else None
        if at is not None:
            progress.last, progress.has_clock = at, True
        if "***** Running training" in line and progress.has_begun:
            raise SubmissionError("several training runs in one log; split it")
        _take_line(progress, line)
    tells = progress.has_begun or progress.out_of_memory or progress.timed
    if not (tells or totals or listed or spent):
        trained = progress.losses or progress.checkpoint
        raise SubmissionError(
            NO_TOTALS if trained else "evaluation or prediction only; nothing was trained here"
        )
    return progress


def _take_line(progress: Progress, line: str) -> None:
    if "***** Running training" in line:
        progress.has_begun = True
        progress.begun = progress.last if progress.has_clock else None
    elif "Training completed." in line:
        progress.ended = progress.last
    elif "***** Running Evaluation" in line and progress.begun and not progress.is_complete:
        progress.n_evaluations += 1
    if found := OUT_OF_MEMORY.search(line):
        progress.out_of_memory = line[found.start() :][:LONGEST_DETAIL]
    progress.is_stopped |= line.startswith(STOPPED)
    if found := _RESUMED.search(line):
        progress.resumed_at = int(found["step"])
    if found := _CHECKPOINT.search(line):
        progress.checkpoint = int(found["step"])
    if found := _LOSS.search(line):
        progress.losses.append((progress.last, float(found["loss"]), float(found["epoch"])))
    if found := _RATE.search(line):
        progress.tokens_per_second = found["tokens"]
    _take_figures(progress, line)


def _take_figures(progress: Progress, line: str) -> None:
    if (found := _EVALUATION.search(line)) and not progress.is_complete:
        progress.evaluations.append(float(found["seconds"]))
    progress.bars |= {
        int(bar["done"]) for bar in _BAR.finditer(line) if bar["done"] == bar["planned"]
    }
    if found := SECONDS.search(line):
        progress.metrics.setdefault("train_runtime", found["value"])
    if "'train_runtime'" in line and not TOTALS.search(line):
        return
    if "train_" in line or progress.ended:
        for found in _METRIC.finditer(line):
            progress.metrics.setdefault(found["key"] or found["name"], found["value"])
