"""``registry export``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.contract import TABLES, view_names
from registry.store.files import filled_folder, require_free
from registry.text import format_count
from registry_cli import console
from registry_cli.group import HintedChoice
from registry_cli.options import locate, registry_option
from registry_cli.output import (
    Destination,
    at_option,
    open_dataset,
    read_query,
    read_sql,
    validate_version,
    write_query,
)
from registry_cli.output_file import open_output, validate_output


@click.command(name="export")
@click.argument("target", metavar="DIR|FILE.jsonl", type=click.Path(path_type=Path))
@click.option(
    "-f",
    "--format",
    "format_name",
    type=HintedChoice(["parquet", "csv", "jsonl"]),
    help="Parquet, unless the name ends with .jsonl.",
)
@click.option(
    "--label", metavar="NAME", help="Only documents with a run of this label (FILE.jsonl only)."
)
@click.option(
    "--url", metavar="URL", help="Where the export will be found, for its metadata and citation."
)
@at_option
@registry_option
def command(
    target: Path,
    *,
    format_name: str | None,
    label: str | None,
    url: str | None,
    at: int | None,
    registry_path: Path | None,
) -> None:
    """Write all tables to the folder DIR: Parquet with `results` and a manifest, or CSV.

    The Parquet files' metadata has the units and meanings of columns. The folder also gets
    README.md (a dataset card for Hugging Face: load_dataset(DIR, "results")), croissant.json and
    CITATION.cff, with the licence of each source. A CSV export has a file for each view, but none
    of these: for units and meanings see `registry query --schema`, for licences `sources.csv`.

    FILE.jsonl gets the documents as text, one per line: a baseline to keep in a repository. Parquet
    and documents can be added to another registry with `registry add`.

    \b
    Examples:
      registry export my-export
      registry export documents.jsonl
    """  # noqa: D301 - \b keeps the examples' lines
    if format_name == "jsonl" or (format_name is None and target.suffix == ".jsonl"):
        if url is not None:
            raise click.UsageError("--url is for the metadata of Parquet; documents have none")
        _export_documents(registry_path, target, label, at)
        return
    if label is not None:
        raise click.UsageError("--label chooses documents; expected a file: FILE.jsonl")
    _validate_url(url, format_name)
    validate_output(target / "manifest.json", locate(registry_path))
    if format_name == "csv":
        counts = _export_csv(registry_path, target, at)
    else:
        from registry.store.export import export_folder  # noqa: PLC0415 - heavy

        location = locate(registry_path)
        validate_version(location, at)
        counts = export_folder(location, target, at, url=url)
    rows = ", ".join(f"{n} {table}" for table, n in counts.items())
    console.say(f"exported to {target}: {rows}")


def _validate_url(url: str | None, format_name: str | None) -> None:
    if url is None:
        return
    if format_name == "csv":
        raise click.UsageError("--url is for the metadata of Parquet; CSV has none")
    if not url.startswith(("https://", "http://")) or not url.isprintable() or " " in url:
        raise click.UsageError(f"--url: found {url!r}; expected https://…")


def _export_csv(registry_path: Path | None, target: Path, at: int | None) -> dict[str, int]:
    require_free(target)
    dataset = open_dataset(registry_path, at)
    counts = {}
    with filled_folder(target, last="results.csv") as temporary:
        for name in (*TABLES, *view_names()):
            destination = Destination("csv", temporary / f"{name}.csv")
            counts[name] = write_query(dataset, f"from {name}", {}, destination).rows
    return counts


def _export_documents(
    registry_path: Path | None, target: Path, label: str | None, at: int | None
) -> None:
    validate_output(target, locate(registry_path))
    if target.name.startswith("registry-"):
        raise click.UsageError(
            f"{target}: a name that begins with registry- is that of a recorder's own file; "
            "expected another one, such as baseline.jsonl"
        )
    dataset, params = open_dataset(registry_path, at), {"label": label}
    rows = read_query(dataset, read_sql("documents"), params)
    if label is not None and not rows:
        raise click.UsageError(
            f"label {label!r}: no run has it; registry environments lists the labels"
        )
    with open_output(target) as file:
        file.writelines(f"{row['document']}\n".encode() for row in rows)
    (count,) = read_query(dataset, read_sql("count_observations"), params)
    observations = format_count(count["n"], "observation")
    console.say(f"exported to {target}: {observations} in {format_count(len(rows), 'document')}")
    n_beside = sum(row["n_beside"] for row in rows) if label is not None else 0
    if n_beside:
        console.warning(
            f"{format_count(n_beside, 'observation')} without the label {label!r} came along: a "
            "document is exported whole"
        )
