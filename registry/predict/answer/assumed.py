"""What an answer assumes of the settings that nobody stated, and how far each moves it."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any

from registry.predict.calibration.mixture import plain_interval
from registry.predict.calibration.unstated import (
    FILLED,
    fields_of,
    meaning_of,
    open_settings,
    spell,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from registry.predict.calibration.open_question import OpenMixture
    from registry.predict.calibration.unstated import Plausible, Usual
    from registry.predict.question import Question


@dataclass(frozen=True)
class Case:
    """One value of a setting: how likely it is, and the answer if it holds."""

    value: Any
    weight: float
    bytes: float


@dataclass(frozen=True)
class Assumption:
    """A setting that the question leaves open, its values, and what stating it would do."""

    setting: str
    #: The likeliest first.
    cases: tuple[Case, ...]
    #: Logarithm of the interval's upper over its lower end, where the likeliest value is stated.
    width: float

    @property
    def moves(self) -> float:
        """Largest over smallest answer of its values."""
        figures = [case.bytes for case in self.cases]
        return max(figures) / min(figures)


@dataclass(frozen=True)
class Answering:
    """How the question with a case stated is answered."""

    #: All that a question may mean, asked anew.
    mix: Callable[[Question], OpenMixture]
    #: The figure, in bytes, of a question and what it may mean.
    figure: Callable[[Question, OpenMixture], float]


def collect_assumptions(
    question: Question, found: OpenMixture, usual: Usual, answering: Answering
) -> tuple[Assumption, ...]:
    """Return what a question leaves open, what moves the answer most first.

    ``found`` has the answers to all cases: each is the answer to the question with that stated.
    """
    own = [one for one in found.plausible if not one.given]
    assumptions = []
    for setting in open_settings(question):
        cases = []
        for value, weight in _weigh(question, setting, usual, own).items():
            restated = question.changed(**fields_of(question, setting, value))
            # an own run has other settings then, which are not among those found
            stated = answering.mix(restated) if own else found.only(_having(found, setting, value))
            if stated.plausible:
                case = Case(value, weight, answering.figure(restated, stated))
                cases.append((case, stated))
        cases.sort(key=lambda pair: -pair[0].weight)
        plain = plain_interval(cases[0][1].mixture)
        width = log(plain.high / plain.low)
        assumptions.append(Assumption(setting, tuple(case for case, _ in cases), width))
    told = (one for one in assumptions if one.setting != "adapters" or one.moves > _NOTHING)
    return tuple(sorted(told, key=lambda one: -one.moves))


#: Largest over smallest answer up to which a method has no use for ranks and modules.
_NOTHING = 1.0005


def narrowest(assumptions: Sequence[Assumption]) -> Assumption:
    """Return the open setting that narrows the interval most where it is stated."""
    return min(assumptions, key=lambda one: one.width)


def plain_value(value: Any) -> Any:
    """Return a value of a setting as answers have it."""
    return "as long as seq_len" if value == FILLED else value


def _having(found: OpenMixture, setting: str, value: Any) -> Iterator[Plausible]:
    return (one for one in found.plausible if one.given.get(setting, _NONE) == value)


def _weigh(
    question: Question, setting: str, usual: Usual, own: Sequence[Plausible]
) -> dict[Any, float]:
    """Return how likely each value is: as it is usual, and as the user's own runs have it.

    What an own run has is the usual value that means the same, or else a value of its own.
    """
    rest = 1 - sum(one.weight for one in own)
    weights = {value: rest * share for value, share in usual.of(question, setting)}
    values = {_meaning(question, setting, value): value for value in reversed(weights)}
    for one in own:
        value = values.setdefault(meaning_of(one.question, setting), spell(one.question, setting))
        weights[value] = weights.get(value, 0.0) + one.weight
    return weights


def _meaning(question: Question, setting: str, value: Any) -> Any:
    return meaning_of(question.changed(**fields_of(question, setting, value)), setting)


#: No value of any setting.
_NONE = object()
