"""Manifests: small numbered files that name the live files of all tables.

The newest manifest is the state of the registry; older ones stay until they are pruned, so that a
result can cite a version.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from registry.contract import FORMAT_VERSION
from registry.errors import StoreError
from registry.store.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from registry.store.folder import Folder

_NAME = re.compile(r"manifest-(\d{6,})\.json")


@dataclass(frozen=True, slots=True)
class File:
    """One Parquet file of a table."""

    name: str
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PartFiles:
    """The rows that one fold (or a merge of several) wrote: a file per table that has any."""

    name: str
    #: File of the sorted ids of all rows, for looking up what is there.
    ids: str
    tables: dict[str, File]

    @property
    def n_observations(self) -> int:
        """Observations in the part."""
        return self.tables["observations"].rows if "observations" in self.tables else 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state of the folded tables at one version; version 0 is the empty registry."""

    version: int = 0
    #: File of the models and GPUs that are known, for looking up without loading Parquet.
    catalogue: str | None = None
    parts: tuple[PartFiles, ...] = ()
    #: Tables that are written whole each time: the models and GPUs.
    whole: dict[str, File] = field(default_factory=dict)

    def files(self, table: str) -> list[str]:
        """Return the names of the live files of a table."""
        if table in self.whole:
            return [self.whole[table].name]
        return [part.tables[table].name for part in self.parts if table in part.tables]

    def rows(self, table: str) -> int:
        """Return the number of folded rows of a table."""
        if table in self.whole:
            return self.whole[table].rows
        return sum(part.tables[table].rows for part in self.parts if table in part.tables)

    def all_files(self) -> set[str]:
        """Return the names of all files the manifest names."""
        names = {file.name for file in self.whole.values()}
        for part in self.parts:
            names.update(file.name for file in part.tables.values())
            names.add(part.ids)
        return names | ({self.catalogue} if self.catalogue else set())


def manifest_path(folder: Folder, version: int) -> Path:
    """Return the path of the manifest of one version."""
    return folder.tables / f"manifest-{version:06d}.json"


def list_versions(folder: Folder) -> list[int]:
    """Return the versions at hand, oldest first."""
    try:
        names = [entry.name for entry in folder.tables.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))


def read_manifest(folder: Folder, version: int | None = None) -> Manifest:
    """Return the newest manifest, or that of one version.

    Raises StoreError where the version is not at hand, the file is damaged, or a newer release of
    peft-registry wrote it.
    """
    versions = list_versions(folder)
    if version is None:
        if not versions:
            return Manifest()
        version = versions[-1]
    if version not in versions:
        known = f"{versions[0]} to {versions[-1]}" if versions else "none"
        raise StoreError(
            f"{folder.tables}: version {version} not found; expected one of those at hand: {known}"
        )
    return _read(manifest_path(folder, version))


def _read(path: Path) -> Manifest:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        _check_format(path, document["format"])
        return _parse_manifest(document)
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{path}: damaged manifest ({error}); expected JSON as `registry fold` writes it; "
            "restore the file from a backup, or remove it to go back to the version before"
        ) from None


def _check_format(path: Path, found: int) -> None:
    if found > FORMAT_VERSION:
        raise StoreError(
            f"{path}: found format {found}; expected at most {FORMAT_VERSION}: this registry was "
            "written by a newer release; upgrade with `pip install -U peft-registry`"
        )


def _parse_manifest(document: dict[str, Any]) -> Manifest:
    return Manifest(
        version=document["version"],
        catalogue=document["catalogue"],
        parts=tuple(
            PartFiles(part["name"], part["ids"], _parse_files(part["tables"]))
            for part in document["parts"]
        ),
        whole=_parse_files(document["whole"]),
    )


def _parse_files(document: dict[str, Any]) -> dict[str, File]:
    return {name: File(**entry) for name, entry in document.items()}


def write_manifest(folder: Folder, manifest: Manifest) -> None:
    """Commit a state: write its manifest under its number."""
    document = {
        "format": FORMAT_VERSION,
        "version": manifest.version,
        "catalogue": manifest.catalogue,
        "whole": _format_files(manifest.whole),
        "parts": [
            {"name": part.name, "ids": part.ids, "tables": _format_files(part.tables)}
            for part in manifest.parts
        ],
    }
    text = json.dumps(document, indent=1) + "\n"
    write_atomically(manifest_path(folder, manifest.version), text.encode())


def _format_files(files: dict[str, File]) -> dict[str, Any]:
    return {
        name: {"name": file.name, "rows": file.rows, "sha256": file.sha256}
        for name, file in sorted(files.items())
    }
