"""The verdict on a card: by a run that proves it, else by the interval; the figure agrees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from registry.predict.answer.leaner import proves_enough, proves_too_much
from registry.predict.answer.nearest import find_nearest_oom
from registry.predict.answer.prediction import DOES_NOT_FIT, FITS, chance_of_fitting, judge, moved
from registry.predict.calibration.fit_rows import USABLE
from registry.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.predict.answer.prediction import Prediction
    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.question import Question


@dataclass(frozen=True)
class Decided:
    """A verdict, None without a card; the run that decides, if any; the prediction within it."""

    verdict: str | None
    prediction: Prediction
    reasons: tuple[str, ...] = ()
    #: How likely it fits, from 0 to 1; None without a card.
    chance: float | None = None


def decide(question: Question, found: Prediction, alike: Sequence[ObservedRun]) -> Decided:
    """Return the verdict on a question's card.

    ``alike`` are the runs of models of its shape. The run that decides is the nearest that ran out
    of memory, where it asked for no more, or one that ran and asked for no less.
    """
    if question.gpu is None:
        return Decided(None, found)
    usable = USABLE * question.gpu.memory_bytes
    failed = find_nearest_oom(question, alike)
    if failed is not None and proves_too_much(question, failed.observation):
        run = failed.observation
        reason = (
            f"observation {run.observation_id} ({run.source_id}), which asked for no more, ran "
            f"out of memory {_format_room(run, 'on a card with at least as much')}"
        )
        return Decided(DOES_NOT_FIT, moved(found, least=usable), (reason,), 0.0)
    ran = next((one for one in alike if proves_enough(question, one)), None)
    if ran is not None:
        reason = (
            f"observation {ran.observation_id} ({ran.source_id}), which asked for no less, ran "
            f"{_format_room(ran, 'on a card with no more memory')}"
        )
        took = moved(found, most=min(ran.peak_bytes or usable, usable), highest=usable)
        return Decided(FITS, took, (reason,), 1.0)
    capacity = question.gpu.memory_bytes
    return Decided(judge(found, capacity), found, chance=chance_of_fitting(found, capacity))


def _format_room(run: ObservedRun, otherwise: str) -> str:
    """Return the memory that a run was allowed of its card, else what holds of a whole card."""
    if run.memory_limit_bytes is None:
        return otherwise
    return f"where it was allowed {format_memory(run.memory_limit_bytes)} of its card"
