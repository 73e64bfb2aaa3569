"""Objects: the few operations that a registry needs of object storage, each whole or not at all.

They are put if absent, put, get, list and delete. Conditional puts are what keeps many writers
apart: there is no lock.
"""

from __future__ import annotations

import configparser
import contextlib
import importlib
import os
import re
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from registry.errors import MissingExtraError, StoreError
from registry.store.files import TEMPORARY_PREFIX
from registry.store.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.store.address import Address

#: A small object that is written for its time, which is by the clock of the storage.
CLOCK = ".clock"

_RETRIES = {"max_retries": 4, "retry_timeout": timedelta(seconds=40)}
_TIMEOUTS = {"timeout": "20s", "connect_timeout": "5s"}
_CLASSES = {"s3": "S3Store", "gs": "GCSStore", "az": "AzureStore"}

#: Variables that name another server than that of the provider.
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}

#: Where keys are looked for.
_KEY_PLACES = {
    "s3": "in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or in a profile "
    "(AWS_PROFILE)",
    "gs": "in the environment (GOOGLE_APPLICATION_CREDENTIALS, or GOOGLE_SERVICE_ACCOUNT)",
    "az": "in the environment (AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY)",
}

#: What says which server is meant.
_SERVER = {
    "s3": "its endpoint (AWS_ENDPOINT_URL) and region are right",
    "gs": "the bucket is right",
    "az": "its account (AZURE_STORAGE_ACCOUNT_NAME) or endpoint (AZURE_STORAGE_ENDPOINT) is right",
}

#: What a profile says, and the client's names for it.
_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
}

#: What an error of the client may say of the answer, and nothing else: it can hold a key.
_STATUS = re.compile(
    r"\b(?:status|Status|error status|code)\D{0,12}\b([45]\d\d)\b|\b([45]\d\d) [A-Z]"
)


class Objects(Protocol):
    """What a registry needs of the storage on which it lies; names are relative to its address."""

    def get(self, name: str) -> bytes:
        """Return an object; raise FileNotFoundError where there is none."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write an object unless one of its name is there; return whether it was written."""

    def put(self, name: str, data: bytes) -> None:
        """Write an object, in place of one of its name."""

    def delete(self, name: str) -> None:
        """Remove an object, if it is there."""

    def times(self, folder: str, *, deep: bool = False) -> dict[str, float]:
        """Return the objects in a folder, with the seconds since 1970 when they were written.

        With ``deep`` also those in the folders below it.
        """


def now(objects: Objects) -> float:
    """Return the time by the clock of the storage."""
    objects.put(CLOCK, b"")
    return objects.times("")[CLOCK]


@dataclass(frozen=True, slots=True)
class NetworkFolder:
    """Objects as files of a network file system, on which link and rename are atomic."""

    root: Path
    _files: LocalStorage = field(init=False)

    def __post_init__(self) -> None:
        """Write and read as any registry's folder does."""
        object.__setattr__(self, "_files", LocalStorage(self.root))

    def get(self, name: str) -> bytes:
        """Return a file; raise FileNotFoundError where there is none."""
        return self._files.get(name)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a file unless one of its name is there; return whether it was written."""
        return self._files.put_if_absent(name, data)

    def put(self, name: str, data: bytes) -> None:
        """Write a file, in place of one of its name."""
        self._files.put(name, data)

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._files.delete(name)

    def times(self, folder: str, *, deep: bool = False) -> dict[str, float]:
        """Return the files in a folder, with the times when they were written."""
        found: dict[str, float] = {}
        place = self.root / folder
        for path in place.rglob("*") if deep else place.glob("*"):
            if not path.name.startswith(TEMPORARY_PREFIX):
                with contextlib.suppress(FileNotFoundError):
                    if path.is_file():
                        found[path.relative_to(self.root).as_posix()] = path.stat().st_mtime
        return found


class ObjectStore:
    """Objects of a bucket, reached through obstore."""

    def __init__(self, address: Address) -> None:
        """Connect when first used. Raises MissingExtraError where obstore is not installed."""
        self._address = address
        self._client = _load("obstore")
        self._errors = _load("obstore.exceptions")
        with self._explained():
            self._store = _open_store(address)

    def get(self, name: str) -> bytes:
        """Return an object; raise FileNotFoundError where there is none."""
        with self._explained():
            try:
                return bytes(self._client.get(self._store, name).bytes())
            except (self._errors.NotFoundError, FileNotFoundError):
                pass
        raise FileNotFoundError(name)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write an object unless one of its name is there; return whether it was written."""
        with self._explained():
            try:
                self._client.put(self._store, name, data, mode="create", use_multipart=False)
            except (self._errors.AlreadyExistsError, self._errors.PreconditionError):
                return False
        return True

    def put(self, name: str, data: bytes) -> None:
        """Write an object, in place of one of its name."""
        with self._explained():
            self._client.put(self._store, name, data, use_multipart=False)

    def delete(self, name: str) -> None:
        """Remove an object, if it is there."""
        with self._explained():
            try:
                self._client.delete(self._store, name)
            except (self._errors.NotFoundError, FileNotFoundError):
                return

    def times(self, folder: str, *, deep: bool = False) -> dict[str, float]:
        """Return the objects in a folder, with the times when they were written."""
        prefix = folder or None
        with self._explained():
            if deep:
                listed = [one for some in self._client.list(self._store, prefix) for one in some]
            else:
                listed = self._client.list_with_delimiter(self._store, prefix)["objects"]
        return {one["path"]: one["last_modified"].timestamp() for one in listed}

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (self._errors.BaseError, OSError, ValueError) as error:
            reason = _reason(self._errors, error, self._address.scheme)
            raise StoreError(f"{self._address}: {reason}") from None


