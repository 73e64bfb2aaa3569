"""Fold: turn what is pending into parts, committed by one small manifest.

A crash at any instant leaves the state before or the state after. A document leaves the journal
only after it was read back in full from a part that the newest manifest names.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from registry.errors import StoreError
from registry.store.catalogue_files import with_parts
from registry.store.curated import read_curated
from registry.store.derive_tables import (
    derive_tables,
    read_erasures,
    select_new,
    with_described,
    without_observations,
)
from registry.store.files import is_full
from registry.store.folder import ensure_ignored
from registry.store.ids import ERASED, KnownIds
from registry.store.journal import (
    BadEntry,
    Journal,
    entry_name,
    list_entries,
    quarantine,
    read_entries,
    remove_leftovers,
    validate_entries,
)
from registry.store.legacy import map_legacy_ids, read_legacy, without_curated
from registry.store.lock import table_lock
from registry.store.manifest import (
    CommittedError,
    Manifest,
    OvertakenError,
    list_versions,
    manifest_name,
    write_manifest,
)
from registry.store.parts import Part, check_files, remove_leftover_parts, remove_part, write_part
from registry.store.renamed import write_renamed
from registry.store.state import State, read_state

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from registry.store.curated import Curated
    from registry.store.derive_tables import Document
    from registry.store.folder import Folder, Location

#: So many small parts are merged into one: a reader opens the files of each.
FAN_OUT = 8

#: Parts beyond this many observations are no longer merged, so that memory stays bounded.
LARGEST_MERGED = 10_000

#: Observations that become one part before parts are merged, and journal entries read together.
_CHUNK_OBSERVATIONS = 2_000
_CHUNK_ENTRIES = 20

#: Largest file of a part whose content a fold verifies before it goes on.
_LARGEST_VERIFIED = 32 * 2**20

#: Age at which a temporary file in the journal counts as left behind by a killed writer.
_LEFTOVER_SECONDS = 3600.0

#: How often a fold on object storage begins anew where others commit first.
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class FoldResult:
    """The result of a fold."""

    version: int
    #: Hash of the manifest, by which this version can be cited; empty for version 0.
    content_hash: str
    n_submissions: int
    n_observations: int
    #: Journal entries that could not be folded, and why.
    problems: tuple[str, ...] = ()
    #: What was erased, and why: an erasure may come from elsewhere, as by a merge.
    erased: tuple[str, ...] = ()


def fold(location: Location, *, rebuild: bool = False, wait_seconds: float = 60.0) -> FoldResult:
    """Fold what is pending; with ``rebuild``, derive all tables anew from their documents.

    A registry that an earlier release wrote is derived anew in any case. Raises StoreError where
    another process folds for longer than ``wait_seconds``, or the folder cannot be written.
    """
    folder = location.own.require()
    attempts = _ATTEMPTS if folder.remote else 1
    while True:
        folder.pull()
        attempts -= 1
        try:
            return _fold(location, rebuild=rebuild, wait_seconds=wait_seconds)
        except CommittedError:  # on object storage, where no lock keeps folds apart
            if not attempts:
                raise
        except StoreError as error:
            if not is_full(error.__cause__):
                raise
            raise StoreError(f"{error}; nothing that was added is lost") from error.__cause__


def _fold(location: Location, *, rebuild: bool, wait_seconds: float) -> FoldResult:
    folder = location.own
    with table_lock(folder, wait_seconds=wait_seconds) as now:
        remove_leftovers(folder.journal, before=now - _LEFTOVER_SECONDS)
        if folder.remote is None:  # who writes here holds the lock
            remove_leftovers(folder.tables, before=now)
        state = read_state(folder)
        for part in state.parts:
            for problem in check_files(part, largest=_LARGEST_VERIFIED):
                raise StoreError(problem)
        return Folding(location, state).run(rebuild=rebuild)


@dataclass
class Folding:
    """Parts in the making, under the lock."""

    location: Location
    before: State
    n_submissions: int = 0
    n_observations: int = 0
    bad: list[BadEntry] = field(default_factory=list)
    #: Documents that held what was erased.
    given_up: set[str] = field(default_factory=set)
    #: What was erased from them, and the reasons of all erasures.
    removed: set[str] = field(default_factory=set)
    reasons: dict[str, str] = field(default_factory=dict)
    #: Whether a part holds what was erased.
    must_rewrite: bool = False
    #: Whether documents are taken that another contract let in, see `Part.is_earlier`.
    is_earlier: bool = False
    #: Parts that were made here.
    made: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Read what is known before anything is folded."""
        self.folder = self.location.own
        self.curated: Curated = read_curated(self.location.catalogue_folder)
        self.parts: list[Part] = list(self.before.parts)
        self.there = frozenset(self.folder.storage.list("tables/parts"))
        self.catalogue = with_parts(self.curated.catalogue, self.folder, self.parts)
        known = self.before.known
        self.erased = {key.hex() for key in known.keys(ERASED)}
        self.must_rewrite = any(known.contains("observations", k) for k in known.keys(ERASED))

    def run(self, *, rebuild: bool) -> FoldResult:
        """Fold, commit, and only then remove what is safe in the parts."""
        if self.before.is_legacy:
            self._take_legacy()
        elif rebuild:
            self.rewrite()
        entries = list_entries(self.folder)
        self.take_journal(entries)
        if self.must_rewrite:
            self.rewrite()
        if rebuild or self.must_rewrite:
            self.merge_all()
        self._merge_latest()
        if rebuild:
            map_ids(self.folder, self.before.parts, self.parts)
        manifest = commit(self.folder, self.before.manifest, self.parts, anew=self.must_rewrite)
        self.remove_merged()
        problems = self.quarantine()  # first: a part may hold what a damaged entry's name says
        self.remove_folded(entries)
        if self.must_rewrite:
            remove_history(self.folder)
        return FoldResult(
            manifest.version,
            manifest.content_hash if manifest.version else "",
            self.n_submissions,
            self.n_observations,
            problems,
            tuple(self.describe_erased()),
        )

    def describe_erased(self) -> Iterator[str]:
        """Yield what was erased here, each with the reason."""
        for identity in sorted(self.removed):
            reason = self.reasons.get(identity, "an earlier erasure, which was interrupted")
            yield f"erased {identity} for good: {reason}"

    def remove_folded(self, entries: Sequence[str]) -> None:
        """Remove the entries that are safe: on object storage those that were long in a part."""
        if self.folder.remote is None:
            remove_folded(self.folder, self.parts, entries, self.given_up)
            return
        before = self.before
        folded = [name.removesuffix(".json") for name in sorted(self.folder.remote.folded)]
        asks = bool(folded and before.parts)  # it takes three requests
        is_settled = asks and self.folder.remote.is_settled(before.manifest.version)
        parts = before.parts if is_settled else ()
        remove_folded(self.folder, parts, [*folded, *entries], self.given_up)

    def _take_legacy(self) -> None:
        """Take over the documents of an earlier release; curated copies among them stay behind."""
        version = self.before.manifest.version
        renamed = map_legacy_ids(self.folder, version)
        documents = read_legacy(self.folder, version)
        self.catalogue = with_described(self.catalogue, documents)
        self.take(without_curated(self.curated, documents))
        write_renamed(self.folder, renamed)
        ensure_ignored(self.folder)
        self.n_submissions = self.n_observations = 0

    def take_journal(self, entries: Sequence[str]) -> None:
        """Fold the journal a chunk at a time, so that memory does not grow with it.

        An entry may name a model that another one describes: what fails is tried again at the end.
        """
        again: list[str] = []
        names = set(self.folder.storage.list("journal")) - {f"{entry}.json" for entry in entries}
        self.take(self._read_in_turn(entries, again))
        last = self._read(again)
        self.take(last.entries)
        irregular = validate_entries(read_entries(self.folder, names))
        self.bad = [*last.bad, *irregular.bad]

    def _read_in_turn(self, entries: Sequence[str], again: list[str]) -> Iterator[Document]:
        """Yield the documents of entries; append what is not valid yet to ``again``."""
        for start in range(0, len(entries), _CHUNK_ENTRIES):
            journal = self._read(entries[start : start + _CHUNK_ENTRIES])
            again += [entry.name.removesuffix(".json") for entry in journal.bad]
            yield from journal.entries

    def _read(self, entries: Sequence[str]) -> Journal:
        names = [f"{entry}.json" for entry in entries]
        known = KnownIds([part.ids for part in self.parts])
        journal = validate_entries(read_entries(self.folder, names), known)
        self.catalogue = with_described(self.catalogue, journal.entries)
        return journal

    def take(self, documents: Iterable[Document], *, is_earlier: bool = False) -> None:
        """Write parts with the rows of documents that no part holds yet.

        With ``is_earlier`` another contract may have let them in.
        """
        self.is_earlier = is_earlier
        for every in chunks(documents):
            self._note_erased(every)
            held = without_observations(every, self.erased, self.given_up, self.removed)
            chunk = list(held)
            known = KnownIds([part.ids for part in self.parts])
            new = [d for d in chunk if not known.contains("submissions", d.key)]
            if new:
                self.catalogue = with_described(self.catalogue, new)
                part = self._note_made(write_rows(self.folder, new, known, self))
                self.parts.append(part)
                self.n_submissions += len(new)
                self.n_observations += part.rows("observations")
                self._merge_latest()

    def _note_erased(self, documents: Iterable[Document]) -> None:
        """Note what documents erase; what a part holds of it has to be written anew without it."""
        known = KnownIds([part.ids for part in self.parts])
        reasons = read_erasures(documents)
        self.reasons |= reasons
        found = reasons.keys() - self.erased
        self.must_rewrite |= any(known.contains("observations", bytes.fromhex(i)) for i in found)
        self.erased |= found

    def rewrite(self) -> None:
        """Write all parts anew."""
        before, self.parts = self.parts, []
        n_before = self.n_submissions, self.n_observations
        from registry.store.documents import read_all_documents  # noqa: PLC0415 - loads pyarrow

        self.take(read_all_documents(before), is_earlier=any(p.admits_earlier for p in before))
        self.n_submissions, self.n_observations = n_before

    def merge_all(self) -> None:
        """Merge all parts into one, or into some of bounded size."""
        groups: list[list[Part]] = []
        size = LARGEST_MERGED
        for part in self.parts:
            if size >= LARGEST_MERGED:
                groups.append([])
                size = 0
            groups[-1].append(part)
            size += part.rows("observations")
        self.parts = [
            self._note_made(merge_parts(self.folder, group)) if len(group) > 1 else group[0]
            for group in groups
        ]

    def _note_made(self, part: Part) -> Part:
        self.made.add(part.name)
        return part

    def remove_merged(self) -> None:
        """Remove the parts that were made here and merged since: no manifest named them."""
        if self.folder.remote is not None:  # they are only in the copy, which drops them
            return
        for name in self.made - self.there - {part.name for part in self.parts}:
            with suppress(StoreError):  # what is left is nobody's: `prune` takes it
                remove_part(self.folder, name)

    def quarantine(self) -> tuple[str, ...]:
        """Move the journal's entries that are not valid out of it; return a message for each."""
        return tuple(quarantine(self.folder, self.bad))

    def _merge_latest(self) -> None:
        """Merge the latest parts while there are as many small ones as the fan-out.

        Only neighbours are merged: the order of the documents says which of two counts first.
        """
        while self._n_small() == FAN_OUT:
            merged = merge_parts(self.folder, self.parts[-FAN_OUT:])
            self.parts[-FAN_OUT:] = [self._note_made(merged)]

    def _n_small(self) -> int:
        """Return how many of the latest parts can be merged, at most as many as the fan-out."""
        small = takewhile(
            lambda part: (
                part.rows("observations") <= LARGEST_MERGED
                and part.is_current(self.curated.catalogue_hash)
            ),
            reversed(self.parts),
        )
        return sum(1 for _ in islice(small, FAN_OUT))


