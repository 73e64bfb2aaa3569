"""The value object which every figure becomes once it is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Generic, Self, TypeVar

Number = TypeVar("Number", int, float)


@total_ordering
@dataclass(frozen=True, slots=True)
class Quantity(Generic[Number]):
    """A non-negative figure in its canonical unit, with what its source wrote and how it was read.

    Two quantities are equal if unit, value and bounds are, however they were written; they order by
    value, then by bounds, and only within one unit.

    Attributes:
        value: the figure in ``unit``: an int for bytes and counts, a float for seconds and rates.
        unit: canonical unit: ``byte``, ``second``, ``1/second`` or ``count``.
        raw: the text exactly as written.
        unit_as_written: the label in the text, None where it had none.
        reading: the unit as which the figure was read, such as ``GB``, ``GiB`` or ``min``.
        reason: why it was read so; None where the text says it itself.
        low: smallest value over the readings that physics allows, in ``unit``.
        high: largest such value; None means the text gives a lower bound only.
    """

    value: Number
    unit: str
    raw: str = field(compare=False)
    unit_as_written: str | None = field(compare=False)
    reading: str = field(compare=False)
    reason: str | None = field(compare=False)
    low: Number
    high: Number | None

    def __post_init__(self) -> None:
        """Refuse what no parser may build."""
        if not (math.isfinite(self.value) and 0 <= self.low <= self.value):
            raise ValueError(f"no quantity: value {self.value!r}, low {self.low!r}")
        if self.high is not None and not self.value <= self.high < math.inf:
            raise ValueError(f"no quantity: value {self.value!r}, high {self.high!r}")

    @classmethod
    def exact(  # noqa: PLR0913 - the figure, and what was written
        cls,
        value: Number,
        unit: str,
        raw: str,
        label: str | None,
        *,
        reading: str | None = None,
        reason: str | None = None,
    ) -> Self:
        """Return a quantity with no range, read as its label unless ``reading`` is given."""
        return cls(value, unit, raw, label, reading or label or unit, reason, value, value)

    def __lt__(self, other: object) -> bool:
        """Order by value, then bounds, within one unit."""
        if not isinstance(other, Quantity) or other.unit != self.unit:
            return NotImplemented
        return self._order() < other._order()

    def _order(self) -> tuple[float, float, float]:
        return (self.value, self.low, math.inf if self.high is None else self.high)
