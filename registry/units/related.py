"""Whether figures that imply each other agree, within the rounding in which they are printed."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, prod
from typing import TYPE_CHECKING

from registry.units.known import Dimension, units_by_spelling, units_by_symbol
from registry.units.number import rounding_half_width
from registry.units.rate import split_several

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.units.quantity import Quantity

# Clocks such as tqdm's cut the fraction of a second off, so they may be a whole second short.
_CLOCK_HALF_WIDTH = 1.0
#: Seconds in the last field of a clock without seconds.
_OF_LAST_FIELD = {"hh": 3600, "mm": 60}
_DIMENSIONS: dict[str, Dimension] = {"byte": "memory", "second": "duration", "count": "count"}
# Floats of exact figures differ in the last bits only.
_FLOAT_SLACK = 1e-9

# Each relation: the product of the first group equals the product of the second.
RELATIONS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("samples_per_second", "total_seconds"), ("n_samples",)),
    (("tokens_per_second", "total_seconds"), ("n_tokens",)),
    (("seconds_per_sample", "n_samples"), ("total_seconds",)),
    (("seconds_per_step", "n_steps"), ("total_seconds",)),
    (("seconds_per_sample", "samples_per_second"), ()),
    (("tokens_per_second", "n_samples"), ("samples_per_second", "n_tokens")),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A value and how far, in the same unit, the exact figure may lie from it."""

    value: float
    half_width: float = 0.0


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Figures which contradict each other beyond rounding.

    ``ratio`` is what the first figures give over what the last ones say: 1 for perfect agreement.
    Rounding alone lets it range from ``lowest`` to ``highest``, an interval without 1.
    """

    figures: tuple[str, ...]
    ratio: float
    lowest: float
    highest: float


def figure_of(quantity: Quantity[int] | Quantity[float]) -> Figure:
    """Return a quantity as a figure, its half width taken from the last digit of its raw text.

    A count printed to the last unit is exact; a clock time may be up to a second short. A range is
    as wide as it says.
    """
    return Figure(float(quantity.value), _half_width(quantity))


def check_related(figures: Mapping[str, Figure]) -> tuple[Disagreement, ...]:
    """Return the relations among the stated figures which do not hold within rounding.

    ``figures`` are those of one observation, all GPUs together, in canonical units, by the names
    that ``RELATIONS`` has for them. Nothing is repaired; a relation of which one figure is missing
    or zero is not checked.
    """
    stated = {name: figure for name, figure in figures.items() if figure.value > 0}
    checked = (
        _compare(stated, left, right)
        for left, right in RELATIONS
        if stated.keys() >= {*left, *right}
    )
    return tuple(
        problem
        for problem in checked
        if not problem.lowest * (1 - _FLOAT_SLACK) <= 1 <= problem.highest * (1 + _FLOAT_SLACK)
    )


def _compare(
    stated: dict[str, Figure], left: tuple[str, ...], right: tuple[str, ...]
) -> Disagreement:
    def product(names: tuple[str, ...], side: int) -> float:
        return prod(max(0.0, stated[n].value + side * stated[n].half_width) for n in names)

    least_right = product(right, -1)
    return Disagreement(
        figures=(*left, *right),
        ratio=product(left, 0) / product(right, 0),
        lowest=product(left, -1) / product(right, 1),
        highest=product(left, 1) / least_right if least_right else inf,
    )


def _half_width(quantity: Quantity[int] | Quantity[float]) -> float:
    if quantity.reading.endswith("ss"):
        return _CLOCK_HALF_WIDTH
    if quantity.unit == "count" and quantity.reading == "1":
        return 0.0
    of_last_digit = float(_printed_half_width(quantity) * _last_factor(quantity))
    # the bounds of memory are readings of its unit
    if quantity.unit == "byte" or quantity.high is None:
        return of_last_digit
    return max(of_last_digit, (quantity.high - quantity.low) / 2)


def _printed_half_width(quantity: Quantity[int] | Quantity[float]) -> Fraction:
    """Return the half width of the figure itself, not of a number behind it.

    That is one in a remark, or of the steps that a time is of.
    """
    several = split_several(quantity.raw)
    if several is not None:
        return rounding_half_width(several[0]) / several[1]
    return rounding_half_width(quantity.raw.split("(")[0].split("\uff08")[0])


def _last_factor(quantity: Quantity[int] | Quantity[float]) -> Fraction:
    """Return the canonical units in one unit of the last number of a quantity's text."""
    first, symbol = quantity.reading.split()[0], quantity.reading.split()[-1]
    if first in units_by_spelling("count") and first != symbol:  # a rate in thousands
        return units_by_spelling("count")[first].factor
    dimension = _DIMENSIONS.get(quantity.unit)
    if dimension is not None and symbol in units_by_symbol(dimension):
        return units_by_symbol(dimension)[symbol].factor
    return Fraction(_OF_LAST_FIELD.get(symbol.rpartition(":")[2], 1))
