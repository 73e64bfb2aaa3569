"""The model of a plan: which keys stand where, made of the settings of a trial.

Plans are validated with it, and their JSON Schema, reference and template are made from it. All
problems of a document are collected, each with its place.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
)

from registry.errors import RegistryError, SourceError, did_you_mean, excerpt
from registry.measure.running.methods import installed_methods, known_methods
from registry.measure.running.model_sources import check_config, is_number
from registry.measure.trial_settings import (
    ABOUT,
    BOUNDS,
    CHOICES,
    NAMES,
    PEFT_TEXTS,
    TYPES,
    Settings,
)
from registry.submission.messages import format_path
from registry.units import parse_figure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic_core import ErrorDetails

#: Settings that a plan writes in another way: as ``repeats`` and ``memory_limit``.
_NOT_IN_PLANS = ("repeat", "memory_limit_bytes")

#: What a trial may be told in a plan, in its matrix and in its further tables.
TRIAL_KEYS = (*(name for name in NAMES if name not in _NOT_IN_PLANS), "memory_limit")

#: Keys of a plan beside those, and what they mean.
PLAN_KEYS = {
    "name": "What the plan and the source of its records are called; the file's name if left out.",
    "description": "What it is for.",
    "repeats": "How often each trial is run; compare needs two for an interval.",
    "matrix": "Settings and the lists of their values; all combinations are run.",
    "exclude": "Combinations to leave out: those that have all the values of one table.",
    "include": "Trials in addition to the matrix: the settings that differ from the plan's own.",
    "models": "Models by name: the fields of a transformers configuration, model_type among them.",
}

#: Most problems that are reported for one plan.
MOST_PROBLEMS = 20

_LONGEST_TEXT = 4096
_LONGEST_NAME = 200

#: Methods that a mistyped one is most likely to be, before those with stranger names.
_COMMON_METHODS = ("full", "lora", "dora")


class PlanError(SourceError):
    """A plan is not valid; ``problems`` holds one message per place."""

    def __init__(self, problems: Iterable[str], *, origin: str) -> None:
        self.problems = list(dict.fromkeys(problems))
        shown = self.problems[:MOST_PROBLEMS]
        if more := len(self.problems) - len(shown):
            shown.append(f"and {more} more problems in this plan")
        super().__init__("\n".join(f"{origin}: {problem}" for problem in shown))


def _validate_text(value: str) -> str:
    if not (value.isprintable() and 0 < len(value) <= _LONGEST_TEXT):
        raise ValueError(f"found {excerpt(value)}; expected a name without control characters")
    return value


def _validate_name(value: str) -> str:
    if not value.isprintable() or len(value) > _LONGEST_NAME:
        raise ValueError(f"found {excerpt(value)}; expected a short text")
    return value


def _validate_method(value: str) -> str:
    known = known_methods()
    if value not in known and value not in installed_methods():
        hint = did_you_mean(value, _COMMON_METHODS) or did_you_mean(value, known)
        raise ValueError(
            f"found {excerpt(value)}{hint}; expected full or a method of "
            f"PEFT: {', '.join(name for name in known if name != 'full')}"
        )
    return value


def _validate_targets(value: list[str]) -> tuple[str, ...]:
    if len(value) > 1 and "all-linear" in value:
        raise ValueError(f"found {excerpt(value)}; expected all-linear alone, or names of modules")
    return tuple(sorted(set(value)))


def _as_list(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    return list(value) if isinstance(value, tuple) else value


def _validate_peft(table: dict[str, Any]) -> dict[str, Any]:
    for name, value in table.items():
        if not (_is_plain(value) or (name in PEFT_TEXTS and _is_text(value))):
            raise ValueError(
                f".{name}: found {excerpt(value)}; expected a number, true or false, or a list of "
                f"numbers; texts only for {', '.join(PEFT_TEXTS)}, because the others name code "
                "or files that PEFT would load"
            )
    return table


def _is_plain(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return all(map(is_number, items))


def _is_text(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return all(isinstance(item, str) and item.isprintable() for item in items)


def _validate_config(config: dict[str, Any]) -> dict[str, Any]:
    try:
        return check_config(config, "")
    except SourceError as error:
        raise ValueError(str(error).removeprefix(": ")) from None


def parse_memory_limit(value: str) -> int:
    """Return a limit in bytes from text such as ``2 GiB``; raise ValueError for another text."""
    try:
        limit = int(parse_figure("byte", value, where="")["value"])
    except RegistryError as error:
        raise ValueError(str(error).removeprefix(": ")) from None
    least, most = BOUNDS["memory_limit_bytes"]
    if not least <= limit <= most:
        raise ValueError(f"found {excerpt(value)}; expected a size up to {int(most)} bytes")
    return limit


Text = Annotated[str, AfterValidator(_validate_text)]

_FORMS: dict[str, Any] = {
    "method": Annotated[str, AfterValidator(_validate_method)],
    "lora_target_modules": Annotated[
        list[Text],
        Field(min_length=1),
        BeforeValidator(_as_list),
        AfterValidator(_validate_targets),
    ],
    "peft": Annotated[dict[str, Any], AfterValidator(_validate_peft)],
    "memory_limit": Annotated[str, AfterValidator(parse_memory_limit)],
}


def value_type(name: str) -> Any:
    """Return the type of a key's value, as pydantic checks it."""
    kind = _FORMS.get(name) or (Text if TYPES[name] is str else TYPES[name])
    if name in BOUNDS:
        least, most = BOUNDS[name]
        return Annotated[kind, Field(ge=least, le=most)]
    return kind


