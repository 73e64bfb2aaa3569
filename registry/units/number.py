"""Plain decimal numbers in a text, exact, and the error that names where a text failed."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from registry.errors import UnitError

# ASCII digits only: a class such as \d would let other scripts' digits through.
NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?"
# Longest cell that can be a figure; it also bounds the work that a hostile text can cause.
MAX_TEXT = 200
_MAX_NUMBER = 40
_SHOWN = 60
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_THOUSANDS = re.compile(r"(?<=[0-9])['\u2019\u00a0\u202f\u2009](?=[0-9]{3}(?![0-9]))")
_LAST_NUMBER = re.compile(rf"({NUMBER})[^0-9]*\Z")


def unit_error(where: str, text: str, expected: str) -> UnitError:
    """Return the error for a text: where it stands, what was found, what was expected instead."""
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return UnitError(f"{where}: found {shown!r}, expected {expected}")


def validate_reason(
    reason: str | None, found: str, *, where: str, shown_by: str = "the source"
) -> None:
    """Raise UnitError where a mapping states how a figure is read, and not why."""
    if not (reason or "").strip():
        raise UnitError(
            f"{where}: found {found} without a reason, expected one; say where {shown_by} shows it"
        )


def strip_bold(text: str, *, where: str, expected: str) -> str:
    """Return the text without surrounding white space, bold marks, and marks between thousands.

    Those are spaces at which no line may break, and apostrophes; a comma stays. A text that is far
    too long is refused.
    """
    if len(text) > MAX_TEXT:
        raise unit_error(where, text, f"{expected} of at most {MAX_TEXT} characters")
    bare = text.strip()
    bold = _BOLD.fullmatch(bare)
    return _THOUSANDS.sub("", bold[1].strip() if bold else bare)


def parse_number(digits: str, *, where: str) -> Fraction:
    """Return the exact value of digits that match ``NUMBER``."""
    if len(digits) > _MAX_NUMBER:
        raise unit_error(where, digits, f"a number of at most {_MAX_NUMBER} characters")
    return Fraction(Decimal(digits.replace(",", "")))


def count_decimals(digits: str) -> int:
    """Return how many digits are printed after the decimal point of a ``NUMBER``."""
    return len(re.split("[eE]", digits)[0].partition(".")[2])


def rounding_half_width(raw: str) -> Fraction:
    """Return half a unit in the last printed digit of the last number in ``raw``.

    The result is in the unit in which that number is printed.

    >>> rounding_half_width("0.653")
    Fraction(1, 2000)
    >>> rounding_half_width("5h35min")
    Fraction(1, 2)

    Raises:
        UnitError: there is no number in ``raw``.
    """
    found = _LAST_NUMBER.search(raw[:MAX_TEXT])
    if found is None:
        raise unit_error("rounding", raw, "a text with a number in it")
    exponent = Decimal(found[1].replace(",", "")).as_tuple().exponent
    return Fraction(10) ** int(exponent) / 2
