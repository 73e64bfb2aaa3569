"""Values for the ``$name`` parameters of a query: bound by the engine, never pasted into SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from registry.errors import QueryError, did_you_mean, excerpt

if TYPE_CHECKING:
    from collections.abc import Mapping

_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][+-]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_QUOTED_LENGTH = 2

Value = int | float | bool | str | None


def parse_parameter(text: str) -> Value:
    """Return the value that a text of the command line means; quotes keep a number a string.

    >>> parse_parameter("8192"), parse_parameter("1e-4"), parse_parameter("true")
    (8192, 0.0001, True)
    >>> parse_parameter("qwen-7b"), parse_parameter("'8192'"), parse_parameter("007")
    ('qwen-7b', '8192', '007')
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    if len(text) >= _QUOTED_LENGTH and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def parse_assignment(text: str) -> tuple[str, Value]:
    """Return the name and the value of ``name=value``.

    Raises:
        QueryError: the text has no name or no equals sign.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.lstrip("$"):
        raise QueryError(f"parameter {text!r}: expected name=value, such as model=qwen-7b")
    return name.lstrip("$"), parse_parameter(value)


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
