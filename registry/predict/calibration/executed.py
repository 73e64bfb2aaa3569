"""What a dry run says of one question: by what the formula is off, and a peak of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from registry.predict.calibration.mixture import Interval
    from registry.predict.question import Question


@dataclass(frozen=True)
class Executed:
    """A dry run of what a question likeliest means, beside the formula."""

    #: By what it says that the formula is off.
    factor: float
    #: The question as it was asked.
    question: Question
    #: Which of the two intervals is printed, and why.
    reason: str
    #: The peak with the interval of dry runs; None where the question may mean other software.
    own: Interval | None = None

    def own_of(self, question: Question) -> Interval | None:
        """Return the interval of dry runs for a question on any card; None where it has none."""
        asked = self.question.changed(gpu=None)
        return self.own if question.changed(gpu=None) == asked else None
