"""The parts of a submission as pydantic classes, made from the contract.

They know names, types and nesting, so that an editor can complete them; ranges, words and patterns
are checked when the submission is added.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, create_model

from registry.submission.schema import parse_timestamp
from registry.submission.spec import NestedSpec, part_spec


class SubmissionPart(BaseModel):
    """A part of a submission, with the columns that the contract names."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _parse_time(value: object) -> datetime:
    return datetime.fromisoformat(parse_timestamp(value))


_TYPES: dict[str, Any] = {
    "string": str,
    "int64": int,
    "float64": float,
    "bool": bool,
    "json": dict[str, Any],
    "list<string>": list[str],
    "timestamp": Annotated[AwareDatetime, BeforeValidator(_parse_time)],
}


@lru_cache(maxsize=16)
def part_class(name: str) -> type[SubmissionPart]:
    """Return the class of one part, such as ``Observation``."""
    part = part_spec(name)
    fields: dict[str, Any] = {}
    if name == "Submission":
        fields["schema_version"] = (int, 1)
    for column in part.columns.values():
        kind = float | str if column.name in part.as_text else _TYPES[column.type]
        if column.name in part.defaults:
            fields[column.name] = (kind, part.defaults[column.name])
        elif column.required:
            fields[column.name] = (kind, Field(description=column.meaning))
        else:
            fields[column.name] = (kind | None, Field(None, description=column.meaning))
    fields |= {key: _nested_field(nested) for key, nested in part.nested.items()}
    return create_model(name, __base__=SubmissionPart, __module__="registry.submission", **fields)


def _nested_field(nested: NestedSpec) -> Any:
    kind: Any = part_class(nested.part.name)
    if nested.many:
        return (list[kind], Field(default_factory=list))
    if nested.required:
        return (kind, ...)
    return (kind | None, None) if nested.optional else (kind, Field(default_factory=kind))
