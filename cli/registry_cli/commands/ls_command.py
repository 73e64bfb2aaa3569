"""``registry ls``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from registry.query.filters import Filters
from registry.query.model import Layout
from registry_cli import console
from registry_cli.filters import FilteredList, observation_filters
from registry_cli.labels import label_option, validate_label
from registry_cli.options import registry_option
from registry_cli.output import at_option, output_options, parse_destination, read_sql

#: The columns that are shown first where a terminal is too narrow for all of them.
_LAYOUT = Layout(
    first=(
        *("id", "model_id", "method", "gpu_id", "seq_len", "outcome", "peak_gib"),
        *("peak_gib_per_gpu", "flags", "batch", "n_gpus", "seconds_per_step", "source_id"),
    )
)

_FILTERS = "/* filters */"

#: What a label adds to the condition of the filters: `results` has none.
_LABELLED = """and observation_id in (
    select observation_id from observations
    where json_extract_string(provenance, '$.label') = $label
)"""


@click.command(name="ls")
@observation_filters()
@label_option
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Largest number of observations to list.",
)
@output_options
@at_option
@registry_option
def command(
    *,
    label: str | None,
    limit: int,
    format_name: str | None,
    output: Path | None,
    at: int | None,
    registry_path: Path | None,
    **filters: Any,
) -> None:
    """List observations briefly, one line each.

    `method` is the method's label, such as QLoRA; `peak_gib` is the memory of all cards together,
    `peak_gib_per_gpu` that of the fullest card, which may be all that a source reports; `batch` is
    the micro-batch of one card. `registry query` has every column of `results`.

    \b
    Example:
      registry ls --model qwen-7b --method qlora
    """  # noqa: D301 - \b keeps the example's lines
    destination = parse_destination(format_name, output, registry_path)
    found = FilteredList(registry_path, at)
    sql = read_sql("ls")
    params: dict[str, Any] = {"limit": limit}
    if label is not None:
        sql = sql.replace(_FILTERS, f"{_FILTERS} {_LABELLED}")
        params["label"] = validate_label(label, found.dataset)
    summary = found.write(sql, Filters(**filters), destination, _LAYOUT, **params)
    if summary.is_empty:
        console.hint("no observation matches")
    elif summary.rows == limit:
        console.hint(f"only the first {limit} are shown; raise --limit for more")
