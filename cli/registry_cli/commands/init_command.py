"""``registry init``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.store.folder import create_registry
from registry_cli import console


@click.command(name="init")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--empty", is_flag=True, help="Never read the curated observations alongside it.")
def command(path: Path, *, empty: bool) -> None:
    """Create a registry in the folder PATH; the curated records are read alongside it.

    \b
    Example:
      registry init my-registry
    """  # noqa: D301 - \b keeps the example's lines
    create_registry(path, curated=not empty)
    beside = "" if empty else "; the curated records are read alongside it"
    console.say(f"created {path}{beside}")
    console.hint(f"use it with --registry {path}, or REGISTRY_PATH={path}")
