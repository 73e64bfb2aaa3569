"""The JSON Schema (draft 2020-12) of a submission, derived from the contract.

It says what editors and other languages need to know: parts, columns, types, ranges, patterns and
vocabularies. What JSON Schema cannot say (the rules of ``schemas/rules.yaml``, references to the
catalogue, figures given as text) is checked when a submission is handed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry.contract import load_metrics, load_table, vocabulary
from registry.contract.descriptions import Description, format_comment
from registry.contract.resources import read_yaml
from registry.contract.tables import LARGEST_INTEGER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.contract import Column

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

_JSON_TYPES = {
    "string": "string",
    "timestamp": "string",
    "int64": "integer",
    "float64": "number",
    "bool": "boolean",
    "json": "object",
    "list<string>": "array",
}

Schema = dict[str, Any]


def submission_schema() -> Schema:
    """Return the JSON Schema of a submission."""
    contract = read_yaml("submission.yaml")
    parts: Mapping[str, Schema] = contract["parts"]
    root = _part_schema(parts[ROOT])
    version = {
        "const": contract["version"],
        "default": contract["version"],
        "description": "Version of the submission format.",
    }
    return {
        "$schema": DIALECT,
        "title": "A submission to a registry of fine-tuning measurements",
        **root,
        "anyOf": _SOURCE_NEEDED,
        "properties": {"schema_version": version, **root["properties"]},
        "$defs": {
            "text": {"pattern": _NO_CONTROL_CHARACTERS},
            **{name: _part_schema(part) for name, part in parts.items() if name != ROOT},
        },
    }


def _part_schema(part: Mapping[str, Any]) -> Schema:
    """Return the schema of one part: the columns a submitter may state, then the nested parts."""
    table = load_table(part["table"]) if "table" in part else None
    defaults = part.get("defaults", {})
    filled_in = part.get("filled_in", ())
    columns = [column for column in table.columns if column.name not in filled_in] if table else []
    nested: Mapping[str, Schema] = part.get("nested", {})
    required = [column.name for column in columns if column.required]
    required += [name for name, entry in nested.items() if entry.get("required")]
    schema = {
        "description": table.meaning if table else part["meaning"],
        "type": "object",
        "properties": {
            **{column.name: _property(column, part) for column in columns},
            **{name: _nested_schema(entry) for name, entry in nested.items()},
        },
        "required": [name for name in required if name not in defaults],
        "additionalProperties": False,
    }
    if part.get("table") == "measurements":
        schema["allOf"] = _metric_ranges()
    return schema


def _nested_schema(entry: Mapping[str, Any]) -> Schema:
    reference: Schema = {"$ref": f"#/$defs/{entry['part']}"}
    if entry.get("many"):
        schema = {"type": "array", "items": reference, "default": []}
        return {**schema, "maxItems": entry["max_items"]}
    if entry.get("required") or entry.get("optional"):
        return reference
    return {**reference, "default": {}}


def _property(column: Column, part: Mapping[str, Any]) -> Schema:
    """Return the schema of one column; a column that is not required may be null."""
    schema: Schema = {"description": format_comment(Description(column.meaning, column.unit))}
    if column.name in part.get("as_text", ()):
        schema["description"] += ' A text with its unit, such as "36.6 GiB", is read too.'
        return {**schema, "type": ["number", "string"], "$ref": "#/$defs/text"}
    types = [_JSON_TYPES[column.type], *([] if column.required else ["null"])]
    schema["type"] = types[0] if len(types) == 1 else types
    schema |= _array(column) if column.type == "list<string>" else _values(column)
    if column.name in part.get("defaults", {}):
        schema["default"] = part["defaults"][column.name]
    elif not column.required:
        schema["default"] = None
    return schema


def _array(column: Column) -> Schema:
    items: Schema = {"type": "string", **_texts(column)}
    if column.vocabulary:
        items["enum"] = list(vocabulary(column.vocabulary))
    return {"items": items}


def _values(column: Column) -> Schema:
    """Return what the contract says of the values of a column that is no list."""
    if column.vocabulary:
        return {"enum": [*vocabulary(column.vocabulary), *([] if column.required else [None])]}
    if column.type == "timestamp":
        return {"format": "date-time"}
    if column.type == "string":
        return _texts(column)
    low, high = column.min, column.max
    if column.type == "int64":
        low = -LARGEST_INTEGER if low is None else low
        high = LARGEST_INTEGER if high is None else high
    return _range(low, high)


def _texts(column: Column) -> Schema:
    if column.vocabulary:
        return {}
    pattern = {"pattern": f"^(?:{column.pattern})$"} if column.pattern else {"$ref": "#/$defs/text"}
    return {**pattern, "maxLength": column.max_length}


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
            "then": {"properties": {"value": _range(*bounds)}},
        }
        for bounds, names in alike.items()
        if bounds != (None, None)
    ]
