"""``registry source``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from registry.errors import SourceError
from registry.sources.new import (
    ASKED,
    check_stated,
    choose_tables,
    propose_source,
    read_logs,
    write_log_source,
    write_source,
)
from registry.store.folder import Location
from registry.store.snapshot import load_catalogue
from registry.tables import read_tables
from registry.tables.guess_words import OPEN
from registry_cli import console
from registry_cli.group import HintedChoice
from registry_cli.options import keep_path, locate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.sources.check import Section
    from registry.store.folder import Folder
    from registry.tables.matching import TableDocument

_records_option = click.option(
    "--registry",
    "registry_path",
    metavar="PATH",
    type=click.Path(path_type=Path),
    callback=keep_path,
    help="The records (else REGISTRY_PATH, else ./records of a checkout).",
)


@click.group(name="source")
def command() -> None:
    """Add a published source to a checkout's records, and check it.

    A source is a folder of text: `registry source new` drafts it from a document, you fill in what
    is marked '?', and `registry source check` shows what a reviewer looks at. The tables are built
    on main; a branch that adds a source changes only that folder.

    \b
    Examples:
      registry source check llama2-lora-3090
      registry source check swift-benchmark -f markdown
    """  # noqa: D301 - \b keeps the examples' lines


@command.command(name="new", short_help="Draft a source's folder from a document.")
@click.argument("document", metavar="DOC", type=click.Path(path_type=Path, exists=True))
@click.option("--id", "source_id", metavar="ID", help="Its id and folder (else the file's name).")
@click.option("--title", metavar="TEXT", help="Title (else the document's first heading).")
@click.option("--url", metavar="URL", help="Where the document can be found.")
@click.option("--publisher", metavar="TEXT", help="Who published it.")
@click.option("--published-on", metavar="DATE", help="YYYY, YYYY-MM or YYYY-MM-DD.")
@click.option("--licence", metavar="TEXT", help="Its licence (its SPDX id, if it has one).")
@click.option(
    "--table",
    "chosen",
    metavar="N",
    type=int,
    multiple=True,
    help="A table to copy (repeatable; else those in which something looks measured).",
)
@click.option(
    "--keep",
    metavar="REGEX",
    help="In logs that are not JSON, keep only the lines that match this.",
)
@_records_option
def new(
    document: Path,
    *,
    chosen: tuple[int, ...],
    keep: str | None,
    registry_path: Path | None,
    **options: str | None,
) -> None:
    """Write records/sources/ID: a document's tables as CSV, and a draft of their mapping.

    DOC is what `registry import` reads, or a log or folder of logs that `registry add` recognizes,
    which are packed as they are. On a terminal you are asked for what the options leave out; what
    stays open becomes a '?' in mapping.yaml, which the check lists.

    \b
    Examples:
      registry source new README.md --id my-benchmark --licence Apache-2.0
      registry source new results/ --id my-logs --keep MLLOG
    """  # noqa: D301 - \b keeps the example's lines
    records = _find_records(registry_path)
    catalogue = load_catalogue(Location(records))
    logs = read_logs(document, catalogue)
    found = None if logs else read_tables(document)
    proposed = propose_source(document, found)
    stated: dict[str, str | None] = {
        "source_id": _validate("source_id", options["source_id"] or proposed["source_id"]),
        **{name: _state(name, options[name], proposed.get(name)) for name in ASKED},
    }
    sources = records.path / "sources"
    if logs:
        folder = write_log_source(sources, document, logs, stated, keep=keep)
    else:
        tables = found or read_tables(document)
        kept = choose_tables(document, tables, catalogue, chosen)
        folder = write_source(sources, document, kept, catalogue, stated)
        _tell_left_out(tables, kept, chosen)
    for path in sorted(folder.iterdir()):
        console.say(str(path))
    console.hint(f"fill in what is {OPEN!r}, then: registry source check {folder.name}")


def _tell_left_out(found: TableDocument, kept: TableDocument, chosen: tuple[int, ...]) -> None:
    left_out = [table.index for table in found.tables if table not in kept.tables]
    if left_out and not chosen:
        console.hint(
            f"tables left out, as nothing in them looks measured: {', '.join(map(str, left_out))}; "
            "to choose yourself, name each with --table"
        )


def _find_records(path: Path | None) -> Folder:
    """Return the records of a checkout; raise SourceError where there are none."""
    location = locate(path)
    named, here = location.own, location.curated
    if named.is_curated:
        return named
    if path is None and here is not None and here.path == Path("records"):
        return here
    raise SourceError(
        f"{named.path if path else Path('records')}: found no records with sources/; expected "
        "those of a checkout; run this in the checkout's folder, or name them with --registry"
    )


def _state(name: str, given: str | None, proposed: str | None) -> str | None:
    """Return a column of the source: as given, as answered on a terminal, as proposed, or None."""
    if given is None and sys.stdin.isatty():
        given = click.prompt(
            name,
            default=proposed or OPEN,
            err=True,
            value_proc=lambda text: text if text == OPEN else _validate(name, text),
        )
    text = given or proposed
    return None if text in (None, OPEN) else _validate(name, str(text))


def _validate(name: str, text: str) -> str:
    problems = check_stated(name, text)
    if problems:
        raise click.UsageError("; ".join(problems))
    return text


@command.command(name="check", short_help="Show what a reviewer looks at.")
@click.argument("source_id", metavar="ID")
@click.option(
    "-f",
    "--format",
    "format_name",
    type=HintedChoice(("text", "markdown")),
    metavar="FORMAT",
    default="text",
    show_default=True,
    help="text, or markdown for a pull request.",
)
@_records_option
def check(source_id: str, *, format_name: str, registry_path: Path | None) -> None:
    """Show what was read from a source, how, and what looks wrong.

    Shows rows and outcomes, how units were read, what the source and the catalogue leave open,
    measured peaks that `registry estimate` does not expect, and equal figures in other sources.
    If the source cannot be read, the check fails and shows everything that is wrong.

    \b
    Example:
      registry source check llama2-lora-3090 -f markdown
    """  # noqa: D301 - \b keeps the example's lines
    from registry.sources.check import check_source  # noqa: PLC0415 - loads the engine and numpy

    sections = check_source(_find_records(registry_path), source_id)
    form = _format_markdown if format_name == "markdown" else _format_text
    console.answer(form(source_id, sections))


def _format_text(source_id: str, sections: tuple[Section, ...]) -> Iterator[str]:
    yield f"source {source_id}"
    for section in sections:
        yield section.title
        yield from (f"  {line}" for line in section.lines or ("none",))


def _format_markdown(source_id: str, sections: tuple[Section, ...]) -> Iterator[str]:
    yield f"### Source `{source_id}`"
    for section in sections:
        yield ""
        yield f"**{section.title}**"
        yield ""
        yield from (f"- {_escape(line)}" for line in section.lines or ("none",))


def _escape(line: str) -> str:
    """Return a line that Markdown shows as it is; code in backticks stays code."""
    return "".join(f"\\{letter}" if letter in r"\*_<>[]|#" else letter for letter in line)
