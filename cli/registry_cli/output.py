"""Run a query and write its rows: to stdout, or to a file that appears whole or not at all."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.query.child import Child, start_child
from registry.query.model import FORMATS, Limits, Query
from registry.query.process import Worker
from registry.store.read import read_dataset
from registry_cli import console
from registry_cli.group import HintedChoice
from registry_cli.options import locate
from registry_cli.output_file import open_output, validate_output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from registry.query.model import Dataset, Summary

_SUFFIXES = {f".{name}": name for name in FORMATS} | {
    ".md": "markdown",
    ".txt": "table",
    ".ndjson": "jsonl",
    ".pq": "parquet",
}


@dataclass(frozen=True)
class Destination:
    """Where rows go, and in which format."""

    format: str
    path: Path | None = None


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--format`` and ``--output``."""
    function = click.option(
        "-o",
        "--output",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write to FILE; its extension implies the format.",
    )(function)
    return click.option(
        "-f",
        "--format",
        "format_name",
        type=HintedChoice(FORMATS),
        metavar="FORMAT",
        help=f"One of {', '.join(FORMATS)} (table on a terminal, csv in a pipe).",
    )(function)


def at_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--at``: the folded version to read."""
    return click.option(
        "--at",
        metavar="N",
        type=click.IntRange(min=1),
        help="Answer as of version N of the folded tables.",
    )(function)


def parse_destination(
    format_name: str | None, path: Path | None, registry_path: Path | None
) -> Destination:
    """Return where rows go; without a format, the file's extension or the terminal decides."""
    if path is not None:
        name = format_name or _SUFFIXES.get(path.suffix.lower())
        if name is None:
            raise click.UsageError(
                f"{path}: its extension implies no format; expected one of {', '.join(_SUFFIXES)}, "
                "or a format with -f"
            )
        validate_output(path, locate(registry_path))
        return Destination(name, path)
    name = format_name or ("table" if sys.stdout.isatty() else "csv")
    if name in ("parquet", "arrow") and sys.stdout.isatty():
        raise click.UsageError(f"{name} is not text for a terminal; name a file with -o")
    return Destination(name)


def open_dataset(registry_path: Path | None, at: int | None = None) -> Dataset:
    """Return what a query reads; warn of damaged journal entries."""
    dataset, problems = read_dataset(locate(registry_path), at)
    console.warn_all(problems)
    return dataset


def write_query(
    dataset: Dataset,
    sql: str,
    params: Mapping[str, Any],
    destination: Destination,
    limits: Limits | None = None,
) -> Summary:
    """Run a query and write its rows."""
    query = Query(sql, params, destination.format, limits or Limits())
    with _take_worker() as worker:
        if destination.path is None:
            sys.stdout.flush()
            return worker.run(dataset, query, sys.stdout.fileno())
        with open_output(destination.path) as file:
            return worker.run(dataset, query, file)


def _take_worker() -> Worker:
    """Return a worker in the child that was started early, or in another for a second query."""
    child = click.get_current_context().find_object(Child)
    return Worker(child if child and child.is_running else start_child())


def read_query(dataset: Dataset, sql: str, params: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Run a query and return its rows."""
    with _take_worker() as worker:
        rows: list[dict[str, Any]] = json.loads(worker.fetch(dataset, Query(sql, params, "json")))
        return rows


def read_sql(name: str) -> str:
    """Return one of the command's own statements."""
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")
