"""What an answer assumes of the settings that nobody stated, and how far each moves it."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any

from registry.predict.calibration.mixture import plain_interval
from registry.predict.calibration.unstated import FILLED, fields_of, open_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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


def collect_assumptions(
    question: Question, found: OpenMixture, usual: Usual
) -> tuple[Assumption, ...]:
    """Return what a question leaves open, what moves the answer most first."""
    assumptions = []
    for setting in open_settings(question):
        cases = tuple(_cases(question, found, usual, setting))
        stated = found.given(_having(found, fields_of(question, setting, cases[0].value)))
        plain = plain_interval(stated)
        assumptions.append(Assumption(setting, cases, log(plain.high / plain.low)))
    return tuple(sorted(assumptions, key=lambda one: -one.moves))


def narrowest(assumptions: Sequence[Assumption]) -> Assumption:
    """Return the open setting that narrows the interval most where it is stated."""
    return min(assumptions, key=lambda one: one.width)


def plain_value(value: Any) -> Any:
    """Return a value of a setting as answers have it."""
    return "as long as seq_len" if value == FILLED else value


def _cases(question: Question, found: OpenMixture, usual: Usual, setting: str) -> Iterator[Case]:
    for value, weight in usual.of(question, setting):
        having = _having(found, fields_of(question, setting, value))
        if having:
            yield Case(value, weight, found.given(having).quantile(0.5))


def _having(found: OpenMixture, fields: Mapping[str, Any]) -> list[Plausible]:
    return [
        one
        for one in found.plausible
        if all(getattr(one.question, name) == value for name, value in fields.items())
    ]
