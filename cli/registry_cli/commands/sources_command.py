"""``registry sources``."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from registry.query.filters import Filters
from registry.query.model import Layout
from registry_cli import console
from registry_cli.filters import FilteredList, observation_filters
from registry_cli.options import registry_option
from registry_cli.output import at_option, output_options, parse_destination

#: The columns that are shown first where a terminal is too narrow for all of them.
_LAYOUT = Layout(first=("source_id", "n", "n_oom", "cards", "methods", "licence"), key="source_id")


@click.command(name="sources")
@observation_filters(without="source")
@output_options
@at_option
@registry_option
def command(
    *,
    format_name: str | None,
    output: Path | None,
    at: int | None,
    registry_path: Path | None,
    **filters: Any,
) -> None:
    """List sources: observations, cards, methods, metrics, licence and link, one line each.

    Only the four most frequent cards, methods and metrics are listed. Cite the sources of the
    figures you use; each keeps its own licence.

    \b
    Examples:
      registry sources --gpu rtx-3090 --method qlora
      registry sources -f csv -o sources.csv
    """  # noqa: D301 - \b keeps the examples' lines
    destination = parse_destination(format_name, output, registry_path)
    sql = (files("registry.sources") / "overview.sql").read_text(encoding="utf-8")
    chosen = Filters(**filters)
    found = FilteredList(registry_path, at).write(sql, chosen, destination, _LAYOUT)
    if found.is_empty:
        console.hint("no source matches" if chosen.stated() else "no source has an observation yet")
