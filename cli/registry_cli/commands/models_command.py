"""``registry models``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.query.model import Layout
from registry.store.snapshot import read_snapshot
from registry_cli import console
from registry_cli.completing import complete_gpu
from registry_cli.filters import (
    catalogue_filters,
    resolve_gpus,
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
    first=("model_id", "n_params", "n", "n_oom", "longest_fitted", "gpu_ids", "methods"),
    key="model_id",
)


@click.command(name="models")
@click.option("--family", metavar="NAME", help="Only models of this family, such as llama.")
@click.option(
    "--gpu",
    metavar="ID",
    shell_complete=complete_gpu,
    help="Only what was observed on this accelerator, or any of its family.",
)
@catalogue_filters("models")
@output_options
@at_option
@registry_option
def command(
    *,
    family: str | None,
    gpu: str | None,
    method: str | None,
    source: str | None,
    recorded: bool,
    format_name: str | None,
    output: Path | None,
    at: int | None,
    registry_path: Path | None,
) -> None:
    """List the models of the catalogue, with what the records hold of each.

    n counts observations, n_oom those that ran out of memory; longest_fitted is the longest
    sequence of a run that ended well. Cards and methods are in the order of how often they occur.

    \b
    Examples:
      registry models --family llama
      registry models --gpu rtx-3090 --method qlora -f json
    """  # noqa: D301 - \b keeps the examples' lines
    destination = parse_destination(format_name, output, registry_path)
    snapshot = read_snapshot(locate(registry_path), at)
    dataset = open_dataset(registry_path, at)
    families = {
        str(row["family"]) for row in snapshot.catalogue.rows("models") if row.get("family")
    }
    params = {
        "family": validate_word("family", family, families),
        "gpus": resolve_gpus(gpu, snapshot.catalogue),
        "method": validate_method(method, lambda: dataset),
        "source": validate_source(source, snapshot, lambda: dataset),
        "recorded": recorded or any((gpu, method, source)),
    }
    if write_query(dataset, read_sql("models"), params, destination, layout=_LAYOUT).is_empty:
        console.hint("no model matches")
