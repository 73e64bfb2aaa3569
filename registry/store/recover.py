"""Read what can be read of a damaged part: its documents, else its rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from registry.contract import TABLES
from registry.store.compose import compose_documents
from registry.store.derive_tables import Document
from registry.submission.identity import document_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def recover_part(path: Path, notes: list[str]) -> Iterator[Document]:
    """Yield the documents of a part, composed from its rows where they cannot be read.

    What is wrong is added to ``notes``.
    """
    rows = _read(path / "submissions.parquet", notes)
    damaged = 0
    for row in rows or ():
        text = row.get("document")
        if isinstance(text, str) and document_id(text) == row.get("submission_id"):
            yield Document(row["submission_id"], text, json.loads(text))
        else:
            damaged += 1
    if rows is None or damaged:
        notes.append(
            f"{path}: documents damaged or missing; their observations are composed from the rows"
        )
        yield from _compose(path, notes)


def _compose(path: Path, notes: list[str]) -> Iterator[Document]:
    tables = {
        name: _read(path / f"{name}.parquet", notes) or []
        for name in TABLES
        if name != "submissions" and (path / f"{name}.parquet").exists()
    }
    yield from compose_documents(tables)


def _read(path: Path, notes: list[str]) -> list[dict[str, Any]] | None:
    try:
        rows: list[dict[str, Any]] = pq.read_table(path, partitioning=None).to_pylist()
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
        notes.append(f"{path}: cannot be read ({str(error).splitlines()[0]})")
        return None
    return rows
