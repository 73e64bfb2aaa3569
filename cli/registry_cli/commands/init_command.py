"""``registry init``."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from registry.store.folder import copy_plans, create_registry
from registry_cli import console
from registry_cli.options import RegistryPath


@click.command(name="init")
@click.argument("path", type=RegistryPath())
@click.option("--empty", is_flag=True, help="Never read the curated observations alongside it.")
def command(path: Path, *, empty: bool) -> None:
    """Create a registry in the folder PATH; the curated records are read alongside it.

    PATH may be an address on object storage, which many machines share: s3://BUCKET/PREFIX, gs://,
    az://, or file:///PATH on a network file system.

    The plans that come with the package are copied to PATH/plans, for you to run or change.

    \b
    Example:
      registry init my-registry
    """  # noqa: D301 - \b keeps the example's lines
    folder = create_registry(path, curated=not empty)
    plans = copy_plans(folder)
    beside = "" if empty else "; the curated records are read alongside it"
    console.say(f"created {folder.name}{beside}")
    if plans is not None:
        console.hint(f"plans of trials to run or to change are in {plans}")
    name = shlex.quote(folder.name)
    console.hint(f"use it with --registry {name}, or REGISTRY_PATH={name}")
