"""The user's own timed runs, which say what a question of time means that names no stack.

What one stack takes says little of what another takes (hosts, loaders and kernels differ), so that
others' times move nobody's answer. Whoever has timed runs of his own means his own stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.predict.calibration.open_question import kin_of
from registry.predict.calibration.unstated import complete_like
from registry.predict.formula.step_time import has_known_speed

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.question import Question


@dataclass(frozen=True)
class OwnTimes:
    """The timed run of the user's own with the last id, by model and kind, and by card."""

    #: By kin and card, by kin (its card None), and by card (its kin None).
    runs: Mapping[tuple[Any, str | None], ObservedRun]

    def nearest(self, question: Question) -> ObservedRun | None:
        """Return the own run that says most of the time of a question; None where none does.

        One of the same model and kind of training, on the same card if there is one; else any on
        the same card. None where the question names a stack.
        """
        if question.stack is not None:
            return None
        kin, card = kin_of(question), _card_of(question)
        keys = ((kin, card), (kin, None), *(((None, card),) if card else ()))
        return next((self.runs[key] for key in keys if key in self.runs), None)

    def meaning(self, question: Question) -> Question:
        """Return what a question means: on the stack of the nearest own run, if there is one.

        What the question leaves open is as in that run where model and kind of training are alike.
        """
        run = self.nearest(question)
        if run is None:
            return question
        alike = kin_of(run.question) == kin_of(question)
        meant = complete_like(question, run.question) if alike else question
        return meant.changed(stack=run.question.stack)


def collect_own_times(observations: Iterable[ObservedRun], own_ids: Container[str]) -> OwnTimes:
    """Return the timed runs of the user's own on cards of known speed.

    Those whose samples may be shorter than their limit, by nobody knows how much, say something of
    the like on the same card alone: elsewhere they would make everything look fast.
    """
    found: dict[tuple[Any, str | None], ObservedRun] = {}
    for seen in observations:
        asked = seen.question
        is_own = seen.observation_id in own_ids and asked.stack
        if seen.measured_time and is_own and has_known_speed(asked):
            kin, card = kin_of(asked), _card_of(asked)
            found[kin, card] = seen
            if asked.says_mean:
                found[kin, None] = found[None, card] = seen
    return OwnTimes(found)


def _card_of(question: Question) -> str | None:
    return question.gpu.gpu_id if question.gpu else None
