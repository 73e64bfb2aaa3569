"""The verdict on a card: by a run that proves it, else by the interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.predict.answer.leaner import proves_enough, proves_too_much
from registry.predict.answer.nearest import find_nearest_oom
from registry.predict.answer.prediction import DOES_NOT_FIT, FITS, judge
from registry.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.predict.answer.prediction import Prediction
    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.question import Question


def decide(
    question: Question, found: Prediction, alike: Sequence[ObservedRun]
) -> tuple[str | None, list[str]]:
    """Return the verdict on a question's card, None without one; and the run that decides, if any.

    ``alike`` are the runs of models of its shape. The run that decides is the nearest that ran out
    of memory, where it asked for no more, or one that ran and asked for no less.
    """
    if question.gpu is None:
        return None, []
    failed = find_nearest_oom(question, alike)
    if failed is not None and proves_too_much(question, failed.observation):
        run = failed.observation
        reason = (
            f"observation {run.observation_id} ({run.source_id}), which asked for no more, ran "
            f"out of memory {_format_room(run, 'on a card with at least as much')}"
        )
        return DOES_NOT_FIT, [reason]
    ran = next((one for one in alike if proves_enough(question, one)), None)
    if ran is not None:
        reason = (
            f"observation {ran.observation_id} ({ran.source_id}), which asked for no less, ran "
            f"{_format_room(ran, 'on a card with no more memory')}"
        )
        return FITS, [reason]
    return judge(found, question.gpu.memory_bytes), []


def _format_room(run: ObservedRun, otherwise: str) -> str:
    """Return the memory that a run was allowed of its card, else what holds of a whole card."""
    if run.memory_limit_bytes is None:
        return otherwise
    return f"where it was allowed {format_memory(run.memory_limit_bytes)} of its card"
