"""Fields that a chart's specification refers to and nothing gives it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Part = dict[str, Any]


def find_unknown(specification: Part, columns: Iterable[str]) -> set[str]:
    """Return the fields that are neither columns nor computed before they are used."""
    known, unknown = _transform(specification, set(columns))
    unknown |= _refer(specification.get("facet", {})) - known
    for layer in specification.get("spec", specification)["layer"]:
        of_layer, missing = _transform(layer, known)
        unknown |= missing | (_refer(layer["encoding"]) - of_layer)
    return unknown


def _transform(part: Part, known: set[str]) -> tuple[set[str], set[str]]:
    """Return the fields after the transforms of a part, and those that these lack."""
    unknown: set[str] = set()
    for step in part.get("transform", ()):
        unknown |= _refer(step) - known
        computed = {value for key, value in _pairs(step) if key == "as"}
        known = (set(step["groupby"]) if "aggregate" in step else known) | computed
    return known, unknown


def _refer(part: Any) -> set[str]:
    """Return the fields that a transform or an encoding names, by themselves or in expressions."""
    found: set[str] = set()
    for key, value in _pairs(part):
        if key in ("field", "groupby"):
            found |= {value} if isinstance(value, str) else set(value)
        if key in ("calculate", "filter", "test") and isinstance(value, str):
            found |= set(re.findall(r"\bdatum\.(\w+)", value))
    return found - {""}  # of a count of rows


def _pairs(part: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(part, list):
        for each in part:
            yield from _pairs(each)
    if isinstance(part, dict):
        for key, value in part.items():
            if isinstance(value, dict | list) and key != "groupby":
                yield from _pairs(value)
            if not isinstance(value, dict):
                yield key, value
