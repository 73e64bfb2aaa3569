"""The JSON Schema and the pydantic model of a submission say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # it ships no types

from registry.contract import load_table
from registry.contract.json_schema import submission_schema
from registry.errors import SubmissionError
from registry.submission import PARTS as CLASSES
from registry.submission import Submission
from registry.submission.classes import SubmissionPart as Part
from registry.submission.classes import part_class
from registry.submission.prepare import prepare_submission
from registry.tables.curated import load_curated_catalogue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic.fields import FieldInfo

SCHEMA = submission_schema()
VALIDATOR = Draft202012Validator(SCHEMA)
PARTS = {"Submission": SCHEMA, **{k: v for k, v in SCHEMA["$defs"].items() if k != "text"}}
EXAMPLES = Path(__file__).parents[2] / "examples"
CATALOGUE = load_curated_catalogue(Path(__file__).parents[3] / "records")

_TYPES = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def _model(part: str) -> type[Part]:
    return part_class(part)


def _fields(part: str) -> Mapping[str, FieldInfo]:
    return _model(part).model_fields


def _is_taken(value: Any, part: str, name: str) -> bool:
    """Return whether the model takes a value for one field, whatever the others are."""
    result = _model(part).__pydantic_validator__
    try:
        result.validate_python({name: value})
    except ValueError as error:
        return not any(detail["loc"][:1] == (name,) for detail in error.errors())  # type: ignore[attr-defined]
    return True


def test_schema_is_a_json_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_schema_has_the_parts_of_the_model() -> None:
    assert set(CLASSES) == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_part_has_the_properties_of_the_model_in_order(part: str) -> None:
    assert list(PARTS[part]["properties"]) == list(_fields(part))
    assert PARTS[part]["additionalProperties"] is False


@pytest.mark.parametrize("part", PARTS)
def test_part_requires_what_the_model_requires(part: str) -> None:
    required = {name for name, info in _fields(part).items() if info.is_required()}
    assert set(PARTS[part]["required"]) == required


@pytest.mark.parametrize("part", PARTS)
def test_defaults_are_those_of_the_model(part: str) -> None:
    for name, info in _fields(part).items():
        prop = PARTS[part]["properties"][name]
        if info.is_required() or (part, name) == ("Submission", "source"):
            assert "default" not in prop, name
        else:
            default = info.get_default(call_default_factory=True)
            assert prop["default"] == ({} if isinstance(default, Part) else default), name


@pytest.mark.parametrize("part", PARTS)
def test_types_and_nullability_are_those_of_the_model(part: str) -> None:
    samples: list[Any] = ["text", 1, 1.5, True, {}, [], None]
    for name, prop in PARTS[part]["properties"].items():
        if "type" not in prop or prop.get("format") == "date-time" or "items" in prop:
            continue  # nested parts, lists and times have tests of their own
        types = prop["type"] if isinstance(prop["type"], list) else [prop["type"]]
        for sample in samples:
            by_schema = Draft202012Validator({"type": types}).is_valid(sample)
            assert _is_taken(sample, part, name) == by_schema, (name, sample)


def test_every_property_of_a_table_has_its_meaning_and_unit() -> None:
    column = load_table("configurations").column("seq_len")
    prop = SCHEMA["$defs"]["Configuration"]["properties"]["seq_len"]
    assert prop["description"] == f"{column.meaning} [token]"
    for part in PARTS.values():
        for prop in part["properties"].values():
            assert "description" in prop or "$ref" in prop or "items" in prop


@pytest.mark.parametrize("path", sorted((EXAMPLES / "valid").glob("*.json")), ids=lambda p: p.stem)
def test_valid_examples_are_valid_by_the_schema(path: Path) -> None:
    assert [*VALIDATOR.iter_errors(json.loads(path.read_bytes()))] == []


@pytest.mark.parametrize(
    "name",
    [
        "unknown_column",
        "wrong_type",
        "fraction_for_count",
        "null_for_required",
        "unknown_term",
        "unknown_flag",
        "negative_memory",
        "rank_zero",
        "value_out_of_range",
        "huge_integer",
        "bad_date",
        "control_character",
        "missing_source",
        "newer_version",
    ],
)
def test_what_a_schema_can_say_it_says(name: str) -> None:
    document = json.loads((EXAMPLES / "invalid" / f"{name}.json").read_bytes())
    assert not VALIDATOR.is_valid(document)


# Documents are made from the schema itself: valid ones, and ones with a foreign value in one place.

_TIME = "2025-03-02T09:30:00Z"
_FOREIGN = st.sampled_from(
    ["text", "", "a\x1fb", 0, -1, 7, 10**19, 0.5, -0.5, True, None, [], ["x"], {}, {"k": 1}]
)
_TEXTS = {
    "[a-z0-9][a-z0-9._-]*": st.from_regex(r"[a-z0-9][a-z0-9._-]{0,8}", fullmatch=True),
    "[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?": st.sampled_from(["2024", "2024-05", "2024-05-01"]),
    "[0-9a-f]{64}": st.just("0f" * 32),
    "[0-9a-f]{32}": st.just("0f" * 16),
}


def _values(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if "$ref" in schema and schema["$ref"] != "#/$defs/text":
        return _objects(schema["$ref"].rpartition("/")[2])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return st.one_of([_typed(kind, schema) for kind in types])


def _typed(kind: str, schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if kind == "array":
        return st.lists(_values(schema["items"]), max_size=2)
    if kind == "string":
        return _strings(schema)
    by_type: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(),
        "boolean": st.booleans(),
        "integer": st.integers(low, high),
        "number": st.floats(low or 0, high, allow_nan=False, allow_infinity=False),
        "object": st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["x", 1, None])),
    }
    return by_type[kind]


def _strings(schema: Mapping[str, Any]) -> st.SearchStrategy[str]:
    if schema.get("format") == "date-time":
        return st.just(_TIME)
    if "pattern" in schema:
        return _TEXTS[schema["pattern"].removeprefix("^(?:").removesuffix(")$")]
    return st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=5)


def _objects(part: str) -> st.SearchStrategy[dict[str, Any]]:
    schema = PARTS[part]
    required = {name: _values(schema["properties"][name]) for name in schema["required"]}
    if part == "Submission":
        required["source"] = _values(schema["properties"]["source"])
    optional = {
        name: _values(prop) for name, prop in schema["properties"].items() if name not in required
    }
    if part == "Measurement":  # within the limits of every metric
        required["value"] = st.floats(0, 1)
        optional["low"] = optional["high"] = st.none() | st.floats(0, 1)
    chosen = st.lists(st.sampled_from([*optional, ""]), max_size=4, unique=True)
    return chosen.flatmap(
        lambda names: st.fixed_dictionaries(
            {**required, **{name: optional[name] for name in names if name}}
        )
    )


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return (container, key) of every value in a document; what is inside JSON columns apart."""
    if isinstance(value, dict):
        here = [(value, key) for key in value]
        free = ("packages", "settings", "peft_config", "inferences", "provenance", "cells")
        return here + [p for key, item in value.items() if key not in free for p in _places(item)]
    if isinstance(value, list):
        here_in_list: list[tuple[Any, Any]] = [(value, index) for index in range(len(value))]
        return here_in_list + [p for item in value for p in _places(item)]
    return []


