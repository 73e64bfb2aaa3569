"""``registry fold``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.text import format_count
from registry_cli import console
from registry_cli.options import locate, registry_option, wait_option


@click.command(name="fold")
@click.option("--all", "rebuild", is_flag=True, help="Rebuild all tables from the documents.")
@wait_option
@registry_option
def command(*, rebuild: bool, wait: float, registry_path: Path | None) -> int:
    """Fold pending submissions into the tables. Readers and writers are not blocked.

    In the curated records of a checkout (--registry records), submissions are filed under
    sources/, as text; `registry build` makes the tables.

    \b
    Example:
      registry fold
    """  # noqa: D301 - \b keeps the example's lines
    from registry.store.curated_fold import file_submissions  # noqa: PLC0415 - heavy
    from registry.store.fold import fold  # noqa: PLC0415 - heavy

    location = locate(registry_path)
    if not location.own.is_registry:
        console.hint("nothing is pending: nothing was added, and the curated records are in use")
        return 0
    if location.own.is_curated:
        result = file_submissions(location.own, wait_seconds=wait)
        click.echo(f"filed {format_count(result.n_submissions, 'submission')} under sources/")
    else:
        result = fold(location, rebuild=rebuild, wait_seconds=wait)
        click.echo(
            f"folded {format_count(result.n_submissions, 'submission')}, "
            f"{format_count(result.n_observations, 'new observation')}; "
            f"version {result.version}"
        )
        console.warn_all(result.erased)
    console.warn_all(result.problems)
    return 1 if result.problems else 0
