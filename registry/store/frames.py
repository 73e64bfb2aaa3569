"""Tables as data frames, on their way to documents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from registry.contract import TABLES, load_table
from registry.contract.frames import check_frame
from registry.errors import SubmissionError, did_you_mean
from registry.store.compose import compose_submissions
from registry.submission.spec import part_spec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from registry.contract import Column
    from registry.submission.spec import PartSpec

#: What nobody submits: it is made from the rest.
_MADE = ("submissions", "retractions")


def compose_frames(frames: Mapping[str, pd.DataFrame]) -> Iterator[dict[str, Any]]:
    """Yield the submissions that hold what tables of data frames hold.

    Raises SubmissionError with every problem that the contract finds in any of them.
    """
    known = [name for name in TABLES if name not in _MADE]
    problems = [
        f"{name}: no such table{did_you_mean(name, known)}; expected some of {', '.join(known)}"
        for name in frames
        if name not in known
    ]
    problems += [
        text
        for name, frame in frames.items()
        if name in known
        for text in check_frame(name, frame, _columns_as_stated(name))
    ]
    problems = problems or _check_references(frames)
    if problems:
        raise SubmissionError(problems, origin="frames")
    yield from compose_submissions({name: _rows(name, frame) for name, frame in frames.items()})


#: Ids that only tie the rows of frames together, because the registry computes its own.
_TIES = ("observation_id", "configuration_id", "environment_id")


def _columns_as_stated(name: str) -> tuple[Column, ...]:
    """Return the columns of a table: any text is a tie, and what JSON may leave out, rows may."""
    optional = {*_defaults(part_spec(), name)}
    if name == "observations":
        optional.add("environment_id")
    return tuple(
        replace(
            column,
            pattern=None if column.name in _TIES else column.pattern,
            required=column.required and column.name not in optional,
        )
        for column in load_table(name).columns
    )


def _defaults(part: PartSpec, table: str) -> Iterator[str]:
    """Yield the columns of a table that a submission has a default for."""
    if part.table == table:
        yield from part.defaults
    for nested in part.nested.values():
        yield from _defaults(nested.part, table)


def _check_references(frames: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return the references to rows that no frame has; models and GPUs may be in the catalogue."""
    problems = []
    for name, frame in frames.items():
        for column in load_table(name).columns:
            table = column.references
            if table is None or table in ("models", "gpus", "sources") or column.name not in frame:
                continue
            there = set(frames[table][column.name]) if table in frames else set()
            missing = sorted(set(frame[column.name].dropna()) - there)
            if missing and not (table == "environments" and table not in frames):
                problems.append(
                    f"{name}.{column.name}: found {missing[0]!r}; expected a row of {table}"
                )
    return problems


def _rows(name: str, frame: pd.DataFrame) -> list[dict[str, Any]]:
    types = {column.name: column.type for column in load_table(name).columns}
    rows: list[dict[Any, Any]] = frame.to_dict("records")
    return [
        {key: _plain(types[key], value) for key, value in row.items() if not _is_missing(value)}
        for row in rows
    ]


def _plain(kind: str, value: Any) -> Any:
    match kind:
        case "int64":
            return int(value)
        case "float64":
            return float(value)
        case "bool":
            return bool(value)
        case "timestamp":
            return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value
        case "list<string>":
            return list(value)
    return value


def _is_missing(value: Any) -> bool:
    return value is None or (
        not isinstance(value, list) and pd.api.types.is_scalar(value) and pd.isna(value)
    )
