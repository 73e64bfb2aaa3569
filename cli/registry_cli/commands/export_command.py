"""``registry export``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.contract import TABLES, view_names
from registry.store.files import filled_folder, require_free
from registry_cli import console
from registry_cli.group import HintedChoice
from registry_cli.options import locate, registry_option
from registry_cli.output import Destination, at_option, open_dataset, write_query
from registry_cli.output_file import validate_output


@click.command(name="export")
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "-f",
    "--format",
    "format_name",
    type=HintedChoice(["parquet", "csv"]),
    default="parquet",
    show_default=True,
)
@at_option
@registry_option
def command(target: Path, *, format_name: str, at: int | None, registry_path: Path | None) -> None:
    """Write all tables to the folder DIR: Parquet with a manifest, or CSV (with the views).

    A Parquet export can be added to another registry with `registry add DIR`.

    \b
    Example:
      registry export my-export
    """  # noqa: D301 - \b keeps the example's lines
    validate_output(target / "manifest.json", locate(registry_path))
    if format_name == "csv":
        counts = _export_csv(registry_path, target, at)
    else:
        from registry.store.export import export_folder  # noqa: PLC0415 - heavy

        counts = export_folder(locate(registry_path), target, at)
    rows = ", ".join(f"{n} {table}" for table, n in counts.items())
    console.say(f"exported to {target}: {rows}")


def _export_csv(registry_path: Path | None, target: Path, at: int | None) -> dict[str, int]:
    require_free(target)
    dataset = open_dataset(registry_path, at)
    counts = {}
    with filled_folder(target, last="results.csv") as temporary:
        for name in (*TABLES, *view_names()):
            destination = Destination("csv", temporary / f"{name}.csv")
            counts[name] = write_query(dataset, f"from {name}", {}, destination).rows
    return counts
