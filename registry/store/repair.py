"""Make a registry sound again from its documents, which are the truth."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from registry.contract.arrow import rows_table
from registry.contract.fingerprint import is_current
from registry.errors import RegistryError, StoreError, SubmissionError
from registry.store.derive_tables import derive_tables, read_document, with_described
from registry.store.documents import holds_documents, read_ids
from registry.store.fold import Folding, chunks, map_ids, remove_history
from registry.store.folder import QUARANTINE, ensure_ignored
from registry.store.ids import KnownIds
from registry.store.journal import list_entries
from registry.store.legacy import has_legacy_parts, recover_legacy, without_curated
from registry.store.lock import table_lock
from registry.store.manifest import (
    Manifest,
    list_versions,
    list_versions_in,
    manifest_name,
    read_manifest,
    write_manifest,
)
from registry.store.parts import DESCRIPTION, check_files, read_part
from registry.store.recover import recover_part
from registry.store.renamed import mend_renamed, write_renamed
from registry.store.results import compute_tables
from registry.store.state import DOCUMENTS, State, find_damaged_manifests, list_headless_parts
from registry.store.valid_documents import select_valid, validate_stored

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from registry.catalogue import Catalogue
    from registry.store.derive_tables import Document
    from registry.store.folder import Location
    from registry.store.parts import Part


#: What computing with values of unexpected types raises.
_MALFORMED = (AttributeError, LookupError, OverflowError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class RepairResult:
    """What a repair found and made."""

    version: int
    n_submissions: int
    n_observations: int
    #: What was wrong and what was done about it.
    notes: tuple[str, ...]


def repair(location: Location, *, wait_seconds: float = 60.0) -> RepairResult:
    """Rebuild manifest and tables from every document in a part or the journal.

    Parts that no manifest names are included, so that the states of two branches become one;
    damaged files move to ``quarantine/``, and so do documents that are not valid. Those that
    another contract let in, by the part that holds them whole, stay as in a fold of all, where rows
    follow from them. Nothing that was there is removed. Raises StoreError where the folder cannot
    be written.
    """
    folder = location.own.require()
    if folder.is_curated:
        raise StoreError(
            f"{folder.path}: found curated records; expected a registry of measurements; run "
            "`registry build`, which makes their tables from the sources"
        )
    folder.pull(history=True)
    with table_lock(folder, wait_seconds=wait_seconds):
        return _Repair(location).run()


class _Repair:
    def __init__(self, location: Location) -> None:
        self.folder = location.own
        self.location = location
        self.notes: list[str] = []
        #: Keys of the documents that are not valid.
        self.invalid: set[bytes] = set()

    def run(self) -> RepairResult:
        last = max(list_versions(self.folder), default=0)
        folding = Folding(self.location, State(Manifest()))
        self.notes += mend_renamed(self.folder)  # what may fail comes before anything is moved
        self._set_manifests_aside()
        self._set_strangers_aside()
        whole = list(filter(None, map(self._read_whole, self._list_parts())))
        of_other_contracts = [part for part in whole if not is_current(part.contract)]
        self._take(folding, self._read_admitted())
        entries = list_entries(self.folder)
        folding.take_journal(entries)
        if folding.must_rewrite:
            folding.rewrite()
        folding.merge_all()
        map_ids(self.folder, of_other_contracts, folding.parts)
        parts = tuple(part.name for part in folding.parts)
        sound = {name for name in self._list_parts() if name in parts or self._is_whole(name)}
        broken = self._find_broken(sound)
        version = self._commit(last, parts, anew=bool(broken))
        folding.remove_merged()
        self._set_parts_aside(sound, broken)
        self._set_manifests_aside()
        if self.folder.remote:  # before anything is fetched anew
            self.folder.remote.move_aside()
        moved = folding.quarantine()
        folding.remove_folded(entries)
        if folding.given_up:
            remove_history(self.folder)
        return RepairResult(
            version,
            sum(part.rows("submissions") for part in folding.parts),
            sum(part.rows("observations") for part in folding.parts),
            (*self.notes, *folding.describe_erased(), *moved),
        )

    def _read_admitted(self) -> set[str]:
        """Return the documents that another contract let in, by a part that holds them unchanged.

        Its other files may be damaged: what they hold follows from the documents.
        """
        found: set[str] = set()
        for name in self._list_parts():
            part = self._read_whole(name, only=DOCUMENTS)
            if part is not None and part.admits_earlier:
                with suppress(StoreError):  # it is named where the documents are read
                    found |= read_ids(part)
        return found

    def _take(self, folding: Folding, admitted: set[str]) -> None:
        """Take the documents that are valid today, then those that were when they were recorded."""
        documents: Iterable[Document] = self._documents(folding)
        failed: dict[str, Document] = {}

        def keep(document: Document, _error: SubmissionError) -> None:
            failed[document.submission_id] = document

        folding.take(select_valid(documents, folding.catalogue, validate_stored, keep))
        let_in = (failed[identity] for identity in failed if identity in admitted)
        earlier = {
            document.submission_id: document
            for some in chunks(filter(_has_rows, let_in))
            for document in _select_computed(some, folding.catalogue)
        }
        folding.take(earlier.values(), is_earlier=True)
        rest = [document for identity, document in failed.items() if identity not in earlier]
        folding.take(select_valid(rest, folding.catalogue, validate_stored, self._refuse))

    def _commit(self, last: int, parts: tuple[str, ...], *, anew: bool) -> int:
        """Write a manifest under an unused number, unless the newest says the same.

        With ``anew`` in any case: the newest was made from versions that are to be moved.
        """
        versions = list_versions(self.folder)
        newest = read_manifest(self.folder, versions[-1]) if versions else None
        # on object storage a damaged manifest is moved after it is an old one
        is_last = newest is not None and (newest.version == last or not self.folder.remote)
        is_same = newest is not None and newest.parts == parts and not State(newest).is_legacy
        if newest and is_last and is_same and not anew:
            return newest.version
        manifest = Manifest(max(last, *self._list_aside()) + 1, parts)
        write_manifest(self.folder, manifest)
        return manifest.version

    def _list_aside(self) -> list[int]:
        """Return the versions in quarantine/: a repair that failed may have moved the newest."""
        names = self.folder.storage.list(QUARANTINE)
        return [0, *list_versions_in(f"{name.partition('.json')[0]}.json" for name in names)]

    def _set_manifests_aside(self) -> None:
        """Move manifests that cannot be read, or were not made from those before, to quarantine/.

        Without one that was moved, the next is not made from the one before any more.
        """
        while damaged := list(find_damaged_manifests(self.folder)):
            for name, reason in damaged:
                place = self.folder.storage.move_aside(name, QUARANTINE)
                self.notes.append(f"{reason.split('; ')[0]}; moved to {place}")

    def _set_strangers_aside(self) -> None:
        """Move parts that are links, unread, and folders in the place of files to quarantine/.

        What a link leads to may be others', and a part is not written over a folder.
        """
        for part in map(self.folder.parts.joinpath, self._list_parts()):
            if part.is_symlink():
                self._set_aside(part, "found a link, which is not read")
                continue
            for path in sorted(part.iterdir()) if part.is_dir() else ():
                if path.is_dir() and not path.is_symlink():
                    self._set_aside(path, "found a folder; expected a file")

    def _set_aside(self, path: Path, found: str) -> None:
        place = path.relative_to(self.folder.path).as_posix()
        moved = self.folder.storage.move_aside(place, QUARANTINE)
        self.notes.append(f"{path}: {found}; moved to {moved}")

    def _find_broken(self, whole: Collection[str]) -> list[Manifest]:
        """Return the manifests that name a part which is not whole."""
        versions = list_versions(self.folder)
        manifests = [read_manifest(self.folder, version) for version in versions]
        return [one for one in manifests if not {*one.parts} <= {*whole}]

    def _set_parts_aside(self, whole: Collection[str], broken: list[Manifest]) -> None:
        """Move damaged parts, and manifests that name them, to quarantine/.

        Their documents are in the new parts as far as they could be read.
        """
        named = {name for manifest in broken for name in manifest.parts}
        headless = list_headless_parts(self.folder)
        for manifest in broken:
            place = manifest_name(manifest.version)
            moved = self.folder.storage.move_aside(place, QUARANTINE)
            self.notes.append(f"{place}: names a damaged part; moved to {moved}")
        for name in self._list_parts():
            is_part = name in named or self._is_described(name) or name in headless
            if name not in whole and is_part:
                self._set_aside(self.folder.parts / name, "damaged")

    def _is_described(self, name: str) -> bool:
        """Return whether a part was ever complete; others were left by a killed process."""
        return (self.folder.parts / name / DESCRIPTION).exists()

    def _list_parts(self) -> list[str]:
        return self.folder.storage.list("tables/parts")

    def _is_whole(self, name: str) -> bool:
        """Return whether a part is as it was written, and holds nothing that is not valid."""
        part = self._read_whole(name)
        return part is not None and self.invalid.isdisjoint(
            KnownIds([part.ids]).keys("submissions")
        )

    def _read_whole(self, name: str, only: str | None = None) -> Part | None:
        """Return a part that is as it was written; with ``only`` that file alone counts."""
        try:
            part = read_part(self.folder, name)
        except StoreError:
            return None
        if only is not None:
            part = replace(part, files={key: part.files[key] for key in part.files if key == only})
        return part if not any(check_files(part)) and holds_documents(part) else None

    def _refuse(self, document: Document, error: SubmissionError) -> None:
        """Keep a document that could not be added in quarantine/."""
        name = f"{QUARANTINE}/{document.submission_id}.json"
        self.folder.storage.put(name, document.text.encode())
        self.invalid.add(document.key)
        reason = "; ".join(error.problems[:3])
        self.notes.append(f"document {document.submission_id[:12]}: {reason}; kept as {name}")

    def _documents(self, folding: Folding) -> Iterator[Document]:
        """Yield every document: first those of the newest manifest, then by the parts' names."""
        versions = list_versions(self.folder)
        newest = read_manifest(self.folder, versions[-1]) if versions else Manifest()
        there = self._list_parts()
        for name in newest.parts:
            if name not in there:
                self.notes.append(f"{self.folder.parts / name}: found no such part")
        known = {*newest.parts, *list_headless_parts(self.folder)}
        names = [
            name
            for name in dict.fromkeys((*newest.parts, *there))
            if name in there and (name in known or self._is_described(name))
        ]
        paths = [self.folder.parts / name for name in names]
        for path in paths:
            yield from recover_part(path, paths, self.notes)
        if has_legacy_parts(self.folder) and (not versions or State(newest).is_legacy):
            documents, renamed = recover_legacy(self.folder)
            write_renamed(self.folder, renamed)
            ensure_ignored(self.folder)
            yield from without_curated(folding.curated, documents)


def _has_rows(document: Document) -> bool:
    """Return whether rows follow from a document, beside that of itself, as a fold derives them."""
    try:
        read_document(document.submission_id, document.text, QUARANTINE)
        rows = derive_tables([document])
        for name in rows:
            rows_table(name, rows[name])
    except (RegistryError, pa.ArrowException, *_MALFORMED):
        return False
    return any(rows[name] for name in rows if name != "submissions")


def _select_computed(documents: list[Document], catalogue: Catalogue) -> list[Document]:
    """Return the documents that a fold can compute with.

    They are tried together, as each computation takes a while; where that fails, half by half.
    """
    rows = derive_tables(documents)
    try:
        compute_tables(rows, rows, with_described(catalogue, documents))
    except (RegistryError, pa.ArrowException, duckdb.Error, *_MALFORMED):
        half = len(documents) // 2
        parts = (documents[:half], documents[half:]) if half else ()
        return [one for part in parts for one in _select_computed(part, catalogue)]
    return documents
