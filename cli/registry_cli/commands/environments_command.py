"""``registry environments``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from registry.measure.releases import find_telling, list_machine, list_versions
from registry.query.filters import find_source
from registry.store.observation_documents import as_document
from registry.store.snapshot import read_snapshot
from registry.units import format_memory
from registry_cli import console
from registry_cli.completing import complete_source
from registry_cli.labels import label_option, validate_label
from registry_cli.options import locate, registry_option
from registry_cli.output import (
    open_dataset,
    output_options,
    parse_destination,
    read_query,
    read_sql,
    reader_of,
    write_query,
)

Row = dict[str, Any]

_ID_DIGITS = 12

#: Packages that have a column of their own.
_NAMED = ("peft", "transformers", "torch")

#: Columns of an environment that are shown of every machine, in their own way.
_ALWAYS = ("cpu", "n_cpus")


@click.command(name="environments")
@label_option
@click.option("--source", metavar="ID", shell_complete=complete_source, help="Only this source.")
@output_options
@registry_option
def command(
    *,
    label: str | None,
    source: str | None,
    format_name: str | None,
    output: Path | None,
    registry_path: Path | None,
) -> None:
    """List the environments and labels that registry compare can compare.

    Of other packages, variables and details of the machine, only those in which the listed
    environments differ are shown. The newest come first. Compare two by label=NAME, by a package's
    version, or by their ids.

    \b
    Example:
      registry environments --source fms-acceleration
    """  # noqa: D301 - \b keeps the example's lines
    destination = parse_destination(format_name, output, registry_path)
    dataset = open_dataset(registry_path)
    snapshot = read_snapshot(locate(registry_path))
    params = {
        "label": validate_label(label, dataset),
        "source": find_source(source, snapshot, reader_of(dataset)),
    }
    found = [as_document(row) for row in read_query(dataset, read_sql("environments"), params)]
    rows = json.dumps(list(_describe_all(found)))
    write_query(dataset, read_sql("described_environments"), {"rows": rows}, destination)
    if not found:
        console.hint("no environment matches")


def _describe_all(found: list[Row]) -> list[Row]:
    environments = [row["environment"] for row in found]
    versions = find_telling(map(list_versions, environments))
    machine = find_telling(map(list_machine, environments))
    return [_describe(row, versions, machine) for row in found]


def _describe(row: Row, versions: list[str], machine: list[str]) -> Row:
    environment = row["environment"]
    known = list_versions(environment)
    return {
        "id": row["environment_id"][:_ID_DIGITS],
        "label": row.get("label"),
        **{name: known.get(name) for name in _NAMED},
        "others": _format_chosen(known, [name for name in versions if name not in _NAMED]),
        "machine": _format_machine(row, machine),
        "n": row["n_observations"],
        "first": row.get("first_at"),
        "last": row.get("last_at"),
    }


def _format_machine(row: Row, telling: list[str]) -> str:
    environment = row["environment"]
    gpus = [gpu for gpu in row.get("gpu_ids", ()) if gpu != "cpu"]
    n_cpus = environment.get("n_cpus")
    known = list_machine(environment)
    if "host_memory_bytes" in known:
        known["host_memory_bytes"] = format_memory(known["host_memory_bytes"])
    parts = (
        ", ".join(gpus),
        environment.get("cpu") if not gpus else None,
        f"{n_cpus} processors" if n_cpus else None,
        _format_chosen(known, [name for name in telling if name not in _ALWAYS]),
    )
    return "; ".join(filter(None, parts))


def _format_chosen(known: Row, names: list[str]) -> str:
    return ", ".join(f"{name} {known[name]}" for name in names if name in known)
