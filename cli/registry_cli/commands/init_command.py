"""``registry init``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.store.create import create_registry
from registry.store.manifest import read_manifest
from registry_cli import console


@click.command(name="init", short_help="Create a registry.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--empty", is_flag=True, help="Only the models and GPUs, no curated observations.")
def command(path: Path, *, empty: bool) -> None:
    """Create a registry in the folder PATH, with the curated records.

    \b
    Example:
      registry init my-registry
    """  # noqa: D301 - \b keeps the example's lines
    folder = create_registry(path, empty=empty)
    n_observations = read_manifest(folder).rows("observations")
    click.echo(f"created {path} with {n_observations} observations")
    console.hint(f"use it with --registry {path}, or REGISTRY_PATH={path}")
