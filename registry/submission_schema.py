"""The validator of submissions, built from the contract.

It is pydantic's own engine, given its schema directly: the classes of :mod:`registry.submission`
are the same schema for people to type against, and a test holds the two to each other. Building it
here spares `registry add` the import of pydantic, which costs more than all the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from pydantic_core import PydanticCustomError, SchemaValidator

from registry.contract import Column, load_table
from registry.resources import read_yaml


@dataclass(frozen=True)
class PartSpec:
    """One part of a submission: its own columns, and the parts nested in it."""

    name: str
    table: str | None = None
    columns: dict[str, Column] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    as_text: tuple[str, ...] = ()
    nested: dict[str, NestedSpec] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names that the part may have."""
        version = ("schema_version",) if self.name == "Submission" else ()
        return (*version, *self.columns, *self.nested)


@dataclass(frozen=True)
class NestedSpec:
    """A part nested in another, or a list of them."""

    part: PartSpec
    many: bool = False
    required: bool = False


@lru_cache(maxsize=16)
def part_spec(name: str = "Submission") -> PartSpec:
    """Return what a part of a submission holds, from ``schemas/submission.yaml``."""
    entry = read_yaml("submission.yaml")["parts"][name]
    filled_in = entry.get("filled_in", ())
    columns = load_table(entry["table"]).columns if "table" in entry else ()
    return PartSpec(
        name,
        entry.get("table"),
        {column.name: column for column in columns if column.name not in filled_in},
        entry.get("defaults", {}),
        tuple(entry.get("as_text", ())),
        {
            key: NestedSpec(
                part_spec(nested["part"]), nested.get("many", False), nested.get("required", False)
            )
            for key, nested in entry.get("nested", {}).items()
        },
    )


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


def _part_schema(part: PartSpec) -> dict[str, Any]:
    fields = {name: _column_field(part, column) for name, column in part.columns.items()}
    for name, nested in part.nested.items():
        schema = _part_schema(nested.part)
        if nested.many:
            schema = {"type": "list", "items_schema": schema}
        elif not nested.required:
            schema = {"type": "default", "schema": schema, "default_factory": dict}
        fields[name] = _field(schema, required=nested.required)
    return {"type": "typed-dict", "fields": fields, "config": _STRICT}


def _field(schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    return {"type": "typed-dict-field", "schema": schema, "required": required}


def _column_field(part: PartSpec, column: Column) -> dict[str, Any]:
    schema = _FIGURE if column.name in part.as_text else _TYPES[column.type]
    if column.name in part.defaults:
        default = {"type": "default", "schema": schema, "default": part.defaults[column.name]}
        return _field(default, required=False)
    if not column.required:
        schema = {"type": "nullable", "schema": schema}
    return _field(schema, required=column.required)


def parse_timestamp(value: object) -> str:
    """Return a timestamp in UTC as canonical ISO 8601 text; raise where it is none."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise PydanticCustomError("timestamp", "expected an ISO 8601 timestamp") from None
    if not isinstance(value, datetime):
        raise PydanticCustomError("timestamp", "expected an ISO 8601 timestamp")
    if value.tzinfo is None:
        raise PydanticCustomError("timestamp", "expected a time zone, such as a final Z")
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


#: Each part states it: a typed dictionary does not take over the configuration around it.
_STRICT = {"strict": True, "extra_fields_behavior": "forbid", "allow_inf_nan": False}

_TYPES: dict[str, dict[str, Any]] = {
    "string": {"type": "str"},
    "int64": {"type": "int"},
    "float64": {"type": "float"},
    "bool": {"type": "bool"},
    "json": {"type": "dict", "keys_schema": {"type": "str"}},
    "list<string>": {"type": "list", "items_schema": {"type": "str"}},
    "timestamp": {
        "type": "function-plain",
        "function": {"type": "no-info", "function": parse_timestamp},
    },
}

_FIGURE: dict[str, Any] = {
    "type": "union",
    "choices": [{"type": "float"}, {"type": "str"}],
    "custom_error_type": "figure",
    "custom_error_message": "expected a finite number, or text with a unit such as 36.6 GiB",
}
