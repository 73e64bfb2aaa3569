"""Read the documents of an export, so that they can be added to another registry."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from registry.contract import FORMAT_VERSION, TABLES
from registry.errors import StoreError, SubmissionError
from registry.reading import ReadingError, read_bytes
from registry.reading.json_reader import check_values, parse_json
from registry.store.compose import compose_submissions
from registry.store.export import EXPORT_MANIFEST
from registry.store.files import for_engine
from registry.store.parquet import READ_ERRORS, is_text, read_rows
from registry.store.parts import hash_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Largest document of an export, in bytes.
LARGEST_EXPORTED = 32 * 2**20

#: Largest table that documents are composed of, in bytes: a small file can repeat a row for ever.
LARGEST_COMPOSED = 128 * 2**20

#: Largest manifest of an export, in bytes; it has a few thousand.
_LARGEST_MANIFEST = 16 * 2**20

#: Largest Parquet file of an export that is read, unpacked: a small file can hold far more.
LARGEST_UNPACKED = 8 * 2**30


def read_exported(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the documents of an export as (origin, document), those that describe models first.

    Rows without a document, which releases before 0.2 allowed, are composed to documents. Raises
    StoreError where the export is damaged, SubmissionError where its files are not those that its
    manifest names.
    """
    tables = _read_manifest(path)
    _check_files(path, tables)
    file = path / tables["submissions"]["file"]
    for is_first in (True, False):
        for origin, document in _read_documents(file):
            if document is not None and is_first is _describes(document):
                yield origin, document
    if any(document is None for _, document in _read_documents(file)):
        names = [name for name in TABLES if name != "submissions" and tables.get(name)]
        rows = {name: _read_rows(path / tables[name]["file"]) for name in names}
        for plain in _composed(path, rows):
            yield f"{path}, source {plain['source']['source_id']}", plain


def _composed(path: Path, rows: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    try:
        return list(compose_submissions(rows))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SubmissionError(
            f"its rows do not belong together ({error!r}); expected the tables that `registry "
            "export` writes; export it again",
            origin=str(path),
        ) from error


def _read_documents(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield id and document of each submission; None where a row has no document."""
    seen: set[str | None] = set()
    for batch in _read_batches(path):
        texts = batch.column("document")
        longest = pc.max(pc.binary_length(texts.dictionary)).as_py() or 0
        if longest > LARGEST_EXPORTED:
            raise SubmissionError(
                f"{path.name}: holds a document of {longest} bytes; expected at most "
                f"{LARGEST_EXPORTED}",
                origin=str(path.parent),
            )
        for key, text in zip(batch.column("submission_id"), texts, strict=True):
            found, submission_id = text.as_py(), key.as_py()
            origin = _origin(path.parent, submission_id)
            if submission_id in seen:  # a small file can repeat one for ever
                raise SubmissionError(
                    f"{path.name}: found it twice; expected each submission once; export it again",
                    origin=origin,
                )
            seen.add(submission_id)
            if found is None:
                yield origin, None
            else:
                check_values(found, origin=origin)
                yield origin, parse_json(found, origin=origin)


def _read_batches(path: Path) -> Iterator[pa.RecordBatch]:
    with _explained_file(path):
        _check_columns(path, pq.read_schema(for_engine(path)))
        # as a dictionary, so that one long text that many rows repeat is held once
        file = pq.ParquetFile(for_engine(path), read_dictionary=["document"])
        for batch in file.iter_batches(batch_size=256, columns=["submission_id", "document"]):
            batch.validate(full=True)
            yield batch


@contextmanager
def _explained_file(file: Path) -> Iterator[None]:
    """Turn what pyarrow says of a file that no export wrote into an error of ours."""
    try:
        yield
    except READ_ERRORS as error:
        reason = str(error).partition("\n")[0]
        raise SubmissionError(
            f"{file.name}: cannot be read ({reason}); expected a table that `registry export` "
            "writes; export it again",
            origin=str(file.parent),
        ) from None


def _origin(path: Path, submission_id: str | None) -> str:
    return f"{path}, submission {submission_id[:12] if submission_id else 'without an id'}"


def _check_columns(path: Path, schema: pa.Schema) -> None:
    """Raise SubmissionError where the submissions' file lacks the texts that are read from it."""
    for name in ("submission_id", "document"):
        place = schema.get_field_index(name)
        kind = pa.null() if place < 0 else schema.field(place).type
        if not is_text(kind):
            values = kind.value_type if pa.types.is_dictionary(kind) else kind
            found = "no such column" if place < 0 else str(values)
            raise SubmissionError(
                f"{path.name}, column {name}: found {found}; expected texts, as `registry export` "
                "writes them; export it again",
                origin=str(path.parent),
            )


def _describes(document: Any) -> bool:
    return isinstance(document, dict) and bool(document.get("models") or document.get("gpus"))


def _read_rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a table, each of which takes ten times as much memory as in the file."""
    with _explained_file(file):
        rows = read_rows(file, LARGEST_COMPOSED)
    if rows is None:
        raise SubmissionError(
            f"{file.name}: found more than {LARGEST_COMPOSED} bytes of rows without a document; "
            "expected fewer; `registry fold` the registry they are from with this release, and "
            "export it again",
            origin=str(file.parent),
        )
    return rows


def _read_manifest(path: Path) -> dict[str, Any]:
    manifest = path / EXPORT_MANIFEST
    try:
        document = json.loads(read_bytes(manifest, limit=_LARGEST_MANIFEST, what="a manifest"))
        if document["format"] > FORMAT_VERSION:
            raise StoreError(
                f"{manifest}: found format {document['format']}; expected at most "
                f"{FORMAT_VERSION}: a newer release wrote it; upgrade with "
                "`pip install -U peft-registry`"
            )
        tables: dict[str, Any] = document["tables"]
        names = [entry["file"] for entry in tables.values() if entry["sha256"]]
        if "submissions" not in tables or any(name != name.rpartition("/")[2] for name in names):
            raise ValueError("no submissions, or a file that is not a plain name")  # noqa: TRY301
    except ReadingError as error:
        raise StoreError(str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"{manifest}: cannot be read ({error!r}); expected the manifest of `registry export`: "
            "for each table its file, rows and sha256; export it again"
        ) from None
    return tables


def _check_files(path: Path, tables: dict[str, Any]) -> None:
    problems = []
    for entry in tables.values():
        file = path / entry["file"]
        if file.is_symlink() or not file.is_file():
            problems.append(
                f"found no {entry['file']}; expected it, because {EXPORT_MANIFEST} names it"
            )
        elif hash_file(file) != entry["sha256"]:
            problems.append(f"{entry['file']}: its content is not what {EXPORT_MANIFEST} says")
        elif (size := _unpacked_size(file)) is None:
            problems.append(f"{entry['file']}: found no Parquet")
        elif size > LARGEST_UNPACKED:
            problems.append(
                f"{entry['file']}: unpacks to {size} bytes, expected a table below 8 GiB"
            )
    if problems:
        raise SubmissionError([f"{text}; export it again" for text in problems], origin=str(path))


def _unpacked_size(file: Path) -> int | None:
    try:
        metadata = pq.read_metadata(for_engine(file))
    except READ_ERRORS:
        return None
    sizes = (metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups))
    return int(sum(sizes))
