"""Counts: text to an exact integer."""

from __future__ import annotations

import re

from registry.units.known import Unit, parse_unit, units_by_spelling
from registry.units.number import NUMBER, parse_number, strip_bold, unit_error, validate_reason
from registry.units.quantity import Quantity

_EXPECTED = "a count such as '274', '48.8k', '4.19M' or '1,000'"
_COUNT = re.compile(rf"(?P<number>[0-9]{{1,3}}(?:_[0-9]{{3}})+|{NUMBER})\s*(?P<label>[^\W\d_]+)?")


def parse_count(
    text: str,
    *,
    where: str,
    default_unit: str | None = None,
    read_as: str | None = None,
    reason: str | None = None,
) -> Quantity[int]:
    """Read one count.

    ``default_unit`` (``k``, ``M``, ``B``, …) is that of a number alone whose header names it;
    ``read_as`` is the unit that a foreign label stands for, such as ``M`` for ``33.55MB`` of
    parameters, and leaves the labels of counts alone; both need a ``reason``.

    >>> parse_count("48.8k", where="row 1").value
    48800

    Raises:
        UnitError: the text is no whole count (percent and money are none). The message starts with
            ``where``.
    """
    bare = strip_bold(text, where=where, expected=_EXPECTED)
    found = _COUNT.fullmatch(bare)
    if found is None:
        raise unit_error(where, text, _EXPECTED)
    label = found["label"]
    stated = _stated_unit(label, default_unit, read_as, where=where)
    if stated is not None:
        validate_reason(reason, f"{text!r} read as {stated.symbol!r}", where=where)
    unit = stated or parse_unit(label or "1", "count", where=where)
    count = parse_number(found["number"].replace("_", ""), where=where) * unit.factor
    if count.denominator != 1:
        raise unit_error(where, text, f"{_EXPECTED}: a whole number of things")
    return Quantity.exact(
        count.numerator,
        "count",
        text,
        label,
        reading=unit.symbol,
        reason=reason if stated else None,
    )


def _stated_unit(
    label: str | None, default_unit: str | None, read_as: str | None, *, where: str
) -> Unit | None:
    """Return the unit that the mapping states for a text, None where the text speaks for itself."""
    if label is None:
        symbol = default_unit
    else:
        symbol = None if label in units_by_spelling("count") else read_as
    return None if symbol is None else parse_unit(symbol, "count", where=where)
