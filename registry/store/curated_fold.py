"""In curated records, a fold files recorded submissions under their source, as text.

Two branches that do so merge without conflicts; `registry build` makes the tables on one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.store.fold import FoldResult
from registry.store.journal import entry_name, quarantine, read_entries, validate_entries
from registry.store.lock import table_lock

if TYPE_CHECKING:
    from registry.store.derive_tables import Document
    from registry.store.folder import Folder


def file_submissions(folder: Folder, *, wait_seconds: float = 60.0) -> FoldResult:
    """Move the journal's entries to ``sources/<source_id>/<submission_id>.json``."""
    with table_lock(folder, wait_seconds=wait_seconds):
        journal = validate_entries(read_entries(folder))
        for entry in journal.entries:
            place = source_name(entry)
            folder.storage.put(place, entry.text.encode())
            if folder.storage.get(place) == entry.text.encode():
                folder.storage.delete(entry_name(entry.submission_id))
        problems = tuple(quarantine(folder, journal.bad))
    n_observations = sum(len(e.plain.get("observations", ())) for e in journal.entries)
    return FoldResult(0, "", len(journal.entries), n_observations, problems)


def source_name(entry: Document) -> str:
    """Return where a recorded submission is filed."""
    source = entry.plain.get("source", {"source_id": "retractions"})
    return f"sources/{source['source_id']}/{entry.submission_id}.json"
