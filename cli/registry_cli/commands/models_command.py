"""``registry models``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from registry.query.filters import Filters, find_word
from registry.query.model import Layout
from registry_cli import console
from registry_cli.filters import FilteredList, observation_filters, recorded_option
from registry_cli.options import registry_option
from registry_cli.output import at_option, output_options, parse_destination, read_observed

#: The columns that are shown first where a terminal is too narrow for all of them.
_LAYOUT = Layout(
    first=("model_id", "n_params", "n", "n_oom", "longest_fitted", "gpu_ids", "methods"),
    key="model_id",
)


@click.command(name="models")
@click.option("--family", metavar="NAME", help="Only models of this family, such as llama.")
@observation_filters(without="model")
@recorded_option("models")
@output_options
@at_option
@registry_option
def command(
    *,
    family: str | None,
    recorded: bool,
    format_name: str | None,
    output: Path | None,
    at: int | None,
    registry_path: Path | None,
    **filters: Any,
) -> None:
    """List the models of the catalogue, with what the records hold on each.

    n counts observations, n_oom those that ran out of memory; longest_fitted is the longest
    sequence of a successful run, pretraining included (the view max_seq_len has fine-tuning alone).
    Cards and methods are listed with the most frequent first.

    \b
    Examples:
      registry models --family llama
      registry models --gpu rtx-3090 --method qlora -f json
    """  # noqa: D301 - \b keeps the examples' lines
    destination = parse_destination(format_name, output, registry_path)
    found, chosen = FilteredList(registry_path, at), Filters(**filters)
    summary = found.write(
        read_observed("models"),
        chosen,
        destination,
        _LAYOUT,
        by="model",
        family=find_word("family", family, found.list_words("models", "family")),
        recorded=recorded or bool(chosen.stated()),
    )
    if summary.is_empty:
        console.hint("no model matches")
