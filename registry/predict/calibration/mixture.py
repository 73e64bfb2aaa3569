"""A figure that may be one of several: a mixture of lognormal answers, and its quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Share of intervals that should hold the figure.
COVERAGE = 0.90
_SQRT2 = math.sqrt(2)
_STEPS = 32  # of a bisection: each halves what is left, in the end 1e-9 or so


@dataclass(frozen=True)
class Interval:
    """A figure with the interval in which it lies nine times in ten."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Component:
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
            (one.weight / 2, math.log(one.median), 1 / (max(one.deviation, 1e-6) * _SQRT2))
            for one in self.components
        )

    def below(self, value: float) -> float:
        """Return the probability that the figure is below a value."""
        return self._below(math.log(value))

    def _below(self, logarithm: float) -> float:
        erfc = math.erfc
        return sum([half * erfc((mid - logarithm) * scale) for half, mid, scale in self._scaled])

    def quantile(self, share: float) -> float:
        """Return the value below which the figure lies with a probability, by bisection."""
        reach = 8 * max(one.deviation for one in self.components) + 1e-6
        low = math.log(min(one.median for one in self.components)) - reach
        high = math.log(max(one.median for one in self.components)) + reach
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self._below(middle) < share else (low, middle)
        return math.exp((low + high) / 2)


def plain_interval(mixture: Mixture, share: float = COVERAGE) -> Interval:
    """Return the median of a mixture, and what lies beside a share of it in the middle."""
    tail = (1 - share) / 2
    return Interval(*(mixture.quantile(share) for share in (0.5, tail, 1 - tail)))


def widened(plain: Interval, by: float) -> Interval:
    """Return an interval that reaches farther by so much on both sides, in logarithms."""
    factor = math.exp(by)
    low, high = plain.low / factor, plain.high * factor
    return Interval(plain.value, min(low, plain.value), max(high, plain.value))
