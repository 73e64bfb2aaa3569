"""What every part of a mapping has in common: only the named keys, and checks as it is read."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, model_validator

from registry.errors import did_you_mean
from registry.reading.patterns import compile_pattern
from registry.tables.values import Stated, parse_values, target_column
from registry.units import GLUED_PATTERNS


class Spec(BaseModel):
    """A part of a mapping: no key but the named ones."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _name_unknown_keys(cls, document: Any) -> Any:
        for key in document if isinstance(document, dict) else ():
            if key not in cls.model_fields:
                known = ", ".join(cls.model_fields)
                hint = did_you_mean(str(key), cls.model_fields)
                raise ValueError(f"unknown key {key!r}{hint}; expected one of {known}")
        return document


def _parse_regex(pattern: Any) -> Any:
    if isinstance(pattern, str) and pattern not in GLUED_PATTERNS:
        compile_pattern(pattern)
    return pattern


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _check_target(name: str) -> str:
    target_column(name)
    return name


def _parse_defaults(document: Any) -> dict[str, Stated]:
    return {} if document is None else parse_values(document)


Target = Annotated[str, AfterValidator(_check_target)]
Values = Annotated[dict[str, Stated], BeforeValidator(parse_values)]
#: Of these, a draft's lines may all be deleted.
Defaults = Annotated[dict[str, Stated], BeforeValidator(_parse_defaults)]
Templates = Annotated[dict[str, Stated], BeforeValidator(partial(parse_values, may_refer=True))]
Regex = Annotated[str, BeforeValidator(_parse_regex)]
Regexes = Annotated[list[Regex], BeforeValidator(_as_list)]
Names = Annotated[list[str], BeforeValidator(_as_list)]
