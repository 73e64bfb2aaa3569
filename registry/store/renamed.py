"""Ids that changed: ``ids.csv`` maps each old id to the one of today."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from registry.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.store.folder import Folder, Location

RENAMED = "ids.csv"

_COLUMNS = ["old_id", "new_id"]


def read_renamed(location: Location) -> dict[str, str]:
    """Return the old ids of observations, in both layers, with those of today."""
    folders = [folder for folder in (location.curated, location.own) if folder]
    return {old: new for folder in folders for old, new in read_folder(folder).items()}


def list_ids(location: Location, observation_id: str) -> list[str]:
    """Return an observation's id, and those that it had before."""
    renamed = read_renamed(location)
    return [observation_id, *(old for old, new in renamed.items() if new == observation_id)]


def read_folder(folder: Folder) -> dict[str, str]:
    """Return the ids that one folder maps; raise StoreError where its file is damaged."""
    try:
        text = folder.storage.get(RENAMED).decode()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        text = ""
    rows = list(csv.reader(io.StringIO(text)))
    if not rows or rows[0] != _COLUMNS or any(len(row) != len(_COLUMNS) for row in rows):
        raise StoreError(
            f"{folder.path / RENAMED}: found no table of old ids; expected CSV with the columns "
            f"{', '.join(_COLUMNS)}; restore the file"
        )
    return dict(rows[1:])


def write_renamed(folder: Folder, renamed: Mapping[str, str]) -> None:
    """Add to the ids that a folder maps; an id that was renamed twice leads to the last."""
    before = read_folder(folder)
    merged = {old: renamed.get(new, new) for old, new in before.items()}
    merged |= {old: new for old, new in renamed.items() if old != new}
    if not merged:
        return
    lines = [",".join(row) for row in (_COLUMNS, *sorted(merged.items()))]
    folder.storage.put(RENAMED, ("\n".join(lines) + "\n").encode())


def follow(renamed: Mapping[str, str], prefix: str) -> set[str]:
    """Return the ids of today of the old ids that begin with ``prefix``."""
    return {new for old, new in renamed.items() if old.startswith(prefix)}
