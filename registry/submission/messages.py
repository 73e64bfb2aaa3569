"""What pydantic-core finds wrong, in the user's words: place, found, expected, way out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import ValidationError

from registry.contract import vocabulary
from registry.contract.methods import QUANTIZED
from registry.contract.tables import LARGEST_INTEGER
from registry.errors import did_you_mean, excerpt
from registry.submission.schema import column_validator
from registry.submission.spec import part_spec
from registry.text import lower_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pydantic_core import ErrorDetails

    from registry.contract import Column
    from registry.contract.tables import Table
    from registry.submission.spec import PartSpec

_PLAIN_TEXT = "text without control characters or unpaired surrogates"

_EXPECTED = {
    "string_type": "text",
    "string_unicode": _PLAIN_TEXT,
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "dict_type": "an object",
    "list_type": "a list",
}
_UNQUOTED = ("an integer", "a number", "true or false")

Location = tuple[int | str, ...]

#: What is wrong, or what writes it: of thousands a few are shown, and a hint takes a while.
Problem: TypeAlias = "str | Callable[[], str]"


def format_problems(error: ValidationError) -> list[Problem]:
    """Return one message for each place of a submission that is not valid."""
    return [partial(_format_problem, detail) for detail in error.errors()]


def check_value(column: Column, value: Any) -> str | None:
    """Return what the contract finds wrong with one value that is not null, or None.

    For a list, a single item may be given too.
    """
    if column.type == "list<string>" and isinstance(value, str):
        value = [value]
    try:
        column_validator(column).validate_python(value)
    except ValidationError as error:
        return _expected(error.errors()[0], column)
    return None


def check_row(table: Table, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the contract finds wrong with what a row states, each with the column's name."""
    for name, value in row.items():
        if name not in table.names:
            yield f"unknown column {name!r}{did_you_mean(name, table.names)}"
            continue
        problem = check_value(table.column(name), value)
        if problem:
            yield f"{name}: found {value!r}; {problem}"


def _format_problem(detail: ErrorDetails) -> str:
    location = tuple(step for step in detail["loc"] if step not in ("float", "str"))
    path = format_path(location)
    part, column = _find_column(location)
    match detail["type"]:
        case "extra_forbidden":
            return f"{path}: {_unknown_column(str(location[-1]), part)}"
        case "missing":
            return f"{path}: missing; expected a value; add it"
        case "literal_error" if column is None:
            return (
                f"{path}: found {excerpt(detail['input'])}; expected version 1 of the submission "
                "format; a newer one needs a newer peft-registry"
            )
    return f"{path}: found {excerpt(detail.get('input'))}; {_expected(detail, column)}"


def _expected(detail: ErrorDetails, column: Column | None) -> str:
    context = detail.get("ctx", {})
    match detail["type"]:
        case "literal_error" if column is not None and column.vocabulary:
            return _expected_word(detail["input"], column.vocabulary)
        case "string_pattern_mismatch" if column is not None and column.pattern:
            meaning = lower_first(column.meaning).rstrip(".")
            return f"expected text that matches {column.pattern} ({meaning})"
        case "string_pattern_mismatch":
            return f"expected {_PLAIN_TEXT}"
        case "greater_than_equal" | "less_than_equal" as kind:
            side, key = ("least", "ge") if kind.startswith("greater") else ("most", "le")
            return f"expected at {side} {_format_bound(context[key])}"
        case "too_long" | "string_too_long" as kind:
            unit = "items" if kind == "too_long" else "characters"
            return f"expected at most {context['max_length']} {unit}"
    expected = _EXPECTED.get(detail["type"]) or detail["msg"].removeprefix("expected ")
    is_quoted = isinstance(detail["input"], str) and expected in _UNQUOTED
    return f"expected {expected}{'; write it without quotes' if is_quoted else ''}"


def _format_bound(bound: float) -> str:
    if bound == LARGEST_INTEGER:
        return "2^63 - 1"
    return str(int(bound) if float(bound).is_integer() else bound)


def _expected_word(found: Any, name: str) -> str:
    known = vocabulary(name)
    if name == "method" and isinstance(found, str) and found.lower() in QUANTIZED:
        method, bits = QUANTIZED[found.lower()]
        return f"expected method {method} with quant_bits {bits}, which is what {found} stands for"
    hint = did_you_mean(found, known).removeprefix("; ") if isinstance(found, str) else ""
    return f"{hint}{'; ' if hint else ''}expected one of {', '.join(known)}"


def _unknown_column(name: str, part: PartSpec) -> str:
    hint = did_you_mean(name, part.names)
    known = ", ".join(part.names)
    if part.table:
        known = f"a column that `registry query --schema {part.table}` lists"
    return f"unknown column{hint}; expected {known}; rename or remove it"


def _find_column(location: Location) -> tuple[PartSpec, Column | None]:
    """Return the part that holds a place, and its column where it has one."""
    part = part_spec()
    column = None
    for step in location:
        if isinstance(step, str) and step in part.nested:
            part = part.nested[step].part
        elif isinstance(step, str):
            column = part.columns.get(step)
    return part, column


def format_path(location: Location) -> str:
    """Return a place as the user finds it: ``observations[3].measurements[0].value``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".") or "the document"


def format_observation_path(index: int, observation: Mapping[str, Any]) -> str:
    """Return the place of an observation, with the row or the file that it is read from.

    >>> format_observation_path(3, {"citations": [{"locator": "table 1, row 4"}]})
    'observations[3] (table 1, row 4)'
    """
    places = [citation["locator"] for citation in observation.get("citations", ())]
    return f"observations[{index}]{f' ({places[0]})' if places else ''}"
