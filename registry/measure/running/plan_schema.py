"""The JSON Schema (draft 2020-12) of a plan, for editors; made from the model of a plan."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from registry.contract.json_schema import DIALECT
from registry.measure.running.methods import known_methods
from registry.measure.running.plan_model import PLAN_KEYS, TRIAL_KEYS, meaning_of, value_type
from registry.measure.trial_settings import ABOUT, CHOICES, DEFAULTS

Schema = dict[str, Any]


def plan_schema() -> Schema:
    """Return the JSON Schema of a plan, as its TOML is read."""
    row = _table({name: _reference(name) for name in TRIAL_KEYS})
    axes = {
        name: {"type": "array", "minItems": 1, "items": _reference(name)} for name in TRIAL_KEYS
    }
    stated: dict[str, Schema] = {
        "name": {"type": "string"},
        "description": {"type": "string"},
        "repeats": {"type": "integer", "minimum": 1, "default": 1},
        "matrix": _table(axes),
        "exclude": {"type": "array", "items": {"$ref": "#/$defs/trial"}},
        "include": {"type": "array", "items": {"$ref": "#/$defs/trial"}},
        "models": {"type": "object", "additionalProperties": _model()},
    }
    of_plan = {name: {"description": PLAN_KEYS[name], **stated[name]} for name in PLAN_KEYS}
    return {
        "$schema": DIALECT,
        "title": "A plan of training jobs to measure (registry run PLAN.toml)",
        **_table({**of_plan, **row["properties"]}),
        "$defs": {"trial": row, **{name: _value(name) for name in TRIAL_KEYS}},
    }


def _table(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _model() -> Schema:
    return {
        "type": "object",
        "properties": {"model_type": {"type": "string"}},
        "required": ["model_type"],
    }


def _value(name: str) -> Schema:
    schema: Schema = {
        "description": meaning_of(name),
        **TypeAdapter(value_type(name)).json_schema(),
    }
    if name == "method":
        schema["enum"] = list(known_methods())
    if name == "lora_target_modules":  # one name stands for a list of it
        items = {"type": "array", "items": schema.pop("items"), "minItems": schema.pop("minItems")}
        schema = {"description": schema["description"], "anyOf": [{"type": "string"}, items]}
    if DEFAULTS.get(name) is not None:
        default = DEFAULTS[name]
        schema["default"] = list(default) if isinstance(default, tuple) else default
    about = ABOUT.get(name)
    if about is not None and about.example is not None and name not in CHOICES:
        schema["examples"] = [about.example]
    return schema
