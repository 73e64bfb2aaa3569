"""The documents that parts hold: read them, and verify them before others are removed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from registry.errors import StoreError
from registry.store.derive_tables import Document
from registry.store.manifest import REPAIR
from registry.submission.identity import document_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from registry.store.parts import Part


def read_documents(part: Part) -> Iterator[Document]:
    """Yield the documents of a part in the order in which they were folded.

    Raises StoreError where one does not match its id.
    """
    for submission_id, text in _texts(part):
        if document_id(text) != submission_id:
            raise StoreError(
                f"{part.file('submissions')}: submission {submission_id[:12]} does not "
                f"match its id; {REPAIR}"
            )
        yield Document(submission_id, text, json.loads(text))


def find_safe(parts: Iterable[Part], wanted: Collection[str]) -> set[str]:
    """Return which of some submissions a part holds in full, read back from its file."""
    safe: set[str] = set()
    for part in parts:
        ids = part.ids("submissions")
        if ids is None or not any(bytes.fromhex(one[:32]) in ids for one in wanted):
            continue
        safe.update(
            submission_id
            for submission_id, text in _texts(part)
            if submission_id in wanted and document_id(text) == submission_id
        )
    return safe


def _texts(part: Part) -> Iterator[tuple[str, str]]:
    path = part.file("submissions")
    if path is None:
        return
    try:
        file = pq.ParquetFile(path)
        for batch in file.iter_batches(batch_size=512, columns=["submission_id", "document"]):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
    except (OSError, pa.ArrowInvalid) as error:
        raise StoreError(f"{path}: cannot be read ({error}); {REPAIR}") from None
