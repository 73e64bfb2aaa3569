"""Durations: text to seconds, exact where the text is exact."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from registry.units.known import Unit, parse_unit, units_by_spelling, units_by_symbol, unknown_unit
from registry.units.number import NUMBER, parse_number, strip_bold, unit_error, validate_reason
from registry.units.quantity import Quantity

# Readings of a figure that looks like something else; each needs a reason.
CLOCK_READINGS = {
    "mm.ss": re.compile(r"(?P<first>[0-9]{1,4})\.(?P<second>[0-9]{2})"),
    "h:mm": re.compile(r"(?P<first>[0-9]{1,4}):(?P<second>[0-9]{2})"),
}
_EXPECTED = "a duration such as '7.01min', '5h35min', '3:35:20' or '07:01'"
_CLOCK = re.compile(
    r"(?:(?P<days>[0-9]{1,6}) days?, *)?"
    r"(?:(?P<hours>[0-9]{1,6}):)?(?P<minutes>[0-9]{1,2}):(?P<seconds>[0-9]{2}(?:\.[0-9]{1,9})?)"
)
#: Hours and minutes with an h between them: the minutes have two digits and no unit.
_HOURS_MINUTES = re.compile(r"(?P<hours>[0-9]{1,6})(?P<label>[hH])(?P<minutes>[0-9]{2})")
_PART = re.compile(rf"(?P<number>{NUMBER})\s*(?P<label>[^\W\d_]+)[\s,\uff0c]*(?:and\s+)?")
_HOURS_PER_DAY = 24
_SIXTY = 60


@dataclass(frozen=True, slots=True)
class _Reading:
    """Exact seconds of a text, the labels written in it, and the units it was read as."""

    seconds: Fraction
    labels: str | None
    reading: str
    reason: str | None = None


def parse_duration(
    text: str,
    *,
    where: str,
    default_unit: str | None = None,
    read_as: str | None = None,
    reason: str | None = None,
) -> Quantity[float]:
    """Read one duration, in seconds.

    Two fields of a clock are minutes and seconds (``07:01``), three are hours, minutes and seconds;
    an ``h`` between two fields makes them hours and minutes (``1h05``).
    A number alone needs ``default_unit``; ``read_as`` is ``mm.ss`` for a ``18.37`` that means
    18:37, or ``h:mm``, and touches no text of another form; both need a ``reason``. The sum is
    exact, the result the nearest float.

    >>> parse_duration("5h35min", where="row 1").value
    20100.0

    Raises:
        UnitError: the text is no duration, or its unit is missing. The message starts with
            ``where``.
    """
    bare = strip_bold(text, where=where, expected=_EXPECTED)
    if read_as is not None and read_as not in CLOCK_READINGS:
        raise unknown_unit(read_as, "clock reading", list(CLOCK_READINGS), where=where)
    if default_unit or read_as:
        validate_reason(reason, f"the reading {default_unit or read_as!r}", where=where)
    found = (
        _parse_as(bare, read_as, reason, where=where)
        or _parse_clock(bare, where=where)
        or _parse_hours_minutes(bare, where=where)
        or _parse_bare(bare, default_unit, reason, where=where)
        or _parse_parts(bare, where=where)
    )
    return Quantity.exact(
        float(found.seconds),
        "second",
        text,
        found.labels,
        reading=found.reading,
        reason=found.reason,
    )


def _parse_as(text: str, read_as: str | None, reason: str | None, *, where: str) -> _Reading | None:
    match = CLOCK_READINGS[read_as].fullmatch(text) if read_as else None
    if match is None or read_as is None:
        return None
    first, second = int(match["first"]), int(match["second"])
    if second >= _SIXTY:
        raise unit_error(where, text, f"a clock time read as {read_as}, its last field below 60")
    unit_seconds = _SIXTY if read_as == "h:mm" else 1
    return _Reading(
        Fraction((first * _SIXTY + second) * unit_seconds), None, read_as, reason=reason
    )


def _parse_clock(text: str, *, where: str) -> _Reading | None:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes = (int(match[name] or 0) for name in ("days", "hours", "minutes"))
    seconds = Fraction(match["seconds"])
    if minutes >= _SIXTY or seconds >= _SIXTY or (match["days"] and hours >= _HOURS_PER_DAY):
        raise unit_error(where, text, "a clock time with minutes and seconds below 60")
    if match["days"] and match["hours"] is None:
        raise unit_error(where, text, "a clock time with hours, minutes and seconds after the days")
    form = "h:mm:ss" if match["hours"] else "mm:ss"
    total = ((days * _HOURS_PER_DAY + hours) * _SIXTY + minutes) * _SIXTY + seconds
    return _Reading(total, "days" if match["days"] else None, form)


def _parse_hours_minutes(text: str, *, where: str) -> _Reading | None:
    match = _HOURS_MINUTES.fullmatch(text)
    if match is None:
        return None
    minutes = int(match["minutes"])
    if minutes >= _SIXTY:
        raise unit_error(where, text, "hours and minutes with minutes below 60")
    seconds = Fraction((int(match["hours"]) * _SIXTY + minutes) * _SIXTY)
    return _Reading(seconds, match["label"], "h:mm")


def _parse_bare(
    text: str, default_unit: str | None, reason: str | None, *, where: str
) -> _Reading | None:
    if not re.fullmatch(NUMBER, text):
        return None
    if default_unit is None:
        raise unit_error(
            where, text, f"{_EXPECTED}: a number alone needs a default unit and its reason"
        )
    unit = parse_unit(default_unit, "duration", where=where)
    seconds = parse_number(text, where=where) * unit.factor
    return _Reading(seconds, None, unit.symbol, reason=reason)


def _parse_parts(text: str, *, where: str) -> _Reading:
    """Read numbers with units, from the longest unit to the shortest."""
    parts = _split_parts(text, where=where)
    units = [_duration_unit(label, where=where) for _, label in parts]
    numbers = [parse_number(number, where=where) for number, _ in parts]
    falls = all(longer.factor > shorter.factor for longer, shorter in pairwise(units))
    if not falls or any(number.denominator != 1 for number in numbers[:-1]):
        raise unit_error(where, text, f"{_EXPECTED}: whole numbers of ever shorter units")
    return _Reading(
        sum((n * unit.factor for n, unit in zip(numbers, units, strict=True)), Fraction()),
        " ".join(label for _, label in parts),
        " ".join(unit.symbol for unit in units),
    )


def _split_parts(text: str, *, where: str) -> list[tuple[str, str]]:
    parts, position = [], 0
    while match := _PART.match(text, position):
        parts.append((match["number"], match["label"]))
        position = match.end()
    if not parts or position != len(text) or text[-1] in ",\uff0c":
        raise unit_error(where, text, _EXPECTED)
    return parts


def _duration_unit(label: str, *, where: str) -> Unit:
    known = units_by_spelling("duration")
    unit = known.get(label) or (known.get(label.lower()) if len(label) > 1 else None)
    if unit is None:
        raise unknown_unit(label, "duration", list(units_by_symbol("duration")), where=where)
    return unit
