"""``registry check``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click

from registry.text import format_count
from registry_cli import console
from registry_cli.group import HintedChoice
from registry_cli.options import locate, registry_option


@click.command(name="check")
@click.option("-f", "--format", "format_name", type=HintedChoice(["text", "json"]), default="text")
@registry_option
def command(*, format_name: str, registry_path: Path | None) -> int:
    """Check the registry's integrity; exit 1 if something is wrong.

    It covers manifests, files and their hashes; every row, against the contract and its document;
    the computed tables; and the pending submissions. In curated records it also reviews the
    figures: those that contradict each other, the card or their own series must be settled in
    review.yaml.
    In a checkout, curated records are checked only if named: --registry records.

    \b
    Examples:
      registry check
      registry check --registry records
    """  # noqa: D301 - \b keeps the example's lines
    from registry.store.check import check_registry  # noqa: PLC0415 - heavy

    location = locate(registry_path)
    report = check_registry(location)
    if report.is_sound and (location.own.path / "sources").is_dir():
        from registry.sources.pages import check_review  # noqa: PLC0415 - heavy

        report = replace(report, problems=tuple(check_review(location.own.path)))
    if format_name == "json":
        problems = [
            {"kind": p.kind, "place": p.place, "message": p.message} for p in report.problems
        ]
        document = {"counts": report.counts, "problems": problems, "hints": report.hints}
        click.echo(json.dumps(document, indent=1))
    else:
        for problem in report.problems:
            console.say(str(problem))
        counts = ", ".join(f"{n} {table}" for table, n in report.counts.items())
        verdict = "sound" if report.is_sound else format_count(len(report.problems), "problem")
        console.say(f"{location.own.name}: {verdict}{f' ({counts})' if counts else ''}")
        for text in report.hints:
            console.hint(text)
    if registry_path is None and location.curated and location.curated.path == Path("records"):
        console.hint(
            "this was your own registry; the curated records of this checkout are checked with "
            "`registry check --registry records`"
        )
    return 0 if report.is_sound else 1
