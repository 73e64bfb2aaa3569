"""What stands before a figure and says that it is no exact one: about, at least, at most."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from registry.units.number import MAX_TEXT, NUMBER

if TYPE_CHECKING:
    from registry.units.quantity import Quantity

Bound = Literal["about", "at least", "at most"]

#: What people write before a figure; words need a blank behind them.
_BEFORE: Final[dict[Bound, str]] = {
    "about": (
        r"[~\u223c\uff5e\u2248]|(?:about|around|approx\.?|approximately|circa|ca\.|roughly)\s"
        r"|(?:etwa|ungef\u00e4hr|environ|aproximadamente|aprox\.?|cerca de|около|примерно)\s"
        r"|\u7ea6|\u5927\u7ea6|\u7d04|\u304a\u3088\u305d|\uc57d"
    ),
    "at least": r"[>\u2265\uff1e]=?|(?:at least|more than|over|min\.)\s",
    "at most": r"[<\u2264\uff1c]=?|(?:at most|less than|under|up to|max\.)\s",
}
_AFTER: Final[dict[Bound, str]] = {"about": r"\u5de6\u53f3|approx\.?", "at least": r"or more"}

#: A plus behind the number or behind the unit: ``8+ it/s``.
_PLUS: Final = re.compile(
    rf"(?P<number>{NUMBER})(?:\+(?P<unit>\s*[^\d+]+)?|(?P<last>\s*[^\d+]+)\+)"
)

_REASONS: Final[dict[Bound, str]] = {
    "about": "approximate in the source",
    "at least": "",  # that the figure is a lower bound is said wherever it has no upper one
    "at most": "an upper bound",
}


def split_bound(text: str) -> tuple[str, Bound | None]:
    """Split a figure from what says how exact it is; None where nothing does.

    >>> split_bound("~20 GB"), split_bound("8+ it/s"), split_bound("20 GB")
    (('20 GB', 'about'), ('8 it/s', 'at least'), ('20 GB', None))
    """
    bare = text.strip()
    if len(bare) > MAX_TEXT:
        return text, None
    for bound, pattern in _BEFORE.items():
        found = re.match(rf"(?:{pattern})\s*(?=[0-9])", bare, re.IGNORECASE)
        if found:
            return bare[found.end() :], bound
    for bound, pattern in _AFTER.items():
        found = re.search(rf"(?<=\w)\s*(?:{pattern})$", bare, re.IGNORECASE)
        if found:
            return bare[: found.start()], bound
    plus = _PLUS.fullmatch(bare)
    if plus:
        return f"{plus['number']}{plus['unit'] or plus['last'] or ''}", "at least"
    return text, None


def with_bound(
    quantity: Quantity[int] | Quantity[float], bound: Bound, raw: str
) -> Quantity[int] | Quantity[float]:
    """Return a quantity with the bound that its text ``raw`` states, and the reason for it."""
    reason = "; ".join(filter(None, (quantity.reason, _REASONS[bound]))) or None
    if bound == "at least":
        return replace(quantity, raw=raw, reason=reason, high=None)
    if bound == "at most":
        return replace(quantity, raw=raw, reason=reason, low=0)
    return replace(quantity, raw=raw, reason=reason)
