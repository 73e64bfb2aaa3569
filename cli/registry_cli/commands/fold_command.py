"""``registry fold``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.store.fold import fold
from registry.store.folder import find_registry
from registry_cli import console
from registry_cli.options import Seconds, registry_option


@click.command(name="fold", short_help="Fold what is pending into the tables.")
@click.option("--all", "merge_all", is_flag=True, help="Merge everything into one part.")
@click.option(
    "--wait",
    metavar="SECONDS",
    type=Seconds(min=0),
    default=60.0,
    show_default=True,
    help="How long to wait for another process that folds.",
)
@registry_option
def command(*, merge_all: bool, wait: float, registry_path: Path | None) -> int:
    """Fold what is pending into the tables. Readers and writers go on meanwhile.

    \b
    Example:
      registry fold
    """  # noqa: D301 - \b keeps the example's lines
    location = find_registry(registry_path)
    if location.creates:
        console.hint("nothing is pending: the curated records are in use and nothing was added yet")
        return 0
    result = fold(location.write, merge_all=merge_all, wait_seconds=wait)
    click.echo(
        f"folded {_count(result.n_submissions, 'submission')}, "
        f"{_count(result.n_observations, 'new observation')}; "
        f"version {result.version}"
    )
    console.warn_all(result.problems)
    return 1 if result.problems else 0


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
