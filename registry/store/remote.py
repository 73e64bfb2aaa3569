"""A registry on object storage: a private copy in a temporary folder, and what keeps it true.

Readers bring the copy to the newest complete state and go on as in any folder. Writers put what
they made there only if nothing of that name is there, a manifest last:

* A journal entry is one conditional put; its name is the hash of its content.
* A fold makes its parts in the copy, uploads them under names that no other fold uses, and puts
  the next manifest if absent. Of two folds one wins; the other takes its own parts away and begins
  anew.
* A folded entry stays for a while, so that a reader who is shown an old listing finds a document in
  the journal or in a part, never in neither.
* Old versions are removed behind a fence: a new manifest, against which every fold under way loses
  that began from the version before it, so that what was there before the fence and is not named
  is needed by nobody. The numbers of removed versions are free again, and a fold that began from
  one of them can put its manifest there. So who has put a manifest then lists them: where a later
  one is there that was not made from it, it is withdrawn, and the fold begins anew. Where it is
  killed before, readers pass over what it put, and the next removal takes it away.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from registry.errors import StoreError, show_as
from registry.store.files import temporary_name
from registry.store.manifest import list_versions_in, manifest_name
from registry.store.objects import Objects, now, open_objects
from registry.store.parts import CATALOGUE, DESCRIPTION, part_name
from registry.store.storage import Batch, LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from registry.store.address import Address

#: How long a folded entry stays in the journal at least: longer than a network file system shows
#: an old listing.
GRACE_SECONDS = 120.0

#: Files of a part that adding needs: what it holds, and which documents are known.
LIGHT = (DESCRIPTION, CATALOGUE, "submissions.ids", "erased.ids")

#: Settings of a registry; they are there from the beginning, so whoever writes can try whether the
#: storage honours conditions by putting them once more.
SETTINGS = "registry.json"

_PARTS = "tables/parts"
_JOURNAL = "journal"
_ENTRY = re.compile(r"[0-9a-f]{64}\.json")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")

_THREADS = 16
_ATTEMPTS = 10


Given = TypeVar("Given")
Made = TypeVar("Made")


class RemoteBatch(Batch):
    """Files that are written to the copy first, and then to the storage."""

    def __init__(self, storage: RemoteStorage) -> None:
        super().__init__(storage)
        self._remote = storage

    def commit(self, *, replace: bool = True) -> int:
        """Put the files on the storage, parts excepted, and name them in the copy."""
        names = [path.relative_to(self._remote.root).as_posix() for _, path in self._files]
        pairs = zip(names, (temporary for temporary, _ in self._files), strict=True)
        sent = [(n, path) for n, path in pairs if not n.startswith(f"{_PARTS}/")]
        _all(lambda pair: self._remote.send(pair[0], pair[1].read_bytes()), sent)
        return super().commit(replace=replace)


@dataclass(frozen=True)
class RemoteStorage(LocalStorage):
    """The files of the copy; journal, settings and manifests go to the storage at once."""

    objects: Objects
    #: Names in the journal, when it was last listed, of what no part holds.
    listed: set[str] = field(default_factory=set)
    #: What was moved in the copy, and where to: the storage follows when a new version is there.
    aside: list[tuple[str, str]] = field(default_factory=list)

    @property
    def writer(self) -> str:
        """A word that no other writer uses: it makes names of parts and manifests its own."""
        return os.urandom(8).hex()

    def get(self, name: str) -> bytes:
        """Return a file of the copy, else of the storage."""
        try:
            return super().get(name)
        except FileNotFoundError:
            if name.startswith("tables/"):
                raise
        return self.objects.get(name)

    def list(self, folder: str) -> list[str]:
        """Return the names in a folder of the copy; of the journal, those of what is pending."""
        if folder == _JOURNAL:
            return sorted(self.listed)
        if folder == "quarantine":
            return sorted(name.rpartition("/")[2] for name in self.objects.times(folder))
        return super().list(folder)

    def writing(self) -> Batch:
        """Return a batch of files that go to the storage."""
        return RemoteBatch(self)

    def send(self, name: str, data: bytes) -> None:
        """Put a file on the storage; an entry of the journal only if it is not there whole."""
        if not name.startswith(f"{_JOURNAL}/"):
            self.objects.put(name, data)
        elif not self.objects.put_if_absent(name, data) and self.objects.get(name) != data:
            self.objects.put(name, data)  # its name says what it must hold
        if name.startswith(f"{_JOURNAL}/"):
            self.listed.add(name.rpartition("/")[2])

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Put a file unless one of its name is there; return whether ours is there.

        An answer may be lost and the client try again: what it finds is then its own.
        """
        if not self.objects.put_if_absent(name, data) and self.objects.get(name) != data:
            return False
        if name.startswith("tables/"):
            _keep(self.root / name, data)
        return True

    def delete(self, name: str) -> None:
        """Remove a file from the copy, and an entry of the journal from the storage."""
        if name.startswith(f"{_JOURNAL}/"):
            self.objects.delete(name)
            self.listed.discard(name.rpartition("/")[2])
        super().delete(name)

    def move_aside(self, name: str, folder: str) -> str:
        """Move a file to another folder: an entry of the journal at once, others in the copy."""
        if not name.startswith(f"{_JOURNAL}/"):
            self.aside.append((name, place := super().move_aside(name, folder)))
            return place
        data = self.get(name)
        plain = name.rpartition("/")[2]
        number = 1
        free = f"{folder}/{plain}"
        while not self.put_if_absent(free, data):
            number += 1
            free = f"{folder}/{plain}.{number}"
        self.delete(name)
        return free


