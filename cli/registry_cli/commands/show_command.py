"""``registry show``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.errors import QueryError
from registry.store.ids import SHORTEST_PREFIX
from registry.store.observation_documents import as_document, read_statement
from registry.store.renamed import follow, read_renamed
from registry_cli import console
from registry_cli.completing import complete_observation
from registry_cli.group import HintedChoice
from registry_cli.observation_text import format_observation
from registry_cli.options import locate, parse_prefix, registry_option
from registry_cli.output import at_option, open_dataset, read_query, read_sql

if TYPE_CHECKING:
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
        click.echo(format_observation(document))


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
