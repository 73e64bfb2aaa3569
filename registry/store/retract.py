"""Withdraw an observation: views leave it out, its history stays, unless it is erased."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from registry.errors import StoreError
from registry.store.add import Added, add_submissions
from registry.store.derive_tables import Document, derive_tables
from registry.store.fold import Folding, commit, fold, read_all_documents
from registry.store.ids import ERASED, KnownIds
from registry.store.journal import entry_name, list_entries
from registry.store.lock import table_lock
from registry.store.manifest import Manifest, list_versions, manifest_name
from registry.store.prune import remove_unnamed
from registry.store.renamed import follow, read_renamed
from registry.store.snapshot import Snapshot, read_snapshot
from registry.store.state import State, read_state
from registry.submission.identity import canonical_json, document_id, observation_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from registry.store.folder import Location
    from registry.store.parts import Part


def retract(location: Location, prefix: str, *, reason: str, erase: bool = False) -> str:
    """Withdraw the observation whose id begins like this, and return its id.

    With ``erase`` its content also leaves the journal, the tables and all old versions of the
    user's registry; id, date and reason stay. Raises StoreError where none or several match, or
    where the content to erase lies in the curated records.
    """
    snapshot = read_snapshot(location)
    erased = _find_erased(snapshot, prefix)
    if erase and erased:  # by a command that may have been interrupted: finish its work
        _erase(location, erased)
        return erased
    identity = find_observation(location, snapshot, prefix)
    if erase and identity in _ids_of(_curated_parts(snapshot)):
        raise StoreError(
            f"{identity}: is in the curated records, which this command cannot erase; retract it "
            "without --erase, or take its source out of records/sources in a checkout"
        )
    _add_retraction(location, identity, reason, erase=erase)
    if erase:
        _erase(location, identity)
    return identity


def find_observation(location: Location, snapshot: Snapshot, prefix: str) -> str:
    """Return the one id with this prefix, or that an old id became. Raises StoreError."""
    pending = derive_tables(snapshot.pending)["observations"]
    known = _ids_of(snapshot.parts) | {row["observation_id"] for row in pending}
    found = {one for one in known if one.startswith(prefix)}
    found = found or (follow(read_renamed(location), prefix) & known)
    if len(found) != 1:
        raise StoreError(
            f"{prefix}: {len(found)} observation ids begin like this; expected one; list them with "
            "`registry ls`"
        )
    return found.pop()


def _find_erased(snapshot: Snapshot, prefix: str) -> str | None:
    """Return the one erased id with this prefix."""
    found = {key.hex() for key in snapshot.known.keys(ERASED)}
    matching = [one for one in found if one.startswith(prefix)]
    return matching[0] if len(matching) == 1 else None


def _ids_of(parts: Iterable[Part]) -> set[str]:
    return {key.hex() for key in KnownIds([part.ids for part in parts]).keys("observations")}


def _curated_parts(snapshot: Snapshot) -> list[Part]:
    part = snapshot.curated.part if snapshot.curated else None
    return [part] if part else []


def _add_retraction(location: Location, identity: str, reason: str, *, erase: bool) -> Added:
    now = datetime.now(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")
    row: dict[str, Any] = {"observation_id": identity, "reason": reason, "retracted_at": now}
    document = {"retractions": [{**row, **({"erased": True} if erase else {})}]}
    return add_submissions(location, [("retraction", document)])[0]


def _erase(location: Location, identity: str) -> None:
    """Rewrite every document without the observation, and remove all that held it."""
    folder = location.own
    if folder.is_curated:
        raise StoreError(f"{folder.path}: found curated records; edit their sources instead")
    fold(location)
    with table_lock(folder):
        state = read_state(folder)
        folding = Folding(location, State(Manifest()))
        given_up: set[str] = set()
        folding.take(_without(state, identity, given_up))
        folding.merge_all()
        commit(folder, state.manifest, folding.parts, anew=True)
        # parts first: one that no manifest names would count as lost, should this be interrupted
        remove_unnamed(folder, list_versions(folder)[-1:])
        for version in list_versions(folder)[:-1]:
            folder.storage.delete(manifest_name(version))
        for entry in list_entries(folder):
            if entry in given_up:
                folder.storage.delete(entry_name(entry))


def _without(state: State, identity: str, given_up: set[str]) -> Iterator[Document]:
    """Yield all documents without one observation; those that held it are ``given_up``."""
    for document in read_all_documents(state.parts):
        plain = document.plain
        source_id = plain.get("source", {}).get("source_id", "")
        observations = plain.get("observations", [])
        kept = [o for o in observations if observation_id(source_id, o) != identity]
        if len(kept) == len(observations):
            yield document
            continue
        given_up.add(document.submission_id)
        if kept or plain.get("models") or plain.get("gpus"):
            rest = {name: value for name, value in plain.items() if name != "observations"}
            rest |= {"observations": kept} if kept else {}
            text = canonical_json(rest)
            yield Document(document_id(text), text, rest)
