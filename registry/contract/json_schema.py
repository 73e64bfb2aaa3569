"""The JSON Schema (draft 2020-12) of a submission, derived from its validator's schema.

It says what editors and other languages need to know: parts, columns, types, ranges, patterns and
vocabularies. What JSON Schema cannot say (the rules of ``schemas/rules.yaml``, references to the
catalogue, figures given as text) is checked when a submission is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry.contract import load_metrics, load_table
from registry.contract.descriptions import Description, format_comment
from registry.contract.resources import read_yaml
from registry.submission.schema import value_schema
from registry.submission.spec import part_spec

if TYPE_CHECKING:
    from registry.contract import Column
    from registry.submission.spec import NestedSpec, PartSpec

DIALECT = "https://json-schema.org/draft/2020-12/schema"

#: Part of ``schemas/submission.yaml`` that is the whole document.
ROOT = "Submission"

_NO_CONTROL_CHARACTERS = r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f]*$"

#: Retractions alone have no source.
_SOURCE_NEEDED = [
    {"required": ["source"]},
    {
        "required": ["retractions"],
        "properties": {"retractions": {"minItems": 1}, "observations": {"maxItems": 0}},
    },
]

#: Types of the validator's schema that say nothing but their JSON type.
_JSON_TYPES = {"int": "integer", "float": "number", "bool": "boolean", "function-after": "object"}

Schema = dict[str, Any]


def submission_schema() -> Schema:
    """Return the JSON Schema of a submission."""
    contract = read_yaml("submission.yaml")
    root = _part_schema(part_spec(ROOT))
    version = {
        "const": contract["version"],
        "default": contract["version"],
        "description": "Version of the submission format.",
    }
    return {
        "$schema": DIALECT,
        "title": "A submission to a registry of fine-tuning measurements",
        **root,
        "description": contract["parts"][ROOT]["meaning"],
        "anyOf": _SOURCE_NEEDED,
        "properties": {"schema_version": version, **root["properties"]},
        "$defs": {
            "text": {"pattern": _NO_CONTROL_CHARACTERS},
            **{name: _part_schema(part_spec(name)) for name in contract["parts"] if name != ROOT},
        },
    }


def _part_schema(part: PartSpec) -> Schema:
    """Return the schema of one part: the columns a submitter may state, then the nested parts."""
    required = [name for name, column in part.columns.items() if column.required]
    required += [name for name, nested in part.nested.items() if nested.required]
    schema = {
        "description": load_table(part.table).meaning if part.table else "",
        "type": "object",
        "properties": {
            **{name: _property(column, part) for name, column in part.columns.items()},
            **{name: _nested_schema(nested) for name, nested in part.nested.items()},
        },
        "required": [name for name in required if name not in part.defaults],
        "additionalProperties": False,
    }
    if part.table == "measurements":
        schema["allOf"] = _metric_ranges()
    return schema


def _nested_schema(nested: NestedSpec) -> Schema:
    reference: Schema = {"$ref": f"#/$defs/{nested.part.name}"}
    if nested.many:
        return {"type": "array", "items": reference, "default": [], "maxItems": nested.max_items}
    return reference if nested.required or nested.optional else {**reference, "default": {}}


def _property(column: Column, part: PartSpec) -> Schema:
    """Return the schema of one column; a column that is not required may be null."""
    description = format_comment(Description(column.meaning, column.unit))
    if column.name in part.as_text:
        description += ' A text with its unit, such as "36.6 GiB", is read too.'
        types = ["number", "string"]
        return {"description": description, "type": types, "$ref": "#/$defs/text"}
    schema = {"description": description, **_values(value_schema(column), column.pattern)}
    if column.name in part.defaults:
        schema["default"] = part.defaults[column.name]
    elif not column.required:
        schema |= {"type": [schema["type"], "null"], "default": None}
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    return schema


def _values(core: Schema, pattern: str | None) -> Schema:
    """Return what the validator's schema says of the values of a column."""
    match core["type"]:
        case "list":
            return {"type": "array", "items": _values(core["items_schema"], pattern)}
        case "literal":
            return {"type": "string", "enum": core["expected"]}
        case "function-plain":
            return {"type": "string", "format": "date-time"}
        case "str":
            form = {"pattern": f"^(?:{pattern})$"} if pattern else {"$ref": "#/$defs/text"}
            return {"type": "string", **form, "maxLength": core["max_length"]}
    return {"type": _JSON_TYPES[core["type"]], **_range(core.get("ge"), core.get("le"))}


def _range(low: float | None, high: float | None) -> Schema:
    bounds = {"minimum": low, "maximum": high}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _metric_ranges() -> list[Schema]:
    """Return one condition for each range that some metrics share."""
    alike: dict[tuple[float | None, float | None], list[str]] = {}
    for metric in load_metrics().values():
        alike.setdefault((metric.min, metric.max), []).append(metric.name)
    return [
        {
            "if": {"properties": {"metric": {"enum": names}}, "required": ["metric"]},
            "then": {"properties": dict.fromkeys(("value", "low", "high"), _range(*bounds))},
        }
        for bounds, names in alike.items()
        if bounds != (None, None)
    ]
