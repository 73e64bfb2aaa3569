"""From a submitted document to a canonical submission, or to a list of what is wrong.

All problems of a document are collected and reported together, each with its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic_core import ValidationError

from registry.catalogue import Catalogue
from registry.contract import load_metrics, load_table
from registry.errors import SubmissionError, UnitError, excerpt
from registry.submission.derive import complete_observation, fill_configuration
from registry.submission.facts import collect_facts, format_fact
from registry.submission.identity import canonical_json, document_id
from registry.submission.messages import check_value, format_observation_path, format_problems
from registry.submission.rules import check_rules, rule_names
from registry.submission.schema import RECORDED, submission_validator
from registry.submission.spec import PartSpec, part_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from registry.contract import CrossFieldRule
    from registry.submission.messages import Problem

#: Most problems that are reported for one document.
_MOST_PROBLEMS = 20

#: Columns of a configuration and metrics of figures that may follow from what is stated.
_DERIVED_COLUMNS = ("n_gpus", "global_batch_size")

#: From here on, a number that is too small for bytes is of MiB: as GiB it were a terabyte.
_LEAST_MEBIBYTES = 1024
#: Below, it is of no unit that anybody writes: as GiB it were less than a MiB.
_LEAST_GIBIBYTES = 1e-3

Plain = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A valid submission: its id, its canonical text and its plain form."""

    submission_id: str
    text: str
    document: Plain


def prepare_submission(
    document: Any, catalogue: Catalogue | None, *, origin: str, is_new: bool = True
) -> Prepared:
    """Return the canonical form of a document (plain data, or a ``Submission``).

    It holds what was stated; what follows from that is derived when tables are made. Of a document
    that is recorded already (``is_new`` false) models and GPUs may be described differently from
    the catalogue of today, JSON may be nested deeper, and rules for new ones do not hold. Without a
    catalogue, as another one may have let it in, it may name what that of today calls otherwise or
    does not have, and its peaks are held against the cards that it describes itself. Raises
    SubmissionError with every problem found: structure, types and values first; where these are
    right, references to the catalogue and the cross-field rules.
    """
    if hasattr(document, "model_dump"):
        document = document.model_dump(exclude_none=True)
    plain = _stated(part_spec(), _parse(document, origin, is_new=is_new))
    known = (catalogue or Catalogue()).extended(plain.get("models", ()), plain.get("gpus", ()))
    problems: list[Problem] = [*_check_source(plain), *_read_figures(plain)]
    if catalogue is not None:
        problems += _resolve_references(plain, known)
    if catalogue is not None and is_new:
        problems += [*_check_descriptions(plain, catalogue), *_check_units(plain)]
        problems += _check_dates(plain)
    raise_problems(problems, origin)
    raise_problems(list(_check_observations(plain, known, is_new=is_new)), origin)
    text = canonical_json(plain)
    return Prepared(document_id(text), text, plain)


