"""Values of contract columns as a mapping states them, with the reason for what is inferred."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from registry.contract import Column, load_table
from registry.errors import UnitError, did_you_mean
from registry.submission.messages import check_value
from registry.units import figure_of, parse_count
from registry.units.number import NUMBER, parse_number

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Parts of a submission's observation that a mapping fills, and the tables they are rows of.
PARTS = {
    "configuration": "configurations",
    "environment": "environments",
    "observation": "observations",
}

#: Columns that the registry fills in itself.
_FILLED_IN = {
    "configuration_id",
    "environment_id",
    "observation_id",
    "source_id",
    "figures_hash",
    "inferences",
}

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "int64": (int,),
    "float64": (int, float),
    "bool": (bool,),
    "timestamp": (str,),
    "json": (dict,),
    "list<string>": (list,),
}
_LENGTH_IN_K = re.compile(rf"(?P<number>{NUMBER})\s*(?P<unit>[kKM])(?:\s*tokens?)?")
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class Stated:
    """A value, why it is taken to hold where the source does not say it outright, its rounding.

    ``half_width`` is half a unit in the last printed digit of a rounded count such as ``48.8k``.
    """

    value: Any
    because: str | None = None
    half_width: float = field(default=0.0, compare=False)


Values = dict[str, Stated]


def lay_over(values: Values, more: Values) -> None:
    """Put more values in place of others; entries of one column, such as provenance, one by one."""
    for column, stated in more.items():
        before = values.get(column, Stated(None)).value
        both = isinstance(before, dict) and isinstance(stated.value, dict)
        values[column] = replace(stated, value=before | stated.value) if both else stated


def contradict(one: Any, other: Any) -> bool:
    """Return whether two cells that state a column's value cannot both be right."""
    if isinstance(one, dict) and isinstance(other, dict):
        return any(one[name] != other[name] for name in one.keys() & other.keys())
    return bool(one != other)


@lru_cache(maxsize=1)
def target_columns() -> dict[str, tuple[str, Column]]:
    """Return the columns that a mapping may fill: name to (part, column)."""
    return {
        column.name: (part, column)
        for part, table in PARTS.items()
        for column in load_table(table).columns
        if column.name not in _FILLED_IN
    }


def target_column(name: str) -> Column:
    """Return the column that a mapping may fill; raise ValueError where there is none."""
    known = target_columns()
    if name not in known:
        raise ValueError(
            f"unknown column {name!r}{did_you_mean(name, known)}; expected a column of "
            "configurations, environments or observations"
        )
    return known[name][1]


def parse_values(document: Any, *, may_refer: bool = False) -> Values:
    r"""Return values by column from their plain form; raise ValueError for what is wrong.

    A value with a reason is written ``{value: …, because: …}``; null takes a default away. Where
    values ``may_refer`` to the groups of a pattern, as ``\1`` does, their types are checked later.
    """
    if not isinstance(document, dict):
        raise ValueError(f"found {document!r}, expected columns and their values")  # noqa: TRY004 - pydantic wants ValueError
    return {
        str(name): parse_stated(str(name), value, may_refer=may_refer)
        for name, value in document.items()
    }


def parse_stated(name: str, value: Any, *, may_refer: bool = False) -> Stated:
    """Return one value of a column from its plain form; raise ValueError for what is wrong."""
    column = target_column(name)
    because = None
    if isinstance(value, dict) and value.keys() == {"value", "because"}:
        value, because = value["value"], value["because"]
        if not isinstance(because, str) or not because.strip():
            raise ValueError(f"{name}: found because {because!r}, expected a reason")
    is_later = value is None or (may_refer and is_template(value))
    problem = None if is_later else check_typed(column, value)
    if problem:
        raise ValueError(f"{name}: {problem}")
    return Stated(value, because)


def is_template(value: Any) -> bool:
    r"""Return whether a value refers to a group of a pattern, as ``\1`` does."""
    texts = value if isinstance(value, list) else [value]
    return any(isinstance(text, str) and "\\" in text for text in texts)


