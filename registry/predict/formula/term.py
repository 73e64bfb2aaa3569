"""One summand of a peak or of a time, and their sum."""

from __future__ import annotations

from typing import NamedTuple


class Term(NamedTuple):
    """One summand of a peak or of a time."""

    name: str
    part: str
    value: float
    #: Standard deviation of the factor by which the formula may be off.
    doubt: float
    #: Whether it grows with the tokens of a micro-batch.
    transient: bool = False


def total(terms: list[Term]) -> float:
    """Return the sum of the terms, in their unit."""
    return sum(term.value for term in terms)
