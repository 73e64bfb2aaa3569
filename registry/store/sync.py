"""Bring two registries to the same documents: each gets what only the other has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from registry.errors import StoreError
from registry.store.derive_tables import erased_ids, without_observations
from registry.store.documents import read_documents
from registry.store.folder import Location, ensure_writable
from registry.store.ids import ERASED
from registry.store.journal import entry_name
from registry.store.snapshot import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.store.derive_tables import Document
    from registry.store.folder import Folder
    from registry.store.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class SyncedSide:
    """What a synchronization brought to one registry, and what that holds now."""

    name: str
    n_new: int
    n_documents: int


@dataclass(frozen=True, slots=True)
class Synced:
    """What a synchronization did."""

    sides: tuple[SyncedSide, SyncedSide]
    #: What was left out: entries of a journal that are not valid.
    problems: tuple[str, ...] = ()


def sync(first: Folder, second: Folder, *, dry_run: bool = False) -> Synced:
    """Give each of two registries the documents that only the other has.

    They become pending, as if they were added; done again, nothing is left to do. What one of them
    erased is not brought back. With ``dry_run`` nothing is written. Raises StoreError.
    """
    for folder in (first, second):
        _require_own(folder)
    one, other = (read_snapshot(Location(folder)) for folder in (first, second))
    erased = _erased(one) | _erased(other)
    problems = (*one.journal.problems, *other.journal.problems)
    sides = (
        _bring(first, one, _lacking(one, other, erased), dry_run=dry_run),
        _bring(second, other, _lacking(other, one, erased), dry_run=dry_run),
    )
    return Synced(sides, problems)


def _require_own(folder: Folder) -> None:
    if folder.is_curated:
        raise StoreError(
            f"{folder.name}: found curated records; expected a registry of measurements; records "
            "come and go with git"
        )
    folder.require()


def _ids(snapshot: Snapshot) -> frozenset[bytes]:
    """Return the keys of the documents that a registry has."""
    pending = (*snapshot.legacy, *snapshot.journal.entries)
    return frozenset(snapshot.state.known.keys("submissions")) | {_key(d) for d in pending}


def _key(document: Document) -> bytes:
    return bytes.fromhex(document.submission_id[:32])


def _erased(snapshot: Snapshot) -> frozenset[str]:
    """Return the observations that a registry erased."""
    folded = {key.hex() for key in snapshot.state.known.keys(ERASED)}
    return erased_ids(snapshot.journal.entries) | folded


def _read_all(snapshot: Snapshot) -> Iterator[Document]:
    yield from snapshot.legacy
    for part in snapshot.state.parts:
        yield from read_documents(part)
    yield from snapshot.journal.entries


def _lacking(taker: Snapshot, giver: Snapshot, erased: frozenset[str]) -> Iterator[Document]:
    """Yield the documents of one registry that another lacks, without what was erased."""
    had = set(_ids(taker))
    for document in without_observations(_read_all(giver), erased, set()):
        if _key(document) not in had:
            had.add(_key(document))
            yield document


def _bring(
    taker: Folder, before: Snapshot, new: Iterator[Document], *, dry_run: bool
) -> SyncedSide:
    """Write documents to a registry's journal, all of them before the first gets its name."""
    n_new = 0
    folder = taker if dry_run else ensure_writable(Location(taker))
    with folder.storage.writing() as batch:
        for document in new:
            n_new += 1
            if not dry_run:
                batch.add(entry_name(document.submission_id), document.text.encode())
        batch.commit()
    return SyncedSide(taker.name, n_new, len(_ids(before)) + n_new)
