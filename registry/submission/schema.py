"""The validator of submissions: pydantic-core, given a schema that is built from the contract.

Importing pydantic itself would cost more than all the rest of `registry add`.
"""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError, SchemaValidator

from registry.contract import Column, vocabulary
from registry.contract.resources import read_yaml
from registry.contract.tables import (
    DEEPEST_JSON,
    FORBIDDEN_CHARACTERS,
    LARGEST_INTEGER,
    LONGEST_JSON,
    MOST_WORDS,
)
from registry.reading.json_reader import is_deeper
from registry.submission.identity import canonical_json
from registry.submission.spec import PartSpec, part_spec

if TYPE_CHECKING:
    from pydantic_core import CoreConfig
    from pydantic_core.core_schema import ValidationInfo

#: The context in which a document is validated that was recorded before.
RECORDED = "recorded"

_PLAIN_TEXT = rf"[^{FORBIDDEN_CHARACTERS}]*"


@lru_cache(maxsize=1)
def submission_validator() -> SchemaValidator:
    """Return the validator of a whole submission; it returns plain data."""
    schema = _part_schema(part_spec())
    version = read_yaml("submission.yaml")["version"]
    # First an integer: a literal alone would take true for 1.
    steps = [{"type": "int"}, {"type": "literal", "expected": [version]}]
    literal = {"type": "chain", "steps": steps}
    schema["fields"]["schema_version"] = _field(
        {"type": "default", "schema": literal, "default": version}, required=False
    )
    return SchemaValidator(schema)


@lru_cache(maxsize=512)
def column_validator(column: Column) -> SchemaValidator:
    """Return the validator of one column's values that are not null."""
    return SchemaValidator(value_schema(column), _STRICT)


def _part_schema(part: PartSpec) -> dict[str, Any]:
    fields = {name: _column_field(part, column) for name, column in part.columns.items()}
    for name, nested in part.nested.items():
        schema = _part_schema(nested.part)
        if nested.many:
            schema = {"type": "list", "items_schema": schema, "max_length": nested.max_items}
        elif not nested.required and not nested.optional:
            schema = {"type": "default", "schema": schema, "default_factory": dict}
        fields[name] = _field(schema, required=nested.required)
    return {"type": "typed-dict", "fields": fields, "config": _STRICT}


def _field(schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    return {"type": "typed-dict-field", "schema": schema, "required": required}


def _column_field(part: PartSpec, column: Column) -> dict[str, Any]:
    schema = _figure(column) if column.name in part.as_text else value_schema(column)
    if column.name in part.defaults:
        default = {"type": "default", "schema": schema, "default": part.defaults[column.name]}
        return _field(default, required=False)
    if not column.required:
        schema = {"type": "nullable", "schema": schema}
    return _field(schema, required=column.required)


def value_schema(column: Column) -> dict[str, Any]:
    """Return the schema of a column's values that are not null: type, range, words, pattern."""
    match column.type:
        case "string" | "list<string>" as kind:
            words = {"type": "list", "items_schema": _text(column), "max_length": MOST_WORDS}
            return _text(column) if kind == "string" else words
        case "int64":
            low = -LARGEST_INTEGER if column.min is None else column.min
            high = LARGEST_INTEGER if column.max is None else column.max
            return {"type": "int", "ge": low, "le": high}
        case "float64":
            bounds = {"ge": column.min, "le": column.max}
            return {"type": "float", **{k: v for k, v in bounds.items() if v is not None}}
        case "bool":
            return {"type": "bool"}
        case "json":
            keyed = {"type": "dict", "keys_schema": {"type": "str"}}
            check = {"type": "with-info", "function": _check_json}
            return {"type": "function-after", "schema": keyed, "function": check}
    parse = {"type": "no-info", "function": lambda value: parse_timestamp(value, column)}
    return {"type": "function-plain", "function": parse}


def _text(column: Column) -> dict[str, Any]:
    if column.vocabulary:
        return {"type": "literal", "expected": list(vocabulary(column.vocabulary))}
    return {
        "type": "str",
        "pattern": rf"\A(?:{column.pattern or _PLAIN_TEXT})\Z",
        "max_length": column.max_length,
        "regex_engine": "python-re",
    }


def _figure(column: Column) -> dict[str, Any]:
    return {
        "type": "union",
        "choices": [{"type": "float"}, _text(column)],
        "custom_error_type": "figure",
        "custom_error_message": "expected a finite number, or text with a unit such as 36.6 GiB",
    }


def _check_json(value: dict[str, Any], info: ValidationInfo[Any]) -> dict[str, Any]:
    nested = PydanticCustomError("json", f"expected at most {DEEPEST_JSON} levels of nesting")
    try:
        text = canonical_json(value)
    except RecursionError:
        raise nested from None
    except (TypeError, ValueError):
        raise PydanticCustomError("json", _JSON_VALUES) from None
    if len(text) > LONGEST_JSON:
        raise PydanticCustomError("json", f"expected at most {LONGEST_JSON} characters of JSON")
    column_validator(_ANY_JSON).validate_python(text)
    # what was recorded before there was a bound stays valid
    if info.context != RECORDED and is_deeper(value, DEEPEST_JSON):
        raise nested
    return value


_JSON_VALUES = "expected text, finite numbers, true, false, null, and lists and objects of these"
_ANY_JSON = Column("json", "string", "Any text.", max_length=LONGEST_JSON)


def parse_timestamp(value: object, column: Column | None = None) -> str:
    """Return a timestamp in UTC as canonical ISO 8601 text; raise where it is not one.

    The ``min`` and ``max`` of a timestamp's column are years.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise PydanticCustomError("timestamp", "expected an ISO 8601 timestamp") from None
    if not isinstance(value, datetime):
        raise PydanticCustomError("timestamp", "expected an ISO 8601 timestamp")
    if value.tzinfo is None:
        raise PydanticCustomError("timestamp", "expected a time zone, such as a final Z")
    low, high = (column.min or MINYEAR, column.max or MAXYEAR) if column else (MINYEAR, MAXYEAR)
    years = PydanticCustomError("timestamp", f"expected a year from {low} to {high} in UTC")
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        raise years from None
    if not low <= moment.year <= high:
        raise years
    return moment.isoformat().replace("+00:00", "Z")


#: Each part states it: a typed dictionary does not inherit the configuration around it.
_STRICT: CoreConfig = {"strict": True, "extra_fields_behavior": "forbid", "allow_inf_nan": False}
