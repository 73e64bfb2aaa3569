"""``registry prune``."""

from __future__ import annotations

from pathlib import Path

import click

from registry_cli import console
from registry_cli.options import locate, registry_option


@click.command(name="prune")
@click.option(
    "--keep", type=click.IntRange(min=1), default=1, show_default=True, help="Versions to keep."
)
@registry_option
def command(*, keep: int, registry_path: Path | None) -> None:
    """Remove all but the newest versions; --at can no longer read the others.

    A document that exists nowhere else is never removed.

    \b
    Example:
      registry prune --keep 3
    """  # noqa: D301 - \b keeps the example's lines
    from registry.store.prune import prune  # noqa: PLC0415 - heavy

    own = locate(registry_path).own
    if own.is_curated or not own.is_registry:
        console.hint("nothing to prune: the curated records have one version")
        return
    removed = prune(own, keep=keep)
    noun = "version" if len(removed) == 1 else "versions"
    console.say(f"removed {noun} {', '.join(map(str, removed))}" if removed else "nothing to prune")
