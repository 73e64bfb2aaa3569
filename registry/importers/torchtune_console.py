"""What a console of torchtune has in front of its steps: the recipe, and the log's own name."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from registry.reading import ReadingError
from registry.reading.yaml_reader import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONFIG: Final = re.compile(r"Running \w+ with resolved config:")
#: Lines of a logger or of torchtune itself, which end the recipe.
_LOGGED: Final = re.compile(r"^(?:[A-Z]+:[\w.]+:|Writing logs|Step \d|W\d{4} )")
_WRITING: Final = re.compile(r"^Writing logs to .*log_(?P<second>\d{10})(?:\.\d+)?\.txt")


def read_printed_recipe(lines: Sequence[str]) -> dict[str, Any]:
    """Return the recipe that a console shows as YAML; an empty one where there is none."""
    begun = next((i for i, line in enumerate(lines) if _CONFIG.search(line)), None)
    if begun is None:
        return {}
    text = "\n".join(takewhile(lambda line: not _LOGGED.match(line), lines[begun + 1 :]))
    try:
        recipe = parse_yaml(text, origin="the recipe in the console")
    except ReadingError:
        return {}
    return recipe if isinstance(recipe, dict) else {}


def read_begun(lines: Sequence[str], stem: str) -> datetime | None:
    """Return when a log was begun, from the second in its name or in the line that names it."""
    found = re.search(r"log_(?P<second>\d{10})(?:\.\d+)?$", stem)
    found = found or next((match for line in lines if (match := _WRITING.match(line))), None)
    return datetime.fromtimestamp(int(found["second"]), tz=UTC) if found else None