@dataclass
class Remote:
    """A registry on object storage, and its private copy."""

    address: Address
    storage: RemoteStorage
    #: Entries that were in the journal, when it was last listed, and in a part as well.
    folded: set[str] = field(default_factory=set)
    #: Parts that are on the storage.
    there: set[str] = field(default_factory=set)

    @property
    def exists(self) -> bool:
        """Whether there is a registry at the address."""
        return self._fetch(SETTINGS) and bool(self.storage.get(SETTINGS))

    def pull(self, *, light: bool = False, journal: bool = True, history: bool = False) -> None:
        """Bring the copy to the newest complete state.

        ``light`` leaves out the tables, ``history`` takes all versions and all parts. What is
        missing on the storage is missing in the copy: whoever reads it says so. Raises StoreError.
        """
        self._drop_unpublished()
        for attempt in range(_ATTEMPTS):
            if self._pull(light=light, journal=journal, history=history):
                return
            time.sleep(min(1.0, 0.02 * 2**attempt))
        if not self._is_readable():
            raise StoreError(
                f"{self.address}: a manifest is listed and cannot be fetched; expected the newest "
                "version; repeat the command"
            )

    def _is_readable(self) -> bool:
        """Return whether the newest manifest that is listed is in the copy."""
        listed = list_versions_in(self._names("tables"))
        there = list_versions_in(LocalStorage(self.storage.root).list("tables"))
        return not listed or listed[-1] in there

    def _drop_unpublished(self) -> None:
        """Remove parts of the copy that a fold made and merged, or that lost."""
        for name in LocalStorage(self.storage.root).list(_PARTS):
            if name not in self.there:
                shutil.rmtree(self.storage.root / _PARTS / name)

    def _pull(self, *, light: bool, journal: bool, history: bool) -> bool:
        """Return whether all was there: what vanished meanwhile is in a newer state."""
        # in an order in which nothing can be missed: a part is in the making before its documents
        # leave the journal, and they leave it after a manifest names the part
        # without a manifest, parts show that the manifests are lost
        takes_all = history or not (light or self._names("tables"))
        complete = self._list_complete() if takes_all else []
        entries = self._names(_JOURNAL) if journal else []
        try:
            newest, earlier = self._pull_manifests(history=history)
        except FileNotFoundError:  # removed, since there is a newer one
            return False
        wanted = dict.fromkeys((*newest, *earlier, *complete))
        found = _all(lambda name: self._pull_part(name, light=light), wanted)
        self.there |= {name for name, is_there in zip(wanted, found, strict=True) if is_there}
        if not journal:
            return all(found)
        self._note_entries(entries, newest)
        pending = sorted(self.storage.listed)
        return all((*found, *_all(lambda name: self._fetch(f"{_JOURNAL}/{name}"), pending)))

    def _names(self, folder: str) -> list[str]:
        return [name.rpartition("/")[2] for name in self.storage.objects.times(folder)]

    def _list_complete(self) -> list[str]:
        listed = self.storage.objects.times(_PARTS, deep=True)
        return sorted(name.split("/")[2] for name in listed if name.endswith(f"/{DESCRIPTION}"))

    def _pull_manifests(self, *, history: bool) -> tuple[list[str], list[str]]:
        """Fetch the newest manifest, or all; return the parts of the newest, and of the others.

        A listing may be old, so what comes after its last is asked for by name.
        """
        listed = [*self._names("tables"), *LocalStorage(self.storage.root).list("tables")]
        versions = list_versions_in(listed)
        newest = versions[-1] if versions else 0
        while self._fetch(manifest_name(newest + 1)):
            newest += 1
            versions.append(newest)
        if not newest:
            return [], []
        parts = {version: self._pull_manifest(version) for version in versions[:-1] if history}
        of_newest = self._pull_manifest(newest)
        for version in self._find_strays([*parts, newest]):
            (self.storage.root / manifest_name(version)).unlink()
            del parts[version]
        return of_newest, [part for named in parts.values() for part in named]

    def _find_strays(self, versions: list[int]) -> Iterator[int]:
        """Yield the versions of the copy that did not lead to the newest.

        A fold put them under the number of a removed version, and was killed before it withdrew
        them. What cannot be read is kept: its reader says so.
        """
        links = [_read_link(self.storage.get(manifest_name(version))) for version in versions]
        after, (_, previous) = versions[-1], links[-1]
        for version, (content_hash, before) in zip(versions[-2::-1], links[-2::-1], strict=True):
            if previous and content_hash and (version + 1, content_hash) != (after, previous):
                yield version
            else:
                after, previous = version, before

    def _pull_manifest(self, version: int) -> list[str]:
        name = manifest_name(version)
        if not self._fetch(name):
            raise FileNotFoundError(name)
        return read_part_names(self.storage.get(name))

    def _pull_part(self, name: str, *, light: bool) -> bool:
        """Fetch a part, its description last; return whether all of it was there.

        Where the description is not as it was written, all files come that are there: a repair
        reads documents out of them.
        """
        place = f"{_PARTS}/{name}"
        kept = self.storage.root / place / DESCRIPTION
        description = self._get_description(name)
        files = {*_read_file_names(description or b"")}
        if description is None or part_name(description) != name:
            there = filter(_PLAIN.fullmatch, () if light else self._names(place))
            files = (files | {*there}) - {DESCRIPTION}
        wanted = [one for one in sorted(files) if not light or one in LIGHT]
        is_whole = all(_all(lambda one: self._fetch(f"{place}/{one}"), wanted))
        if description is not None:
            _keep(kept, description)
        return is_whole and description is not None

    def _get_description(self, part: str) -> bytes | None:
        """Return the description of a part in the copy, else on the storage."""
        place = f"{_PARTS}/{part}/{DESCRIPTION}"
        with contextlib.suppress(FileNotFoundError):
            kept = self.storage.root / place
            return kept.read_bytes() if kept.exists() else self.storage.objects.get(place)
        return None

    def _fetch(self, name: str) -> bool:
        """Bring a file to the copy, unless it is there; return whether there is one."""
        path = self.storage.root / name
        if not path.exists():
            try:
                _keep(path, self.storage.objects.get(name))
            except FileNotFoundError:
                return False
        return True

    def _note_entries(self, entries: list[str], parts: list[str]) -> None:
        """Tell the entries that the newest version's parts hold from those that are pending."""
        known: set[bytes] = set()
        for part in parts if entries or self.storage.listed else ():
            path = self.storage.root / _PARTS / part / "submissions.ids"
            data = path.read_bytes() if path.exists() else b""
            known |= {data[start : start + 16] for start in range(0, len(data), 16)}
        self.folded = {name for name in entries if _key(name) in known}
        vanished = self.storage.listed - {*entries}
        kept = {name for name in vanished if _key(name) not in known and self._is_there(name)}
        self.storage.listed.clear()
        self.storage.listed.update({*entries} - self.folded | kept)

    def _is_there(self, name: str) -> bool:
        """Return whether an entry that is not listed any more is there after all."""
        try:
            self.storage.objects.get(f"{_JOURNAL}/{name}")
        except FileNotFoundError:
            return False
        return True

    def require_conditions(self) -> None:
        """Raise StoreError where the storage ignores conditions: writers would undo each other.

        The settings are put once more, as they are, on condition that there are none.
        """
        settings = self.storage.objects.get(SETTINGS)
        if self.storage.objects.put_if_absent(SETTINGS, settings):
            raise StoreError(
                f"{self.address}: the storage ignores conditions (If-None-Match) without saying "
                "so, and writers would overwrite each other; expected one that refuses to write "
                "what is there; use a server that honours conditional writes, as S3, Google Cloud "
                "Storage, Azure and SeaweedFS do"
            )

    def create(self, settings: bytes) -> None:
        """Create an empty registry. Raises StoreError where one is there."""
        if not self.storage.objects.put_if_absent(SETTINGS, settings):
            raise StoreError(
                f"{self.address}: is already a registry; expected an address where there is none; "
                "nothing to do"
            )
        self.require_conditions()

    def publish(self, parts: Iterable[str]) -> None:
        """Upload parts of the copy that are not on the storage, each with its description last."""
        for part in parts:
            if part in self.there:
                continue
            place = f"{_PARTS}/{part}"
            names = LocalStorage(self.storage.root).list(place)
            _all(self._upload, [f"{place}/{name}" for name in names if name != DESCRIPTION])
            self._upload(f"{place}/{DESCRIPTION}")
            self.there.add(part)

    def _upload(self, name: str) -> None:
        self.storage.objects.put(name, (self.storage.root / name).read_bytes())

    def discard(self, parts: Iterable[str]) -> None:
        """Take parts away that lost: their names are ours alone, so nobody needs them."""
        for part in parts:
            place = f"{_PARTS}/{part}"
            self.there.discard(part)
            self.storage.objects.delete(f"{place}/{DESCRIPTION}")
            names = LocalStorage(self.storage.root).list(place)
            _all(self.storage.objects.delete, [f"{place}/{name}" for name in names])
            shutil.rmtree(self.storage.root / place, ignore_errors=True)

    def is_in_line(self, version: int, content_hash: str) -> bool:
        """Return whether a manifest that was just put is the newest, or the next was made from it.

        The newest is never removed, so where a number is free again, a later manifest is listed.
        False also where all that followed at once was removed with it: then it is not needed.
        """
        if max(list_versions_in(self._names("tables")), default=0) <= version:
            return True
        with contextlib.suppress(FileNotFoundError):
            _, previous = _read_link(self.storage.objects.get(manifest_name(version + 1)))
            return previous == content_hash
        return False

    def withdraw(self, name: str, parts: Iterable[str]) -> None:
        """Take a manifest away that is not in line, and forget its parts.

        They stay on the storage. Mostly nobody names them, and `prune` removes them as it does
        those of a killed fold. Where others went on from this manifest and their next ones are
        removed already, the newest may name them.
        """
        self.storage.objects.delete(name)
        (self.storage.root / name).unlink(missing_ok=True)
        self.there -= {*parts}

    def is_settled(self, version: int) -> bool:
        """Return whether every reader is shown a version by now."""
        written = self.storage.objects.times("tables").get(manifest_name(version))
        return written is not None and now(self.storage.objects) - written >= GRACE_SECONDS

    def move_aside(self) -> None:
        """Move on the storage what was moved in the copy; a new version must be there by now.

        Nothing goes that was not put aside first, whether the copy has it or not.
        """
        while self.storage.aside:
            name, place = self.storage.aside.pop()
            listed = self.storage.objects.times(name, deep=True) or [name]
            _all(lambda one: self._move(one, place + one.removeprefix(name)), listed)  # noqa: B023 - done before the next

    def _move(self, name: str, to: str) -> None:
        """Move an object, unless another of its new name is there: then it stays."""
        with contextlib.suppress(FileNotFoundError):  # moved by another repair
            if self.storage.put_if_absent(to, self.storage.objects.get(name)):
                self.storage.objects.delete(name)

    def list_tables(self) -> list[str]:
        """Return all manifests, the oldest first, and files of parts, their descriptions first."""
        names = self.storage.objects.times("tables", deep=True)

        def rank(name: str) -> tuple[bool, bool, int, str]:
            return name.startswith(_PARTS), DESCRIPTION not in name, len(name), name

        return sorted(names, key=rank)

    def remove_missing(self, names: Iterable[str]) -> None:
        """Remove from the storage what the copy does not have."""
        for name in names:
            if not (self.storage.root / name).exists():
                self.storage.objects.delete(name)


