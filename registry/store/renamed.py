"""Ids that changed: ``ids.csv`` maps each old id to the one of today."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING

from registry.errors import StoreError
from registry.store.folder import QUARANTINE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from registry.store.folder import Folder, Location

RENAMED = "ids.csv"

_COLUMNS = ["old_id", "new_id"]

_LINE = re.compile(r"([0-9a-f]{8,64}),([0-9a-f]{8,64})")

#: How git begins the lines that it puts around the two sides of a conflict.
_MARKS = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")


def read_renamed(location: Location) -> dict[str, str]:
    """Return the old ids of observations, in both layers, with those of today.

    What one layer renamed the other may rename again: an id leads to the last.
    """
    folders = [folder for folder in (location.curated, location.own) if folder]
    steps = {old: new for folder in folders for old, new in read_folder(folder).items()}
    return {old: _last(steps, new) for old, new in steps.items()}


def _last(steps: Mapping[str, str], identity: str) -> str:
    seen: set[str] = set()
    while identity in steps and identity not in seen:  # files that people edit may lead in a circle
        seen.add(identity)
        identity = steps[identity]
    return identity


def list_ids(location: Location, observation_id: str) -> list[str]:
    """Return an observation's id, and those that it had before."""
    renamed = read_renamed(location)
    return [observation_id, *(old for old, new in renamed.items() if new == observation_id)]


def read_folder(folder: Folder) -> dict[str, str]:
    """Return the ids that one folder maps; raise StoreError where its file is damaged."""
    try:
        text = folder.storage.get(RENAMED).decode()
        rows = list(csv.reader(io.StringIO(text)))
    except FileNotFoundError:
        return {}
    except (UnicodeDecodeError, csv.Error):  # the latter for a cell beyond the module's limit
        rows = []
    if not rows or rows[0] != _COLUMNS or any(len(row) != len(_COLUMNS) for row in rows):
        mend = "or run `registry repair`, which keeps the lines that can be read"
        raise StoreError(
            f"{folder.path / RENAMED}: found no table of old ids; expected CSV with the columns "
            f"{', '.join(_COLUMNS)}; restore the file{'' if folder.is_curated else f', {mend}'}"
        )
    return dict(rows[1:])


def mend_renamed(folder: Folder) -> Iterator[str]:
    """Keep the lines of a damaged file that can be read, as of both sides of a conflict in git.

    The file as it was moves to quarantine/; what was done is yielded.
    """
    try:
        read_folder(folder)
    except StoreError:
        renamed, n_others = _read_lines(folder)
        place = folder.storage.move_aside(RENAMED, QUARANTINE)
        write_renamed(folder, renamed)
        yield (
            f"{folder.path / RENAMED}: found no table of old ids; kept {len(renamed)} old ids, and "
            f"left out {n_others} other lines; the file as it was moved to {place}"
        )


def _read_lines(folder: Folder) -> tuple[dict[str, str], int]:
    """Return the ids of the lines that map one, and how many lines say something else."""
    try:
        text = folder.storage.get(RENAMED).decode(errors="replace")
    except StoreError:  # a folder, a link
        text = ""
    lines = [line.strip() for line in text.splitlines()]
    pairs = [(match[1], match[2]) for line in lines if (match := _LINE.fullmatch(line))]
    said = [line for line in lines if line and line != ",".join(_COLUMNS)]
    n_marks = sum(line.startswith(_MARKS) for line in said)
    return dict(pairs), len(said) - len(pairs) - n_marks


def write_renamed(folder: Folder, renamed: Mapping[str, str]) -> None:
    """Add to the ids that a folder maps; an id that was renamed twice leads to the last."""
    before = read_folder(folder)
    merged = {old: renamed.get(new, new) for old, new in before.items()}
    merged |= {old: new for old, new in renamed.items() if old != new}
    if not merged:
        return
    lines = [",".join(row) for row in (_COLUMNS, *sorted(merged.items()))]
    folder.storage.put(RENAMED, ("\n".join(lines) + "\n").encode())


def with_ids_of_today(identities: Collection[str], renamed: Mapping[str, str]) -> set[str]:
    """Return ids, and those that they became."""
    return {*identities, *(renamed[one] for one in identities if one in renamed)}


def follow(renamed: Mapping[str, str], prefix: str) -> set[str]:
    """Return the ids of today of the old ids that begin with ``prefix``."""
    return {new for old, new in renamed.items() if old.startswith(prefix)}