def map_ids(folder: Folder, before: Sequence[Part], today: Sequence[Part]) -> None:
    """Map the ids that a changed contract gives other values to, by all else they state."""
    from registry.store.documents import STATED, match_ids, sign_observations  # noqa: PLC0415 - loads pyarrow

    was, known = (KnownIds([part.ids for part in parts]) for parts in (before, today))
    if not all(known.contains("observations", key) for key in was.keys("observations")):
        signed = (sign_observations(parts, STATED) for parts in (before, today))
        write_renamed(folder, match_ids(*signed))


def chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Yield documents some at a time, so that memory does not grow with their number."""
    chunk: list[Document] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += 1 + len(document.plain.get("observations", ()))
        if size >= _CHUNK_OBSERVATIONS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def write_rows(
    folder: Folder, documents: Sequence[Document], known: KnownIds, using: Folding
) -> Part:
    """Write the part of the rows that follow from documents and that no part holds."""
    from registry.store.parquet import ordered_table  # noqa: PLC0415 - loads pyarrow
    from registry.store.results import compute_tables  # noqa: PLC0415 - loads DuckDB

    rows = derive_tables(documents, known)
    fresh = select_new(rows, known)
    tables = {name: ordered_table(name, some) for name, some in fresh.items() if some}
    tables |= compute_tables(rows, fresh, using.catalogue)
    return write_part(folder, tables, using.curated.catalogue_hash, is_earlier=using.is_earlier)


def merge_parts(folder: Folder, parts: Sequence[Part]) -> Part:
    """Write one part with the rows of several, which are distinct."""
    from registry.store.parquet import merge_tables  # noqa: PLC0415 - loads pyarrow

    is_earlier = any(part.is_earlier for part in parts)
    return write_part(folder, merge_tables(parts), parts[0].catalogue, is_earlier=is_earlier)


def commit(
    folder: Folder, before: Manifest, parts: Sequence[Part], *, anew: bool = False
) -> Manifest:
    """Make parts the registry's state, under the next version, unless they are that already.

    With ``anew`` it does not continue the version before, which may hold more.
    """
    names = tuple(part.name for part in parts)
    if names == before.parts and before.format == Manifest().format:
        return before
    previous = None if anew or before.format < Manifest().format else before.content_hash
    manifest = Manifest(before.version + 1, names, previous if before.version else None)
    try:
        write_manifest(folder, manifest)
    except OvertakenError:  # a newer manifest may name the parts, see `Remote.withdraw`
        raise
    except CommittedError:
        if folder.remote:
            folder.remote.discard({*names} - {*before.parts})
        raise
    return manifest


def remove_folded(
    folder: Folder, parts: Sequence[Part], entries: Sequence[str], given_up: Collection[str] = ()
) -> None:
    """Remove the journal entries that were read back whole from one of the parts, or given up."""
    if not entries:
        return
    from registry.store.documents import find_safe  # noqa: PLC0415 - loads pyarrow

    for submission_id in sorted(find_safe(parts, set(entries)) | ({*entries} & {*given_up})):
        folder.storage.delete(entry_name(submission_id))


def remove_history(folder: Folder) -> None:
    """Remove all versions but the newest, and the parts that only they name, half removed too."""
    from registry.store.prune import removal, remove_unnamed  # noqa: PLC0415 - loads pyarrow

    with removal(folder):
        # parts first: one that no manifest names would count as lost, should this be interrupted
        remove_unnamed(folder, list_versions(folder)[-1:])
        for version in list_versions(folder)[:-1]:
            folder.storage.delete(manifest_name(version))
    remove_leftover_parts(folder)  # an erasure that was killed may have left what it erased
