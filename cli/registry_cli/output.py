"""Run a query and write its rows: to stdout, or to a file that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.query.child import Child, start_child
from registry.query.model import FORMATS, GUARDED_FORMATS, Layout, Limits, Query
from registry.query.process import Worker, read_rows
from registry.store.read import build_dataset, list_problems
from registry.store.snapshot import describe_erasures, read_snapshot
from registry_cli import console
from registry_cli.group import HintedChoice
from registry_cli.options import locate
from registry_cli.output_file import open_output, validate_output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from registry.query.model import Dataset, Read, Summary
    from registry.store.folder import Location
    from registry.store.snapshot import Snapshot

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
    #: Cells that a line of a table may have; None where no terminal shows it.
    width: int | None = None
    #: Whether text that a spreadsheet would run gets an apostrophe.
    guards_formulas: bool = False


def output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--format`` and ``--output``."""
    function = click.option(
        "-o",
        "--output",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write to FILE; its extension implies the format.",
    )(function)
    function = click.option(
        "--guard-formulas",
        is_flag=True,
        expose_value=False,
        callback=_guard_formulas,
        help="In CSV and TSV, put ' before text that a spreadsheet would run as a formula.",
    )(function)
    return click.option(
        "-f",
        "--format",
        "format_name",
        type=HintedChoice(FORMATS),
        metavar="FORMAT",
        help=f"One of {', '.join(FORMATS)} (table on a terminal, csv in a pipe).",
    )(function)


_GUARDED = "registry_cli.guard_formulas"


def _guard_formulas(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's form
    context.meta[_GUARDED] = value


def at_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--at``: the folded version to read."""
    return click.option(
        "--at",
        metavar="N",
        type=click.IntRange(min=1),
        help="Read version N of the folded tables.",
    )(function)


def parse_destination(
    format_name: str | None, path: Path | None, registry_path: Path | None
) -> Destination:
    """Return where rows go; without a format, the file's extension or the terminal decides."""
    name = _choose_format(format_name, path)
    guarded = click.get_current_context().meta.get(_GUARDED, False)
    if guarded and name not in GUARDED_FORMATS:
        raise click.UsageError(
            f"--guard-formulas: found the format {name}; expected {' or '.join(GUARDED_FORMATS)}, "
            "which spreadsheets read as if it were typed; leave the option out"
        )
    if path is not None:
        validate_output(path, locate(registry_path))
        return Destination(name, path, guards_formulas=guarded)
    if name in ("parquet", "arrow") and sys.stdout.isatty():
        raise click.UsageError(f"{name} is not text for a terminal; name a file with -o")
    return Destination(name, width=terminal_width(), guards_formulas=guarded)


def _choose_format(format_name: str | None, path: Path | None) -> str:
    if format_name is not None:
        return format_name
    if path is None:
        return "table" if sys.stdout.isatty() else "csv"
    name = _SUFFIXES.get(path.suffix.lower())
    if name is None:
        raise click.UsageError(
            f"{path}: its extension implies no format; expected one of {', '.join(_SUFFIXES)}, "
            "or a format with -f"
        )
    return name


def terminal_width() -> int | None:
    """Return COLUMNS, else the terminal's width; None for a pipe or a file."""
    stated = os.environ.get("COLUMNS", "")
    if not sys.stdout.isatty() and not (stated.isascii() and stated.isdigit() and int(stated)):
        return None
    return shutil.get_terminal_size().columns


def open_dataset(registry_path: Path | None, at: int | None = None) -> Dataset:
    """Return what a query reads, with the warnings of `open_snapshot`."""
    return build_dataset(open_snapshot(registry_path, at))


def open_snapshot(registry_path: Path | None, at: int | None = None) -> Snapshot:
    """Return a registry's layers; warn of damaged journal entries, tell of pending erasures."""
    location = locate(registry_path)
    validate_version(location, at)
    snapshot = read_snapshot(location, at)
    warn_of(snapshot)
    return snapshot


def warn_of(snapshot: Snapshot) -> None:
    """Warn of what is wrong with a registry's content, and of pending erasures."""
    console.warn_all(list_problems(snapshot))
    for text in describe_erasures(snapshot):
        console.hint(text)


def validate_version(location: Location, at: int | None) -> None:
    """Raise UsageError where a version is asked of curated records, which have none."""
    if at is not None and location.own.is_curated:
        raise click.UsageError(
            f"--at {at}: {location.own.path} holds curated records, which have no versions; "
            "expected a registry of your own; leave --at out, or check out the commit you mean"
        )


def write_query(  # noqa: PLR0913 - the options of the command, by keyword
    dataset: Dataset,
    sql: str,
    params: Mapping[str, Any],
    destination: Destination,
    limits: Limits | None = None,
    *,
    layout: Layout | None = None,
) -> Summary:
    """Run a query and write its rows; ``layout`` says what a narrow terminal shows of a table."""
    layout = replace(layout or Layout(), width=destination.width)
    query = Query(
        sql,
        params,
        destination.format,
        limits or Limits(),
        layout=layout,
        guards_formulas=destination.guards_formulas,
    )
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
    return read_rows(dataset, sql, params, _take_worker())


def reader_of(dataset: Dataset) -> Read:
    """Return what runs queries over a dataset and returns their rows."""
    return lambda sql, params: read_query(dataset, sql, params)


def open_reader(registry_path: Path | None) -> Read:
    """Return what runs queries over a registry and returns their rows."""
    return reader_of(open_dataset(registry_path))


def read_sql(name: str) -> str:
    """Return one of the command's own statements."""
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def read_observed(name: str) -> str:
    """Return a statement about things of the catalogue, after what was observed of each."""
    return f"{read_sql('observed')}\n{read_sql(name)}"
