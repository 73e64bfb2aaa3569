"""Small registries for the tests of the store, and what is in them."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from registry.api import Registry
from registry.contract import TABLES
from registry.query.database import create_objects, select_names
from registry.store.fold import commit
from registry.store.folder import Location, create_registry, find_registry
from registry.store.manifest import Manifest
from registry.store.parquet import ordered_table
from registry.store.parts import write_part
from registry.store.read import build_dataset
from registry.store.snapshot import read_snapshot
from registry.submission.identity import canonical_json, document_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.store.folder import Folder

#: The curated records of the checkout.
RECORDS = Path(__file__).parents[3] / "records"

Document = dict[str, Any]


def build_document(
    number: int = 0, *, source_id: str = "src-a", locator: str | None = None, **observation: Any
) -> Document:
    """Return one small submission; ``number`` tells its run from others."""
    return {
        "schema_version": 1,
        "source": {"source_id": source_id, "kind": "run"},
        "models": [{"model_id": "tiny", "n_params": 1_000}],
        "gpus": [{"gpu_id": "gpu-a", "memory_bytes": 24 * 2**30}],
        "observations": [
            {
                "outcome": "ok",
                "run_id": f"run-{number}",
                "observed_at": "2024-05-01T10:00:00Z",
                "flags": ["short_run"],
                "provenance": {"command": "train"},
                "configuration": {
                    "model_id": "tiny",
                    "method": "lora",
                    "lora_rank": 8 + number % 3,
                    "lora_target_modules": ["q_proj", "v_proj"],
                    "gpu_id": "gpu-a",
                    "n_gpus": 1,
                    "micro_batch_size": 2,
                    "grad_accum_steps": 4,
                },
                "environment": {"framework": "transformers", "torch_version": "2.5.1"},
                "measurements": [
                    {"metric": "peak_memory", "kind": "reserved", "statistic": "max", "value": 2e9},
                    {"metric": "step_time", "value": 1.5 + number},
                ],
                "citations": [
                    {"locator": locator or f"row {number}", "row": 1, "cells": {"a": "1.5"}}
                ],
                "samples": [{"step": 1, "seconds": 1.5}, {"step": 2, "seconds": 1.4}],
                **observation,
            }
        ],
    }


#: How those of the curated models and GPUs begin that tests of the store name.
_FEW = {
    "models": ('- model_id: "llama-2-7b"\n',),
    "gpus": ('- gpu_id: "rtx-3090"\n', '- gpu_id: "rtx-4090"\n'),
}


@lru_cache
def _few_of(part: str) -> str:
    text = (RECORDS / "catalogue" / f"{part}.yaml").read_text(encoding="utf-8")
    entries = re.split(r"^(?=- )", text, flags=re.MULTILINE)
    return "".join(entry for entry in entries if entry.startswith(_FEW[part]))


def write_catalogue(records: Path) -> None:
    """Write a few of the curated models and GPUs: reading all takes longer than most tests."""
    (records / "catalogue").mkdir(parents=True)
    for part in _FEW:
        (records / "catalogue" / f"{part}.yaml").write_text(_few_of(part), encoding="utf-8")


def make_registry(path: Path) -> Registry:
    """Return an empty registry that does not read the curated records."""
    create_registry(path, curated=False)
    return Registry(find_registry(path))


def fold_texts(folder: Folder, *texts: str) -> None:
    """Make documents of any text a registry's folded state."""
    rows: list[dict[str, Any]] = [
        {"submission_id": document_id(text), "n_observations": 0, "document": text}
        for text in texts
    ]
    part = write_part(folder, {"submissions": ordered_table("submissions", rows)}, "")
    commit(folder, Manifest(), [part])


def add_numbers(db: Registry, *numbers: int, **choices: Any) -> list[str]:
    """Record small submissions; return their ids."""
    return [db.add(build_document(number, **choices)).submission_id for number in numbers]


def write_source(records: Path, number: int, **choices: Any) -> Path:
    """Write a recorded submission as a source of curated records."""
    folder = records / "sources" / f"src-{number}"
    folder.mkdir(parents=True)
    path = folder / "recorded.json"
    document = build_document(number, source_id=f"src-{number}", **choices)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def write_entry(folder: Folder, document: Any) -> str:
    """Write any document to the journal as if it had been added, under the hash it should have."""
    text = document if isinstance(document, str) else canonical_json(document)
    folder.journal.mkdir(parents=True, exist_ok=True)
    (folder.journal / f"{document_id(text)}.json").write_text(text, encoding="utf-8")
    return document_id(text)


def read_content(location: Location, at: int | None = None) -> dict[str, list[Any]]:
    """Return the rows of every table and of ``results`` as queries see them, sorted."""
    names = (*TABLES, "results")
    with _open_tables(location, at) as connection:
        return {name: _read_rows(connection, name) for name in names}


@contextmanager
def _open_tables(location: Location, at: int | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open every table and ``results`` as a query does, on one thread: there are few rows."""
    dataset = build_dataset(read_snapshot(location, at))
    names = select_names(dataset, " ".join((*TABLES, "results")))
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        connection.execute("set timezone = 'UTC'")
        create_objects(connection, dataset, names)
        yield connection


def _read_rows(connection: duckdb.DuckDBPyConnection, name: str) -> list[Any]:
    table = connection.execute(f'from "{name}"').to_arrow_table()
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in table.to_pylist())


def count_runs(location: Location, at: int | None = None) -> dict[str, int]:
    """Return how often each run is among the observations; the other tables are opened too."""
    with _open_tables(location, at) as connection:
        sql = "select run_id, count(*) from observations group by all"
        return dict(connection.execute(sql).fetchall())


def runs(*numbers: int) -> dict[str, int]:
    """Return what ``count_runs`` gives where each of these runs is there once."""
    return {f"run-{number}": 1 for number in numbers}
