"""Curated records: one file for each table, made from sources that are kept as text.

In a checkout the sources lie beside the tables. A source whose content the tables do not hold yet
is pending: readers derive its rows, as they do for the journal.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import StoreError
from registry.store.catalogue_files import catalogue_text, hash_catalogue, parse_catalogue
from registry.store.parts import CATALOGUE, Part, parse_part

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from registry.catalogue import Catalogue
    from registry.store.derive_tables import Document
    from registry.store.folder import Folder

MANIFEST = "tables/manifest.json"

REBUILD = "run `registry build`, which makes the tables from the sources"
REINSTALL = f"in a checkout, {REBUILD}; else install the package again"


@dataclass(frozen=True, slots=True)
class Curated:
    """What curated records hold: tables, and documents whose rows are not in them yet."""

    catalogue: Catalogue
    #: None where a source was changed or removed: all rows are derived then.
    part: Part | None
    pending: tuple[Document, ...] = ()
    #: Sources that are not in the tables as they are now.
    pending_sources: tuple[str, ...] = ()

    @property
    def catalogue_hash(self) -> str:
        """Return the hash of its models and GPUs."""
        return hash_catalogue(catalogue_text(self.catalogue))


def read_curated(folder: Folder) -> Curated:
    """Return the curated records of a folder. Raises StoreError where they are damaged."""
    built = _read_manifest(folder)
    part = parse_part("curated", folder.tables, built, REINSTALL)
    changed, new = _compare_sources(folder, built)
    if not changed and not new:
        return Curated(_read_catalogue(folder), part)
    return _with_pending(folder, None if changed else part, changed | new)


def find_pending_sources(folder: Folder) -> tuple[str, ...]:
    """Return the sources whose content the tables do not hold as it is now."""
    changed, new = _compare_sources(folder, _read_manifest(folder))
    return tuple(sorted(changed | new))


def _compare_sources(folder: Folder, built: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Return the names of sources that are other than they were built, and of new ones."""
    if not (folder.path / "sources").is_dir():
        return set(), set()
    hashes = hash_sources(folder.path)
    changed = {name for name, found in built["sources"].items() if hashes.get(name) != found}
    return changed, hashes.keys() - built["sources"].keys()


def _with_pending(folder: Folder, part: Part | None, names: set[str]) -> Curated:
    from registry.sources.curated import (  # noqa: PLC0415 - only where a source is pending
        load_curated_catalogue,
        read_source_documents,
    )

    catalogue = load_curated_catalogue(folder.path)
    wanted = names if part else None
    pending = tuple(read_source_documents(folder.path, catalogue, only=wanted))
    return Curated(with_described(catalogue, pending), part, pending, tuple(sorted(names)))


def with_described(catalogue: Catalogue, documents: Iterable[Document]) -> Catalogue:
    """Return a catalogue with the models and GPUs that documents describe."""
    for document in documents:
        models, gpus = document.plain.get("models", ()), document.plain.get("gpus", ())
        if models or gpus:
            catalogue = catalogue.extended(models, gpus)
    return catalogue


def _read_manifest(folder: Folder) -> dict[str, Any]:
    path = folder.storage.path(MANIFEST)
    try:
        built: dict[str, Any] = json.loads(folder.storage.get(MANIFEST))
        if not isinstance(built["sources"], dict) or not isinstance(built["files"], dict):
            raise TypeError("no sources or files")  # noqa: TRY301 - one message for all of them
    except FileNotFoundError:
        return {"contract": "", "catalogue": "", "files": {}, "sources": {CATALOGUE: ""}}
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{path}: damaged manifest ({error}); expected it as `registry build` writes it; "
            f"{REINSTALL}"
        ) from None
    return built


def _read_catalogue(folder: Folder) -> Catalogue:
    path = folder.tables / CATALOGUE
    try:
        return parse_catalogue(json.loads(folder.storage.get(f"tables/{CATALOGUE}")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{path}: cannot be read ({error}); expected the models and GPUs of the curated "
            f"records; {REINSTALL}"
        ) from None


def hash_sources(records: Path) -> dict[str, str]:
    """Return the content hash of each source, and of the models and GPUs as ``catalogue.json``."""
    folders = [path for path in (records / "sources").iterdir() if path.is_dir()]
    hashes = {path.name: _hash_folder(path) for path in sorted(folders)}
    return {**hashes, CATALOGUE: _hash_folder(records / "catalogue")}


def _hash_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            digest.update(f"{path.relative_to(folder).as_posix()}\n{len(data)}\n".encode() + data)
    return digest.hexdigest()
