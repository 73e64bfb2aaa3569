"""``registry build``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.build import build_tables
from registry.store.folder import find_registry
from registry_cli.options import registry_option


@click.command(name="build", short_help="Regenerate the curated tables from their sources.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where a file would change.")
@registry_option
def command(*, check: bool, registry_path: Path | None) -> int:
    """Regenerate records/tables from records/sources and records/catalogue, byte for byte.

    \b
    Example:
      registry build --check
    """  # noqa: D301 - \b keeps the example's lines
    result = build_tables(find_registry(registry_path).read.path, check=check)
    click.echo(
        f"{result.n_submissions} submissions, {result.n_observations} observations; "
        + (
            f"{len(result.changed)} files differ"
            if result.changed
            else "all files are as they were"
        )
    )
    for name in result.changed:
        click.echo(f"  {name}")
    return 1 if check and result.changed else 0
