"""Values for the ``$name`` parameters of a query: bound by the engine, never pasted into SQL."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from registry.errors import QueryError, did_you_mean, excerpt

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]{0,38})")
_NUMBER = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]{1,4})?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_QUOTED_LENGTH = 2
#: Zeros that a number does not keep, and a version or an id needs.
_IDLE_ZEROS = re.compile(r"^[+-]?0[0-9]|\.[0-9]+0$")
#: Whole numbers of the engine are smaller.
_LARGEST_INTEGER = 2**127

Value = int | float | bool | str | None


def parse_parameter(text: str) -> Value:
    """Return the value that a text of the command line means; quotes keep a number a string.

    Raises:
        QueryError: as a number, the text would lose figures: ``2.10`` may be a version.

    >>> parse_parameter("8192"), parse_parameter("1e-4"), parse_parameter("true")
    (8192, 0.0001, True)
    >>> parse_parameter("qwen-7b"), parse_parameter("'8192'"), parse_parameter("007")
    ('qwen-7b', '8192', '007')
    >>> parse_parameter("'2.10'"), parse_parameter("2.1")
    ('2.10', 2.1)
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return _keep_figures(text, int(text))
    if _NUMBER.fullmatch(text):
        return _keep_figures(text, float(text))
    if len(text) >= _QUOTED_LENGTH and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def _keep_figures(text: str, value: float) -> float:
    """Return a number that has all figures of its text."""
    kept = abs(value) < _LARGEST_INTEGER if isinstance(value, int) else math.isfinite(value)
    if kept and Decimal(text) == Decimal(repr(value)) and not _IDLE_ZEROS.search(text):
        return value
    number = f"{value!r} for the number, or " if kept else ""
    raise QueryError(
        f"found {excerpt(text)}, which as a number would lose digits; expected {number}"
        f"{_quote(text)} for the text"
    )


def _quote(text: str) -> str:
    """Return a text as `parse_parameter` takes it, in what a shell leaves as it is."""
    return f"""'"{text}"'"""


def parse_assignment(text: str) -> tuple[str, Value]:
    """Return the name and the value of ``name=value``.

    Raises:
        QueryError: the text has no name or no equals sign, or its value may be number or text.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.lstrip("$"):
        raise QueryError(f"parameter {text!r}: expected name=value, such as model=qwen-7b")
    try:
        return name.lstrip("$"), parse_parameter(value)
    except QueryError as error:
        raise QueryError(f"parameter {name}: {error}") from None


def by_name(params: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """Return values by the names of their parameters; the engine calls each ``?`` by its number.

    Raises:
        QueryError: the values are neither a mapping nor a list.

    >>> by_name([8192, "qwen-7b"])
    {'1': 8192, '2': 'qwen-7b'}
    """
    if isinstance(params, Mapping):
        return dict(params)
    if isinstance(params, list | tuple):
        return {str(number): value for number, value in enumerate(params, 1)}
    raise QueryError(
        f"params: found {excerpt(params)}; expected values by name, such as "
        '{"model": "qwen-7b"} for $model, or a list for ? marks'
    )


def explain_numbers(params: Mapping[str, Any]) -> str:
    """Return how the numbers among the values can be passed as text, empty without any."""
    numbers = {name: value for name, value in params.items() if isinstance(value, int | float)}
    if not numbers:
        return ""
    name, value = next(iter(numbers.items()))
    text = str(value).lower() if isinstance(value, bool) else str(value)
    names = ", ".join(f"${name}" for name in numbers)
    passed = "was passed as a number" if len(numbers) == 1 else "were passed as numbers"
    return (
        f"{names} {passed}; to compare with text, pass text: -p {name}={_quote(text)}, in Python "
        f'{name}="{text}"'
    )


def validate_text(sql: str, params: Mapping[str, Any]) -> None:
    """Raise QueryError for invalid text, which an argument that is not UTF-8 becomes."""
    for text in (sql, *params.values()):
        try:
            _ = isinstance(text, str) and text.encode()
        except UnicodeEncodeError as error:
            raise QueryError(
                f"query: character {error.start} of {excerpt(text)}: not UTF-8; expected SQL and "
                "values in UTF-8"
            ) from None


def bind_parameters(wanted: set[str], given: Mapping[str, Any]) -> dict[str, Any] | list[Any]:
    """Return ``given`` in the shape the engine takes: by name, or in order for ``?`` and ``$1``.

    Raises:
        QueryError: a parameter of the SQL has no value, or a value has no parameter.
    """
    if missing := sorted(wanted - given.keys()):
        names = ", ".join(f"${name}" for name in missing)
        raise QueryError(f"query: no value for {names}; pass {missing[0]}=VALUE")
    if extra := sorted(given.keys() - wanted):
        known = ", ".join(f"${name}" for name in sorted(wanted)) or "no parameters"
        hint = did_you_mean(extra[0], wanted)
        raise QueryError(
            f"query: parameter {extra[0]!r} is not in the SQL, which has {known}{hint}"
        )
    if wanted and all(name.isdecimal() for name in wanted):
        return [given[name] for name in sorted(wanted, key=int)]
    return dict(given)
