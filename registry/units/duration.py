"""Durations: text to seconds, exact where the text is exact."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from registry.units.known import Unit, parse_unit, units_by_spelling, units_by_symbol, unknown_unit
from registry.units.number import NUMBER, parse_number, strip_bold, unit_error, validate_reason
from registry.units.quantity import Quantity

#: What the fields of a clock may be stated to be; each needs a reason.
CLOCK_READINGS = ("mm.ss", "mm:ss", "h:mm", "h:mm:ss", "d:hh", "d:hh:mm", "d:hh:mm:ss")
#: What they are where nothing is stated.
READ_UNASKED = ("mm:ss", "h:mm:ss")
#: Seconds in one of a clock's field, and how many of it make one of the field before.
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_BELOW = {"h": 24, "m": 60, "s": 60}
_EXPECTED = "a duration such as '7.01min', '5h35min', '3:35:20' or '07:01'"
_CLOCK = re.compile(
    r"(?:(?P<days>[0-9]{1,6}) days?, *)?"
    r"(?:(?P<hours>[0-9]{1,6}):)?(?P<minutes>[0-9]{1,2}):(?P<seconds>[0-9]{2}(?:\.[0-9]{1,9})?)"
)
#: Hours and minutes with an h between them: the minutes have two digits and no unit.
_HOURS_MINUTES = re.compile(r"(?P<hours>[0-9]{1,6})(?P<label>[hH])(?P<minutes>[0-9]{2})")
_PART = re.compile(rf"(?P<number>{NUMBER})\s*(?P<label>[^\W\d_]+)\.?[\s,\uff0c]*(?:and\s+)?")
#: Units in which two fields of a clock are minutes and seconds.
_OF_SHORT_CLOCKS = ("min", "s")
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
    an ``h`` between two fields makes them hours and minutes (``1h05``), and so does the
    ``default_unit`` hours; a clock in days says nothing without ``read_as``.
    A number alone needs ``default_unit``; ``read_as`` is one of ``CLOCK_READINGS``, such as
    ``mm.ss`` for a ``18.37`` that means 18:37, and touches no text of another form; both need a
    ``reason``. The sum is exact, the result the nearest float.

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
        or _parse_clock(bare, default_unit, reason, where=where)
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


def clock_readings(text: str) -> list[str]:
    """Return what the fields of a clock with colons may be; none of another text.

    >>> clock_readings("1:12")
    ['mm:ss', 'h:mm', 'd:hh']
    """
    return [name for name in CLOCK_READINGS if ":" in name and _split_fields(text, name)]


def _parse_as(text: str, read_as: str | None, reason: str | None, *, where: str) -> _Reading | None:
    fields = _split_fields(text, read_as) if read_as else None
    if fields is None or read_as is None:
        return None
    seconds = Fraction()
    for place, (name, digits) in enumerate(fields):
        field = name[0]
        if place and Fraction(digits) >= _BELOW[field]:
            raise unit_error(
                where, text, f"a clock time read as {read_as}, with {name} below {_BELOW[field]}"
            )
        seconds += Fraction(digits) * _SECONDS[field]
    return _Reading(seconds, None, read_as, reason=reason)


def _split_fields(text: str, read_as: str) -> list[tuple[str, str]] | None:
    """Return the names and digits of a clock's fields; None for a text of another form."""
    names = re.split(r"[.:]", read_as)
    mark = "." if "." in read_as else ":"
    last = r"[0-9]{2}(?:\.[0-9]{1,9})?" if read_as.endswith(":ss") else "[0-9]{2}"
    form = ["[0-9]{1,6}", *["[0-9]{1,2}"] * (len(names) - 2), last]
    match = re.fullmatch(re.escape(mark).join(f"({field})" for field in form), text)
    return list(zip(names, match.groups(), strict=True)) if match else None


def _parse_clock(
    text: str, default_unit: str | None, reason: str | None, *, where: str
) -> _Reading | None:
    """Read a clock of which nobody states what its fields are."""
    unit = parse_unit(default_unit, "duration", where=where).symbol if default_unit else "s"
    in_hours = _parse_as(text, "h:mm", reason, where=where) if unit == "h" else None
    match = _CLOCK.fullmatch(text)
    if in_hours is not None or match is None:
        return in_hours
    is_plain = bool(match["days"]) or unit in _OF_SHORT_CLOCKS
    if not is_plain and not (unit == "h" and match["hours"]):
        readings = [f"`read_as: {name}`" for name in clock_readings(text)]
        raise unit_error(
            where,
            text,
            f"to be told what the fields of a clock are where the unit is {unit}; state "
            f"{' or '.join(readings)}, and the `reason`",
        )
    return _sum_clock(match, text, where=where)


def _sum_clock(match: re.Match[str], text: str, *, where: str) -> _Reading:
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
