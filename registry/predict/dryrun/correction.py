"""A dry run as part of an answer: by what it says the formula is off."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from registry.predict.answer.prediction import predict_unbounded
from registry.predict.formula.peak_memory import memory_terms

if TYPE_CHECKING:
    from registry.predict.calibration.intervals import Calibration
    from registry.predict.question import Question

#: Parts that a dry run does not see: they are the formula's.
_UNSEEN = ("context", "fragmentation")


def likeliest(question: Question, calibration: Calibration) -> Question:
    """Return the likeliest of what a question may mean: what a dry run of it executes."""
    meanings = predict_unbounded(question, calibration).meanings
    if meanings is None:
        return question
    return meanings.plausible[0].question.changed(stack=question.stack)


def correct(meant: Question, calibration: Calibration, peak_reserved_bytes: int) -> Calibration:
    """Return the calibration, corrected by a dry run of what a question likeliest means.

    The peak of one device is what the dry run's allocator reserved and what it does not see. What
    else the question may mean, and its variations, are taken to be off by the same factor. The
    interval stays as wide as it is: dry runs of the measured rows are not part of the calibration,
    so nothing narrower has been shown.
    """
    unseen = sum(term.value for term in memory_terms(meant) if term.part in _UNSEEN)
    formula = predict_unbounded(meant, calibration).figure.value
    return replace(calibration, executed=(peak_reserved_bytes + unseen) / formula)