def _axis_type(name: str) -> Any:
    """Return the type of the values of an axis; of lists, a list of lists."""
    kind = value_type(name)
    if name == "lora_target_modules":
        kind = Annotated[list[Text], Field(min_length=1), AfterValidator(_validate_targets)]
    return Annotated[list[kind], Field(min_length=1)]  # type: ignore[valid-type] # made from it


#: One number is not another: 1 is not true, "8" is not 8; only 16 is 16.0 as well.
_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def _model(name: str, types: dict[str, Any]) -> type[BaseModel]:
    """Return a model of keys that may all be left out."""
    fields: dict[str, Any] = {key: (kind, None) for key, kind in types.items()}
    return create_model(name, __config__=_STRICT, **fields)


@cache
def plan_model() -> type[BaseModel]:
    """Return the model of a document: a plan as TOML says it."""
    row = _model("Row", {name: value_type(name) for name in TRIAL_KEYS})
    matrix = _model("Matrix", {name: _axis_type(name) for name in TRIAL_KEYS})
    return _model(
        "Plan",
        {
            "name": Annotated[str, AfterValidator(_validate_name)],
            "description": str,
            "repeats": Annotated[int, Field(ge=1)],
            **{name: value_type(name) for name in TRIAL_KEYS},
            "matrix": matrix,
            "exclude": list[row],  # type: ignore[valid-type] # made from the settings
            "include": list[row],  # type: ignore[valid-type] # likewise
            "models": dict[str, Annotated[dict[str, Any], AfterValidator(_validate_config)]],
        },
    )


@cache
def _settings_model() -> type[BaseModel]:
    optional = ("dataset", "memory_limit_bytes")
    return _model(
        "Settings",
        {name: value_type(name) | None if name in optional else value_type(name) for name in NAMES},
    )


def validate_document(document: Any, origin: str) -> dict[str, Any]:
    """Return the document with its values as settings have them, its keys in their own order.

    Raises PlanError with all that is wrong.
    """
    found = _validate(plan_model(), document, origin)
    plain = _stated(found, document)
    for name in ("exclude", "include"):
        rows = zip(plain.get(name, ()), document.get(name, ()), strict=True)
        plain[name] = [_stated(row, stated) for row, stated in rows]
    plain["matrix"] = _stated(plain["matrix"], document["matrix"]) if "matrix" in plain else {}
    return plain


def _stated(model: BaseModel, document: dict[str, Any]) -> dict[str, Any]:
    return {name: getattr(model, name) for name in document}


def parse_settings(table: Any, where: str) -> Settings:
    """Return the settings in plain data; raise PlanError where it is not of their form."""
    if not isinstance(table, dict):
        raise PlanError([f"found {excerpt(table)}; expected a table of settings"], origin=where)
    if "model" not in table:
        raise PlanError(["no model; expected 'model' among the settings"], origin=where)
    return Settings(**_stated(_validate(_settings_model(), table, where), table))


def _validate(model: type[BaseModel], document: Any, origin: str) -> BaseModel:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise PlanError(map(_format_problem, error.errors()), origin=origin) from None


def _format_problem(detail: ErrorDetails) -> str:
    location = detail["loc"]
    kind, found = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        where, name = format_path(location[:-1]), str(location[-1])
        known = [*TRIAL_KEYS, *(PLAN_KEYS if len(location) == 1 else ())]
        place = "" if len(location) == 1 else f"{where}: "
        expected = f"expected one of {', '.join(sorted(known))}"
        return f"{place}unknown key {excerpt(name)}{did_you_mean(name, known)}; {expected}"
    path = format_path(location)
    if kind == "value_error":
        message = str(detail["ctx"]["error"])
        return f"{path}{message}" if message.startswith(".") else f"{path}: {message}"
    name = next((str(step) for step in reversed(location) if isinstance(step, str)), "")
    hint = did_you_mean(found, CHOICES.get(name, ())) if isinstance(found, str) else ""
    return f"{path}: found {excerpt(found)}{hint}; expected {_expected(name, detail)}"


#: What is expected where a type of pydantic's is not met.
_SHAPES = {
    "matrix": "a table",
    "exclude": "tables, as [[exclude]]",
    "include": "tables, as [[include]]",
    "models": "a table",
    "name": "a short text",
    "description": "a text",
    "repeats": "a positive integer",
}


def _expected(name: str, detail: ErrorDetails) -> str:
    location = detail["loc"]
    if location[0] == "models" and len(location) > 1:
        return "the fields of a transformers configuration"
    if location[0] == "matrix" and len(location) == 2:  # noqa: PLR2004 - the axis itself
        return "a list of lists" if name == "lora_target_modules" else "a list of values"
    if name == "lora_target_modules" and isinstance(location[-1], int):
        return "a list" if location[:-1] == ("matrix", name) else "text"
    return _SHAPES.get(name) or format_expected(name)


def format_expected(name: str) -> str:
    """Return what values a key of a trial takes, in words.

    >>> format_expected("steps")
    'an integer from 1 to 10000000'
    """
    if name in CHOICES:
        return f"one of {', '.join(CHOICES[name])}"
    if name == "method":
        return "full, or a method of PEFT"
    if name == "memory_limit":
        return "text such as '2 GiB'"
    if name == "lora_target_modules":
        return "a list of strings"
    kinds = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
    kind = kinds.get(TYPES[name], "a table")
    if name not in BOUNDS:
        return kind
    least, most = BOUNDS[name]
    return f"{kind} from {least} to {most}"


def meaning_of(name: str) -> str:
    """Return what a key of a trial means."""
    return ABOUT["memory_limit_bytes" if name == "memory_limit" else name].meaning
