"""A figure that may be one of several: a mixture of lognormal answers, and its quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Share of intervals that should hold the figure.
COVERAGE = 0.90
_SQRT2 = math.sqrt(2)
#: Standard deviations from the middle to an end of an interval.
_GAUSSIAN = 1.644854
#: An answer is no surer than this.
_LEAST = 1e-6
#: A quantile is found to so much, of its share or its logarithm; and the most steps that takes.
_NEAR, _STEPS = 1e-9, 128


@dataclass(frozen=True)
class Interval:
    """A figure with the interval in which it lies nine times in ten."""

    value: float
    low: float
    high: float

    def beyond(self, value: float) -> float:
        """Return how far a value lies outside of it, in logarithms; below 0 inside.

        Formula: conformalized quantile regression (Romano et al. 2019).
        """
        return math.log(max(value / self.high, self.low / value))

    def below(self, value: float) -> float:
        """Return the probability that the figure is below a value.

        Formula: normal in the logarithm on either side of the figure, each side as wide as its end
        of the interval says (the two-piece normal with half of its weight on each side).
        """
        end = self.high if value >= self.value else self.low
        reach = max(abs(math.log(end / self.value)), _LEAST)
        return math.erfc(-_GAUSSIAN * math.log(value / self.value) / reach / _SQRT2) / 2


class Component(NamedTuple):
    """One answer: its weight, its median, the standard deviation of its logarithm."""

    weight: float
    median: float
    deviation: float


@dataclass(frozen=True)
class Mixture:
    """Answers with weights that add up to 1."""

    components: Sequence[Component]

    @cached_property
    def _scaled(self) -> tuple[tuple[float, float, float], ...]:
        """Half the weight of each, the logarithm of its median, and by what that is scaled."""
        return tuple(
            (one.weight / 2, math.log(one.median), 1 / (max(one.deviation, _LEAST) * _SQRT2))
            for one in self.components
        )

    def below(self, value: float) -> float:
        """Return the probability that the figure is below a value."""
        return self._below(math.log(value))

    def _below(self, logarithm: float) -> float:
        erfc = math.erfc
        return sum([half * erfc((mid - logarithm) * scale) for half, mid, scale in self._scaled])

    def quantile(self, share: float) -> float:
        """Return the value below which the figure lies with a probability.

        Method: regula falsi as the Illinois algorithm has it (Dowell and Jarratt 1971): the end of
        the bracket that stays counts half, so that both ends come near. Every third step halves
        the bracket, for answers so sure that their sum is a staircase.
        """
        reach = 8 * max(_LEAST, *(one.deviation for one in self.components))
        other = math.log(min(one.median for one in self.components)) - reach
        newest = math.log(max(one.median for one in self.components)) + reach
        missed_other, missed = self._below(other) - share, self._below(newest) - share
        for number in range(_STEPS):
            if abs(missed) < _NEAR or abs(newest - other) < _NEAR:
                break
            part = missed / (missed - missed_other) if number % 3 else 0.5
            nearer = newest - part * (newest - other)
            found = self._below(nearer) - share
            if found * missed < 0:
                other, missed_other = newest, missed
            else:
                missed_other /= 2
            newest, missed = nearer, found
        return math.exp(newest)


def plain_interval(mixture: Mixture, share: float = COVERAGE) -> Interval:
    """Return the median of a mixture, and what lies beside a share of it in the middle."""
    tail = (1 - share) / 2
    return Interval(*(mixture.quantile(share) for share in (0.5, tail, 1 - tail)))


def widened(plain: Interval, by: float) -> Interval:
    """Return an interval that reaches farther by so much on both sides, in logarithms."""
    factor = math.exp(by)
    low, high = plain.low / factor, plain.high * factor
    return Interval(plain.value, min(low, plain.value), max(high, plain.value))
