"""``registry gpus``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.errors import UnitError
from registry.query.model import Layout
from registry.store.snapshot import read_snapshot
from registry.units import parse_memory
from registry_cli import console
from registry_cli.completing import complete_model
from registry_cli.filters import (
    catalogue_filters,
    resolve_model,
    validate_method,
    validate_source,
    validate_word,
)
from registry_cli.options import locate, registry_option
from registry_cli.output import (
    at_option,
    open_dataset,
    output_options,
    parse_destination,
    read_sql,
    write_query,
)

#: The columns that are shown first where a terminal is too narrow for all of them.
_LAYOUT = Layout(
    first=("gpu_id", "memory_gib", "n", "n_oom", "model_ids", "methods", "vendor"),
    key="gpu_id",
)


@click.command(name="gpus")
@click.option("--vendor", metavar="NAME", help="Only accelerators of this maker.")
@click.option("--memory", metavar="SIZE", help="Only those with this much or more, as 24GB.")
@click.option(
    "--model",
    metavar="ID",
    shell_complete=complete_model,
    help="Only what was observed of this model.",
)
@catalogue_filters("accelerators")
@output_options
@at_option
@registry_option
def command(
    *,
    vendor: str | None,
    memory: str | None,
    model: str | None,
    method: str | None,
    source: str | None,
    recorded: bool,
    format_name: str | None,
    output: Path | None,
    at: int | None,
    registry_path: Path | None,
) -> None:
    """List the accelerators of the catalogue, with what the records hold of each.

    memory_gib is what the driver reports; without it, the line stands for a family of cards.
    n counts observations, n_oom those that ran out of memory. Models and methods are in the order
    of how often they occur.

    \b
    Examples:
      registry gpus --vendor nvidia --memory 40GiB
      registry gpus --model llama-2-7b -f json
    """  # noqa: D301 - \b keeps the examples' lines
    destination = parse_destination(format_name, output, registry_path)
    snapshot = read_snapshot(locate(registry_path), at)
    dataset = open_dataset(registry_path, at)
    vendors = {str(row["vendor"]) for row in snapshot.catalogue.rows("gpus") if row.get("vendor")}
    params = {
        "vendor": validate_word("vendor", vendor, vendors),
        "memory": _parse_memory(memory),
        "model": resolve_model(model, snapshot.catalogue),
        "method": validate_method(method, lambda: dataset),
        "source": validate_source(source, snapshot, lambda: dataset),
        "recorded": recorded or any((model, method, source)),
    }
    if write_query(dataset, read_sql("gpus"), params, destination, layout=_LAYOUT).is_empty:
        console.hint("no accelerator matches")


def _parse_memory(text: str | None) -> int | None:
    """Return a size in bytes."""
    try:
        return None if text is None else int(parse_memory(text, where="--memory").value)
    except UnitError as error:
        raise click.UsageError(str(error)) from None
