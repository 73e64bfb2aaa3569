"""The journal: submissions that are recorded and not folded yet, one file each."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from registry.contract.resources import read_yaml
from registry.errors import RegistryError, StoreError, SubmissionError
from registry.reading.json_reader import parse_json
from registry.store.files import TEMPORARY_PREFIX
from registry.store.folder import QUARANTINE
from registry.store.valid_documents import validate_document
from registry.submission.identity import document_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from registry.store.derive_tables import Document
    from registry.store.folder import Folder
    from registry.store.ids import KnownIds

_FILE = re.compile(r"([0-9a-f]{64})\.json")


@dataclass(frozen=True, slots=True)
class BadEntry:
    """A file of the journal that is not a valid entry, and why."""

    name: str
    reason: str
    #: Whether a newer release wrote it; if so, it stays where it is.
    is_newer: bool = False
    #: Whether this user may not read it; if so, it stays too: it may be valid.
    is_unreadable: bool = False

    def __str__(self) -> str:
        """Return the problem with its way out."""
        if self.is_newer:
            return f"journal/{self.name}: {self.reason}; it is left out until you upgrade"
        return (
            f"journal/{self.name}: {self.reason}; it is left out of all answers; submit it "
            "again with `registry add`, or have `registry fold` move the file to "
            f"{QUARANTINE}/"
        )


@dataclass(frozen=True, slots=True)
class Journal:
    """What the journal held at one moment: valid entries in the order of their ids, and others."""

    entries: tuple[Document, ...] = ()
    bad: tuple[BadEntry, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Messages about the entries that are not valid."""
        return tuple(map(str, self.bad))


def entry_name(submission_id: str) -> str:
    """Return the name of a submission's journal entry."""
    return f"journal/{submission_id}.json"


def list_entries(folder: Folder) -> list[str]:
    """Return the ids of the pending submissions, sorted."""
    names = folder.storage.list("journal")
    return [match[1] for name in names if (match := _FILE.fullmatch(name))]


def is_recorded(folder: Folder, submission_id: str) -> bool:
    """Return whether the journal holds a submission undamaged."""
    try:
        return _hash_is(submission_id, folder.storage.get(entry_name(submission_id)))
    except (FileNotFoundError, StoreError):
        return False


@dataclass(frozen=True, slots=True)
class RawJournal:
    """The files of the journal as they were read, before they are validated."""

    texts: dict[str, bytes]
    bad: tuple[BadEntry, ...] = ()


def read_entries(folder: Folder, names: Iterable[str] | None = None) -> RawJournal:
    """Return the content of the journal, or of some of its files.

    Entries that vanish meanwhile were folded.
    """
    texts: dict[str, bytes] = {}
    bad: list[BadEntry] = []
    for name in folder.storage.list("journal") if names is None else names:
        match = _FILE.fullmatch(name)
        if match is None:
            if not name.startswith("."):
                bad.append(BadEntry(name, "expected a journal entry's name (64 digits and .json)"))
            continue
        try:
            texts[match[1]] = folder.storage.get(f"journal/{name}")
        except FileNotFoundError:
            continue
        except StoreError as error:
            path = folder.journal / name
            is_unreadable = path.is_file() and not os.access(path, os.R_OK)
            bad.append(BadEntry(name, str(error), is_unreadable=is_unreadable))
    return RawJournal(texts, tuple(bad))


def validate_entries(raw: RawJournal, known: KnownIds | None = None) -> Journal:
    """Return the entries, each validated as when it was added, and those that are not valid.

    One that a part in ``known`` holds is answered from there: it is not bad, whatever is valid.
    """
    if not raw.texts:
        return Journal((), raw.bad)
    bad = list(raw.bad)
    plain: dict[str, object] = {}
    for submission_id, data in raw.texts.items():
        try:
            plain[submission_id] = _parse(submission_id, data)
        except (RegistryError, ValueError) as error:
            bad.append(BadEntry(f"{submission_id}.json", _reason(error)))
    entries = []
    for submission_id, document in plain.items():
        text = raw.texts[submission_id].decode()
        try:
            entries.append(validate_document(submission_id, text, document))
        except SubmissionError as error:
            if known and known.contains("submissions", bytes.fromhex(submission_id[:32])):
                continue
            bad.append(BadEntry(f"{submission_id}.json", _reason(error), _is_newer(document)))
    return Journal(tuple(entries), tuple(sorted(bad, key=lambda entry: entry.name)))


def _is_newer(document: object) -> bool:
    version = document.get("schema_version") if isinstance(document, dict) else None
    return isinstance(version, int) and version > read_yaml("submission.yaml")["version"]


def _parse(submission_id: str, data: bytes) -> object:
    if not _hash_is(submission_id, data):
        raise StoreError("its content does not match its name")
    return parse_json(data.decode(), origin="")


def _hash_is(submission_id: str, data: bytes) -> bool:
    try:
        return document_id(data.decode()) == submission_id
    except UnicodeDecodeError:
        return False


def _reason(error: Exception) -> str:
    return "; ".join(str(error).splitlines()[:3])


def quarantine(folder: Folder, bad: Iterable[BadEntry]) -> Iterator[str]:
    """Move entries that are not valid out of the journal; yield a message for each.

    Nothing is overwritten; what a newer release wrote stays, and what this user may not read.
    """
    for entry in bad:
        if entry.is_newer or entry.is_unreadable:
            yield str(entry)
            continue
        with suppress(FileNotFoundError):  # another process has moved it
            place = folder.storage.move_aside(f"journal/{entry.name}", QUARANTINE)
            yield f"journal/{entry.name}: {entry.reason}; moved to {place}"


def remove_leftovers(folder: Path, *, before: float) -> None:
    """Remove temporary files that killed processes left before a time by the folder's own clock.

    One that cannot be removed, such as another user's, stays: nothing reads it.
    """
    for path in folder.glob(f"{TEMPORARY_PREFIX}*"):
        with suppress(OSError):
            if path.is_file() and path.stat().st_mtime <= before:
                path.unlink()
