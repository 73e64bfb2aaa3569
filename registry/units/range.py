"""Figures that a source gives as a range or with a tolerance, such as ``18-20 GB``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from registry.units.bound import split_bound
from registry.units.number import MAX_TEXT, NUMBER, unit_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.units.figure import AnyQuantity
    from registry.units.quantity import Quantity

_EXPECTED: Final = "a range such as '18-20 GB' or '40\u00b12 GB', the lowest figure first"
_TOLERANCE: Final = r"\u00b1|\+/-|\+-"
_TO: Final = r"[-\u2010-\u2015\u2212~\u223c\uff5e\u301c]|\.\.+|\u2026|\u81f3|\u5230|(?<=\s)to(?=\s)"
_MARK: Final = rf"\s*(?:(?P<tolerance>{_TOLERANCE})|{_TO})\s*"
#: Two figures with a mark between them; the minus of 1e-3 is none.
_RANGE: Final = re.compile(
    rf"(?P<first>(?>{NUMBER}).*?){_MARK}(?P<second>[0-9].*)", re.IGNORECASE | re.DOTALL
)
_WITH_UNIT: Final = re.compile(rf"{NUMBER}(?P<unit>[^0-9]*)")
#: What makes a figure one end of a range or a term of a sum, behind it and before it.
_GOES_ON: Final = re.compile(
    rf"\s*[^\W\d_]*(?:\s*[(\uff08]?(?:{_MARK}|\s*\+\s*)[0-9]|\s*\+)", re.IGNORECASE
)
_WENT_BEFORE: Final = re.compile(rf"[0-9]\s*[^\W\d_]*(?:{_MARK}|\s*\+\s*)\Z", re.IGNORECASE)
#: What stands between a figure before a change and the one after it.
_BECOMES: Final = re.compile(
    r"\s*(?:-{1,2}>|={1,2}>|[\u2192\u21d2\u21e8\u2794\u279c\u279e\u27a1\u27f6]\ufe0f?)\s*(?=[^\w\s]?[0-9])"
)
_APART: Final = re.compile(r"[|;,/()\uff08\uff09]")


@dataclass(frozen=True, slots=True)
class Ends:
    """The texts of the two figures of a range, each with the unit that it has or shares.

    ``has_tolerance`` says that the second is how far the first may be off.
    """

    first: str
    second: str
    has_tolerance: bool


def split_range(text: str) -> Ends | None:
    """Return the figures of a range, or None where the text is none.

    >>> split_range("18-20 GB")
    Ends(first='18 GB', second='20 GB', has_tolerance=False)
    """
    found = _RANGE.fullmatch(text.strip()) if len(text) <= MAX_TEXT else None
    if found is None:
        return None
    first, second = found["first"].strip(), found["second"].strip()
    has_tolerance = found["tolerance"] is not None
    units = [_WITH_UNIT.fullmatch(first), _WITH_UNIT.fullmatch(second)]
    if all(units):
        of_first, of_second = (unit["unit"] for unit in units if unit)
        first += "" if of_first else of_second
        second += of_first if has_tolerance and not of_second else ""
    return Ends(first, second, has_tolerance)


def split_change(text: str) -> tuple[str, ...]:
    """Return the figures before and after a change; none of a text without an arrow between them.

    >>> split_change("23.1 \u2192 18.4 GB"), split_change("18-20 GB")
    (('23.1', '18.4 GB'), ())
    """
    figures = _BECOMES.split(text.strip()) if len(text) <= MAX_TEXT else []
    is_change = len(figures) > 1 and all(re.search("[0-9]", figure) for figure in figures)
    return tuple(figures) if is_change else ()


def figures_in(text: str) -> tuple[str, ...]:
    """Return the texts of a range's figures, or of one figure without what bounds it."""
    bare, _ = split_bound(text)
    ends = split_range(bare)
    return (bare,) if ends is None else (ends.first, ends.second)


def is_cut(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text leaves out what belongs to its figure.

    That is the other end of a range, a tolerance, a further term of a sum, or a bound.

    >>> is_cut("18-20 GB", 0, 2), is_cut("~18 GB", 1, 3), is_cut("18 GB (peak)", 0, 2)
    (True, True, False)
    """
    before, figure, after = text[:start], text[start:end], text[end:]
    if _GOES_ON.match(after) or _WENT_BEFORE.search(before):
        return True
    before, after = _APART.split(before)[-1], _APART.split(after)[0]
    bound = split_bound(figure)[1]
    return any(split_bound(whole)[1] != bound for whole in (before + figure, figure + after))


def parse_range(
    ends: Ends, text: str, parse_one: Callable[[str], AnyQuantity], *, where: str
) -> AnyQuantity:
    """Return a range as its middle, or the figure that has a tolerance, with both bounds.

    ``parse_one`` reads the text of one figure.

    Raises:
        UnitError: one is no figure of its kind, or they do not ascend.
    """
    first: Quantity[Any] = parse_one(ends.first)
    second: Quantity[Any] = parse_one(ends.second)
    if first.high is None or second.high is None:
        raise unit_error(where, text, _EXPECTED)
    if ends.has_tolerance:
        value = first.value
        low, high = first.low - second.value, first.high + second.value
        reason = "a figure with a tolerance in the source"
    else:
        value = (first.value + second.value) / 2
        low, high = min(first.low, second.low), max(first.high, second.high)
        reason = "the middle of a range in the source"
    if low < 0 or not (ends.has_tolerance or _ascend(ends, first, second)):
        raise unit_error(where, text, _EXPECTED)
    reason = "; ".join(filter(None, (first.reason, reason)))
    value = round(value) if isinstance(first.value, int) else value
    return replace(first, value=value, raw=text, reason=reason, low=low, high=high)


def _ascend(ends: Ends, first: AnyQuantity, second: AnyQuantity) -> bool:
    """Return whether the first figure is the lower as written; ``2-3 it/s`` are times that fall."""
    found = [_WITH_UNIT.fullmatch(ends.first), _WITH_UNIT.fullmatch(ends.second)]
    if all(found) and len({text["unit"].strip() for text in found if text}) == 1:
        return first.value != second.value and _number(ends.first) < _number(ends.second)
    return first.value < second.value


def _number(text: str) -> float:
    return float((re.match(NUMBER, text) or ["0"])[0].replace(",", ""))