def check_typed(column: Column, value: Any) -> str | None:
    """Return what the contract finds wrong with a value's type or the value, or None."""
    allowed = _TYPES[column.type]
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        return f"found {value!r}; expected {column.type}"
    items = value if isinstance(value, list) else [value]
    for item in items:
        if column.type == "list<string>" and not isinstance(item, str):
            return f"found {item!r}; expected text in {column.type}"
        problem = check_value(column, item)
        if problem:
            return f"found {item!r}; {problem}"
    return None


def parse_cell_value(name: str, text: str, *, where: str, k_is: int | None = None) -> Stated:
    """Return the value that a cell's text says for a column of the contract.

    ``k_is`` is what K stands for in a length, 1000 or 1024: a source that writes ``8K`` means
    8,192 more often than 8,000, and nobody can tell from the text.

    Raises:
        UnitError: the text is none of the column's type, or out of its range or vocabulary, or a
            length in K without ``k_is``.
    """
    column = target_column(name)
    in_k = _LENGTH_IN_K.fullmatch(text.strip()) if column.unit == "token" else None
    if in_k is not None:
        stated = Stated(_read_length(in_k, name, text, where=where, k_is=k_is))
    else:
        stated = _PARSERS.get(column.type, _parse_text)(text, where)
    problem = check_typed(column, stated.value)
    if problem:
        raise UnitError(f"{where}: {problem}")
    return stated


def _read_length(
    found: re.Match[str], name: str, text: str, *, where: str, k_is: int | None
) -> int:
    """Return a length such as ``8K`` or ``1M`` in tokens."""
    number, power = parse_number(found["number"], where=where), 1 if found["unit"] in "kK" else 2
    exact = {k: number * Fraction(k) ** power for k in (1000, 1024)}
    readings = {k: int(length) for k, length in exact.items()}
    if k_is is None:
        raise UnitError(
            f"{where}: found {text!r} as a length, expected to be told what K stands for; state "
            f"`k_is: 1024` ({readings[1024]:,} tokens) or `k_is: 1000` ({readings[1000]:,} tokens)"
        )
    if exact[k_is].denominator != 1:
        raise UnitError(
            f"{where}: found {text!r} as a length, with `k_is: {k_is}` {float(exact[k_is]):,.2f} "
            "tokens, expected a whole number of them; state `k_is: 1000`, or this text's length "
            f"under `patterns`: `{{pattern: '{re.escape(text.strip())}', set: {{{name}: …}}}}`"
        )
    return readings[k_is]


def _parse_text(text: str, _where: str) -> Stated:
    return Stated(text)


def _parse_integer(text: str, where: str) -> Stated:
    quantity = parse_count(text, where=where)
    return Stated(quantity.value, half_width=figure_of(quantity).half_width)


def _parse_float(text: str, where: str) -> Stated:
    if not re.fullmatch(NUMBER, text.strip()):
        raise UnitError(f"{where}: found {text!r}, expected a number")
    return Stated(float(parse_number(text.strip(), where=where)))


def _parse_bool(text: str, where: str) -> Stated:
    if text.strip().lower() not in _BOOLEANS:
        raise UnitError(
            f"{where}: found {text!r}, expected one of {', '.join(_BOOLEANS)}; "
            "say under `values` what other words mean"
        )
    return Stated(_BOOLEANS[text.strip().lower()])


def _parse_list(text: str, _where: str) -> Stated:
    return Stated([item.strip() for item in text.split(",") if item.strip()])


_PARSERS = {
    "int64": _parse_integer,
    "float64": _parse_float,
    "bool": _parse_bool,
    "list<string>": _parse_list,
}


def split_parts(values: Mapping[str, Stated]) -> dict[str, dict[str, Any]]:
    """Return the stated values by part of an observation; nulls are left out."""
    parts: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    for name, stated in values.items():
        if stated.value is not None:
            parts[target_columns()[name][0]][name] = stated.value
    return parts
