"""``registry show``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.contract import load_metrics
from registry.errors import QueryError
from registry.store.ids import SHORTEST_PREFIX
from registry.store.observation_documents import as_document, read_statement
from registry.store.renamed import follow, read_renamed
from registry.text import escape_unprintable
from registry.units import format_duration, format_memory
from registry_cli import console
from registry_cli.completing import complete_observation
from registry_cli.group import HintedChoice
from registry_cli.options import locate, parse_prefix, registry_option
from registry_cli.output import at_option, open_dataset, read_query, read_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.query.model import Dataset

_MOST_NAMED = 20


@click.command(name="show")
@click.argument("observation_id", metavar="ID", shell_complete=complete_observation)
@click.option("-f", "--format", "format_name", type=HintedChoice(["text", "json"]), default="text")
@at_option
@registry_option
def command(
    observation_id: str, *, format_name: str, at: int | None, registry_path: Path | None
) -> None:
    """Show one observation in full: figures, raw cells, citations, and how values were derived.

    ID is an observation's id, or its first digits.

    \b
    Example:
      registry show $(registry ls --model qwen-7b --seq-len 8192 -f csv | tail -1 | cut -d, -f1)
    """  # noqa: D301 - \b keeps the example's lines
    prefix = parse_prefix(observation_id)
    row = _only(_find(registry_path, at, prefix), prefix)
    document = {name: as_document(part) for name, part in row.items()}
    if format_name == "json":
        console.text(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(_format_observation(document))


def _find(registry_path: Path | None, at: int | None, prefix: str) -> list[dict[str, Any]]:
    """Return the observations whose ids start with this; else those that old ids became."""
    dataset = open_dataset(registry_path, at)
    found = read_query(dataset, read_statement(), {"id": prefix, "most": _MOST_NAMED})
    if found:
        return found
    for identity in sorted(follow(read_renamed(locate(registry_path)), prefix)):
        console.hint(f"{prefix} is an old id of {identity}")
        found += read_query(dataset, read_statement(), {"id": identity, "most": 1})
    if not found:
        raise click.UsageError(
            f"{prefix}: no observation id starts with this{_suggest(dataset, prefix)}; expected "
            "one that `registry ls` lists"
        )
    return found


def _only(found: list[dict[str, Any]], prefix: str) -> dict[str, Any]:
    if len(found) > 1:
        ids = ", ".join(row["observation"]["observation_id"] for row in found)
        raise QueryError(
            f"{prefix}: {len(found)} observation ids start with this ({ids}); give more digits"
        )
    return found[0]


def _suggest(dataset: Dataset, prefix: str) -> str:
    """Return the ids that begin with the same digits, as a suggestion."""
    begin = prefix[:SHORTEST_PREFIX]
    rows = read_query(dataset, read_sql("ids_beginning"), {"begin": begin})
    ids = [row["id"] for row in rows]
    return f"; did you mean {' or '.join(ids)}?" if ids else ""


# An observation as text for people.

_HIDDEN = ("observation_id", "configuration_id", "environment_id", "source_id", "figures_hash")


def _format_observation(document: dict[str, Any]) -> str:
    """Return an observation (as ``registry show -f json`` gives it) as text."""
    return "\n".join(map(escape_unprintable, _lines(document)))


def _lines(document: dict[str, Any]) -> Iterator[str]:
    observation = document["observation"]
    inferences = observation.get("inferences", {})
    yield f"observation {observation['observation_id']}"
    for row in document.get("retractions") or ():
        yield f"  WITHDRAWN {row['retracted_at']}: {row['reason']}"
    shown = {k: v for k, v in observation.items() if k not in (*_HIDDEN, "inferences")}
    yield from _section(shown, inferences)
    yield from ("", "configuration")
    yield from _section(document["configuration"], inferences)
    environment = list(_section(document["environment"], inferences))
    yield from ("", "environment", *(environment or ["  not stated"]))
    yield from ("", "figures")
    for figure in document["measurements"] or ():
        yield from _figure(figure)
    if not document["measurements"]:
        yield "  none"
    if document["n_samples"]:
        yield f"  {document['n_samples']} samples, one per step, in the table samples"
    yield from ("", "reported in")
    for citation in document["citations"] or ():
        yield from _citation(citation, document.get("source") or {})


def _section(part: dict[str, Any], inferences: dict[str, str]) -> Iterator[str]:
    for name, value in part.items():
        if name not in _HIDDEN:
            yield f"  {name:<24} {_format_value(value)}"
            if name in inferences:
                yield f"  {'':<24} inferred: {inferences[name]}"


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}: {item}" for key, item in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _figure(figure: dict[str, Any]) -> Iterator[str]:
    unit = load_metrics()[figure["metric"]].unit
    device = f" {figure['device_index']}" if "device_index" in figure else ""
    details = ", ".join(
        str(word)
        for word in (figure["statistic"], figure["scope"] + device, figure.get("kind"))
        if word and word != "value"
    )
    yield f"  {figure['metric']:<24} {_format_quantity(figure['value'], unit)}  ({details})"
    low, high = (figure.get(name, figure["value"]) for name in ("low", "high"))
    if low != high:
        bounds = f"{_format_quantity(low, unit)} and {_format_quantity(high, unit)}"
        yield f"  {'':<24} between {bounds}"
    if "raw" in figure:
        stated = (
            f", unit as written: {figure['unit_reported']}" if "unit_reported" in figure else ""
        )
        reading = f", read as {figure['reading']}" if "reading" in figure else ""
        yield f"  {'':<24} as written: {figure['raw']!r}{stated}{reading}"
    if "reason" in figure:
        yield f"  {'':<24} {figure['origin']}: {figure['reason']}"


def _format_quantity(value: float, unit: str) -> str:
    exact = int(value) if float(value).is_integer() else value
    if unit == "byte":
        return f"{exact} bytes ({format_memory(int(value))})"
    if unit == "second":
        plain, told = f"{exact} s", format_duration(value)
        return plain if told == plain else f"{plain} ({told})"
    return f"{exact} {unit}" if unit != "1" else str(exact)


def _citation(citation: dict[str, Any], source: dict[str, Any]) -> Iterator[str]:
    yield f"  {citation['source_id']}, {citation['locator']}"
    if citation.get("table_title"):
        yield f"    table: {citation['table_title']}"
    for column, cell in (citation.get("cells") or {}).items():
        yield f"    {column}: {cell!r}"
    if citation["source_id"] == source.get("source_id") and source.get("url"):
        yield f"    {source['url']}"
