"""Read ``mapping.yaml`` strictly: every mistake with its place in the mapping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from registry.errors import SourceError, did_you_mean
from registry.sources.mapping import Mapping
from registry.submission import Source

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic_core import ErrorDetails

_LIMIT_BYTES = 4 * 2**20
_MOST_PROBLEMS = 20


class _StrictLoader(yaml.SafeLoader):
    """A safe loader that refuses a key which stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value
            if key in seen and key != "<<":
                raise yaml.constructor.ConstructorError(
                    None, None, f"found key {key!r} twice, expected it once", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def read_mapping(path: Path) -> Mapping:
    """Return the mapping in a YAML file.

    Raises:
        SourceError: the file cannot be read, is no YAML, or holds what no mapping may; all
            mistakes together, each with its place.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(
            f"{path}: cannot be read: {error.strerror}; give a readable mapping"
        ) from error
    if len(data) > _LIMIT_BYTES:
        raise SourceError(f"{path}: found {len(data)} bytes, expected at most {_LIMIT_BYTES}")
    return parse_mapping(data, origin=str(path))


def parse_mapping(data: bytes | str, *, origin: str) -> Mapping:
    """Return the mapping that YAML text says; raises SourceError as :func:`read_mapping`."""
    document = _parse_yaml(data, origin)
    if not isinstance(document, dict):
        raise SourceError(
            f"{origin}: found {type(document).__name__}, expected a mapping with the keys "
            f"{', '.join(Mapping.model_fields)}"
        )
    try:
        return Mapping.model_validate(document).read_from(origin)
    except ValidationError as error:
        raise SourceError(_format_problems(error, origin)) from None


def _parse_yaml(data: bytes | str, origin: str) -> Any:
    try:
        return yaml.load(data, Loader=_StrictLoader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise SourceError(f"{origin}{place}: {error.problem}; expected YAML") from None
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SourceError(f"{origin}: {first}; expected YAML") from None


def _format_problems(error: ValidationError, origin: str) -> str:
    problems = [f"{origin}: {_translate(detail)}" for detail in error.errors()]
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
    return f"{place}: found {detail.get('input')!r}; expected {expected}"


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
