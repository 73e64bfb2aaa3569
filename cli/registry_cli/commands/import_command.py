"""``registry import``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.errors import SubmissionError
from registry.sources.logs import import_source
from registry.store.add import add_submissions
from registry.store.snapshot import load_catalogue
from registry.submission.spec import part_spec
from registry.tables import draft_mapping, format_listing, read_mapping, read_tables
from registry.text import format_count
from registry.units import format_memory
from registry_cli import console
from registry_cli.options import locate, registry_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.store.folder import Location
    from registry.tables import ImportResult


@click.command(name="import")
@click.argument("document", metavar="DOC", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--mapping",
    metavar="M.yaml",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="What the tables' columns mean; without it, the tables are listed.",
)
@click.option("--draft", is_flag=True, help="Print a draft of a mapping.")
@click.option("--dry-run", is_flag=True, help="Show what would be recorded, next to the cells.")
@click.option("--print", "prints", is_flag=True, help="Print the submission and record nothing.")
@registry_option
def command(
    document: Path,
    *,
    mapping: Path | None,
    draft: bool,
    dry_run: bool,
    prints: bool,
    registry_path: Path | None,
) -> None:
    """Record the tables of a document, as a mapping describes them.

    DOC is a document (Markdown, HTML, reStructuredText, CSV, TSV, Excel, JSON, JSON lines, YAML
    or a notebook), or a folder of CSV files or of packed logs. In Markdown and plain text, tables
    that programs draw (with dashes, bars or boxes) are read too. Without a mapping, its tables
    are listed, with what their columns look like. docs/mapping.md explains mappings.

    \b
    Examples:
      registry import records/sources/llama2-lora-3090
      registry import records/sources/llama2-lora-3090 --draft
      registry import records/sources/llama2-lora-3090 \\
          --mapping records/sources/llama2-lora-3090/mapping.yaml --dry-run
    """  # noqa: D301 - \b keeps the example's lines
    location = locate(registry_path)
    if mapping is None:
        _validate_no_mapping(dry_run=dry_run, prints=prints)
        _describe(document, location, draft=draft)
        return
    if draft:
        raise click.UsageError("--draft writes a mapping; leave --mapping out.")
    result = import_source(document, read_mapping(mapping), load_catalogue(location))
    if result.problems:
        raise SubmissionError(list(result.problems), origin="")
    for note in result.notes:
        console.hint(f"note: {note}")
    if prints:
        console.text(json.dumps(result.submission, indent=1, ensure_ascii=False))
    else:
        _record(document, location, result, dry_run=dry_run)


def _validate_no_mapping(*, dry_run: bool, prints: bool) -> None:
    """Refuse options that mean nothing where nothing is read."""
    for name, is_given in (("--dry-run", dry_run), ("--print", prints)):
        if is_given:
            raise click.UsageError(
                f"{name} needs --mapping; draft one with: "
                "registry import DOC --draft > mapping.yaml"
            )


def _describe(document: Path, location: Location, *, draft: bool) -> None:
    """List the tables of a document, or draft a mapping of them."""
    found = read_tables(document)
    if not found.tables:
        raise SubmissionError(
            "found no table; expected one in Markdown, HTML, reStructuredText, CSV, JSON, YAML, a "
            "notebook or a workbook; save tables of another kind, such as LaTeX, as one of these",
            origin=str(document),
        )
    if draft:
        console.text(draft_mapping(document, found, load_catalogue(location)))
        return
    console.answer(format_listing(found))
    name = shlex.quote(str(document))
    console.hint(f"draft a mapping with: registry import {name} --draft > mapping.yaml")


def _warn_of_earlier(location: Location, submission_id: str, result: ImportResult) -> None:
    """Say which submissions read the same file before: a mended mapping adds, it replaces none."""
    from registry.store.retract import find_earlier_readings  # noqa: PLC0415 - heavy

    source_id = result.submission["source"]["source_id"]
    for one in find_earlier_readings(location, result.submission):
        if one != submission_id:
            console.warning(
                f"submission {one[:12]} read the same file for {source_id}, and both count; if "
                f'this one replaces it: registry retract {one[:12]} --reason "read again"'
            )


def _record(document: Path, location: Location, result: ImportResult, *, dry_run: bool) -> None:
    documents = [(str(document), result.submission)]
    (added,) = add_submissions(location, documents, dry_run=dry_run)
    verb = ("would add" if dry_run else "added") if added.is_new else "already recorded:"
    within = format_count(result.n_tables, "table")
    if not result.n_tables:
        within = format_count(result.n_rows, "file")
    found = format_count(result.n_observations, "observation")
    places = format_count(result.n_reports, "reported place")
    console.say(f"{verb} submission {added.submission_id[:12]}: {found} from {places} in {within}")
    if added.is_new:
        _warn_of_earlier(location, added.submission_id, result)
    if dry_run:
        console.answer(_format_observations(result.submission))
    for table in result.skipped_tables:
        console.hint(f"not mapped: {table}")


# Observations of a submission as text, each figure beside the cell it was read from.

#: What is shown of an observation beside its outcome, settings and figures.
_SHOWN = ("evidence", "run_id", "outcome_detail", "flags")


def _format_observations(submission: dict[str, Any]) -> Iterator[str]:
    """Yield lines that show each observation: its places, settings, outcome, figures and cells."""
    for observation in submission["observations"]:
        yield from _format_observation(observation)


def _format_observation(observation: dict[str, Any]) -> Iterator[str]:
    places = "; ".join(citation["locator"] for citation in observation["citations"])
    settings = observation["configuration"] | observation.get("environment", {})
    listed = ", ".join(f"{name}={_format(value)}" for name, value in settings.items())
    yield f"{places}: {observation['outcome']}"
    yield f"    {listed}"
    said = [f"{name}={_format(observation[name])}" for name in _SHOWN if name in observation]
    if said:
        yield f"    {', '.join(said)}"
    defaults = part_spec().nested["observations"].part.nested["measurements"].part.defaults
    for figure in observation.get("measurements", ()):
        yield f"    {_format_figure(defaults | figure)}"
    for citation in observation["citations"]:
        cells = citation.get("cells", {})
        if cells:
            yield "    cells: " + " | ".join(f"{name}: {text!r}" for name, text in cells.items())


def _format(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _format_figure(figure: dict[str, Any]) -> str:
    value = figure["value"]
    shown = format_memory(int(value)) if figure.get("kind") else f"{value:.10g}"
    device = figure.get("device_index")
    whose = figure["scope"] if device is None else f"card {device}"
    said = [figure["statistic"], whose, figure.get("kind")]
    unit = figure.get("unit_reported")
    raw = f" from {figure['raw']!r}" if "raw" in figure else ""  # a log's number is the figure
    read = raw + (f" in {unit}" if raw and unit else "")
    reason = f"; {figure['reason']}" if figure.get("reason") else ""
    return f"{figure['metric']} = {shown} ({', '.join(filter(None, said))}){read}{reason}"
