"""From a document somebody hands in to a canonical submission, or to a list of what is wrong.

All problems of a document are collected and reported together, each with its place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_core import ValidationError

from registry.contract import load_metrics, load_table, vocabulary
from registry.derive import derive_figures, fill_configuration
from registry.errors import SubmissionError, UnitError, did_you_mean, excerpt
from registry.facts import collect_facts, format_fact
from registry.identity import canonical_json, document_id
from registry.rules import check_rules
from registry.submission_schema import NestedSpec, PartSpec, part_spec, submission_validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic_core import ErrorDetails

    from registry.catalogue import Catalogue
    from registry.contract import Column

#: Characters that no string may hold: some separate the parts of what ids are computed over, and
#: half of a surrogate pair cannot be written as UTF-8.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")

_EXPECTED_TEXT = "expected text without control characters and unpaired surrogates"

#: What is expected where pydantic finds another type, in the user's words.
_EXPECTED_TYPES = {
    "string_type": "text",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "dict_type": "an object",
    "list_type": "a list",
}
_UNQUOTED = ("an integer", "a number", "true or false")

_LARGEST_INTEGER = 2**63 - 1

#: Most problems that are reported of one document.
_MOST_PROBLEMS = 20


@dataclass(frozen=True)
class Prepared:
    """A valid submission: its id, its canonical text and its plain form."""

    submission_id: str
    text: str
    document: dict[str, Any]


def prepare_submission(document: Any, catalogue: Catalogue, *, origin: str) -> Prepared:
    """Return the canonical form of a document (plain data, or a ``Submission``).

    Raises SubmissionError with every problem found: structure and types first; where these are
    right, values, references to the catalogue and the contract's cross-field rules.
    """
    if hasattr(document, "model_dump"):
        document = document.model_dump(exclude_none=True)
    validated = _parse(document, origin)
    _raise_any(list(_check_part(part_spec(), validated, "")), origin)
    plain: dict[str, Any] = _stated(part_spec(), validated)
    problems = [*_read_figures(plain), *_resolve_references(plain, catalogue)]
    _raise_any(problems, origin)
    for observation in plain.get("observations", ()):
        _fill_in(observation)
    _raise_any(list(_check_observations(plain, catalogue)), origin)
    text = canonical_json(plain)
    return Prepared(document_id(text), text, plain)


def _raise_any(problems: list[str], origin: str) -> None:
    if len(problems) > _MOST_PROBLEMS:
        more = len(problems) - _MOST_PROBLEMS
        problems = [*problems[:_MOST_PROBLEMS], f"and {more} more problems of this document"]
    if problems:
        raise SubmissionError(problems, origin=origin)


def _parse(document: Any, origin: str) -> dict[str, Any]:
    try:
        validated: dict[str, Any] = submission_validator().validate_python(document)
    except ValidationError as error:
        _raise_any([_translate(detail) for detail in error.errors()], origin)
        raise  # not reached: an error has details
    return validated


def _translate(detail: ErrorDetails) -> str:
    """Return pydantic's error in the user's words: place, found, expected, way out."""
    path = _format_path(tuple(part for part in detail["loc"] if part not in ("float", "str")))
    found = excerpt(detail.get("input"))
    match detail["type"]:
        case "extra_forbidden":
            return f"{path}: {_unknown_column(str(detail['loc'][-1]), _part_at(detail['loc']))}"
        case "missing":
            return f"{path}: missing; expected a value; add it"
        case "literal_error":
            return (
                f"{path}: found {found}; expected version 1 of the submission format; "
                "a newer one needs a newer peft-registry"
            )
    expected = _EXPECTED_TYPES.get(detail["type"]) or detail["msg"].removeprefix("expected ")
    is_quoted = isinstance(detail["input"], str) and expected in _UNQUOTED
    way_out = "; write it without quotes" if is_quoted else ""
    return f"{path}: found {found}; expected {expected}{way_out}"


def _unknown_column(name: str, part: PartSpec) -> str:
    hint = did_you_mean(name, part.names)
    known = ", ".join(part.names)
    if part.table:
        known = f"a column that `registry query --schema {part.table}` lists"
    return f"unknown column{hint}; expected {known}; rename or remove it"


def _part_at(loc: tuple[int | str, ...]) -> PartSpec:
    """Return the part that holds this place."""
    part = part_spec()
    for step in loc[:-1]:
        if isinstance(step, str) and step in part.nested:
            part = part.nested[step].part
    return part


def _format_path(loc: tuple[int | str, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.removeprefix(".") or "the document"


def _check_part(spec: PartSpec, part: dict[str, Any], path: str) -> Iterator[str]:
    """Yield what the contract finds wrong with the values of a part and its nested parts."""
    for name, value in part.items():
        place = f"{path}.{name}" if path else name
        if name in spec.nested:
            yield from _check_nested(spec.nested[name], value, place)
        elif name in spec.columns and value is not None:
            yield from _check_column(spec.columns[name], value, place)


def _check_nested(nested: NestedSpec, value: Any, place: str) -> Iterator[str]:
    if not nested.many:
        yield from _check_part(nested.part, value, place)
        return
    for index, item in enumerate(value):
        yield from _check_part(nested.part, item, f"{place}[{index}]")


def _check_column(column: Column, value: Any, place: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _check_column(column, item, f"{place}[{index}]")
        return
    problem = check_value(column, value)
    if problem:
        yield f"{place}: found {excerpt(value)}; {problem}"


def check_value(column: Column, value: Any) -> str | None:
    """Return what the contract finds wrong with one value, or None."""
    if isinstance(value, str):
        return _check_text(column, value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _check_number(column.min, column.max, value)
    if isinstance(value, dict):
        return _check_json(value)
    return None


def _check_text(column: Column, value: str) -> str | None:
    if column.vocabulary and value not in vocabulary(column.vocabulary):
        known = vocabulary(column.vocabulary)
        hint = did_you_mean(value, known).removeprefix("; ")
        return f"{hint + '; ' if hint else ''}expected one of {', '.join(known)}"
    if column.pattern and not re.fullmatch(column.pattern, value):
        meaning = column.meaning[:1].lower() + column.meaning[1:].rstrip(".")
        return f"expected text that matches {column.pattern} ({meaning})"
    if _CONTROL.search(value):
        return _EXPECTED_TEXT
    return None


def _check_number(low: float | None, high: float | None, value: float) -> str | None:
    if low is not None and value < low:
        return f"expected at least {low}"
    if high is not None and value > high:
        return f"expected at most {high}"
    if isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
        return "expected at most 2^63 - 1"
    return None


def _check_json(value: dict[str, Any]) -> str | None:
    try:
        text = canonical_json(value)
    except (TypeError, ValueError) as error:
        return f"{error}; expected a JSON object"
    return _EXPECTED_TEXT if _CONTROL.search(text) else None


def _stated(spec: PartSpec, part: dict[str, Any]) -> dict[str, Any]:
    """Return what a part states: nulls and empty lists left out, lists of names sorted."""
    stated = {}
    for name, value in part.items():
        if name in spec.nested and value:
            nested = spec.nested[name]
            stated[name] = (
                [_stated(nested.part, item) for item in value]
                if nested.many
                else _stated(nested.part, value)
            )
        elif value not in ([], {}, None):
            stated[name] = sorted(set(value)) if isinstance(value, list) else value
    return stated


def _read_figures(plain: dict[str, Any]) -> Iterator[str]:
    """Replace figures given as text by their value; yield what cannot be read."""
    for index, observation in enumerate(plain.get("observations", ())):
        for place, figure in enumerate(observation.get("measurements", ())):
            path = f"observations[{index}].measurements[{place}]"
            metric = load_metrics()[figure["metric"]]
            if isinstance(figure["value"], str):
                try:
                    figure.update(
                        read_figure(figure["metric"], figure["value"], where=f"{path}.value")
                    )
                except UnitError as error:
                    yield f"{error}; write it with its unit, or as a number ({metric.unit})"
                    continue
            problem = _check_number(metric.min, metric.max, figure["value"])
            if problem:
                yield f"{path}.value: found {figure['value']}; {problem} ({metric.unit})"


def read_figure(metric: str, text: str, *, where: str) -> dict[str, Any]:
    """Return value, bounds, raw text and reading of a figure that is given as text.

    Raises UnitError where the text does not say a quantity of the metric's unit.
    """
    from registry import units  # noqa: PLC0415 - only where a figure is given as text

    unit = load_metrics()[metric].unit
    return units.parse_figure(unit, text, where=where, per=units.TIME_OF.get(metric))


def _resolve_references(plain: dict[str, Any], catalogue: Catalogue) -> Iterator[str]:
    """Replace aliases of models and GPUs by ids; yield those that nothing describes."""
    for part in ("models", "gpus"):
        for index, row in enumerate(plain.get(part, ())):
            problem = catalogue.contradiction(part, row)
            if problem:
                yield f"{part}[{index}]: {problem}"
    known = catalogue.extended(plain.get("models", ()), plain.get("gpus", ()))
    for index, observation in enumerate(plain.get("observations", ())):
        configuration = observation["configuration"]
        path = f"observations[{index}].configuration"
        yield from _resolve(
            configuration, "model_id", path, known.resolve_model, known.unknown_model
        )
        yield from _resolve(configuration, "gpu_id", path, known.resolve_gpu, known.unknown_gpu)


def _resolve(
    configuration: dict[str, Any],
    column: str,
    path: str,
    resolve: Callable[[str], str | None],
    unknown: Callable[[str], str],
) -> Iterator[str]:
    name = configuration.get(column)
    if name is None:
        return
    resolved = resolve(name)
    if resolved is None:
        yield f"{path}.{column}: {unknown(name)}"
    else:
        configuration[column] = resolved


def _fill_in(observation: dict[str, Any]) -> None:
    """Fill in what follows exactly from what is stated."""
    fill_configuration(observation["configuration"])
    figures = observation.get("measurements", [])
    for figure in figures:
        figure["value"] = float(figure["value"])
    derived = derive_figures(observation["configuration"], figures)
    if derived:
        observation["measurements"] = [*figures, *derived]
    if not observation.get("citations"):
        observation["citations"] = [{"locator": "submission"}]


def _check_observations(plain: dict[str, Any], catalogue: Catalogue) -> Iterator[str]:
    known = catalogue.extended(plain.get("models", ()), plain.get("gpus", ()))
    for index, observation in enumerate(plain.get("observations", ())):
        path = f"observations[{index}]"
        yield from _check_keys(observation, path)
        configuration = observation["configuration"]
        gpu = known.gpus.get(configuration.get("gpu_id", ""), {})
        figures = observation.get("measurements", [])
        facts = collect_facts(configuration, observation, figures, gpu.get("memory_bytes"))
        for rule in check_rules(facts):
            found = _format_facts(rule.require, facts)
            yield f"{path}: found {found}; expected that {rule.expected}; {rule.way_out}"


def _format_facts(require: str, facts: dict[str, Any]) -> str:
    names = [name for name in re.findall(r"[a-z_][a-z_0-9]*", require) if name in facts]
    stated = {name: facts[name] for name in names if facts[name] is not None}
    return ", ".join(f"{name} = {format_fact(value)}" for name, value in stated.items())


def _check_keys(observation: dict[str, Any], path: str) -> Iterator[str]:
    """Yield what stands twice in one observation although it may stand once."""
    for part, table in (
        ("measurements", "measurements"),
        ("citations", "citations"),
        ("samples", "samples"),
    ):
        key = [
            name for name in load_table(table).key if name not in ("observation_id", "source_id")
        ]
        seen: dict[tuple[Any, ...], int] = {}
        for index, row in enumerate(observation.get(part, ())):
            values = tuple(row.get(name) for name in key)
            if values in seen:
                stated = ", ".join(str(value) for value in values if value is not None)
                yield (
                    f"{path}.{part}[{index}]: the same as {part}[{seen[values]}] ({stated}); "
                    f"expected each {', '.join(key)} once; remove one"
                )
            seen.setdefault(values, index)
