"""The journal: submissions that are recorded and not folded yet, one file each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import StoreError
from registry.identity import document_id
from registry.store.files import TEMPORARY_PREFIX, explained, write_all_atomically
from registry.store.ids import id_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from registry.store.folder import Folder
    from registry.store.ids import IdFiles

_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One pending submission."""

    submission_id: str
    text: str
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Journal:
    """What the journal held at one moment: entries in the order of their ids, and the damaged."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...]


def entry_path(folder: Folder, submission_id: str) -> Path:
    """Return the path of a submission's journal entry."""
    return folder.journal / f"{submission_id}{_SUFFIX}"


def write_entry(folder: Folder, submission_id: str, text: str) -> bool:
    """Record a submission; return False where it is pending already.

    The file appears under its final name by one rename, which commits it for all tables at once.
    """
    if entry_path(folder, submission_id).exists():
        return False
    write_entries(folder, {submission_id: text})
    return True


def write_entries(folder: Folder, texts: Mapping[str, str]) -> None:
    """Record submissions by their ids: all of them, or none where the disk fills up."""
    if not texts:
        return
    if not folder.journal.is_dir():
        with explained(folder.journal):
            folder.journal.mkdir(parents=True, exist_ok=True)
    write_all_atomically([(entry_path(folder, key), text.encode()) for key, text in texts.items()])


def list_entries(folder: Folder) -> list[str]:
    """Return the ids of the pending submissions, sorted."""
    try:
        names = [path.name for path in folder.journal.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(
        name.removesuffix(_SUFFIX)
        for name in names
        if name.endswith(_SUFFIX) and not name.startswith(TEMPORARY_PREFIX)
    )


def read_journal(folder: Folder) -> Journal:
    """Return what is pending. Entries that vanish meanwhile were folded, and are left out."""
    entries: list[Entry] = []
    problems: list[str] = []
    for submission_id in list_entries(folder):
        try:
            text = entry_path(folder, submission_id).read_text(encoding="utf-8")
            entries.append(_parse_entry(submission_id, text))
        except FileNotFoundError:
            continue
        except (ValueError, StoreError) as error:
            path = entry_path(folder, submission_id)
            problems.append(
                f"{path}: damaged journal entry ({error}); expected the canonical document whose "
                "SHA-256 is the file's name; hand the submission in again with `registry add`, "
                "then remove this file"
            )
    return Journal(tuple(entries), tuple(problems))


def _parse_entry(submission_id: str, text: str) -> Entry:
    found = document_id(text)
    if found != submission_id:
        raise StoreError(f"its content hashes to {found[:12]}…")
    return Entry(submission_id, text, json.loads(text))


def unfolded_entries(entries: Iterable[Entry], ids: IdFiles) -> list[Entry]:
    """Return the entries that no part holds."""
    return [e for e in entries if not ids.contains(id_bytes("submissions", e.submission_id))]


def remove_entries(folder: Folder, submission_ids: list[str]) -> None:
    """Remove entries that a committed manifest contains."""
    for submission_id in submission_ids:
        entry_path(folder, submission_id).unlink(missing_ok=True)


def remove_leftovers(folder: Path, *, older_than_seconds: float) -> int:
    """Remove temporary files that killed processes left; return how many."""
    import time  # noqa: PLC0415 - only while folding

    removed = 0
    now = time.time()
    for path in folder.glob(f"{TEMPORARY_PREFIX}*") if folder.is_dir() else ():
        try:
            if now - path.stat().st_mtime > older_than_seconds:
                path.unlink()
                removed += 1
        except FileNotFoundError:
            continue
    return removed
