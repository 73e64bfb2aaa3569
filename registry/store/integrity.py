"""Whether the files of an export are those that its manifest names: rows and SHA-256."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from registry.errors import StoreError, SubmissionError
from registry.store.export import EXPORT_MANIFEST

if TYPE_CHECKING:
    from pathlib import Path

_READ_BYTES = 2**20


class Integrity:
    """Hashes the files of an export on a thread of its own, while others read them."""

    def __init__(self, path: Path, tables: dict[str, Any]) -> None:
        self._path = path
        self._tables = tables
        self._stopped = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._digests: dict[str, Future[str]] = {
            name: self._pool.submit(self._hash, path / entry["file"])
            for name, entry in tables.items()
        }

    def _hash(self, path: Path) -> str:
        digest = sha256()
        with path.open("rb") as file:
            while not self._stopped.is_set() and (data := file.read(_READ_BYTES)):
                digest.update(data)
        return digest.hexdigest()

    def require(self) -> None:
        """Wait for the hashes; raise SubmissionError where one is another than the manifest's."""
        problems = []
        for name, entry in self._tables.items():
            found = self._digests[name].result()
            if found != entry["sha256"]:
                problems.append(
                    f"{entry['file']}: found SHA-256 {found}; expected {entry['sha256']}, as in "
                    f"{EXPORT_MANIFEST}; export it again"
                )
        if problems:
            raise SubmissionError(problems, origin=str(self._path))

    def stop(self) -> None:
        """Stop reading."""
        self._stopped.set()
        self._pool.shutdown(cancel_futures=True)


def open_integrity(path: Path) -> Integrity | None:
    """Start hashing the files of a folder, where it has the manifest of an export.

    Raises StoreError where the manifest is damaged, SubmissionError where other files are there
    than it names, or a file has another number of rows.
    """
    manifest = path / EXPORT_MANIFEST
    if not manifest.is_file():
        return None
    tables = _read_tables(manifest)
    problems = [*_check_names(path, tables), *_check_rows(path, tables)]
    if problems:
        raise SubmissionError(problems, origin=str(path))
    return Integrity(path, tables)


def _read_tables(manifest: Path) -> dict[str, Any]:
    try:
        tables = json.loads(manifest.read_text(encoding="utf-8"))["tables"]
        return {
            name: {key: entry[key] for key in ("file", "rows", "sha256")}
            for name, entry in tables.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{manifest}: cannot be read ({error!r}); expected the manifest of `registry export`: "
            "for each table its file, rows and sha256; export it again"
        ) from None


def _check_names(path: Path, tables: dict[str, Any]) -> list[str]:
    there = {entry.name for entry in path.iterdir() if entry.suffix == ".parquet"}
    named = {entry["file"] for entry in tables.values()}
    problems = [
        f"found no {file}; expected it, because {EXPORT_MANIFEST} names it; export it again"
        for file in sorted(named - there)
    ]
    return problems + [
        f"found {file}; expected only the files that {EXPORT_MANIFEST} names; remove it, or "
        f"{EXPORT_MANIFEST}"
        for file in sorted(there - named)
    ]


def _check_rows(path: Path, tables: dict[str, Any]) -> list[str]:
    problems = []
    for entry in tables.values():
        file = path / entry["file"]
        rows = _count_rows(file)
        if rows not in (None, entry["rows"]):
            problems.append(
                f"{entry['file']}: found {rows} rows; expected {entry['rows']}, as in "
                f"{EXPORT_MANIFEST}; export it again"
            )
    return problems


def _count_rows(file: Path) -> int | None:
    """Return the rows of a file; None where it is not there, or is no Parquet file."""
    try:
        return int(pq.read_metadata(file).num_rows)
    except (OSError, pa.ArrowInvalid):
        return None  # told where the names are checked, or where the file is read