def open_objects(address: Address) -> Objects:
    """Return the storage of an address. Raises MissingExtraError, or StoreError."""
    if address.scheme == "file":
        return NetworkFolder(Path(address.place))
    return ObjectStore(address)


def _load(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(
            "object storage needs obstore, which is not installed; expected the extra [objects]; "
            "install it with `pip install 'peft-registry[objects]'`"
        ) from None


def _open_store(address: Address) -> Any:
    """Return the client of a bucket; keys come from the environment, or from a profile."""
    more: dict[str, Any] = {}
    options: dict[str, Any] = dict(_TIMEOUTS)
    endpoint = next(filter(None, map(os.environ.get, _ENDPOINTS.get(address.scheme, ()))), "")
    options |= {"allow_http": True} if endpoint.startswith("http://") else {}
    if address.scheme == "s3":
        more = {**read_profile(), **({"endpoint": endpoint} if endpoint else {})}
    store = getattr(_load("obstore.store"), _CLASSES[address.scheme])
    return store.from_url(str(address), client_options=options, retry_config=_RETRIES, **more)


def read_profile() -> dict[str, str]:
    """Return keys and region of the profile of ``~/.aws`` that is in use, if there is one.

    Keys in the environment come first, as for Amazon's own tools. Raises StoreError where the
    profile has no keys itself: it names a role or a login, which those tools turn into keys.
    """
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return {}
    named = os.environ.get("AWS_PROFILE")
    profile = named or "default"
    found = _read_section("AWS_CONFIG_FILE", "config", (f"profile {profile}", profile))
    found |= _read_section("AWS_SHARED_CREDENTIALS_FILE", "credentials", (profile,))
    if named and "aws_access_key_id" not in found:
        raise StoreError(
            f"AWS_PROFILE={named}: found no aws_access_key_id in that profile; expected keys; "
            "where it is a login or a role, run "
            f'`eval "$(aws configure export-credentials --profile {named} --format env)"` first'
        )
    return {ours: found[theirs] for theirs, ours in _KEYS.items() if theirs in found}


def _read_section(variable: str, name: str, sections: tuple[str, ...]) -> dict[str, str]:
    path = os.environ.get(variable) or os.path.expanduser(f"~/.aws/{name}")  # noqa: PTH111 - pathlib raises without a home
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        raise StoreError(
            f"{path}: cannot be read; expected a file of profiles; correct it"
        ) from None
    return next((dict(parser[one]) for one in sections if parser.has_section(one)), {})


def _reason(errors: Any, error: Exception, scheme: str) -> str:
    """Return what went wrong and the way out, without the client's own text."""
    match = _STATUS.search(str(error))
    status = f" (status {match[1] or match[2]})" if match else ""
    if isinstance(error, (errors.PermissionDeniedError, errors.UnauthenticatedError)):
        return (
            f"the storage refuses access{status}; expected keys that may read, write and list; set "
            f"them {_KEY_PLACES[scheme]}"
        )
    if isinstance(error, (errors.NotFoundError, FileNotFoundError)):
        return f"found no such bucket{status}; expected one that is there; create it first"
    return (
        f"the storage does not answer as expected{status}; tried several times; what was "
        f"written is complete or absent; check that {_SERVER[scheme]} and that it can be reached, "
        "then repeat the command"
    )
