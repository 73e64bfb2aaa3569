"""``registry repair``."""

from __future__ import annotations

from pathlib import Path

import click

from registry_cli import console
from registry_cli.options import locate, registry_option, wait_option


@click.command(name="repair")
@wait_option
@registry_option
def command(*, wait: float, registry_path: Path | None) -> None:
    """Rebuild the manifest and all tables from every document in the parts and the journal.

    Parts that no manifest lists are included, so that two branches that both folded are merged.
    Damaged files are moved to quarantine/; nothing is removed.

    \b
    Example:
      registry repair
    """  # noqa: D301 - \b keeps the example's lines
    from registry.store.repair import repair  # noqa: PLC0415 - heavy

    location = locate(registry_path)
    if not location.own.is_registry:
        console.hint("nothing to repair: nothing has been added yet")
        return
    result = repair(location, wait_seconds=wait)
    click.echo(
        f"version {result.version}: {result.n_submissions} submissions, "
        f"{result.n_observations} observations"
    )
    console.warn_all(result.notes)
