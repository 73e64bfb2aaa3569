"""Make the curated tables from their sources: one file per table, under a stable name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from registry.contract.fingerprint import contract_stamp, is_current
from registry.errors import StoreError
from registry.store.catalogue_files import catalogue_text, hash_catalogue
from registry.store.curated import MANIFEST, find_pending_sources, hash_sources
from registry.store.derive_tables import CATALOGUE_TABLES, derive_tables, with_described
from registry.store.documents import PLACES, match_places, sign_observations
from registry.store.folder import Folder
from registry.store.lock import table_lock
from registry.store.parts import CATALOGUE, CURATED, format_part, parse_part
from registry.store.renamed import write_renamed
from registry.tables.curated import load_curated_catalogue, read_sources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.catalogue import Catalogue
    from registry.store.derive_tables import Rows


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a build found: the files that differ from those that were there."""

    n_submissions: int
    n_observations: int
    changed: tuple[str, ...]
    #: Sources whose current content the tables did not hold before anything was written.
    pending: tuple[str, ...]
    #: Ids that corrected observations had, and what they are now.
    renamed: dict[str, str] = field(default_factory=dict)


def build_tables(records: Path) -> BuildResult:
    """Rebuild ``records/tables`` from ``records/sources`` and ``records/catalogue``.

    Raises SourceError where a source cannot be read, StoreError where the folder cannot be
    written.
    """
    folder = _require_sources(records)
    with table_lock(folder):
        pending = find_pending_sources(folder)
        n_submissions, files = format_tables(records)
        changed = tuple(name for name, data in files.items() if _read(folder, name) != data)
        there = {name for name in folder.storage.list("tables") if not name.startswith(".")}
        stale = there - files.keys()
        # first: a build that is interrupted later leaves lines too many, and one that is
        # repeated could not tell any more what the ids were
        renamed = match_places(_sign(folder), _sign_made(files)) if changed else {}
        write_renamed(folder, renamed)
        with folder.storage.writing() as batch:
            for name in changed:
                if name != "manifest.json":
                    batch.add(f"tables/{name}", files[name])
            batch.commit()
        if "manifest.json" in changed:
            folder.storage.put(MANIFEST, files["manifest.json"])
        for name in stale:
            if folder.storage.path(f"tables/{name}").is_file():
                folder.storage.delete(f"tables/{name}")
    rows = json.loads(files["manifest.json"])["files"]["observations.parquet"]["rows"]
    return BuildResult(n_submissions, rows, tuple(sorted({*changed, *stale})), pending, renamed)


def _sign(folder: Folder) -> dict[str, str]:
    """Return what finds each observation of the tables again after a correction of its source."""
    try:
        part = parse_part(CURATED, folder.tables, json.loads(folder.storage.get(MANIFEST)))
        return sign_observations([part], PLACES)
    except (OSError, ValueError, KeyError, TypeError, StoreError, pa.ArrowException):
        return {}  # no tables yet, or damaged ones


def _sign_made(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the same of tables that are not written yet, as the files would hold them."""
    with TemporaryDirectory() as place:
        made = Folder(Path(place))
        with made.storage.writing() as batch:
            for name in (MANIFEST, *(f"tables/{table}.parquet" for table in PLACES)):
                batch.add(name, files[name.removeprefix("tables/")])
            batch.commit()
        return _sign(made)


def check_tables(records: Path) -> BuildResult:
    """Return what a build would change, and write nothing.

    Where sources are pending, or the tables were made with another contract, a build is still to
    come and nothing is compared.
    """
    folder = _require_sources(records)
    pending = find_pending_sources(folder)
    n_submissions, files = format_tables(records)
    document = json.loads(files["manifest.json"])
    rows = document["files"]["observations.parquet"]["rows"]
    built = json.loads(_read(folder, "manifest.json") or b"{}")
    if pending or not is_current(built.get("contract", "")):
        return BuildResult(n_submissions, rows, (), pending or ("schemas",))
    changed = [name for name in files if not _is_alike(folder, name, files, built)]
    return BuildResult(n_submissions, rows, tuple(sorted(changed)), pending)


def _is_alike(folder: Folder, name: str, files: dict[str, bytes], built: Any) -> bool:
    """Return whether a file has the content it should: its bytes, or for Parquet its rows."""
    stored = _read(folder, name)
    if name == "manifest.json":
        return set(built["files"]) == set(json.loads(files[name])["files"])
    if stored is None or hashlib.sha256(stored).hexdigest() != built["files"].get(name, {}).get(
        "sha256"
    ):
        return name == CATALOGUE and stored == files[name]
    return stored == files[name] or (name.endswith(".parquet") and _rows_equal(stored, files[name]))


def _rows_equal(stored: bytes, made: bytes) -> bool:
    """Compare rows: another version of the writer gives other bytes."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - heavy

    tables = (pq.read_table(pa.BufferReader(data)) for data in (stored, made))
    return bool(next(tables).equals(next(tables)))


def format_tables(records: Path) -> tuple[int, dict[str, bytes]]:
    """Return the number of documents, and the content of every file of ``records/tables``."""
    curated = load_curated_catalogue(records)
    by_source = read_sources(records, curated)
    documents = [document for each in by_source.values() for document in each]
    catalogue = with_described(curated, documents)
    text = catalogue_text(catalogue)
    tables = build_rows(derive_tables(documents), catalogue)
    contents = format_part(tables, complete=True)
    files = {name: data for name, (data, _) in contents.items() if name != CATALOGUE}
    files[CATALOGUE] = text.encode()
    manifest = {
        "format": 2,
        "contract": contract_stamp(),
        "catalogue": hash_catalogue(text),
        "curated_ids": {name: sorted(curated.by_id(name)[1]) for name in CATALOGUE_TABLES},
        "sources": hash_sources(records),
        "documents": {
            name: [one.submission_id for one in each] for name, each in by_source.items()
        },
        "files": {
            name: {
                "sha256": hashlib.sha256(data).hexdigest(),
                "size": len(data),
                **({} if (rows := contents.get(name, (b"", None))[1]) is None else {"rows": rows}),
            }
            for name, data in sorted(files.items())
            if name != CATALOGUE
        },
    }
    files["manifest.json"] = json.dumps(manifest, indent=1).encode() + b"\n"
    return len(documents), files


def build_rows(rows: Rows, catalogue: Catalogue) -> dict[str, pa.Table]:
    """Return all tables of documents with the whole catalogue, computed ones included."""
    from registry.store.parquet import ordered_table  # noqa: PLC0415 - loads pyarrow
    from registry.store.results import compute_tables  # noqa: PLC0415 - loads DuckDB

    every = {**rows, **{name: catalogue.rows(name) for name in CATALOGUE_TABLES}}
    tables = {name: ordered_table(name, some) for name, some in every.items()}
    return tables | compute_tables(rows, rows, catalogue, complete=True)


def _require_sources(records: Path) -> Folder:
    if (records / "sources").is_dir():
        return Folder(records)
    raise StoreError(
        f"{records}: no folder sources/; expected the curated records of a checkout; "
        "run the command in a checkout, or name its records/ with --registry"
    )


def _read(folder: Folder, name: str) -> bytes | None:
    try:
        return folder.storage.get(f"tables/{name}")
    except FileNotFoundError:
        return None
