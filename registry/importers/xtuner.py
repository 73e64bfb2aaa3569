"""XTuner: the log of MMEngine's runner, which it uses until 0.2, and that of its own trainer since.

Logs of MMEngine that train another model than a language model are read alike, but nothing in them
says which model of the catalogue it is.

What the lines of XTuner's own trainer mean, which it has since 1.0.

A step is one of the optimizer. ``time`` is that of a step without its data, which ``data_time``
is. ``tgs`` are the tokens of one process over ``time``. Memory is that of the process that prints,
divided by 2^30; its peaks are set back for each step. Every process may print. Source:
``xtuner/v1/train/trainer.py`` of https://github.com/InternLM/xtuner, releases 1.0.0rc0 to 1.0.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.draft import Draft
from registry.importers.shared.logs import LogImporter, state_end, validate_growing
from registry.importers.shared.readings import (
    choose_timed,
    figures_by_name,
    largest,
    measure_peak,
    measure_token_rate,
)
from registry.importers.shared.shapes import whole_of
from registry.importers.xtuner_iterations import (
    count_done,
    measure_mmengine,
    parse_mmengine_line,
    read_mmengine_lines,
)
from registry.importers.xtuner_settings import state_dumped_settings, state_system

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import ImportOptions, RunFile


class XtunerImporter(LogImporter):
    """Reads a console log of XTuner."""

    name = "xtuner"
    what = "an XTuner log"
    expects = (
        "a log with lines such as `mmengine - INFO - Iter(train) [ 10/720]  lr: …  time: 2.6851  "
        "data_time: 0.0077  memory: 12762  loss: …`, or of XTuner 1 such as "
        "`[XTuner][RANK 0][…][INFO] Step 1/13 data_time: … time: … tgs: …`"
    )

    def is_log(self, lines: Sequence[str]) -> bool:
        """Recognize a line of a training with its time."""
        return any(map(_is_step, lines))

    def draft(self, log: RunFile, options: ImportOptions) -> Draft:
        """Return the run of a log."""
        lines = log.document
        iterations = read_mmengine_lines(lines)
        draft = _draft_of_mmengine(lines, options) if iterations else _draft_of_steps(lines)
        draft.missing.append("no total time")
        draft.lacks["gpu_id"] = "no accelerator; state it"
        draft.cite(log)
        return draft


def _draft_of_mmengine(lines: Sequence[str], options: ImportOptions) -> Draft:
    draft = Draft(environment={"framework": "mmengine"})
    state_system(draft, lines, options)
    state_dumped_settings(draft, lines, options)
    done, ends = count_done(lines, draft.configuration.get("n_epochs"))
    state_end(draft, lines, _is_step, ends)
    measure_mmengine(draft, lines, done, options)
    return draft


def _draft_of_steps(lines: Sequence[str]) -> Draft:
    steps = _read_xtuner_steps(lines)
    last = steps[-1]
    draft = Draft(environment={"framework": "xtuner"})
    _state_xtuner_start(draft, lines)
    ends = f"the log ends at step {last.step} of {last.all}" if last.step < last.all else None
    state_end(draft, lines, _is_step, ends)
    _measure_xtuner_steps(draft, steps)
    return draft


def _is_step(line: str) -> bool:
    return bool(parse_mmengine_line(line) or parse_xtuner_step(line))


_LINE: Final = re.compile(
    r"\[XTuner\](?:\[RANK (?P<rank>\d{1,7})\])?\[[\d :-]{1,40}\]\[INFO\] (?:Epoch \d{1,9} )?"
    r"Step (?P<step>\d{1,15})/(?P<all>\d{1,15}) (?P<figures>data_time: .*)"
)
_FIGURE: Final = re.compile(r"(?<!\w)(?P<name>[a-z]\w*): (?P<value>-?[\de.+-]{1,40})(?=[\s,]|$)")
_ACCUMULATED: Final = re.compile(r"\[INFO\] grad_accumulation_steps: (?P<count>\d{1,9})\s*$")
_WHOLE: Final = re.compile(r"\[INFO\] Untrainable parameters names: \[\]")
_PEAKS: Final = {"max_memory": "allocated", "reserved_memory": "reserved"}
#: Steps at the start of a run that compile and warm up.
_WARMUP: Final = 3


@dataclass(frozen=True)
class _XtunerStep:
    """One line: the process that prints it, its step, how many there are to be, its figures."""

    rank: int
    step: int
    all: int
    figures: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """The seconds of the step and of its data."""
        return self.figures["time"] + self.figures["data_time"]


def parse_xtuner_step(line: str) -> _XtunerStep | None:
    """Return a line of a step that has its time, or None for any other."""
    found = _LINE.search(line)
    if found is None:
        return None
    figures = figures_by_name(_FIGURE, found["figures"])
    if figures.get("time", 0) <= 0 or figures.get("data_time", -1) < 0:
        return None
    return _XtunerStep(int(found["rank"] or 0), int(found["step"]), int(found["all"]), figures)


def _read_xtuner_steps(lines: Sequence[str]) -> list[_XtunerStep]:
    """Return the steps of the first process that prints."""
    found = [step for line in lines if (step := parse_xtuner_step(line))]
    first = min((step.rank for step in found), default=0)
    return [step for step in found if step.rank == first]


def _state_xtuner_start(draft: Draft, lines: Sequence[str]) -> None:
    """State what is printed before the first step: the accumulation, and that all is trained."""
    for line in lines:
        if found := _ACCUMULATED.search(line):
            draft.state("grad_accum_steps", whole_of(found["count"]))
        elif _WHOLE.search(line):
            draft.state("method", "full", "it prints that no parameter is untrainable")


def _measure_xtuner_steps(draft: Draft, steps: Sequence[_XtunerStep]) -> None:
    """Add the figures of a log; raise SubmissionError where its steps go back."""
    validate_growing(step.step for step in steps)
    steady = [step for step in steps if step.step > _WARMUP]
    timed, said = choose_timed(draft, steps, steady)
    reason = f"{said}; time + data_time, without checkpoints"
    seconds = median(step.seconds for step in timed)
    draft.derive("step_time", seconds, reason, statistic="median")
    rates = [step.figures["tgs"] for step in timed if "tgs" in step.figures]
    measure_token_rate(draft, rates, "lines; one process's tokens in the time without the data")
    draft.measure("train_loss", steps[-1].figures.get("reduced_llm_loss"), statistic="last")
    if steps[0].step == 1:
        draft.measure("n_steps", steps[-1].step)
    else:
        draft.last_step = steps[-1].step
        draft.missing.append(f"no count of steps: it begins at step {steps[0].step}")
    _measure_peaks(draft, steps)


def _measure_peaks(draft: Draft, steps: Sequence[_XtunerStep]) -> None:
    for name, kind in _PEAKS.items():
        peak = largest((step.figures for step in steps), name)
        if peak:
            measure_peak(draft, peak, kind=kind, **_said(peak, steps[0].rank))
    draft.note_lack("peak_memory", "no memory")


def _said(peak: float, rank: int) -> dict[str, Any]:
    return {
        "scope": "per_gpu",
        "device_index": rank,
        "raw": f"{peak:.2f} GB",
        "unit_reported": "GB",
        "reason": f"XTuner divides by 2^30; largest step of process {rank}",
    }
