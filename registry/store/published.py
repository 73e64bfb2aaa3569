"""What goes out beside the tables of an export: dataset card, Croissant metadata and citation."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry import __version__
from registry.contract.descriptions import describe_relation
from registry.contract.resources import parse_yaml, schemas_dir
from registry.errors import ContractError
from registry.store.croissant import describe_dataset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

Row = dict[str, Any]

#: Names of the files beside the tables.
CARD, CROISSANT, CITATION = "README.md", "croissant.json", "CITATION.cff"


@dataclass(frozen=True)
class Exported:
    """What an export holds."""

    #: Arrow schema, rows and SHA-256 of each table's file.
    schemas: Mapping[str, pa.Schema]
    counts: Mapping[str, int]
    digests: Mapping[str, str]
    #: Rows of `sources` that have an observation, with how many as ``n``.
    sources: Sequence[Row]
    #: Day of the export (ISO 8601), and where it will be found, if that is known.
    day: str
    url: str | None = None


@lru_cache(maxsize=1)
def read_citation() -> Row:
    """Return how the registry asks to be cited: CITATION.cff of the checkout, or in the wheel.

    Raises ContractError where there is none.
    """
    package = Path(__file__).resolve().parents[1]
    places = (package / "curated" / CITATION, schemas_dir().parent / CITATION)
    path = next(filter(Path.is_file, places), None)
    if path is None:
        raise ContractError(
            f"{places[1]}: no such file; expected how the registry is cited; install it again"
        )
    citation: Row = parse_yaml(path.read_bytes())
    return citation


def format_companions(exported: Exported) -> dict[str, str]:
    """Return the text of each file beside the tables, by its name."""
    citation = {**read_citation(), "version": __version__, "date-released": exported.day}
    if exported.url:
        citation["url"] = exported.url
    croissant = describe_dataset(exported, citation)
    return {
        CARD: _format_card(exported, citation),
        CROISSANT: json.dumps(croissant, indent=1, ensure_ascii=False) + "\n",
        CITATION: _dump_yaml(citation),
    }


def _dump_yaml(document: Any) -> str:
    import yaml  # noqa: PLC0415 - only where something is exported

    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
    return text


def _format_card(exported: Exported, citation: Row) -> str:
    sources = sorted(exported.sources, key=lambda row: str(row["source_id"]))
    return _CARD.format(
        front=_dump_yaml(_front_matter(exported, citation)),
        title=citation["title"],
        abstract=citation["abstract"],
        version=citation["version"],
        day=exported.day,
        tables="".join(_format_table_row(exported, name) for name in exported.schemas),
        sources="".join(map(_format_source, sources)),
    )


def _front_matter(exported: Exported, citation: Row) -> Row:
    """Return what Hugging Face reads: a configuration for each table that has rows."""
    configs: list[Row] = [
        {"config_name": name, "data_files": f"{name}.parquet"}
        for name, count in exported.counts.items()
        if count
    ]
    for config in configs:
        if config["config_name"] == "results":
            config["default"] = True
    return {
        "pretty_name": citation["title"],
        "license": "other",
        "license_name": "each-source-keeps-its-own",
        "tags": [word.lower().replace(" ", "-") for word in citation["keywords"]],
        "configs": configs,
    }


def _format_table_row(exported: Exported, name: str) -> str:
    meaning = describe_relation(name)
    return f"| `{name}.parquet` | {exported.counts[name]} | {_escape(meaning)} |\n"


def _format_source(row: Row) -> str:
    url = row["url"] or ""
    # an address with other characters would end the link, or be none
    linked = url.startswith(("https://", "http://")) and not set(url) & set(" <>()[]|\\\n")
    name = f"[{row['source_id']}]({url})" if linked else f"{row['source_id']} {_escape(url)}"
    return f"| {name.strip()} | {row['n']} | {_escape(row['licence'] or 'none stated')} |\n"


def _escape(text: str) -> str:
    """Return a text as a cell of a Markdown table that shows it as it is."""
    shown = html.escape(" ".join(text.split()), quote=False)
    for mark in r"\`*_[]|":
        shown = shown.replace(mark, f"\\{mark}")
    return shown


_CARD = """\
---
{front}---

# {title}

{abstract}

Version {version}, exported on {day}. Units are bytes, seconds and tokens; `peak_memory_bytes` is of
all cards together. Each column of a Parquet file has its unit and meaning in its metadata.

```python
import datasets

results = datasets.load_dataset("path/to/this/folder", "results", split="train")
```

## Tables

| file | rows | a row is |
| --- | --: | --- |
{tables}
## Licences

Figures keep the licence of their source; where none is stated, its document states none. The
selection, the mappings and the own runs of the curated records are under CC-BY-4.0. Cite the
sources of the figures that you use, and the registry as `CITATION.cff` says.

| source | observations | licence |
| --- | --: | --- |
{sources}"""
