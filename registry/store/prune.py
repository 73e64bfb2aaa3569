"""Remove old versions, and parts that no version names, where nothing is lost by it."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING

from registry.store.curated import read_curated
from registry.store.derive_tables import content_keys
from registry.store.documents import find_safe, read_documents
from registry.store.files import sync_folder
from registry.store.folder import Folder, curated_dir
from registry.store.ids import ERASED, KnownIds
from registry.store.journal import is_recorded, remove_leftovers
from registry.store.legacy import legacy_files, recover_legacy, without_curated
from registry.store.lock import table_lock
from registry.store.manifest import (
    CommittedError,
    Manifest,
    list_versions,
    manifest_name,
    read_manifest,
    write_manifest,
)
from registry.store.parts import DESCRIPTION, Part, read_part, remove_leftover_parts, remove_part
from registry.store.recover import recover_part
from registry.store.state import State, read_state

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from registry.store.derive_tables import Document
    from registry.store.remote import Remote

#: How often a fence on object storage is tried where others commit first.
_ATTEMPTS = 10


def prune(folder: Folder, *, keep: int = 1, wait_seconds: float = 60.0) -> list[int]:
    """Remove all but the newest ``keep`` versions and the parts only they name; return them.

    A part stays if one of its documents cannot be read back in full from a part that is kept.
    """
    folder.require()
    with table_lock(folder, wait_seconds=wait_seconds):
        if folder.remote and not _has_more(folder, folder.remote, keep):
            return []
        return _prune(folder, keep)


def _has_more(folder: Folder, remote: Remote, keep: int) -> bool:
    """Return whether there is more on object storage than some versions and their parts."""
    folder.pull(history=True)
    read_state(folder)
    kept = list_versions(folder)[-keep:]
    named = {part for version in kept for part in read_manifest(folder, version).parts}
    needed = {*map(manifest_name, kept), *(f"tables/parts/{part}" for part in named)}
    there = {"/".join(name.split("/")[:3]) for name in remote.list_tables()}
    return not there <= needed


def _prune(folder: Folder, keep: int) -> list[int]:
    with removal(folder):
        read_state(folder)
        removed = list_versions(folder)[:-keep]
        for version in removed:
            folder.storage.delete(manifest_name(version))
        sync_folder(folder.tables)
        remove_unnamed(folder, list_versions(folder))
    remove_leftover_parts(folder)
    return removed


@contextlib.contextmanager
def removal(folder: Folder) -> Iterator[None]:
    """Hold folds on object storage off, and remove there what the block removes from the copy.

    A manifest like the newest comes first: a fold that began from the version before it cannot
    commit any more, and one that began earlier withdraws what it commits, so that parts which were
    there and are not named are needed by nobody. Raises CommittedError where other processes
    commit first again and again, StoreError where the state is damaged.
    """
    if folder.remote is None:
        yield
        return
    there = _put_fence(folder, folder.remote)
    yield
    folder.remote.remove_missing(there)


def _put_fence(folder: Folder, remote: Remote) -> list[str]:
    """Commit a manifest like the newest; return what was on the storage before."""
    for _ in range(_ATTEMPTS):
        there = remote.list_tables()  # first: what comes after it may be named by others
        folder.pull(history=True)
        newest = read_state(folder).manifest
        fence = Manifest(newest.version + 1, newest.parts, newest.content_hash)
        try:
            write_manifest(folder, fence)
        except CommittedError as error:
            lost = error
        else:
            return there
    raise lost


def remove_unnamed(folder: Folder, versions: Sequence[int]) -> None:
    """Remove the parts that these versions do not name, and tables of an earlier release."""
    manifests = [read_manifest(folder, version) for version in versions]
    named = {name for manifest in manifests for name in manifest.parts}
    kept = [read_part(folder, name) for name in sorted(named)]
    unnamed = [name for name in folder.storage.list("tables/parts") if name not in named]
    for name in [name for name in unnamed if _is_safe(folder, name, kept)]:
        remove_part(folder, name)
    if all(not State(manifest).is_legacy for manifest in manifests):
        _remove_legacy(folder, kept)
    remove_leftovers(folder.tables, before=math.inf)


def _is_safe(folder: Folder, name: str, kept: list[Part]) -> bool:
    """Return whether all documents of a part are elsewhere, those of an incomplete one as well."""
    if (folder.parts / name / DESCRIPTION).is_file():
        return _are_safe(list(read_documents(read_part(folder, name))), kept)
    path = folder.parts / name
    notes: list[str] = []
    is_there = (path / "submissions.parquet").exists()
    documents = list(recover_part(path, (), notes)) if is_there else []
    pending = [one for one in documents if not is_recorded(folder, one.submission_id)]
    return not notes and _are_safe(pending, kept)


def _are_safe(documents: list[Document], kept: list[Part]) -> bool:
    """Return whether kept parts hold the documents, or what was not erased of them."""
    known = KnownIds([part.ids for part in kept])
    wanted = {one.submission_id for one in documents if not _is_rewritten(one, known)}
    return find_safe(kept, wanted) == wanted


def _is_rewritten(document: Document, known: KnownIds) -> bool:
    """Return whether observations of a document were erased and everything else in it is kept."""

    def is_erased(key: bytes) -> bool:
        return known.contains(ERASED, key)

    held = [key for table, key in content_keys(document) if table == "observations"]
    rest = content_keys(document, is_erased)
    return any(map(is_erased, held)) and all(known.contains(table, key) for table, key in rest)


def _remove_legacy(folder: Folder, kept: list[Part]) -> None:
    """Remove the tables of an earlier release, where the curated records or parts hold them."""
    files = legacy_files(folder)
    if not files:
        return
    documents, _ = recover_legacy(folder)
    own = list(without_curated(read_curated(Folder(curated_dir())), documents))
    if _are_safe(own, kept):
        for path in files:
            path.unlink()
