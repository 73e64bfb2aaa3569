"""``registry retract``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from registry.errors import StoreError
from registry_cli.console import warning
from registry_cli.options import locate, parse_prefix, registry_option

if TYPE_CHECKING:
    from registry.store.folder import Folder


@click.command(name="retract")
@click.argument("observation_id", metavar="ID")
@click.option("--reason", required=True, metavar="TEXT", help="Why; kept with the id and date.")
@click.option("--erase", is_flag=True, help="Remove its content too, from all versions.")
@registry_option
def command(observation_id: str, *, reason: str, erase: bool, registry_path: Path | None) -> None:
    """Withdraw the observation with this ID (or its first digits), so that views leave it out.

    With the ID of a submission of your own, as `add` and `import` print it, all of its observations
    are withdrawn.

    Its rows stay in the tables and in earlier versions. With --erase its content is removed from
    the journal, the tables and all versions of your registry; old versions are removed, and so is
    the command that was kept for it.

    \b
    Example:
      registry retract $(registry ls --source swift-benchmark -f csv | tail -1 | cut -d, -f1) \\
          --reason "the card was shared with another job"
    """  # noqa: D301 - \b keeps the example's lines
    from registry.measure.running.kept_commands import forget_command  # noqa: PLC0415 - one option
    from registry.store.renamed import list_ids  # noqa: PLC0415 - likewise
    from registry.store.retract import retract, retract_submission  # noqa: PLC0415 - heavy
    from registry.store.snapshot import read_snapshot  # noqa: PLC0415 - likewise
    from registry_cli.output import warn_of  # noqa: PLC0415 - likewise

    prefix = parse_prefix(observation_id)
    location = locate(registry_path)
    if erase:  # it is carried out by a fold, with all that is pending
        warn_of(read_snapshot(location))
    found: tuple[str, ...]
    try:
        found = (retract(location, prefix, reason=reason, erase=erase),)
    except StoreError:
        found = retract_submission(location, prefix, reason=reason, erase=erase)
        if not found:
            raise
    for identity in found:
        click.echo(f"{'erased' if erase else 'retracted'} {identity}")
    if erase:
        for each in (one for identity in found for one in list_ids(location, identity)):
            forget_command(each)
        _warn_of_quarantine(location.own)


def _warn_of_quarantine(folder: Folder) -> None:
    """Say that there are files that no erasure reaches: nobody can tell what they describe."""
    from registry.store.folder import QUARANTINE  # noqa: PLC0415 - heavy

    names = folder.storage.list(QUARANTINE)
    if names:
        warning(
            f"{folder.path / QUARANTINE}: holds damaged files ({len(names)}), which were not "
            "searched; look into them, and remove those that hold what you erased"
        )
