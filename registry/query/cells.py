"""One value of a result as text: exact for machines, rounded for people."""

from __future__ import annotations

import unicodedata
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from json.encoder import encode_basestring
from math import isfinite
from typing import Any

from registry.text import escape_unprintable

_TEXT_LIMIT = 40
_MANTISSA_DIGITS = 6
_JSON_WORDS = {None: "null", True: "true", False: "false"}
_SMALL, _LARGE = 1e-4, 1e15


def format_time(value: datetime | date | time | timedelta) -> str:
    """Return ISO 8601; a time with a zone in UTC, marked ``Z``; a duration as Python prints it."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"
    return str(value) if isinstance(value, timedelta) else value.isoformat()


def format_json(value: Any) -> str:
    r"""Return a value as JSON: integers exact, decimals as numbers, NaN and infinity null.

    >>> format_json({"a": [1, 2.5, None, float("nan")], "b": b"\x01"})
    '{"a":[1,2.5,null,null],"b":"01"}'
    """
    if value is None or isinstance(value, bool):
        return _JSON_WORDS[value]
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float | Decimal):
        return _format_json_figure(value)
    return _format_json_other(value)


def _format_json_figure(value: float | Decimal) -> str:
    if not isfinite(value):
        return "null"
    return repr(value) if isinstance(value, float) else f"{value:f}"


def _format_json_other(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{encode_basestring(_format_key(k))}:{format_json(v)}" for k, v in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(format_json, value)) + "]"
    return encode_basestring(format_plain(value))


def _format_key(key: Any) -> str:
    return key if isinstance(key, str) else format_plain(key)


def format_plain(value: Any) -> str:
    """Return a value as CSV and TSV hold it: null is empty, nested values are JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, datetime | date | time | timedelta):
        return format_time(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    is_json = isinstance(value, bool | Decimal | dict | list | tuple)
    return format_json(value) if is_json else str(value)


def format_figure(value: float | Decimal) -> str:
    """Return a figure rounded to six significant digits, never fewer before the point.

    >>> format_figure(21.300000000000001), format_figure(36600000000.25), format_figure(1 / 3)
    ('21.3', '36600000000', '0.333333')
    """
    number = float(value)
    if isfinite(number) and 10**_MANTISSA_DIGITS <= abs(number) < _LARGE:
        return f"{number:.0f}"
    if isfinite(number) and _SMALL <= abs(number) < 10**_MANTISSA_DIGITS:
        text = f"{number:.{_MANTISSA_DIGITS}g}"
        return f"{number:.0f}" if "e" in text else text
    return f"{number:.{_MANTISSA_DIGITS}g}"


def format_for_people(value: Any, limit: int | None = _TEXT_LIMIT) -> str:
    """Return a value on one line: figures rounded, control characters shown, long text cut."""
    if isinstance(value, float | Decimal):
        return format_figure(value)
    text = escape_unprintable(format_plain(value))
    return cut_text(text, limit) if limit else text


def text_width(text: str) -> int:
    """Return the number of terminal cells: East Asian wide is two, a combining mark none."""
    if text.isascii():
        return len(text)
    return sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut_text(text: str, limit: int) -> str:
    """Return ``text`` within ``limit`` cells, the last one an ellipsis where it was cut.

    >>> cut_text("observations", 8)
    'observa…'
    """
    if text_width(text) <= limit:
        return text
    kept, width = [], 0
    for character in text:
        width += _character_width(character)
        if width > limit - 1:
            break
        kept.append(character)
    return "".join(kept) + "…"
