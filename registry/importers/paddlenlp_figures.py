"""What the lines of the trainer of PaddleNLP, of PaddleFormers after it, and of ERNIEKit mean.

``interval_runtime`` is the seconds since the line before, so that what was evaluated or saved in
between is in it; ``global_step`` counts optimizer steps. Memory is of the process that prints,
since its start: ``max_memory_*``, which PaddleNLP prints since April 2024, in 2^30 bytes, and
``gpu_max_memory_*`` in whole 2^20 bytes, rounded down. ``interval_tokens_per_second_per_device``,
since February 2024, is samples at their full length, padding included.
``interval_samples_per_second`` is of all steps of an interval in such logs, so that it tells the
batch; in releases of 2022 it is of one step, and not read. Nor are
``interval_hardware_tflops_per_device``, which is divided by 2^40, and the rates beside
``train_runtime``, which are of the planned steps, done or not. ERNIEKit writes ``global_`` for
``interval_``, and ``max_mem_*_gb``, which are in 2^30 bytes; its rate of tokens is not read.
Sources: ``_maybe_log_save_evaluate`` in ``paddlenlp/trainer/trainer.py`` of
https://github.com/PaddlePaddle/PaddleNLP, ``paddlenlp/trainer/trainer_utils.py`` of the same, and
``paddleformers/trainer/trainer.py`` of https://github.com/PaddlePaddle/PaddleFormers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from math import floor
from statistics import median
from typing import TYPE_CHECKING, Final

from registry.importers.shared.logs import validate_growing
from registry.importers.shared.readings import (
    GIBIBYTE,
    MEBIBYTE,
    figures_by_name,
    largest,
    measure_token_rate,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from registry.importers.shared.draft import Draft

#: Figures that a line of steps has, one of an evaluation, and the one at the end.
_STEP: Final = ("global_step", "interval_runtime")
_ERNIE_STEP: Final = ("global_step", "global_runtime")
_EVALUATED: Final = ("eval_runtime",)
_TRAINED: Final = ("train_runtime", "train_loss")
_START: Final = "***** Running training *****"
_SAVES: Final = "Saving model checkpoint to "
_FIGURE: Final = re.compile(r"(?<![\w.])(?P<name>[a-z]\w*): (?P<value>[-+.\de]{1,40})(?=,|\s|$)")
_RESUMED: Final = re.compile(r"Continuing training from global step (?P<step>\d{1,15})\b")
#: Half of the last decimal of seconds, and of rates, where these are rounded at all.
_HALF: Final = 0.00005
_HALF_RATE: Final = 0.0005
#: Figures by which a log is of 2024 or later.
_RECENT: Final = ("interval_tokens_per_second_per_device", "max_memory_allocated")
#: Names of ERNIEKit, and those of the trainer that mean the same.
_ERNIE: Final = {
    "global_runtime": "interval_runtime",
    "global_steps_per_second": "interval_steps_per_second",
    "global_samples_per_second": "interval_samples_per_second",
    "max_mem_allocated_gb": "max_memory_allocated",
    "max_mem_reserved_gb": "max_memory_reserved",
}
#: The kinds of peaks, and the figures that have them: in 2^30 bytes, or in whole 2^20 bytes.
_PEAKS: Final = {
    "allocated": ("max_memory_allocated", "gpu_max_memory_allocated"),
    "reserved": ("max_memory_reserved", "gpu_max_memory_reserved"),
}


@dataclass(frozen=True)
class PaddleLine:
    """One line of a training: its last step, and its figures by name.

    ``is_mixed`` is that of an interval with more than steps: the start of the run, or what was
    evaluated or saved. ``steps`` are those of the interval, or None where they are not told.
    """

    step: int
    figures: Mapping[str, float]
    is_mixed: bool = False
    steps: int | None = None


def is_paddle_step(line: str) -> bool:
    """Return whether a line is one of training steps, with the seconds that they took."""
    return bool(_figures_of_step(line))


def _figures_of_step(line: str) -> dict[str, float]:
    if "loss: " not in line:
        return {}
    return _figures_of(line, _STEP) or _figures_of(line, _ERNIE_STEP)


def is_paddle_end(line: str) -> bool:
    """Return whether a line says that the steps of a training came to their end."""
    return "Training completed." in line


def read_paddle_lines(lines: Iterable[str]) -> list[PaddleLine]:
    """Return the lines of training steps."""
    found: list[PaddleLine] = []
    is_mixed = False
    for line in lines:
        if figures := _figures_of_step(line):
            step = int(figures["global_step"])
            steps = _count_steps(figures, step - found[-1].step if found else None)
            is_start = not found and step == steps
            found.append(PaddleLine(step, figures, is_mixed or is_start, steps))
            is_mixed = False
        else:
            is_more = _START in line or _SAVES in line or bool(_figures_of(line, _EVALUATED))
            is_mixed = is_mixed or is_more
    return found


def _count_steps(figures: Mapping[str, float], since: int | None) -> int | None:
    """Return the steps of an interval: those since the line before, unless its rate denies that.

    It does where lines are left out; the rate then says how many there are, if they are few.
    """
    seconds, rate = figures["interval_runtime"], figures.get("interval_steps_per_second")
    if rate is None:
        return since
    low = (rate - _HALF_RATE) * (seconds - _HALF)
    high = (rate + _HALF_RATE) * (seconds + _HALF)
    return since if since and low <= since <= high else _whole_between(low, high)


def _whole_between(low: float, high: float) -> int | None:
    """Return the one whole number above zero within two bounds, or None."""
    whole = floor(high)
    return whole if whole >= 1 and whole - 1 < low <= whole else None


def _figures_of(line: str, names: Sequence[str]) -> dict[str, float]:
    """Return the figures of a line that has some of them, or none for any other line."""
    if not all(f"{name}: " in line for name in names):
        return {}
    figures = figures_by_name(_FIGURE, line)
    if not figures.keys() >= set(names):
        return {}
    return {_ERNIE.get(name, name): value for name, value in figures.items()}


def measure_paddle_run(draft: Draft, lines: Sequence[str], process: int) -> None:
    """Add the figures of a log of a process; raise SubmissionError where its steps go back."""
    steps = read_paddle_lines(lines)
    validate_growing(line.step for line in steps)
    _state_batch(draft, steps)
    _measure_speed(draft, steps)
    _measure_end(draft, lines, steps[-1])
    _measure_evaluations(draft, lines)
    _measure_memory(draft, steps, process)


def _state_batch(draft: Draft, steps: Sequence[PaddleLine]) -> None:
    """State the batch of a log that has no start, where its rates leave one only."""
    if not any(name in steps[-1].figures for name in _RECENT):
        return
    found = {
        _whole_between((samples - _HALF_RATE) / (rate + _HALF_RATE), (samples + _HALF_RATE) / less)
        for line in steps
        if (samples := line.figures.get("interval_samples_per_second", 0)) > 0
        and (less := (rate := line.figures.get("interval_steps_per_second", 0)) - _HALF_RATE) > 0
    } - {None}
    if len(found) == 1:
        draft.state("global_batch_size", found.pop(), "samples / steps per second")


def _measure_speed(draft: Draft, lines: Sequence[PaddleLine]) -> None:
    """Add the time and the rate in the middle, of intervals that are of steps alone."""
    known = [line for line in lines if line.steps and line.figures["interval_runtime"] > _HALF]
    timed = [line for line in known if not line.is_mixed]
    if not timed:
        draft.flags.add("short_run")
        timed = known[-1:]
    if not timed:
        draft.missing.append("no time of a step: the lines do not tell how many steps they are of")
        return
    said = f"of {len(timed)} lines"
    if left := len(lines) - len(timed):
        said += f", {left} left out: with the start, or with what was evaluated or saved"
    bounds = {
        name: median((line.figures["interval_runtime"] + off) / (line.steps or 1) for line in timed)
        for name, off in (("low", -_HALF), ("value", 0.0), ("high", _HALF))
    }
    reason = f"interval_runtime / its steps; {said}"
    draft.derive("step_time", bounds.pop("value"), reason, statistic="median", **bounds)
    name = "interval_tokens_per_second_per_device"
    rates = [line.figures[name] for line in timed if name in line.figures]
    measure_token_rate(draft, rates, "lines; samples at their full length, per device")


def _measure_end(draft: Draft, lines: Sequence[str], last: PaddleLine) -> None:
    """Add the count of steps, the loss, and the seconds of the whole training."""
    resumed = [int(found["step"]) for line in lines if (found := _RESUMED.search(line))]
    before = resumed[-1] if resumed and resumed[-1] < last.step else 0
    if before:
        draft.note_resumed(f"it goes on after step {before}", last.step)
    draft.measure("n_steps", last.step - before)
    ended = [figures for line in lines if (figures := _figures_of(line, _TRAINED))]
    seconds = ended[-1].get("train_runtime") if ended else None
    if ended and not before:  # else it is the sum since the restart over the steps of both parts
        draft.measure("train_loss", ended[-1].get("train_loss"))
    else:
        draft.measure("train_loss", last.figures.get("loss"), statistic="last")
    if seconds:
        draft.measure(
            "total_time", seconds, low=seconds - _HALF, high=seconds + _HALF, unit_reported="s"
        )
    else:
        draft.missing.append("no total time")


def _measure_evaluations(draft: Draft, lines: Sequence[str]) -> None:
    """Add what evaluations took, which the total time and the peaks are of as well."""
    within = takewhile(lambda line: not is_paddle_end(line), lines)
    times = [found["eval_runtime"] for line in within if (found := _figures_of(line, _EVALUATED))]
    if not times:
        return
    draft.flags.add("includes_evaluation")
    draft.inferences.setdefault("flags", "the model is evaluated within the training")
    reason = f"sum of eval_runtime of {len(times)} evaluations"
    draft.derive("eval_time", sum(times), reason, statistic="sum")


def _measure_memory(draft: Draft, steps: Sequence[PaddleLine], process: int) -> None:
    """Add the largest peaks, by the finer of the two ways in which they are written."""
    figures = [line.figures for line in steps]
    place = {"scope": "per_gpu", "device_index": process}
    for kind, (gibibytes, mebibytes) in _PEAKS.items():
        whole, parts = largest(figures, gibibytes), largest(figures, mebibytes)
        if whole:
            columns = {"raw": f"{whole}", "reading": "GiB"} | place
            reason = "divided by 2^30; largest line, since the start of the process"
            draft.measure("peak_memory", whole * GIBIBYTE, kind=kind, reason=reason, **columns)
        elif parts:
            columns = {"raw": f"{parts:.0f}", "reading": "MiB"} | place
            columns |= {"low": parts * MEBIBYTE, "high": (parts + 1) * MEBIBYTE}
            reason = "whole 2^20 bytes, rounded down; largest line, since the start of the process"
            draft.measure("peak_memory", parts * MEBIBYTE, kind=kind, reason=reason, **columns)
    draft.note_lack("peak_memory", "no memory")
