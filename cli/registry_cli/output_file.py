"""The file that rows are written to: complete or absent, and never one of a registry's."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from registry.store.files import explained_output
from registry.store.folder import SETTINGS, Folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.store.folder import Location


def validate_output(path: Path, location: Location) -> None:
    """Raise UsageError where writing ``path`` would put a file of our own into a registry.

    Links are followed, and a second name of a file counts as the file.
    """
    layers = (location.own, location.curated)
    in_use = [folder.path for folder in layers if folder and folder.path.exists()]
    for parent in filter(Path.exists, _resolve(path).parents):
        if _is_registry(parent) or any(map(parent.samefile, in_use)):
            _refuse(path, f"lies in the registry {parent}")
    if path.is_file() and path.stat().st_nlink > 1:
        for own in (file for folder in in_use for file in folder.rglob("*")):
            if own.is_file() and own.samefile(path):
                _refuse(path, f"is a second name of {own}")


def _resolve(path: Path) -> Path:
    return Path(os.path.realpath(path))  # `Path.resolve` raises where links go in a circle


def _is_registry(folder: Path) -> bool:
    """Return whether a folder is a registry, folded or not: `tables` alone may be anybody's."""
    found = Folder(folder)
    is_folded = found.parts.is_dir() or any(found.tables.glob("manifest*.json"))
    has_folders = found.journal.is_dir() or found.tables.is_dir()
    return is_folded or (has_folders and (folder / SETTINGS).is_file())


def _refuse(path: Path, reason: str) -> None:
    raise click.UsageError(
        f"{path}: {reason}; only a registry's own commands write its files; nothing was written; "
        "name a file outside it"
    )


@contextlib.contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that becomes ``path`` when it is complete; a device is written as it is.

    A link stays one: what it names is replaced. Raises StoreError where it cannot be written.
    """
    with explained_output(path):
        if path.exists() and not path.is_file():
            with path.open("wb") as device:
                yield device
            return
        place = _resolve(path)
        temporary = place.with_name(f".tmp-{os.urandom(8).hex()}")
        try:
            with temporary.open("xb") as file:
                yield file
            temporary.replace(place)
        finally:
            temporary.unlink(missing_ok=True)
