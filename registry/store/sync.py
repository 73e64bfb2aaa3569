"""Bring two registries to the same documents: each gets what only the other has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from registry.errors import StoreError
from registry.reading.json_reader import parse_json
from registry.store.curated import read_curated
from registry.store.derive_tables import CATALOGUE_TABLES, erased_ids, without_observations
from registry.store.documents import read_all_documents
from registry.store.folder import Location, ensure_writable
from registry.store.ids import ERASED
from registry.store.journal import entry_name
from registry.store.snapshot import read_snapshot
from registry.store.valid_documents import select_valid, validate_document
from registry.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from registry.catalogue import Catalogue
    from registry.errors import SubmissionError
    from registry.store.derive_tables import Document, Row
    from registry.store.folder import Folder
    from registry.store.snapshot import Snapshot
    from registry.store.storage import Batch

_KEYS = {"models": "model_id", "gpus": "gpu_id"}

_APART = (
    "expected one value; documents that describe or name it are left out; add those of one side "
    "again, under another id"
)


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
    #: What was left out: documents that are not valid, and those of what the two registries
    #: describe differently.
    problems: tuple[str, ...] = ()


def sync(first: Folder, second: Folder, *, dry_run: bool = False) -> Synced:
    """Give each of two registries the documents that only the other has.

    They become pending, as if they were added; done again, nothing is left to do. What one of them
    erased is not brought back. Documents that describe a model or GPU with other figures than one
    of the registries does, or that name one which the two describe differently, stay where they
    are: they would change answers. With ``dry_run`` nothing is written. Raises StoreError; what
    both get is on their disks before either has any of it.
    """
    for folder in (first, second):
        _require_own(folder)
    one, other = (_Side(folder, read_snapshot(Location(folder))) for folder in (first, second))
    exchange = _Exchange(one, other)
    for folder in () if dry_run else (first, second):
        ensure_writable(Location(folder))
    with first.storage.writing() as to_first, second.storage.writing() as to_second:
        brought = (
            _Brought(one, to_first, exchange.find_new(one, other)),
            _Brought(other, to_second, exchange.find_new(other, one)),
        )
        for side in brought:
            side.stage(dry_run=dry_run)
        _commit(brought)
    return Synced((brought[0].result, brought[1].result), tuple(exchange.problems))


def _require_own(folder: Folder) -> None:
    if folder.is_curated:
        raise StoreError(
            f"{folder.name}: found curated records; expected a registry of measurements; records "
            "come and go with git"
        )
    folder.require()


@dataclass(frozen=True, slots=True)
class _Side:
    """A registry before it gets anything."""

    folder: Folder
    snapshot: Snapshot

    @property
    def name(self) -> str:
        return self.folder.name


class _Exchange:
    """What two registries lack of each other, and what is left out of that."""

    def __init__(self, one: _Side, other: _Side) -> None:
        self._sides = (one, other)
        self._erased = _erased(one.snapshot) | _erased(other.snapshot)
        curated = read_curated(Location(one.folder).catalogue_folder).catalogue
        #: Models and GPUs of the curated records: these count, whatever a document says.
        self._settled = {
            (table, row[_KEYS[table]]) for table in CATALOGUE_TABLES for row in curated.rows(table)
        }
        journals = (side.snapshot.journal.problems for side in self._sides)
        #: What is wrong, each once, in the order in which it was found.
        self.problems = dict.fromkeys(problem for found in journals for problem in found)
        #: Models and GPUs that the two describe differently.
        self._contradicted = {
            (table, row[_KEYS[table]])
            for table in CATALOGUE_TABLES
            for row in other.snapshot.catalogue.rows(table)
            if self._contradicts(table, row, other, (one,))
        }

    def _contradicts(self, table: str, row: Row, giver: _Side, sides: Iterable[_Side]) -> bool:
        """Return whether a row contradicts what some sides know; each difference is a problem."""
        if (table, row[_KEYS[table]]) in self._settled:
            return False
        found = [
            f"{table.removesuffix('s')} {identity!r}: {name} is {own!r} in {side.name} and "
            f"{value!r} in {'another document there' if side is giver else giver.name}; {_APART}"
            for side in sides
            for identity, name, own, value in side.snapshot.catalogue.differences(table, row)
        ]
        self.problems |= dict.fromkeys(found)
        return bool(found)

    def find_new(self, taker: _Side, giver: _Side) -> Iterator[Document]:
        """Yield the documents of one side that the other lacks, without what was erased."""
        had = set(_ids(taker.snapshot))

        def validate(document: Document, catalogue: Catalogue) -> Document | None:
            valid = _validate(document, catalogue)
            return valid if self._agrees(valid, taker, giver) else None

        def refuse(document: Document, error: SubmissionError) -> None:
            reason = "; ".join(error.problems[:3])
            self.problems[
                f"{giver.name}: submission {document.submission_id[:12]}: {reason}; it is left "
                "out; where it is damaged, `registry repair` moves it to quarantine/"
            ] = None

        lacking = (one for one in _read_all(giver.snapshot) if one.key not in had)
        valid = select_valid(lacking, taker.snapshot.catalogue, validate, refuse)
        for document in without_observations(valid, self._erased, set()):
            if document.key not in had:
                had.add(document.key)
                yield document

    def _agrees(self, document: Document, taker: _Side, giver: _Side) -> bool:
        """Return whether nothing that a document describes or names is described differently."""
        plain = document.plain
        rows = [(table, row) for table in CATALOGUE_TABLES for row in plain.get(table, ())]
        named = [o["configuration"] for o in plain.get("observations", ())]
        stated = (*rows, *((table, one) for table in CATALOGUE_TABLES for one in named))
        if any((table, one.get(_KEYS[table])) in self._contradicted for table, one in stated):
            return False
        differs = [self._contradicts(table, row, giver, (taker, giver)) for table, row in rows]
        return not any(differs)


def _ids(snapshot: Snapshot) -> frozenset[bytes]:
    """Return the keys of the documents that a registry has."""
    pending = (*snapshot.legacy, *snapshot.journal.entries)
    return frozenset(snapshot.state.known.keys("submissions")) | {d.key for d in pending}


def _erased(snapshot: Snapshot) -> frozenset[str]:
    """Return the observations that a registry erased."""
    folded = {key.hex() for key in snapshot.state.known.keys(ERASED)}
    return erased_ids(snapshot.journal.entries) | folded


def _read_all(snapshot: Snapshot) -> Iterator[Document]:
    yield from snapshot.legacy
    yield from read_all_documents(snapshot.state.parts)
    yield from snapshot.journal.entries


def _validate(document: Document, catalogue: Catalogue) -> Document:
    """Return a document as an entry of a journal is read. Raises SubmissionError."""
    plain = parse_json(document.text, origin="")
    return validate_document(document.submission_id, document.text, plain, catalogue)


@dataclass
class _Brought:
    """What one side gets."""

    side: _Side
    batch: Batch
    documents: Iterator[Document]
    n_new: int = 0

    def stage(self, *, dry_run: bool) -> None:
        """Write the documents beside the journal's entries, without their names."""
        for document in self.documents:
            self.n_new += 1
            if not dry_run:
                self._write(document)

    def _write(self, document: Document) -> None:
        try:
            self.batch.add(entry_name(document.submission_id), document.text.encode())
        except StoreError as error:
            raise self._failure(error, "neither registry got a document") from error

    def commit(self, before: str) -> None:
        """Give the documents their names; ``before`` says what the other side has got by now."""
        try:
            self.batch.commit()
        except StoreError as error:
            raise self._failure(error, f"it may lack some of what it gets; {before}") from error

    def _failure(self, error: StoreError, consequence: str) -> StoreError:
        """Return an error of writing here as one that says what each side got."""
        cause = error.__cause__
        if not isinstance(cause, OSError):  # of object storage, which names the way out
            return StoreError(f"{error}; {consequence}; repeat the command for the rest")
        return StoreError(
            f"{self.side.name}: cannot be written: {cause.strerror or cause}; {consequence}; make "
            "it writable, with space on its disk, then repeat the command"
        )

    @property
    def result(self) -> SyncedSide:
        """What the side got, and what it holds."""
        n_before = len(_ids(self.side.snapshot))
        return SyncedSide(self.side.name, self.n_new, n_before + self.n_new)


def _commit(brought: Iterable[_Brought]) -> None:
    """Commit to one side after the other, object storage first: it is likelier to fail."""
    before = "the other registry got nothing"
    for one in sorted(brought, key=lambda one: one.side.folder.remote is None):
        one.commit(before)
        before = f"{one.side.name} got {format_count(one.n_new, 'document')}"