def open_remote(address: Address) -> Remote:
    """Return a registry on object storage, with an empty copy that goes with the process."""
    objects = open_objects(address)
    copy = Path(tempfile.mkdtemp(prefix="peft-registry-"))
    _COPIES.append(copy)
    show_as(str(copy), str(address))
    return Remote(address, RemoteStorage(copy, objects))


_COPIES: list[Path] = []


@atexit.register
def remove_copies() -> None:
    """Remove the copies that this process made."""
    while _COPIES:
        shutil.rmtree(_COPIES.pop(), ignore_errors=True)


def read_part_names(manifest: bytes) -> list[str]:
    """Return the parts that a manifest names; none of a damaged one, which its reader reports."""
    return _read_list(manifest, "parts")


def _read_link(manifest: bytes) -> tuple[str | None, str | None]:
    """Return the hash of a manifest, and of the one it was made from; None of a damaged one."""
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        document = json.loads(manifest)
        return document["sha256"], document["previous"]
    return None, None


def _read_file_names(description: bytes) -> list[str]:
    return _read_list(description, "files")


def _read_list(data: bytes, key: str) -> list[str]:
    """Return names from a document; those that are not plain could lie anywhere."""
    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        names = list(json.loads(data)[key])
        return [name for name in names if isinstance(name, str) and _PLAIN.fullmatch(name)]
    return []


def _key(entry: str) -> bytes | None:
    """Return the id of an entry of the journal, None of another file there."""
    return bytes.fromhex(entry[:32]) if _ENTRY.fullmatch(entry) else None


def _keep(path: Path, data: bytes) -> None:
    """Write a file of the copy, complete or absent; it need not outlive the machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(temporary_name())
    temporary.write_bytes(data)
    temporary.replace(path)


def _all(work: Callable[[Given], Made], over: Iterable[Given]) -> list[Made]:
    """Do a thing with each, some at once; raise the first error when all are done."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return [done.result() for done in [pool.submit(work, each) for each in over]]
