"""The verdict on a card: by a run that proves it, else by the interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.predict.answer.leaner import proves_too_much
from registry.predict.answer.prediction import DOES_NOT_FIT, judge

if TYPE_CHECKING:
    from registry.predict.answer.nearest import Neighbour
    from registry.predict.calibration.mixture import Interval
    from registry.predict.question import Question


def decide(
    question: Question, figure: Interval, failed: Neighbour | None
) -> tuple[str | None, list[str]]:
    """Return the verdict on a question's card, and the run that decides if one does.

    ``failed`` is the nearest run that ran out of memory. None without a card.
    """
    if question.gpu is None:
        return None, []
    if failed is not None and proves_too_much(question, failed.observation):
        found = failed.observation
        reason = (
            f"observation {found.observation_id} ({found.source_id}) of no more than this ran out "
            "of memory on a card of no less"
        )
        return DOES_NOT_FIT, [reason]
    return judge(figure, question.gpu.memory_bytes), []
