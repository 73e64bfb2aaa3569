"""Words that a list is filtered by: known ones, or a wrong call that names the nearest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from registry.contract import vocabulary
from registry.errors import did_you_mean
from registry.store.ids import row_key
from registry_cli.completing import complete_gpu, complete_model, complete_source
from registry_cli.group import HintedChoice
from registry_cli.output import read_query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from registry.catalogue import Catalogue
    from registry.query.model import Dataset
    from registry.store.snapshot import Snapshot

    Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


_OBSERVED = (
    click.option(
        "--model",
        metavar="ID",
        shell_complete=complete_model,
        help="Only this model (id or alias).",
    ),
    click.option(
        "--gpu",
        metavar="ID",
        shell_complete=complete_gpu,
        help="Only this accelerator, or any of its family (id or alias).",
    ),
    click.option("--method", metavar="METHOD", help="Only this method: lora, QLoRA, full, …"),
    click.option(
        "--source", metavar="ID", shell_complete=complete_source, help="Only this source."
    ),
    click.option(
        "--outcome", type=HintedChoice(list(vocabulary("outcome"))), help="Only this outcome."
    ),
    click.option("--seq-len", type=click.IntRange(min=1), help="Only this sequence length."),
)


def observation_filters(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose observations by their settings."""
    return _with(_OBSERVED, function)


def catalogue_filters(things: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what adds the options that choose ``things`` of the catalogue by what was observed."""
    options = (
        click.option("--method", metavar="METHOD", help="Only what was observed with this method."),
        click.option(
            "--source",
            metavar="ID",
            shell_complete=complete_source,
            help="Only what this source reports.",
        ),
        click.option("--recorded", is_flag=True, help=f"Only {things} that have an observation."),
    )
    return lambda function: _with(options, function)


def _with(options: Sequence[Decorator], function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        function = option(function)
    return function


def resolve_model(name: str | None, catalogue: Catalogue) -> str | None:
    """Return the id of a model; raise UsageError for an unknown one."""
    found = name and catalogue.resolve_model(name)
    if name and found is None:
        raise _unknown("model", name, catalogue.nearest_model(name), "registry models")
    return found


def resolve_gpus(name: str | None, catalogue: Catalogue) -> str | None:
    """Return the ids of a card and of all of its family, with commas between.

    Raises UsageError for an unknown one.
    """
    found = name and catalogue.resolve_gpu(name)
    if name and found is None:
        raise _unknown("gpu", name, catalogue.nearest_gpu(name), "registry gpus")
    return ",".join(catalogue.kinds_of(found)) if found else None


def validate_source(
    name: str | None, snapshot: Snapshot, open_dataset: Callable[[], Dataset]
) -> str | None:
    """Return a source's id; raise UsageError for an unknown one.

    The ids beside the tables are asked first, and the engine only about what they do not have.
    """
    if name is None or snapshot.known.contains("sources", row_key("sources", {"source_id": name})):
        return name
    rows = read_query(open_dataset(), "select source_id from sources", {})
    known = [row["source_id"] for row in rows]
    if name in known:
        return name
    raise _unknown("source", name, did_you_mean(name, known), "registry sources")


def validate_method(name: str | None, open_dataset: Callable[[], Dataset]) -> str | None:
    """Return a method, or a customary label of one; raise UsageError for an unknown one."""
    if name is None or name.lower() in vocabulary("method"):
        return name
    sql = "select distinct method_label from results where method_label is not null"
    labels = [row["method_label"] for row in read_query(open_dataset(), sql, {})]
    known = {word.lower() for word in (*vocabulary("method"), *labels)}
    if name.lower() in known:
        return name
    near = did_you_mean(name, known)
    raise _unknown(
        "method", name, near, "registry query 'select distinct method_label from results'"
    )


def validate_word(kind: str, name: str | None, known: Iterable[str]) -> str | None:
    """Return a word in the case in which it is known; raise UsageError for an unknown one."""
    words = {word.lower(): word for word in known}
    if name is None or name.lower() in words:
        return name and words[name.lower()]
    expected = f"expected one of {', '.join(sorted(words.values()))}"
    raise click.UsageError(f"{kind} {name!r} is not known{did_you_mean(name, words)}; {expected}")


def _unknown(kind: str, name: str, near: str, command: str) -> click.UsageError:
    return click.UsageError(f"{kind} {name!r} is not known{near}; `{command}` lists those that are")
