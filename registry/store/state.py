"""The folded state of a registry: its manifest, and the parts that it names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from registry.contract import FORMAT_VERSION
from registry.errors import StoreError
from registry.store.derive_tables import content_keys, without_observations
from registry.store.ids import ERASED, KnownIds
from registry.store.journal import list_entries
from registry.store.legacy import has_legacy_parts, read_legacy
from registry.store.manifest import (
    LARGEST_VERSION,
    REPAIR,
    Manifest,
    NewerManifestError,
    list_unbelievable,
    list_versions,
    manifest_name,
    read_manifest,
)
from registry.store.parts import DESCRIPTION, Part, read_part, require_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from registry.store.derive_tables import Document
    from registry.store.folder import Folder


#: The file of a part that holds its documents.
DOCUMENTS = "submissions.parquet"


@dataclass(frozen=True)
class State:
    """A version of the tables: the parts whose rows it holds."""

    manifest: Manifest
    parts: tuple[Part, ...] = ()

    @property
    def is_legacy(self) -> bool:
        """Whether an older release wrote it, with tables that are derived anew when read."""
        return self.manifest.format < FORMAT_VERSION

    @cached_property
    def known(self) -> KnownIds:
        """The ids of its rows."""
        return KnownIds([part.ids for part in self.parts])

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        return sum(part.rows(table) for part in self.parts)


def read_state(folder: Folder, version: int | None = None) -> State:
    """Return the newest folded state, or that of one version.

    Raises StoreError where the manifest or a part is missing or damaged, or where parts show that
    the newest manifest is lost: an answer would leave rows out.
    """
    if version is not None:
        return _read_version(folder, version)
    while True:
        there = _list_all(folder)
        try:
            state = _read_version(folder, there.versions[-1] if there.versions else None)
            lost = _find_missed(folder, state, there)
        except (StoreError, FileNotFoundError):
            if _list_all(folder) == there:
                raise
            continue  # what was looked at is removed meanwhile
        if lost is None:
            return state
        if list_versions(folder)[-1:] in ([], [state.manifest.version]):
            raise StoreError(
                f"{lost}: no manifest names this part, and its documents are nowhere else; "
                f"expected a manifest that does; {REPAIR}"
            )


def _read_version(folder: Folder, version: int | None) -> State:
    manifest = read_manifest(folder, version)
    return State(manifest, tuple(read_part(folder, name) for name in manifest.parts))


@dataclass(frozen=True, slots=True)
class _Listing:
    """What lies in ``tables/`` at one moment: versions, oldest first, and names of parts."""

    versions: list[int]
    parts: list[str]


def _list_all(folder: Folder) -> _Listing:
    return _Listing(list_versions(folder), folder.storage.list("tables/parts"))


def _find_missed(folder: Folder, state: State, there: _Listing) -> str | None:
    """Return a part that no manifest names and whose documents are nowhere else, or None.

    Raises StoreError where the newest manifest leaves documents of another out.
    """
    if not there.versions and has_legacy_parts(folder):
        return str(folder.tables)
    beside = set(there.parts) - set(state.manifest.parts)
    before = _read_before(folder, state.manifest) if beside else []
    lost = next(iter(_find_lost(folder, state, beside, before)), None)
    if lost is None:
        _require_all_of_before(folder, state)
        history = [*before, state.manifest]
        if beside and not _is_one_history(history):
            _require_nothing_left_out(folder, state, missing_ok=_starts_afresh(history))
    return lost


def _read_before(folder: Folder, newest: Manifest) -> list[Manifest]:
    """Return the earlier manifests, oldest first, without those that vanish or are damaged."""
    found = []
    for version in list_versions(folder):
        if version < newest.version:
            try:
                found.append(read_manifest(folder, version))
            except (StoreError, FileNotFoundError):  # `check` reports a damaged one
                continue
    return found


def _is_one_history(manifests: list[Manifest]) -> bool:
    """Return whether each version follows from the one before: then it holds what that held.

    A merge in git brings the versions of two branches together without a conflict where each has
    numbers that the other lacks.
    """
    return all(_follows(*pair) for pair in pairwise(manifests))


def _follows(before: Manifest, after: Manifest) -> bool:
    return after.version == before.version + 1 and after.previous == before.content_hash


def _starts_afresh(manifests: list[Manifest]) -> bool:
    """Return whether the newest follows from one that continues none: an erasure's, or a repair's.

    What was there before may be half removed.
    """
    newest_first = reversed(list(pairwise(manifests)))
    broken = next((pair for pair in newest_first if not _follows(*pair)), None)
    return broken is not None and broken[1].previous is None


def _require_nothing_left_out(folder: Folder, state: State, *, missing_ok: bool) -> None:
    """Raise StoreError where an earlier version holds a document that the newest lacks."""
    left_out = next(iter(find_left_out(folder, state, missing_ok=missing_ok)), None)
    if left_out is not None:
        raise StoreError(
            f"{left_out}: holds documents that the newest version lacks, which was not made "
            f"from the versions before it; expected one history; {REPAIR}"
        )


def _require_all_of_before(folder: Folder, state: State) -> None:
    """Raise StoreError where a document of the version that it was made from is not there.

    They leave a registry only where it starts afresh, without naming the version before.
    """
    if state.manifest.previous is None:
        return
    try:
        before = read_manifest(folder, state.manifest.version - 1)
        if before.content_hash != state.manifest.previous:  # that is another history's
            return
        dropped = [read_part(folder, n) for n in before.parts if n not in state.manifest.parts]
        lacking = set(KnownIds([part.ids for part in dropped]).keys("submissions"))
    except (StoreError, FileNotFoundError):  # pruned, or damaged, which `check` names
        return
    added = [part.ids for part in state.parts if part.name not in before.parts]
    if lacking:  # most are in the part that a fold merged them into
        lacking.difference_update(KnownIds(added).keys("submissions"))
    n_lacking = sum(not state.known.contains("submissions", key) for key in lacking)
    if n_lacking:
        path = folder.storage.path(manifest_name(state.manifest.version))
        raise StoreError(
            f"{path}: lacks {n_lacking} of the documents of the version before; expected "
            f"all of them; {REPAIR}"
        )


def _find_lost(
    folder: Folder, state: State, beside: set[str], before: list[Manifest]
) -> Iterator[str]:
    """Yield parts that no manifest names and whose documents neither the state nor journal hold."""
    unnamed = _select_unnamed(folder, beside, before)
    headless = _select_headless(folder, beside)
    pending: set[bytes] = set()
    if unnamed or headless:
        pending = {bytes.fromhex(entry[:32]) for entry in list_entries(folder)}
        if state.is_legacy:  # a fold that would have rewritten it was killed
            documents = read_legacy(folder, state.manifest.version)
            pending |= {document.key for document in documents}
    for name in unnamed:
        try:
            is_leftover = _is_known(read_part(folder, name), state, pending)
        except StoreError:
            if (folder.parts / name).exists():
                raise
            continue  # the fold that made it has merged it
        if not is_leftover and (folder.parts / name).exists():
            yield str(folder.parts / name)
    for name in headless:
        is_leftover = _is_leftover(folder, name, state, pending)
        if not is_leftover and (folder.parts / name).exists():
            yield str(folder.parts / name)


def _is_known(part: Part, state: State, pending: set[bytes]) -> bool:
    """Return whether all documents of a part are elsewhere."""
    lacking = set(KnownIds([part.ids]).keys("submissions")) - pending
    lacking = {key for key in lacking if not state.known.contains("submissions", key)}
    try:
        return all(_is_rest(document, state) for document in _read_some(part, lacking))
    except (StoreError, KeyError, TypeError, ValueError, AttributeError):  # some are no documents
        return False


def _read_some(part: Part, keys: set[bytes]) -> Iterator[Document]:
    if not keys:
        return iter(())
    from registry.store.documents import read_documents  # noqa: PLC0415 - loads pyarrow

    return (one for one in read_documents(part) if one.key in keys)


def _is_leftover(folder: Folder, name: str, state: State, pending: set[bytes]) -> bool:
    """Return whether all that a part without a description holds is elsewhere."""
    from registry.store.recover import recover_part  # noqa: PLC0415 - loads pyarrow

    require_own(folder.parts / name)
    notes: list[str] = []
    for document in recover_part(folder.parts / name, (), notes):
        is_there = document.key in pending or state.known.contains("submissions", document.key)
        if not is_there and not _is_rest(document, state):
            return False
    return not notes


def _is_rest(document: Document, state: State) -> bool:
    """Return whether all content of a document is known: an interrupted erasure rewrites some."""
    keys = list(content_keys(document))
    return bool(keys) and all(state.known.contains(table, key) for table, key in keys)


def list_headless_parts(folder: Folder) -> list[str]:
    """Return the parts that hold documents and no description, as a killed fold leaves them."""
    return _select_headless(folder, folder.storage.list("tables/parts"))


def _select_headless(folder: Folder, names: Iterable[str]) -> list[str]:
    paths = [folder.parts / name for name in sorted(names)]
    return [
        path.name
        for path in paths
        if (path / DOCUMENTS).exists() and not (path / DESCRIPTION).exists()
    ]


def find_left_out(folder: Folder, state: State, *, missing_ok: bool = False) -> Iterator[str]:
    """Yield the parts of earlier versions that hold a document which the newest lacks.

    One of which something was erased is not lacking where the newest holds the rest. Raises
    StoreError for a part that is damaged, or not there unless ``missing_ok``.
    """
    for part in read_earlier_parts(folder, state, missing_ok=missing_ok):
        keys = KnownIds([part.ids]).keys("submissions")
        lacking = {key for key in keys if not state.known.contains("submissions", key)}
        if lacking and not _are_erased(_read_some(part, lacking), state.known):
            yield str(part.path)


def read_earlier_parts(folder: Folder, state: State, *, missing_ok: bool = False) -> Iterator[Part]:
    """Yield the parts that only earlier versions name. Raises StoreError where one is damaged.

    With ``missing_ok`` those that are not there are left out.
    """
    before = _read_before(folder, state.manifest)
    names = _names_in(before) - set(state.manifest.parts)
    if missing_ok:
        names &= set(folder.storage.list("tables/parts"))
    return (read_part(folder, name) for name in sorted(names))


def _are_erased(documents: Iterable[Document], known: KnownIds) -> bool:
    """Return whether what is known was erased from documents, and holds the rest of each."""
    erased = {key.hex() for key in known.keys(ERASED)}
    rest = without_observations(documents, erased, set())
    return all(known.contains("submissions", document.key) for document in rest)


def list_unnamed_parts(folder: Folder, state: State) -> list[str]:
    """Return the complete parts that no manifest names."""
    beside = set(folder.storage.list("tables/parts")) - set(state.manifest.parts)
    before = _read_before(folder, state.manifest) if beside else []
    return _select_unnamed(folder, beside, before)


def _select_unnamed(folder: Folder, beside: set[str], before: list[Manifest]) -> list[str]:
    names = beside - _names_in(before)
    return sorted(name for name in names if (folder.parts / name / DESCRIPTION).is_file())


def _names_in(manifests: list[Manifest]) -> set[str]:
    return {name for manifest in manifests for name in manifest.parts}


def find_damaged_manifests(folder: Folder) -> Iterator[tuple[str, str]]:
    """Yield the manifests that cannot be read, by name, and why; also gaps in their chain.

    Raises NewerManifestError for one that is only too new to be read.
    """
    for name in list_unbelievable(folder):
        found = f"{folder.storage.path(name)}: damaged manifest (no version has so high a number)"
        yield name, f"{found}; expected at most {LARGEST_VERSION}; {REPAIR}"
    before: Manifest | None = None
    for version in list_versions(folder):
        try:
            manifest = read_manifest(folder, version)
        except NewerManifestError:
            raise
        except StoreError as error:
            yield manifest_name(version), str(error)
            before = None
            continue
        if before and manifest.previous not in (None, before.content_hash):
            message = f"version {before.version} is not the one it was made from; {REPAIR}"
            yield (
                manifest_name(version),
                f"{folder.storage.path(manifest_name(version))}: {message}",
            )
        before = manifest
