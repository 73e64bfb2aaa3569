"""The documents that parts hold: read them, and verify them before others are removed."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from registry.errors import StoreError
from registry.store.derive_tables import read_document
from registry.store.files import for_engine, require_regular
from registry.store.manifest import REPAIR
from registry.store.parquet import READ_ERRORS, is_text, read_table
from registry.submission.identity import document_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from registry.store.derive_tables import Document
    from registry.store.parts import Part


def read_documents(part: Part) -> Iterator[Document]:
    """Yield the documents of a part in the order in which they were folded.

    Raises StoreError where one does not match its id, or is no JSON object.
    """
    for submission_id, text in _texts(part):
        yield read_document(submission_id, text, part.file("submissions"))


def read_all_documents(parts: Iterable[Part]) -> Iterator[Document]:
    """Yield the documents of all parts, as `read_documents` does those of each."""
    for part in parts:
        yield from read_documents(part)


def find_documents(parts: Iterable[Part], text: str) -> Iterator[Document]:
    """Yield the documents of parts that hold a text, such as an id: the others are not parsed."""
    for part in parts:
        for submission_id, written in _texts(part):
            if text in submission_id or text in written:
                yield read_document(submission_id, written, part.file("submissions"))


def read_ids(part: Part) -> set[str]:
    """Return the ids of the documents that a part holds in full. Raises StoreError."""
    return {key for key, text in _texts(part) if text is not None and document_id(text) == key}


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


#: Rows that are unpacked together.
_BATCH_ROWS = 512

#: The columns that hold a part's documents.
_TEXTS = ("submission_id", "document")


def holds_documents(part: Part) -> bool:
    """Return whether the file of a part's documents can be read, and each matches its id."""
    try:
        return all(document_id(text) == key for key, text in _texts(part))
    except StoreError:
        return False


def _texts(part: Part) -> Iterator[tuple[str, str]]:
    """Yield id and text of each document, one at a time: together they may be larger than memory.

    Raises StoreError where one is there twice, as a small file can repeat one for ever.
    """
    seen: set[str] = set()
    for batch in _batches(part):
        ids, texts = batch.columns
        for submission_id, text in zip(ids.to_pylist(), texts, strict=True):
            if submission_id in seen:
                raise StoreError(
                    f"{part.file('submissions')}: found document {submission_id[:12]} twice; "
                    f"expected it once; {REPAIR}"
                )
            seen.add(submission_id)
            yield submission_id, text.as_py()


def _batches(part: Part) -> Iterator[pa.RecordBatch]:
    path = part.file("submissions")
    if path is None:
        return
    try:
        require_regular(path)
        schema = pq.read_schema(for_engine(path))
        if not all(_holds_texts(schema, name) for name in _TEXTS):
            raise StoreError(f"{path}: found no texts of documents; {REPAIR}")
        # as a dictionary, so that one long text that many rows repeat is held once
        file = pq.ParquetFile(for_engine(path), read_dictionary=["document"])
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=list(_TEXTS)):
            batch.validate(full=True)
            ids, texts = batch.columns
            if ids.null_count or texts.null_count:
                raise StoreError(f"{path}: found a document without its text; {REPAIR}")
            if len(pc.unique(texts.indices)) < len(texts):
                raise StoreError(f"{path}: found a document twice; expected it once; {REPAIR}")
            yield batch
    except READ_ERRORS as error:
        raise StoreError(f"{path}: cannot be read ({error}); {REPAIR}") from None


def _holds_texts(schema: pa.Schema, name: str) -> bool:
    """Return whether a file has one column of a name, and texts in it."""
    places = schema.get_all_field_indices(name)
    return len(places) == 1 and is_text(schema.field(places[0]).type)


#: What is compared to find an observation again that has another id: across contracts, all that it
#: states; after a correction, the places that report it.
STATED = {
    "observations": ("source_id", "run_id", "observed_at", "outcome"),
    "measurements": ("metric", "statistic", "scope", "device_index", "kind", "value"),
    "citations": ("locator",),
}
PLACES = {"observations": ("source_id",), "citations": ("source_id", "locator")}


def match_ids(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return the ids that only ``old`` has, and those that only ``new`` has of the signature."""
    counts = Counter(new.values())
    by_signature = {
        text: identity
        for identity, text in new.items()
        if counts[text] == 1 and identity not in old
    }
    return {
        identity: by_signature[signature]
        for identity, signature in old.items()
        if identity not in new and signature in by_signature
    }


def match_places(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Do what ``match_ids`` does, for signatures by ``PLACES``.

    Where rows were put into a table or taken out of it, others stand in the places of before: no
    id of such a table is matched.
    """
    moved = {
        _table_of(place)
        for identity in old.keys() & new.keys()
        for place in set(old[identity].splitlines()) - set(new[identity].splitlines())
    }
    still = {
        identity: places
        for identity, places in old.items()
        if identity in new or moved.isdisjoint(map(_table_of, places.splitlines()))
    }
    return match_ids(still, new)


def _table_of(place: str) -> tuple[str, str]:
    """Return the source and the table that a line of a signature by ``PLACES`` names."""
    row = json.loads(place)
    locator = row.get("locator") or ""
    return row["source_id"], locator.rpartition(", row ")[0] or locator


def sign_observations(parts: Iterable[Part], by: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the signature of each observation, whose rows may be in several of the parts.

    ``by`` names the columns of each table that it consists of.
    """
    parts = list(parts)
    found: dict[str, set[str]] = {}
    for table, columns in by.items():
        files = [file for part in parts if (file := part.file(table))]
        for row in read_table(table, files).select(["observation_id", *columns]).to_pylist():
            identity = row.pop("observation_id")
            found.setdefault(identity, set()).add(json.dumps(row, default=str, sort_keys=True))
    return {identity: "\n".join(sorted(rows)) for identity, rows in found.items()}
