"""Create a registry's folder, whole or not at all."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

from registry.errors import StoreError
from registry.resources import curated_dir
from registry.store.files import TEMPORARY_PREFIX, explained, sync_folder
from registry.store.folder import Folder
from registry.store.manifest import Manifest, read_manifest, write_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from registry.store.folder import Location


def create_registry(path: Path, *, empty: bool = False) -> Folder:
    """Create a registry with the curated records, or with their models and GPUs alone.

    Raises StoreError where something is at ``path`` already, or it cannot be written.
    """
    if Folder(path).is_registry:
        raise StoreError(
            f"{path}: is a registry already; expected a folder to create; nothing to do"
        )
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise StoreError(f"{path}: found something there; expected no such folder, or an empty one")
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{secrets.token_hex(4)}")
    with explained(path):
        try:
            _fill(Folder(temporary), empty=empty)
            temporary.replace(path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_folder(path.absolute().parent)
    return Folder(path)


def _fill(folder: Folder, *, empty: bool) -> None:
    folder.tables.mkdir(parents=True)
    folder.journal.mkdir()
    curated = Folder(curated_dir())
    manifest = replace(read_manifest(curated), version=1)
    if empty:
        manifest = Manifest(version=1, catalogue=manifest.catalogue, whole=manifest.whole)
    for name in sorted(manifest.all_files()):
        shutil.copyfile(curated.tables / name, folder.tables / name)
    write_manifest(folder, manifest)


def ensure_writable(location: Location) -> Folder:
    """Return the folder to write to; the user's own is created by its first write."""
    if location.creates and not location.write.is_registry:
        with explained(location.write.path):
            location.write.path.parent.mkdir(parents=True, exist_ok=True)
        create_registry(location.write.path)
    return location.write
