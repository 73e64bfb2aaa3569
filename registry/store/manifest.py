"""Manifests: small numbered files that name the parts of a version.

The newest manifest is the folded state of the registry; older ones stay until they are pruned, so
that a result can cite a version. Each holds the hash of its own content and of the one before.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.contract import FORMAT_VERSION
from registry.errors import StoreError
from registry.submission.identity import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from registry.store.folder import Folder

_FILE = re.compile(r"manifest-([0-9]{6,})\.json")
_PART = re.compile(r"[0-9a-f]{24}")
_LARGEST_MANIFEST = 16 * 2**20

#: A manifest with a higher number is none of ours: nobody folds as often.
LARGEST_VERSION = 10**9 - 1
_MOST_DIGITS = len(str(LARGEST_VERSION))

REPAIR = "run `registry repair`, which rebuilds it from the parts and documents that are there"


class CommittedError(StoreError):
    """Another process committed the version first."""


class OvertakenError(CommittedError):
    """Others went on and removed the version that this one was made from; it was withdrawn."""


class NewerManifestError(StoreError):
    """A newer release of peft-registry wrote the manifest."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The folded state at one version; version 0 is the empty registry."""

    version: int = 0
    #: Names of the parts, whose rows are distinct.
    parts: tuple[str, ...] = ()
    #: Hash of the manifest that was the newest before.
    previous: str | None = None
    format: int = FORMAT_VERSION

    @property
    def content_hash(self) -> str:
        """Return the hash by which a version of the tables is cited."""
        return hashlib.sha256(canonical_json(self._plain()).encode()).hexdigest()

    def _plain(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "version": self.version,
            "previous": self.previous,
            "parts": list(self.parts),
        }

    def format_text(self, writer: str | None = None) -> str:
        """Return the manifest as it is stored; ``writer`` tells it from an equal one of another."""
        document = {**self._plain(), "sha256": self.content_hash}
        return json.dumps({**document, **({"writer": writer} if writer else {})}, indent=1) + "\n"


def manifest_name(version: int) -> str:
    """Return the name of the manifest of one version."""
    return f"tables/manifest-{version:06d}.json"


def parse_manifest_name(name: str) -> int | None:
    """Return the version of a file in ``tables/``, None where it is no manifest."""
    match = _FILE.fullmatch(name)
    if (
        match is None
        or len(match[1]) > _MOST_DIGITS
        or manifest_name(int(match[1])) != f"tables/{name}"
    ):
        return None
    return int(match[1])


def list_unbelievable(folder: Folder) -> list[str]:
    """Return the names of manifests whose numbers are too high."""
    found = filter(None, map(_FILE.fullmatch, folder.storage.list("tables")))
    return [f"tables/{one[0]}" for one in found if len(one[1].lstrip("0")) > _MOST_DIGITS]


def list_versions(folder: Folder) -> list[int]:
    """Return the versions that are there, oldest first."""
    return list_versions_in(folder.storage.list("tables"))


def list_versions_in(names: Iterable[str]) -> list[int]:
    """Return the versions whose manifests are among names in ``tables/``, oldest first."""
    return sorted({v for name in names if (v := parse_manifest_name(name)) is not None})


def read_manifest(folder: Folder, version: int | None = None) -> Manifest:
    """Return the newest manifest, or that of one version.

    Raises StoreError where the version is not there, the file is damaged, or a newer release of
    peft-registry wrote it.
    """
    if version is None:
        versions = list_versions(folder)
        return _read(folder, versions[-1]) if versions else Manifest()
    try:
        return _read(folder, version)
    except FileNotFoundError:
        versions = list_versions(folder)
        match versions:
            case []:
                known = "none, because nothing has been folded yet"
            case [only]:
                known = f"{only}"
            case [first, *_, last]:
                known = f"one of {first} to {last}"
        raise StoreError(
            f"{folder.tables}: version {version} not found; expected {known}"
        ) from None


def _read(folder: Folder, version: int) -> Manifest:
    path = folder.storage.path(manifest_name(version))
    try:
        document = json.loads(folder.storage.get(manifest_name(version))[:_LARGEST_MANIFEST])
        if document["format"] > FORMAT_VERSION:
            raise newer_format(path, document["format"])
        manifest = _parse_manifest(document)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = str(error) or type(error).__name__
        raise StoreError(
            f"{path}: damaged manifest ({reason}); expected it as `registry fold` writes it; "
            f"{REPAIR}"
        ) from None
    if manifest.version != version:
        raise StoreError(
            f"{path}: damaged manifest (it is that of version {manifest.version}); {REPAIR}"
        )
    return manifest


def newer_format(path: Path, found: object) -> NewerManifestError:
    """Return the error about a file that states a format of a newer release."""
    return NewerManifestError(
        f"{path}: found format {found}; expected at most {FORMAT_VERSION}: "
        "a newer release wrote this registry; upgrade with `pip install -U peft-registry`"
    )


def _parse_manifest(document: dict[str, Any]) -> Manifest:
    if document["format"] < FORMAT_VERSION:
        return Manifest(version=document["version"], format=document["format"])
    parts = tuple(document["parts"])
    if len(set(parts)) < len(parts) or not all(_PART.fullmatch(name) for name in parts):
        raise ValueError("its parts are not distinct plain names")
    manifest = Manifest(document["version"], parts, document["previous"])
    if manifest.content_hash != document["sha256"]:
        raise ValueError("its content does not match the hash it states")
    return manifest


def write_manifest(folder: Folder, manifest: Manifest) -> None:
    """Commit a state: write its manifest under its number, its parts before.

    Raises CommittedError where another process has committed that version, OvertakenError where
    its number was free only because later versions are there and it was removed.
    """
    name = manifest_name(manifest.version)
    if manifest.version > LARGEST_VERSION:
        raise StoreError(
            f"{folder.storage.path(manifest_name(manifest.version - 1))}: found the highest number "
            f"that a version can have; expected at most {LARGEST_VERSION - 1}; move the file out "
            "of the registry, then run `registry repair`"
        )
    folder.publish(manifest.parts)
    text = manifest.format_text(folder.storage.writer)
    if not folder.storage.put_if_absent(name, text.encode()):
        raise CommittedError(
            f"{folder.storage.path(name)}: another process has committed this version; repeat the "
            "command"
        )
    if folder.remote and not folder.remote.is_in_line(manifest.version, manifest.content_hash):
        folder.remote.withdraw(name, manifest.parts)
        raise OvertakenError(
            f"{folder.storage.path(name)}: other processes have committed later versions and "
            "removed earlier ones; repeat the command"
        )
