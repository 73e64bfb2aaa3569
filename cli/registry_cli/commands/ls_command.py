"""``registry ls``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from registry.contract import vocabulary
from registry.errors import did_you_mean
from registry.store.snapshot import read_snapshot
from registry_cli import console
from registry_cli.group import HintedChoice
from registry_cli.options import locate, registry_option
from registry_cli.output import (
    at_option,
    open_dataset,
    output_options,
    parse_destination,
    read_query,
    read_sql,
    write_query,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from registry.catalogue import Catalogue
    from registry.query.model import Dataset


@click.command(name="ls")
@click.option("--model", metavar="ID", help="Only this model (id or alias).")
@click.option(
    "--gpu",
    metavar="ID",
    help="Only this accelerator, or any of its family (id or alias).",
)
@click.option("--method", metavar="METHOD", help="Only this method: lora, QLoRA, full, …")
@click.option("--source", metavar="ID", help="Only this source.")
@click.option(
    "--outcome", type=HintedChoice(list(vocabulary("outcome"))), help="Only this outcome."
)
@click.option("--seq-len", type=click.IntRange(min=1), help="Only this sequence length.")
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
    catalogue = read_snapshot(locate(registry_path), at).catalogue
    params = {
        "model": model and (catalogue.resolve_model(model) or model),
        "gpus": gpu and ",".join(catalogue.kinds_of(catalogue.resolve_gpu(gpu) or gpu)),
        "method": method,
        "source": source,
        "outcome": outcome,
        "seq_len": seq_len,
        "limit": limit,
    }
    dataset = open_dataset(registry_path, at)
    destination = parse_destination(format_name, output, registry_path)
    summary = write_query(dataset, read_sql("ls"), params, destination)
    if summary.rows == 0:
        console.hint("no observation matches")
        _hint_unknown_names(catalogue, model, gpu)
        for kind, names in _known_words(dataset).items():
            _hint_unknown(kind, params[kind], names)
    elif summary.rows == limit:
        console.hint(f"only the first {limit} are shown; raise --limit for more")


def _hint_unknown_names(catalogue: Catalogue, model: str | None, gpu: str | None) -> None:
    if model and catalogue.resolve_model(model) is None:
        console.hint(f"model {model!r} is not known{catalogue.nearest_model(model)}")
    if gpu and catalogue.resolve_gpu(gpu) is None:
        console.hint(f"gpu {gpu!r} is not known{catalogue.nearest_gpu(gpu)}")


def _known_words(dataset: Dataset) -> dict[str, set[str]]:
    rows = read_query(dataset, "select distinct source_id, method, method_label from results", {})
    return {
        "source": {row["source_id"] for row in rows},
        "method": {row[name] for row in rows for name in ("method", "method_label") if row[name]},
    }


def _hint_unknown(kind: str, name: object, known: Iterable[str]) -> None:
    words = {word.lower(): word for word in known}
    if isinstance(name, str) and name.lower() not in words:
        console.hint(f"{kind} {name!r} is not known{did_you_mean(name.lower(), words)}")
