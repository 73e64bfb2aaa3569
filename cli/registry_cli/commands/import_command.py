"""``registry import``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from registry.errors import SubmissionError
from registry.store.add import add_submissions
from registry.store.snapshot import load_catalogue
from registry.tables import import_document, read_mapping
from registry_cli import console
from registry_cli.options import locate, registry_option


@click.command(name="import")
@click.argument("document", metavar="DOC", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--mapping",
    metavar="M.yaml",
    required=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="What the tables' columns mean.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be recorded.")
@click.option("--print", "prints", is_flag=True, help="Print the submission and record nothing.")
@registry_option
def command(
    document: Path, *, mapping: Path, dry_run: bool, prints: bool, registry_path: Path | None
) -> None:
    """Record the tables of a Markdown, HTML or CSV document, as a mapping describes them.

    DOC is the document, or a folder of CSV files. The mappings in records/sources are examples.

    \b
    Example:
      registry import records/sources/llama2-lora-3090 \\
          --mapping records/sources/llama2-lora-3090/mapping.yaml --dry-run
    """  # noqa: D301 - \b keeps the example's lines
    location = locate(registry_path)
    catalogue = load_catalogue(location)
    result = import_document(document, read_mapping(mapping), catalogue)
    for note in result.notes:
        console.hint(f"note: {note}")
    if result.problems:
        raise SubmissionError(list(result.problems), origin=str(document))
    if prints:
        click.echo(json.dumps(result.submission, indent=1, ensure_ascii=False))
        return
    documents = [(str(document), result.submission)]
    (added,) = add_submissions(location, documents, dry_run=dry_run)
    verb = ("would add" if dry_run else "added") if added.is_new else "already recorded:"
    click.echo(
        f"{verb} submission {added.submission_id[:12]}: {result.n_observations} observations from "
        f"{result.n_reports} reported places in {result.n_tables} tables"
    )
    for table in result.skipped_tables:
        console.hint(f"not mapped: {table}")
