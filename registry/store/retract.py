"""Withdraw an observation: views leave it out, its history stays, unless it is erased."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from registry.errors import StoreError
from registry.store.add import add_submissions
from registry.store.derive_tables import derive_tables
from registry.store.documents import find_documents
from registry.store.fold import fold, remove_history
from registry.store.ids import ERASED
from registry.store.lock import table_lock
from registry.store.renamed import follow, read_renamed, with_ids_of_today
from registry.store.snapshot import Snapshot, curated_ids, ids_of, read_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from registry.store.derive_tables import Document
    from registry.store.folder import Location


def retract(location: Location, prefix: str, *, reason: str, erase: bool = False) -> str:
    """Withdraw the observation whose id starts with this, and return its id.

    With ``erase`` its content also leaves the journal, the tables and all old versions of the
    user's registry; id, date and reason stay. Raises StoreError where none or several match, where
    the reason is empty, or where the content to erase lies in the curated records.
    """
    snapshot = read_snapshot(location)
    erased = _find_erased(snapshot, prefix)
    if (
        erase and erased and not _is_live(snapshot, prefix)
    ):  # by a command that may have been interrupted: finish its work
        _erase(location)
        return erased
    identity = find_observation(location, snapshot, prefix)
    if erase and identity in curated_ids(snapshot):
        raise StoreError(
            f"{identity}: is in the curated records, which this command cannot erase; retract it "
            "without --erase, or take its source out of records/sources in a checkout"
        )
    if erase and location.own.is_curated:
        raise StoreError(f"{location.own.path}: found curated records; edit their sources instead")
    _add_retractions(location, [identity], reason, erase=erase)
    if erase:
        _erase(location)
    return identity


def retract_submission(
    location: Location, prefix: str, *, reason: str, erase: bool = False
) -> tuple[str, ...]:
    """Withdraw the observations of the user's own submission whose id starts with this.

    Returns their ids, none where not exactly one submission matches. Raises StoreError.
    """
    found = {one.submission_id: one for one in _find_own(read_snapshot(location), prefix)}
    matching = [one for key, one in found.items() if key.startswith(prefix)]
    if len(matching) != 1:
        return ()
    identities = [row["observation_id"] for row in derive_tables(matching)["observations"]]
    if identities:
        _add_retractions(location, identities, reason, erase=erase)
    if erase:
        _erase(location)
    return tuple(identities)


def find_earlier_readings(location: Location, document: dict[str, Any]) -> tuple[str, ...]:
    """Return the user's own submissions that read the same file for the same source.

    ``document`` is a submission, which may be among them; those withdrawn whole are left out.
    """
    source = document["source"]
    text = source.get("sha256")
    if text is None:
        return ()
    snapshot = read_snapshot(location)
    own = {one.submission_id: one for one in _find_own(snapshot, text)}
    read = {
        key: {row["observation_id"] for row in derive_tables([one])["observations"]}
        for key, one in own.items()
        if one.plain.get("source", {}).get("source_id") == source["source_id"]
        and one.plain["source"].get("sha256") == text
    }
    withdrawn = {
        row["observation_id"]
        for one in _find_own(snapshot, '"retractions"')
        for row in one.plain.get("retractions", ())
    }
    withdrawn = with_ids_of_today(withdrawn, snapshot.renamed)
    return tuple(key for key, identities in read.items() if identities - withdrawn)


def _find_own(snapshot: Snapshot, text: str) -> Iterator[Document]:
    """Yield the user's own documents that hold a text, or whose id does; pending ones all."""
    yield from (*snapshot.legacy, *snapshot.journal.entries)
    yield from find_documents(snapshot.state.parts, text)


def find_observation(location: Location, snapshot: Snapshot, prefix: str) -> str:
    """Return the one id with this prefix, or that an old id became. Raises StoreError."""
    pending = derive_tables(snapshot.pending)["observations"]
    known = ids_of(snapshot.parts) | {row["observation_id"] for row in pending}
    found = {one for one in known if one.startswith(prefix)}
    found = found or (follow(read_renamed(location), prefix) & known)
    if len(found) != 1:
        raise StoreError(
            f"{prefix}: {len(found)} observation ids start with this; expected one; list them with "
            "`registry ls`"
        )
    return found.pop()


def _find_erased(snapshot: Snapshot, prefix: str) -> str | None:
    """Return the one erased id with this prefix."""
    found = {key.hex() for key in snapshot.known.keys(ERASED)}
    matching = [one for one in found if one.startswith(prefix)]
    return matching[0] if len(matching) == 1 else None


def _is_live(snapshot: Snapshot, prefix: str) -> bool:
    """Return whether a folded observation that was not erased has this prefix."""
    return any(one.startswith(prefix) for one in ids_of(snapshot.parts))


def _add_retractions(
    location: Location, identities: Iterable[str], reason: str, *, erase: bool
) -> None:
    if not reason.strip():
        raise StoreError("reason: found none; expected why what was observed does not hold")
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    said: dict[str, Any] = {"reason": reason, "retracted_at": now}
    said |= {"erased": True} if erase else {}
    rows = [{"observation_id": identity, **said} for identity in identities]
    documents = [("retraction", {"retractions": rows})]
    add_submissions(location, documents, may_erase=erase)


def _erase(location: Location) -> None:
    """Write everything anew without what was erased, and remove all that held it."""
    fold(location)
    with table_lock(location.own):
        remove_history(location.own)
