"""Settings that the user gives beside the files: ``column=text``, read by the contract's types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from registry.contract import Column, load_table
from registry.errors import SubmissionError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Columns that may be given, by the part of the submission they belong to.
_TABLES: Final = {
    "configuration": ("configurations", None),
    "environment": ("environments", None),
    "observation": (
        "observations",
        ("model_reported", "observed_at", "run_id", "evidence", "outcome", "outcome_detail"),
    ),
    "source": ("sources", None),
}

_TRUTH: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_overrides(texts: Iterable[str]) -> dict[str, str]:
    """Return ``name=value`` texts as a mapping.

    >>> parse_overrides(["gpu_id=rtx-4090"])
    {'gpu_id': 'rtx-4090'}

    Raises SubmissionError where a text has no ``=``, names no column or gives a value that the
    column cannot hold.
    """
    pairs = {}
    for text in texts:
        column, equals, value = text.partition("=")
        if not equals or not value.strip():
            raise SubmissionError(
                f"found {text!r}; expected column=value, such as gpu_id=rtx-4090", origin="--set"
            )
        parse_override(column.strip(), value.strip())
        pairs[column.strip()] = value.strip()
    return pairs


def validate_overrides(overrides: Mapping[str, str]) -> None:
    """Raise SubmissionError where a setting names no column, or one that cannot hold its value."""
    for column, text in overrides.items():
        parse_override(column, text)


def part_of_column(column: str) -> str:
    """Return the part of a submission that a column belongs to; raise SubmissionError for none."""
    for part in _TABLES:
        if column in _columns(part):
            return part
    known = [name for part in _TABLES for name in _columns(part)]
    raise SubmissionError(
        f"unknown column {column!r}{did_you_mean(column, known)}; expected a column of the "
        "configuration, the environment or the source",
        origin="--set",
    )


def parse_override(column: str, text: str) -> Any:
    """Return the value of a column given as text; raise SubmissionError where it is none."""
    kind = _columns(part_of_column(column))[column].type
    try:
        return _parse(kind, text)
    except (ValueError, KeyError):
        raise SubmissionError(
            f"{column}: found {text!r}; expected a value of type {kind}", origin="--set"
        ) from None


def _parse(kind: str, text: str) -> Any:
    match kind:
        case "int64":
            return int(text)
        case "float64":
            return float(text)
        case "bool":
            return _TRUTH[text.lower()]
        case "list<string>":
            return sorted({item.strip() for item in text.split(",") if item.strip()})
    return text


def _columns(part: str) -> dict[str, Column]:
    table, only = _TABLES[part]
    columns = {column.name: column for column in load_table(table).columns}
    hashed = ("configuration_id", "environment_id")
    return {
        name: column
        for name, column in columns.items()
        if (only is None or name in only) and name not in hashed and column.type != "json"
    }
