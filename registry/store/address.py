"""Addresses of registries that lie on object storage, or on a network file system."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from registry.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

#: What the scheme of an address may be, and what lies there.
SCHEMES = {
    "s3": "a bucket of S3, or of a server with its API",
    "gs": "a bucket of Google Cloud Storage",
    "az": "a container of Azure Blob Storage",
    "file": "a folder of a network file system",
}

# one slash is enough: a Path that was made of an address has lost the other
_ADDRESS = re.compile(rf"({'|'.join(SCHEMES)}):/+(.*)", re.DOTALL)
_WITH_HOST = re.compile(r"file://[^/].*", re.DOTALL)
_OTHER_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(/.*)?", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9_.=+-]+)*")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a registry lies that is no plain folder of this machine."""

    scheme: str
    #: Bucket and prefix, or an absolute path.
    place: str

    def __str__(self) -> str:
        """Return the address as people write it."""
        return f"{self.scheme}://{self.place}"


def parse_address(text: Path | str) -> Address | None:
    """Return the address, None for the path of a folder; raise StoreError where it is not valid.

    >>> str(parse_address("s3://bucket/team/registry/"))
    's3://bucket/team/registry'
    >>> parse_address("my-registry") is None
    True
    """
    require_absolute(str(text))
    match = _ADDRESS.fullmatch(str(text))
    if match is None:
        return None
    scheme, place = match[1], match[2].rstrip("/")
    if scheme == "file":
        return Address(scheme, f"/{place}")
    if not _PLAIN.fullmatch(place) or ".." in place.split("/"):
        # the text is not repeated: it may hold a key
        raise StoreError(
            f"{scheme}://…: found an address that is not BUCKET/PREFIX in plain characters; "
            f"expected {scheme}://BUCKET/PREFIX; keys belong in the environment or a profile"
        )
    return Address(scheme, place)


def require_absolute(text: str) -> None:
    """Raise StoreError for an address as ``file://folder``, which names a host and no folder.

    It is for text as it was written: a Path that was made of it has lost a slash.
    """
    if _WITH_HOST.fullmatch(text):
        raise StoreError(
            f"{text}: found two slashes before a name; expected file:///PATH with an absolute path"
        )


def require_known_scheme(path: Path) -> None:
    """Raise StoreError for a folder to create whose path looks like an address of another kind."""
    if _OTHER_SCHEME.fullmatch(str(path)):
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise StoreError(
            f"{str(path).partition(':')[0]}:…: found an address that is none of a registry; "
            f"expected a folder, or what starts with {known}"
        )
