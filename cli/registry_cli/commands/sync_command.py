"""``registry sync``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.text import format_count
from registry_cli import console
from registry_cli.options import RegistryPath


@click.command(name="sync")
@click.argument("first", metavar="A", type=RegistryPath())
@click.argument("second", metavar="B", type=RegistryPath())
@click.option("--dry-run", is_flag=True, help="Only show what each would get.")
def command(first: Path, second: Path, *, dry_run: bool) -> int:
    """Synchronize two registries: each gets the documents that only the other has.

    A and B are folders, or addresses such as s3://our-bucket/registry. What arrives is pending
    until `registry fold`; what either of them erased does not come back. Documents that
    are not valid, or in which the two sides contradict each other about a model or GPU, are named
    and left out. Running it again changes nothing.

    \b
    Example:
      registry init mine && registry init file://$PWD/ours && registry sync mine file://$PWD/ours
    """  # noqa: D301 - \b keeps the example's lines
    from registry.store.folder import find_registry  # noqa: PLC0415 - heavy
    from registry.store.sync import sync  # noqa: PLC0415 - heavy

    folders = [find_registry(path, curated=False).own for path in (first, second)]
    done = sync(*folders, dry_run=dry_run)
    for side in done.sides:
        verbs = ("would get", "would have") if dry_run else ("got", "has")
        new, total = (format_count(n, "document") for n in (side.n_new, side.n_documents))
        console.say(f"{side.name}: {verbs[0]} {new}; {verbs[1]} {total}")
    console.warn_all(done.problems)
    return 1 if done.problems else 0
