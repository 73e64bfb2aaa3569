"""What the lines of MMEngine's runner mean, which XTuner uses until 0.2.

An iteration is a micro-batch. ``time`` is the mean of the last iterations, ten where nothing else
is set, from the end of one to the end of the next: with the data, and what hooks such as a
checkpoint or a sampled answer took after the iteration before. ``memory`` is the largest
``torch.cuda.max_memory_allocated`` of the first process since the line before, in whole 2^20
bytes, rounded down. ``tokens_per_sec`` is of one process in the last iteration, padding included.
Sources: ``mmengine/runner/log_processor.py``, ``mmengine/hooks/iter_timer_hook.py`` and
``mmengine/device/utils.py`` of https://github.com/open-mmlab/mmengine;
``xtuner/engine/hooks/throughput_hook.py`` of https://github.com/InternLM/xtuner, release 0.2.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from registry.importers.shared.logs import validate_growing
from registry.importers.shared.micro_batches import Iterations, accumulation_of, measure_iterations
from registry.importers.shared.readings import (
    MEBIBYTE,
    choose_timed,
    figures_by_name,
    largest,
    measure_token_rate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import ImportOptions
    from registry.importers.shared.draft import Draft

_LINE: Final = re.compile(
    r"- mmengine - INFO - (?:Iter\(train\) +|Epoch\(train\) +\[(?P<epoch>[\d ]{1,15})\])"
    r"\[(?P<step>[\d ]{1,15})/(?P<all>\d{1,15})\] +(?P<figures>\S.*)"
)
_FIGURE: Final = re.compile(r"(?:^|\s)(?P<name>[A-Za-z]\w*): (?P<value>[-+.\de]{1,40}|nan)(?=\s|$)")
_RESUMED: Final = re.compile(r"- mmengine - INFO - resumed epoch: \d+, iter: (?P<iter>\d{1,15})")
_SAVED: Final = re.compile(r"Saving checkpoint at (?P<count>\d{1,15}) (?P<of>iterations|epochs)")
#: What is printed when the model is asked, or validated, within the training.
_EVALUATED: Final = re.compile(
    r"(?:before_train|after_train_iter) in EvaluateChatHook|- (?:Iter|Epoch)\(val\)"
)
#: Half of the last decimal of times.
_HALF: Final = 0.00005


@dataclass(frozen=True)
class MmengineLine:
    """One line: its last iteration, how many the run or its epoch has, the figures by name."""

    step: int
    all: int
    epoch: int | None
    figures: Mapping[str, float]

    @property
    def done(self) -> int:
        """The iterations since the start of the run."""
        return self.step if self.epoch is None else (self.epoch - 1) * self.all + self.step


def parse_mmengine_line(line: str) -> MmengineLine | None:
    """Return a line of training that has its time, or None for any other."""
    found = _LINE.search(line)
    if found is None or not found["step"].strip().isdigit():
        return None
    figures = figures_by_name(_FIGURE, found["figures"])
    epoch = found["epoch"].strip() if found["epoch"] else ""
    if figures.get("time", 0) <= 0:
        return None
    return MmengineLine(
        int(found["step"]), int(found["all"]), int(epoch) if epoch.isdigit() else None, figures
    )


def read_mmengine_lines(lines: Sequence[str]) -> list[MmengineLine]:
    """Return the lines of training that have a time."""
    return [found for line in lines if (found := parse_mmengine_line(line))]


def count_done(lines: Sequence[str], epochs: float | None) -> tuple[int, str | None]:
    """Return the iterations at which a log ends, and where that is; None for a run at its end.

    Iterations at the end that make no full line have none: the last checkpoint shows them.
    ``epochs`` are those that the run has, where its lines are numbered within one.
    """
    last = read_mmengine_lines(lines)[-1]
    saved = [found for line in lines if (found := _SAVED.search(line))]
    count = int(saved[-1]["count"]) if saved else 0
    if last.epoch is None:
        done = max(last.step, count if saved and saved[-1]["of"] == "iterations" else 0)
        return done, f"the log ends at iteration {done} of {last.all}" if done < last.all else None
    done = max(last.done, count * last.all if saved and saved[-1]["of"] == "epochs" else 0)
    whole = f" of {epochs:g}" if epochs else ""
    ends = f"the log ends at iteration {last.step} of {last.all} in epoch {last.epoch}{whole}"
    return done, None if epochs and done >= epochs * last.all else ends


def measure_mmengine(draft: Draft, lines: Sequence[str], done: int, options: ImportOptions) -> None:
    """Add the figures of a log; raise SubmissionError where its iterations go back."""
    found = read_mmengine_lines(lines)
    validate_growing(line.done for line in found)
    timed, said = choose_timed(draft, found, _steady(found))
    seconds = median(line.figures["time"] for line in timed)
    iterations = Iterations(
        done=done - _count_before(draft, lines, done, options),
        seconds=seconds,
        low=max(seconds - _HALF, 0.0),
        high=seconds + _HALF,
        reason=f"{said}, each a mean of its last iterations; with the data and the hooks",
    )
    measure_iterations(draft, iterations, options)
    rates = [line.figures["tokens_per_sec"] for line in timed if "tokens_per_sec" in line.figures]
    measure_token_rate(draft, rates, "lines; padding included, the last iteration of each")
    draft.measure("train_loss", found[-1].figures.get("loss"), statistic="last")
    _measure_memory(draft, lines, found)


def _steady(lines: Sequence[MmengineLine]) -> Sequence[MmengineLine]:
    """Return the lines without the first of a run, which has its warm-up; an excerpt has none."""
    interval = lines[1].done - lines[0].done if len(lines) > 1 else lines[0].done
    return lines[1:] if lines[0].done <= interval else lines


def _count_before(draft: Draft, lines: Sequence[str], done: int, options: ImportOptions) -> int:
    """Return the iterations of before a restart, and flag a run that was resumed."""
    resumed = [int(found["iter"]) for line in lines if (found := _RESUMED.search(line))]
    if not resumed or not 0 < resumed[-1] < done:
        return 0
    draft.note_resumed(
        f"it goes on after iteration {resumed[-1]}", done // (accumulation_of(draft, options) or 1)
    )
    return resumed[-1]


def _measure_memory(draft: Draft, lines: Sequence[str], found: Sequence[MmengineLine]) -> None:
    """Add the largest peak; what is sampled or validated between two lines is in it."""
    peak = largest((line.figures for line in found), "memory")
    if not peak:
        draft.missing.append("no memory")
        return
    draft.measure_process(
        "peak_memory",
        peak * MEBIBYTE,
        low=peak * MEBIBYTE,
        high=(peak + 1) * MEBIBYTE,
        kind="allocated",
        raw=f"{peak:.0f}",
        reading="MiB",
        reason="MMEngine divides by 2^20 and rounds down; largest line, first process",
    )
    if any(map(_EVALUATED.search, lines)):
        draft.flags.add("includes_evaluation")
        draft.inferences.setdefault("flags", "the peak of memory is one of training and evaluation")
