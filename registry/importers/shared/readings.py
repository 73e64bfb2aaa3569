"""Figures that logs hold in many entries: the largest is a peak, the one in the middle typical."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypeVar

from registry.importers.shared.shapes import number_of

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Mapping, Sequence

    from registry.importers.shared.draft import Draft

Line = TypeVar("Line")

MEBIBYTE: Final = 2**20
GIBIBYTE: Final = 2**30

#: Half of the last decimal of memory that is written with two.
_HALF_HUNDREDTH: Final = 0.005


def largest(entries: Iterable[Mapping[str, Any]], key: str) -> float | None:
    """Return the largest number that entries of a log have under a key."""
    values = (number_of(entry.get(key)) for entry in entries)
    return max((value for value in values if value is not None), default=None)


def figures_by_name(pattern: re.Pattern[str], text: str) -> dict[str, float]:
    """Return the figures of a text, as a pattern finds each ``name`` and ``value``, by name.

    What is no number is left out.
    """
    return {
        part["name"]: value
        for part in pattern.finditer(text)
        if (value := number_of(part["value"])) is not None
    }


def first_values(pattern: re.Pattern[str], lines: Iterable[str]) -> dict[str, str]:
    """Return what a pattern finds as each ``name``, where it first stands, by its ``value``."""
    values: dict[str, str] = {}
    for line in lines:
        for found in pattern.finditer(line):
            values.setdefault(found["name"], found["value"])
    return values


def choose_timed(
    draft: Draft, lines: Sequence[Line], steady: Sequence[Line]
) -> tuple[Sequence[Line], str]:
    """Return the lines that a speed is of, and how many; flag a run that has no steady ones."""
    if not steady:
        draft.flags.add("short_run")
    timed = steady or lines
    left = len(lines) - len(timed)
    return timed, f"of {len(timed)} lines" + (f", the first {left} left out" if left else "")


#: What is said of memory that a producer writes for its first process.
OF_FIRST_PROCESS: Final[dict[str, Any]] = {
    "scope": "per_gpu",
    "device_index": 0,
    "reason": "the producer divides by 2^30; largest entry, first process",
}


def measure_peak(
    draft: Draft, gibibytes: float, half: float = _HALF_HUNDREDTH, **columns: Any
) -> None:
    """Add a peak that is written in GiB, within half of its last decimal."""
    draft.measure(
        "peak_memory",
        gibibytes * GIBIBYTE,
        low=(gibibytes - half) * GIBIBYTE,
        high=(gibibytes + half) * GIBIBYTE,
        reading="GiB",
        **columns,
    )


def measure_peak_in_mebibytes(draft: Draft, mebibytes: float, **columns: Any) -> None:
    """Add the first process's peak that is written in MiB, within half of its last decimal."""
    draft.measure_process(
        "peak_memory",
        mebibytes * MEBIBYTE,
        low=(mebibytes - _HALF_HUNDREDTH) * MEBIBYTE,
        high=(mebibytes + _HALF_HUNDREDTH) * MEBIBYTE,
        **columns,
    )


def measure_token_rate(draft: Draft, readings: Iterable[float], reason: str) -> None:
    """Add the median of the first process's tokens per second."""
    rates = list(readings)
    if rates:
        draft.measure_process(
            "tokens_per_second",
            median(rates),
            statistic="median",
            reason=f"of {len(rates)} {reason}",
        )
