"""``registry ls``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.query.model import Layout
from registry.store.snapshot import read_snapshot
from registry_cli import console
from registry_cli.filters import (
    observation_filters,
    resolve_gpus,
    resolve_model,
    validate_method,
    validate_source,
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
    first=(
        *("id", "model_id", "method", "gpu_id", "seq_len", "outcome", "peak_gib", "flags"),
        *("batch", "n_gpus", "seconds_per_step", "source_id"),
    )
)


@click.command(name="ls")
@observation_filters
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True)
@output_options
@at_option
@registry_option
def command(
    *,
    model: str | None,
    gpu: str | None,
    method: str | None,
    source: str | None,
    outcome: str | None,
    seq_len: int | None,
    limit: int,
    format_name: str | None,
    output: Path | None,
    at: int | None,
    registry_path: Path | None,
) -> None:
    """List observations briefly, one line each.

    \b
    Example:
      registry ls --model qwen-7b --method qlora
    """  # noqa: D301 - \b keeps the example's lines
    destination = parse_destination(format_name, output, registry_path)
    snapshot = read_snapshot(locate(registry_path), at)
    dataset = open_dataset(registry_path, at)
    params = {
        "model": resolve_model(model, snapshot.catalogue),
        "gpus": resolve_gpus(gpu, snapshot.catalogue),
        "method": validate_method(method, lambda: dataset),
        "source": validate_source(source, snapshot, lambda: dataset),
        "outcome": outcome,
        "seq_len": seq_len,
        "limit": limit,
    }
    summary = write_query(dataset, read_sql("ls"), params, destination, layout=_LAYOUT)
    if summary.is_empty:
        console.hint("no observation matches")
    elif summary.rows == limit:
        console.hint(f"only the first {limit} are shown; raise --limit for more")
