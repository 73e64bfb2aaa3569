"""Read ``mapping.yaml`` strictly: every mistake with its place in the mapping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from registry.errors import SourceError, did_you_mean, excerpt
from registry.reading import read_bytes
from registry.reading.yaml_reader import LARGEST_YAML, Path, find_lines, nearest_line, parse_yaml
from registry.submission import Source
from registry.tables.guess_words import OPEN
from registry.tables.mapping import SourceMapping

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path as FilePath

    from pydantic_core import ErrorDetails

_MOST_PROBLEMS = 20


def read_mapping(path: FilePath) -> SourceMapping:
    """Return the mapping in a YAML file.

    Raises:
        ReadingError: the file cannot be read, or is no YAML.
        SourceError: it holds what no mapping may; all mistakes together, each with its place.
    """
    data = read_bytes(path, limit=LARGEST_YAML, what="a mapping")
    return parse_mapping(data, origin=str(path))


def parse_mapping(data: bytes | str, *, origin: str) -> SourceMapping:
    """Return the mapping that YAML text says; raises as :func:`read_mapping` does."""
    document = parse_yaml(data, origin=origin, text_keys=True)
    if not isinstance(document, dict):
        raise SourceError(
            f"{origin}: found {type(document).__name__}, expected a mapping with the keys "
            f"{', '.join(SourceMapping.model_fields)}"
        )
    _validate_filled_in(document, origin, data)
    try:
        return SourceMapping.model_validate(document).read_from(origin, find_lines(data))
    except ValidationError as error:
        raise SourceError(_format_problems(error, origin, find_lines(data))) from None


def _validate_filled_in(document: Any, origin: str, data: bytes | str) -> None:
    """Raise SourceError where a draft has places that nobody has filled in."""
    places = list(_find_open((), document))
    if places:
        lines = find_lines(data)
        raise SourceError(
            "\n".join(
                f"{origin}, line {nearest_line(lines, place)}: {_format_place(place)}: found "
                f"{OPEN!r}, which the draft left for you to fill in; expected a value"
                for place in places
            )
        )


def _find_open(path: Path, value: Any) -> Iterator[Path]:
    if value == OPEN and "absent" not in path:
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _find_open((*path, key), inner)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _find_open((*path, place), inner)


def _format_problems(error: ValidationError, origin: str, lines: dict[Path, int]) -> str:
    problems = [
        f"{origin}, line {nearest_line(lines, detail['loc'])}: {_translate(detail)}"
        for detail in error.errors()
    ]
    if len(problems) > _MOST_PROBLEMS:
        more = len(problems) - _MOST_PROBLEMS
        problems = [*problems[:_MOST_PROBLEMS], f"{origin}: and {more} more problems"]
    return "\n".join(problems)


def _translate(detail: ErrorDetails) -> str:
    place = _format_place(detail["loc"])
    match detail["type"]:
        case "value_error":
            return f"{place}: {detail['ctx']['error']}"
        case "missing":
            return f"{place}: missing; expected a value"
        case "extra_forbidden":
            name = str(detail["loc"][-1])
            return f"{place}: unknown key{did_you_mean(name, Source.model_fields)}"
    expected = detail["msg"].removeprefix("Input should be ")
    return f"{place}: found {excerpt(detail.get('input'))}; expected {expected}"


def _format_place(loc: tuple[int | str, ...]) -> str:
    """Return a place such as ``tables[0].columns['batch size'].figure``."""
    text = ""
    for step in loc:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier() and step.isascii():
            text += f".{step}"
        else:
            text += f"[{step!r}]"
    return text.removeprefix(".") or "the mapping"