def raise_problems(problems: Sequence[Problem], origin: str) -> None:
    """Raise SubmissionError with the first of many problems; do nothing where there is none."""
    found = [each if isinstance(each, str) else each() for each in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        found.append(f"and {len(problems) - _MOST_PROBLEMS} more problems in this document")
    if found:
        raise SubmissionError(found, origin=origin)


def _parse(document: Any, origin: str, *, is_new: bool) -> Plain:
    context = None if is_new else RECORDED
    try:
        validated: Plain = submission_validator().validate_python(document, context=context)
    except ValidationError as error:
        raise_problems(format_problems(error), origin)
        raise  # not reached: an error has details
    return validated


def _stated(spec: PartSpec, part: Plain) -> Plain:
    """Return what a part states: nulls and empty lists left out, lists of words sorted."""
    stated = {}
    for name, value in part.items():
        nested = spec.nested.get(name)
        if value in ([], {}, None):
            continue
        if nested is None:
            stated[name] = sorted(set(value)) if isinstance(value, list) else value
        elif nested.many:
            stated[name] = [_stated(nested.part, item) for item in value]
        else:
            stated[name] = _stated(nested.part, value)
    return stated


def _check_source(plain: Plain) -> Iterator[str]:
    if "source" not in plain and ("observations" in plain or "retractions" not in plain):
        yield "source: missing; expected a value; add it"


def _read_figures(plain: Plain) -> Iterator[str]:
    """Replace figures given as text by their value; yield what cannot be read."""
    for index, observation in enumerate(plain.get("observations", ())):
        for place, figure in enumerate(observation.get("measurements", ())):
            path = f"observations[{index}].measurements[{place}].value"
            if isinstance(figure["value"], str):
                metric = load_metrics()[figure["metric"]]
                try:
                    read = read_figure(
                        figure["metric"],
                        figure["value"],
                        where=path,
                        per_gpu=figure["scope"] != "total" or _is_on_one_card(observation),
                    )
                    figure.update(read)
                except UnitError as error:
                    yield f"{error}; write it with its unit, or as a number ({metric.unit})"
                    continue
            figure["value"] = float(figure["value"])
            yield from _check_range(figure, path)


def _is_on_one_card(observation: Plain) -> bool:
    configuration = dict(observation["configuration"])
    fill_configuration(configuration)
    return configuration.get("n_gpus") == 1


def _check_range(figure: Plain, path: str) -> Iterator[str]:
    """Yield where a figure, or else a bound of it, lies outside the range of its metric."""
    metric = load_metrics()[figure["metric"]]
    for name in ("value", "low", "high"):
        value = figure.get(name)
        if value is None:
            continue
        where = path if name == "value" else f"{path.removesuffix('.value')}.{name}"
        if metric.min is not None and value < metric.min:
            yield f"{where}: found {value}; expected at least {metric.min} ({metric.unit})"
            return
        if metric.max is not None and value > metric.max:
            yield f"{where}: found {value}; expected at most {metric.max} ({metric.unit})"
            return


def _check_units(plain: Plain) -> Iterator[str]:
    """Yield figures too small for their unit; one of a difference, or a spread, may be small."""
    for index, observation in enumerate(plain.get("observations", ())):
        if "memory_is_delta" in observation.get("flags", ()):
            continue
        for place, figure in enumerate(observation.get("measurements", ())):
            least, value = load_metrics()[figure["metric"]].least, figure["value"]
            is_read = isinstance(value, float) and figure["statistic"] != "std"
            if least and is_read and 0 < value < least:
                path = f"observations[{index}].measurements[{place}].value"
                yield f"{path}: found {value}; expected bytes, at least {least}; {_meant(figure)}"


def _meant(figure: Plain) -> str:
    """Return the likeliest unit of a figure of memory that is too small for bytes."""
    if "raw" in figure or figure["value"] < _LEAST_GIBIBYTES:
        return "check the unit"
    unit = "GiB" if figure["value"] < _LEAST_MEBIBYTES else "MiB"
    text = f"{format_fact(figure['value'])} {unit}"
    size = read_figure(figure["metric"], text, where="")["value"]
    return f'it looks like {unit}: {text} = {size}; write it in bytes, or with its unit, "{text}"'


def read_figure(metric: str, text: str, *, where: str, per_gpu: bool = False) -> dict[str, Any]:
    """Return value, bounds, raw text and reading of a figure that is given as text.

    ``per_gpu`` says whether it is that of one GPU, so that a rate may be in tokens/s/gpu.
    Raises UnitError where the text does not say a quantity of the metric's unit.
    """
    from registry import units  # noqa: PLC0415 - only where a figure is given as text

    unit = load_metrics()[metric].unit
    per = units.TIME_OF.get(metric)
    return units.parse_figure(unit, text, where=where, per=per, per_gpu=per_gpu)


def _check_descriptions(plain: Plain, catalogue: Catalogue) -> Iterator[str]:
    """Yield models and GPUs that are not described as they are known."""
    for part in ("models", "gpus"):
        for index, row in enumerate(plain.get(part, ())):
            problem = catalogue.contradiction(part, row)
            if problem:
                yield f"{part}[{index}]: {problem}"


def _resolve_references(plain: Plain, known: Catalogue) -> Iterator[Problem]:
    """Replace aliases of models and GPUs by ids; yield those that nothing describes."""
    for index, observation in enumerate(plain.get("observations", ())):
        configuration = observation["configuration"]
        path = f"observations[{index}].configuration"
        yield from _resolve(
            configuration, "model_id", path, known.resolve_model, known.unknown_model
        )
        yield from _resolve(configuration, "gpu_id", path, known.resolve_gpu, known.unknown_gpu)


def _resolve(
    configuration: Plain,
    column: str,
    path: str,
    resolve: Callable[[str], str | None],
    unknown: Callable[[str], str],
) -> Iterator[Problem]:
    name = configuration.get(column)
    if name is None:
        return
    resolved = resolve(name)
    if resolved is None:
        yield lambda: f"{path}.{column}: {unknown(name)}"
    else:
        configuration[column] = resolved


def _check_observations(plain: Plain, known: Catalogue, *, is_new: bool) -> Iterator[str]:
    for index, observation in enumerate(plain.get("observations", ())):
        path = f"observations[{index}]"
        yield from _check_keys(observation, path)
        complete = complete_observation(observation)
        yield from _check_derived(observation, complete, path)
        configuration = complete["configuration"]
        gpu = known.gpus.get(configuration.get("gpu_id", ""), {})
        figures = complete.get("measurements", [])
        facts = collect_facts(configuration, complete, figures, gpu.get("memory_bytes"))
        for rule in check_rules(facts, is_new=is_new):
            found = _format_facts(rule, facts)
            place = format_observation_path(index, observation)
            yield f"{place}: found {found}; expected that {rule.expected}; {rule.way_out}"


def _check_derived(observation: Plain, complete: Plain, path: str) -> Iterator[str]:
    """Yield derived values outside the range of their column or metric."""
    columns = load_table("configurations")
    for name in _DERIVED_COLUMNS:
        value = complete["configuration"].get(name)
        if value is not None and name not in observation["configuration"]:
            problem = check_value(columns.column(name), value)
            if problem:
                place = f"{path}.configuration.{name}"
                yield f"{place}: found {excerpt(value)}, which follows from the others; {problem}"
    n_stated = len(observation.get("measurements", ()))
    for figure in complete.get("measurements", ())[n_stated:]:
        place = f"{path}: {figure['metric']}, derived as {figure['reason']}"
        yield from _check_range(figure, place)


def _format_facts(rule: CrossFieldRule, facts: Plain) -> str:
    stated = {name: facts[name] for name in rule_names(rule) if facts[name] is not None}
    return ", ".join(f"{name} = {format_fact(value)}" for name, value in stated.items())


def _check_keys(observation: Plain, path: str) -> Iterator[str]:
    """Yield what appears twice in one observation although it may appear only once."""
    for part in ("measurements", "citations", "samples"):
        key = [n for n in load_table(part).key if n not in ("observation_id", "source_id")]
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


# Dates of new documents: days that there are, and none that are still to come.

#: Clocks differ, and a day that is given without a time may have begun elsewhere.
_SLACK = timedelta(days=1)


def _check_dates(plain: dict[str, Any]) -> Iterator[str]:
    """Yield a date of publication that no calendar has, and what is said to happen later than now.

    The columns' own rules hold at any time; these hold while a document is added.
    """
    now = datetime.now(UTC)
    latest = now + _SLACK
    clock = f"by this machine's clock it is {now:%Y-%m-%d}; correct the date, or the clock"
    published = plain.get("source", {}).get("published_on")
    if published is not None:
        place = f"source.published_on: found {excerpt(published)}; expected"
        try:
            day = date.fromisoformat(f"{published}-01-01"[:10])
        except ValueError:
            yield f"{place} a date of the calendar, such as 2024-05-31, 2024-05 or 2024; correct it"
        else:
            if day > latest.date():
                yield f"{place} a date that has passed: {clock}"
    for index, observation in enumerate(plain.get("observations", ())):
        observed = observation.get("observed_at")
        if observed is not None and datetime.fromisoformat(observed) > latest:
            yield (
                f"observations[{index}].observed_at: found {observed}; expected a time that has "
                f"passed: {clock}"
            )
