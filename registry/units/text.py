"""Quantities as text for people: rounded, never for storage."""

from __future__ import annotations

import math
from typing import Literal

from registry.units.known import units_by_symbol

_PREFIXES = {"binary": ("TiB", "GiB", "MiB", "KiB", "B"), "decimal": ("TB", "GB", "MB", "KB", "B")}
_LEAST_IN_MINUTES = 59.995  # what rounds to 60 s is said in minutes


def format_memory(memory_bytes: int, *, system: Literal["binary", "decimal"] = "binary") -> str:
    """Return an amount of memory with four significant digits and its unit.

    >>> format_memory(36600000000)
    '34.09 GiB'
    >>> format_memory(36600000000, system="decimal")
    '36.6 GB'
    """
    factors = {
        symbol: int(units_by_symbol("memory")[symbol].factor) for symbol in _PREFIXES[system]
    }
    symbol = next((s for s, factor in factors.items() if abs(memory_bytes) >= factor), "B")
    return f"{_round_significant(memory_bytes / factors[symbol])} {symbol}"


def format_duration(seconds: float) -> str:
    """Return a duration in its two leading units; below a minute in seconds or milliseconds.

    >>> format_duration(20100)
    '5 h 35 min'
    >>> format_duration(0.4215)
    '421.5 ms'
    """
    if 0 < seconds < 1:
        return f"{_round_significant(seconds * 1000)} ms"
    if seconds < _LEAST_IN_MINUTES:
        return f"{_round_significant(seconds)} s"
    for long, short, finer in (("day", "h", "min"), ("h", "min", "s")):
        # What the pair below would round up to a whole long unit is shown as one.
        if round(seconds / _seconds_per(finer)) * _seconds_per(finer) >= _seconds_per(long):
            return _format_pair(seconds, long, short)
    return _format_pair(seconds, "min", "s")


def _format_pair(seconds: float, long: str, short: str) -> str:
    per_long = _seconds_per(long) // _seconds_per(short)
    whole, rest = divmod(round(seconds / _seconds_per(short)), per_long)
    label = "days" if long == "day" and whole > 1 else long
    return f"{whole} {label} {rest} {short}" if rest else f"{whole} {label}"


def _seconds_per(symbol: str) -> int:
    return int(units_by_symbol("duration")[symbol].factor)


def _round_significant(number: float) -> str:
    """Return a number with four significant digits, without exponent or closing zeros."""
    if number == 0:
        return "0"
    decimals = max(0, 3 - math.floor(math.log10(abs(number))))
    text = f"{number:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
