"""The options by which lists and pictures choose observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from registry.contract import vocabulary
from registry.query.filters import Filters, bind_filters, put_filters
from registry.store.read import build_dataset
from registry.store.snapshot import read_snapshot
from registry_cli.completing import complete_gpu, complete_model, complete_source
from registry_cli.group import HintedChoice
from registry_cli.options import locate
from registry_cli.output import reader_of, validate_version, warn_of, write_query

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.query.model import Dataset, Layout, Summary
    from registry.store.snapshot import Snapshot
    from registry_cli.output import Destination

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _join(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> str | None:
    return ",".join(values) if values else None


def _take_one(_: click.Context, parameter: click.Parameter, values: tuple[Any, ...]) -> Any:
    """Return the value of an option; raise UsageError where several would mean the last."""
    if len(values) > 1:
        raise click.UsageError(f"found {parameter.opts[0]} {len(values)} times; expected it once")
    return values[0] if values else None


#: Given twice, an option means both or is refused: the last of them is never meant.
_ONCE: dict[str, Any] = {"multiple": True, "callback": _take_one}

_OPTIONS = {
    "model": click.option(
        "--model",
        **_ONCE,
        metavar="ID",
        shell_complete=complete_model,
        help="Only observations of this model (id or alias).",
    ),
    "gpu": click.option(
        "--gpu",
        metavar="ID",
        multiple=True,
        callback=_join,
        shell_complete=complete_gpu,
        help="Only on this accelerator, or any card of this family (id or alias; repeatable).",
    ),
    "method": click.option(
        "--method", **_ONCE, metavar="METHOD", help="Only with this method: lora, QLoRA, full, …"
    ),
    "source": click.option(
        "--source",
        **_ONCE,
        metavar="ID",
        shell_complete=complete_source,
        help="Only from this source.",
    ),
    "outcome": click.option(
        "--outcome",
        **_ONCE,
        type=HintedChoice(list(vocabulary("outcome"))),
        help="Only with this outcome.",
    ),
    "seq_len": click.option(
        "--seq-len", **_ONCE, type=click.IntRange(min=1), help="Only with this sequence length."
    ),
}


def observation_filters(*, without: str | None = None) -> Decorator:
    """Return what adds the options that choose observations, but the one named ``without``."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for name, option in reversed(_OPTIONS.items()):
            if name != without:
                function = option(function)
        return function

    return add


def recorded_option(things: str) -> Decorator:
    """Return what adds ``--recorded``."""
    return click.option("--recorded", is_flag=True, help=f"Only {things} that have an observation.")


class FilteredList:
    """A list of what was observed: a registry's content as a command reads and writes it."""

    def __init__(self, registry_path: Path | None, at: int | None) -> None:
        location = locate(registry_path)
        validate_version(location, at)
        self.snapshot: Snapshot = read_snapshot(location, at)
        self.dataset: Dataset = build_dataset(self.snapshot)
        warn_of(self.snapshot)

    def list_words(self, table: str, column: str) -> set[str]:
        """Return the words that a column of the catalogue has."""
        return {str(row[column]) for row in self.snapshot.catalogue.rows(table) if row.get(column)}

    def write(
        self, sql: str, filters: Filters, destination: Destination, layout: Layout, **params: Any
    ) -> Summary:
        """Write the rows that a statement finds of the observations that meet the filters."""
        bound = bind_filters(filters, self.snapshot, reader_of(self.dataset)) | params
        return write_query(self.dataset, put_filters(sql), bound, destination, layout=layout)
