"""Create a registry's folder, whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from registry.errors import StoreError
from registry.resources import curated_dir
from registry.store.files import explained_output, filled_folder, require_empty
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
    require_empty(path)
    with filled_folder(path, last="tables") as temporary:
        _fill(Folder(temporary), empty=empty)
    folder = Folder(path)
    with explained_output(path):
        folder.journal.mkdir(exist_ok=True)
    return folder


def _fill(folder: Folder, *, empty: bool) -> None:
    import shutil  # noqa: PLC0415 - not needed to add, which must start fast

    folder.tables.mkdir()
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
        try:
            create_registry(location.write.path)
        except StoreError:
            if not location.write.is_registry:  # else another first write was faster
                raise
    return location.write
