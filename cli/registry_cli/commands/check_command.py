"""``registry check``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from registry.check import check_registry
from registry.store.folder import find_registry
from registry_cli import console
from registry_cli.group import HintedChoice
from registry_cli.options import registry_option


@click.command(name="check", short_help="Verify every promise on the registry at hand.")
@click.option("-f", "--format", "format_name", type=HintedChoice(["text", "json"]), default="text")
@registry_option
def command(*, format_name: str, registry_path: Path | None) -> int:
    """Verify every promise on the registry at hand; name what is wrong; exit 1 if anything is.

    Files and their hashes, schemas, contract, keys, references, ids, physics, what the documents
    say against what the tables hold, and the pending submissions.

    \b
    Example:
      registry check
    """  # noqa: D301 - \b keeps the example's lines
    folder = find_registry(registry_path).read
    report = check_registry(folder)
    if format_name == "json":
        problems = [
            {"promise": p.promise, "place": p.place, "message": p.message} for p in report.problems
        ]
        document = {"counts": report.counts, "problems": problems, "hints": report.hints}
        click.echo(json.dumps(document, indent=1))
    else:
        for problem in report.problems:
            click.echo(str(problem))
        counts = ", ".join(f"{n} {table}" for table, n in report.counts.items())
        verdict = "sound" if report.is_sound else f"{len(report.problems)} problems"
        click.echo(f"{folder.path}: {verdict} ({counts})")
        for text in report.hints:
            console.hint(text)
    return 0 if report.is_sound else 1
