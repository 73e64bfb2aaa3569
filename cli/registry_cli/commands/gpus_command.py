"""``registry gpus``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from registry.query.filters import Filters, find_word
from registry.query.model import Layout
from registry_cli import console
from registry_cli.filters import FilteredList, observation_filters, recorded_option
from registry_cli.options import parse_size, registry_option
from registry_cli.output import at_option, output_options, parse_destination, read_observed

#: The columns that are shown first where a terminal is too narrow for all of them.
_LAYOUT = Layout(
    first=("gpu_id", "memory_gib", "n", "n_oom", "model_ids", "methods", "vendor"),
    key="gpu_id",
)


@click.command(name="gpus")
@click.option("--vendor", metavar="NAME", help="Only accelerators of this maker.")
@click.option("--memory", metavar="SIZE", help="Only those with at least this much, such as 24GB.")
@observation_filters(without="gpu")
@recorded_option("accelerators")
@output_options
@at_option
@registry_option
def command(
    *,
    vendor: str | None,
    memory: str | None,
    recorded: bool,
    format_name: str | None,
    output: Path | None,
    at: int | None,
    registry_path: Path | None,
    **filters: Any,
) -> None:
    """List the accelerators of the catalogue, with what the records hold on each.

    memory_gib is what the driver reports; it is empty where that is not known, or differs among the
    cards of a family. n counts observations, n_oom those that ran out of memory. Models and methods
    are listed with the most frequent first.

    \b
    Examples:
      registry gpus --vendor nvidia --memory 40GiB
      registry gpus --model llama-2-7b -f json
    """  # noqa: D301 - \b keeps the examples' lines
    destination = parse_destination(format_name, output, registry_path)
    found, chosen = FilteredList(registry_path, at), Filters(**filters)
    summary = found.write(
        read_observed("gpus"),
        chosen,
        destination,
        _LAYOUT,
        by="gpu",
        vendor=find_word("vendor", vendor, found.list_words("gpus", "vendor")),
        memory=None if memory is None else parse_size(memory),
        recorded=recorded or bool(chosen.stated()),
    )
    if summary.is_empty:
        console.hint("no accelerator matches")