#: Properties that hold a time.
_TIMES = {
    name
    for part in PARTS.values()
    for name, schema in part["properties"].items()
    if schema.get("format") == "date-time"
}

#: What only the whole validation says: beginnings of problems that are no matter of the schema.
_BEYOND = (
    "expected that", "the same as", "unknown model", "unknown gpu", "found unit",
    "expected bytes, at least",
)  # fmt: skip


def _structure_is_valid(document: Any) -> bool:
    """Return whether the registry's own validation finds no fault that a schema could find."""
    try:
        prepare_submission(document, CATALOGUE, origin="x")
    except SubmissionError as error:
        return all(any(words in line for words in _BEYOND) for line in error.problems)
    return True


@settings(max_examples=150)
@given(_objects("Submission"))
def test_documents_made_from_the_schema_are_valid_by_the_model(document: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(document)
    Submission.model_validate(document)
    assert _structure_is_valid(document)


@settings(max_examples=300)
@given(_objects("Submission"), st.data())
def test_a_foreign_value_is_judged_alike_by_schema_and_validation(
    document: dict[str, Any], data: st.DataObject
) -> None:
    places = _places(document)
    if not places:
        return
    container, key = data.draw(st.sampled_from(places))
    foreign = data.draw(_FOREIGN)
    if key in (*_TIMES, "value") and isinstance(foreign, str):
        return  # whether a text is a time or a figure is beyond a schema
    container[key] = foreign
    assert VALIDATOR.is_valid(document) == _structure_is_valid(document)


def test_the_validators_of_the_model_and_of_the_registry_agree_on_an_unknown_key() -> None:
    document = json.loads((EXAMPLES / "invalid" / "unknown_column.json").read_bytes())
    with pytest.raises(ValueError, match="quant_bit"):
        Submission.model_validate(document)
    assert not _structure_is_valid(document)
