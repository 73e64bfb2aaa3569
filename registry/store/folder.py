"""Which folders are the registry, and what is where in them."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.contract import FORMAT_VERSION
from registry.errors import ContractError, MissingRegistryError, StoreError
from registry.store.address import Address, parse_address, require_known_scheme
from registry.store.files import filled_folder, is_free, require_free
from registry.store.manifest import newer_format
from registry.store.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from registry.store.remote import Remote

ENVIRONMENT_VARIABLE = "REGISTRY_PATH"

#: A registry's own settings.
SETTINGS = "registry.json"

#: Folder of a registry, or of the curated records, that holds plans of trials.
PLANS = "plans"

#: Folder in a registry that holds the state of runs: it belongs to one machine.
RUNS = "runs"

#: Folder in a registry where `fold` and `repair` put entries that cannot be read.
QUARANTINE = "quarantine"

#: What a registry in git leaves out: the lock, and files that are not complete yet.
_GITIGNORE = ".gitignore"
_IGNORED = b".lock\n.tmp-*\n"


@dataclass(frozen=True)
class Folder:
    """A registry's folder: ``journal/`` holds what is not folded yet, ``tables/`` what is."""

    path: Path
    #: Where the registry is on object storage, the folder being a copy of it.
    remote: Remote | None = field(default=None, compare=False, repr=False)

    @cached_property
    def storage(self) -> LocalStorage:
        """What reads and writes its files."""
        return self.remote.storage if self.remote else LocalStorage(self.path)

    @property
    def name(self) -> str:
        """The folder as people name it: its path, or the address that it is a copy of."""
        return str(self.remote.address if self.remote else self.path)

    def pull(self, *, light: bool = False, journal: bool = True, history: bool = False) -> None:
        """Bring the copy of a registry on object storage up to date; see `Remote.pull`."""
        self.require_own()
        if self.remote:
            self.remote.pull(light=light, journal=journal, history=history)

    def require_own(self) -> None:
        """Raise StoreError where a folder in it is a link: what that leads to may be others'.

        The registry's own folder may be one, and the runs beside a copy. What is wrong of files is
        said where they are opened.
        """
        runs = () if self.remote else (self.path / RUNS,)
        for path in (self.journal, self.tables, self.parts, self.path / QUARANTINE, *runs):
            if path.is_file():
                raise StoreError(
                    f"{path}: found a file; expected a folder of the registry; move the file away"
                )
            if path.is_symlink():
                raise StoreError(
                    f"{path}: found a link; expected a folder of the registry itself; remove the "
                    "link, and move what it leads to here if that is the registry's"
                )

    def publish(self, parts: Iterable[str]) -> None:
        """Bring parts to object storage, where the registry is there."""
        if self.remote:
            self.remote.publish(parts)

    @cached_property
    def journal(self) -> Path:
        """Folder of the pending submissions, one file each."""
        return self.path / "journal"

    @cached_property
    def tables(self) -> Path:
        """Folder of the manifests and of the parts they name."""
        return self.path / "tables"

    @cached_property
    def parts(self) -> Path:
        """Folder of the parts, one folder each."""
        return self.tables / "parts"

    @property
    def is_registry(self) -> bool:
        """Whether the folder holds a registry; a clone of an empty one lacks the empty folders."""
        if self.remote:
            return self.remote.exists
        return self.tables.is_dir() or self.journal.is_dir() or (self.path / SETTINGS).is_file()

    @property
    def is_curated(self) -> bool:
        """Whether it holds curated records: one file for each table, made from sources."""
        marks = (f"{self.path}/tables/manifest.json", f"{self.path}/sources")
        return any(map(os.path.exists, marks))

    def require(self) -> Folder:
        """Return the folder; raise MissingRegistryError where it holds no registry."""
        if self.is_registry:
            return self
        if self.remote:
            address = str(self.remote.address)
            raise MissingRegistryError(
                f"{address}: found no registry; expected one; create it with "
                f"`registry init {shlex.quote(address)}`, or name another with --registry or "
                f"{ENVIRONMENT_VARIABLE}"
            )
        found = (
            "no such folder" if not self.path.exists() else "a folder without tables/ or journal/"
        )
        if self.path.exists() and not self.path.is_dir():
            found = "not a folder"
        raise MissingRegistryError(
            f"{self.path}: {found}; expected a registry; create one with "
            f"`registry init {shlex.quote(str(self._free()))}`, or name another with --registry or "
            f"{ENVIRONMENT_VARIABLE}"
        )

    def _free(self) -> Path:
        """Return this place, or one in it or beside it, where a registry can be created."""
        if is_free(self.path):
            return self.path
        name = self.path.resolve().name
        return (
            self.path / "registry"
            if self.path.is_dir()
            else self.path.with_name(f"{name}-registry")
        )


@dataclass(frozen=True, slots=True)
class Location:
    """The user's own registry, and the curated records that are read alongside it."""

    #: Where to write: the user's own registry, or curated records that were named outright.
    own: Folder
    #: None where the curated records are left out, or are themselves the registry that was named.
    curated: Folder | None = None

    @property
    def shows_curated(self) -> bool:
        """Whether the curated records are read, alongside or as the registry itself."""
        return self.curated is not None or self.own.is_curated

    @property
    def catalogue_folder(self) -> Folder:
        """The curated records whose models and GPUs are known, shown or not."""
        if self.own.is_curated:
            return self.own
        return self.curated or Folder(curated_dir())

    def anchored(self) -> Location:
        """Return the location by paths that hold in any folder."""
        own = replace(self.own, path=self.own.path.absolute())
        curated = self.curated and replace(self.curated, path=self.curated.path.absolute())
        return Location(own, curated)

    def require(self) -> Location:
        """Return the location; raise MissingRegistryError where there is nothing to read."""
        if self.curated is None:
            self.own.require()
        return self


def find_registry(path: Path | str | None = None, *, curated: bool = True) -> Location:
    """Return the registry in use: ``path``, else REGISTRY_PATH, else ./records, else the user's.

    The curated records are read alongside it: those of ./records in a checkout, else those of the
    installed package; with ``curated`` false they are left out. A checkout's records are passed
    over as the registry in use: they are written and checked only where they are named. The user's
    own folder is created by the first write. Raises
    MissingRegistryError where a named folder holds no registry, StoreError where its path is not
    UTF-8.
    """
    named = path or os.environ.get(ENVIRONMENT_VARIABLE)
    here = Folder(Path("records"))
    if named:
        address = parse_address(named)
        own = (_open_remote(address) if address else Folder(_expand(Path(named)))).require()
    elif here.is_registry and not here.is_curated:
        own = here
    else:
        own = Folder(user_folder())
    if own.is_registry:
        _require_utf8(own.path)
    if own.is_curated:
        return Location(own)
    if not reads_curated(own) or not curated:  # settings of a newer release are refused anyway
        return Location(own)
    return Location(own, here if here.is_curated else Folder(curated_dir()))


def _open_remote(address: Address) -> Folder:
    from registry.store.remote import open_remote  # noqa: PLC0415 - only where it is asked for

    remote = open_remote(address)
    folder = Folder(remote.storage.root, remote)
    if _runs_of(address).is_dir():
        _keep_runs(folder, address)
    return folder


def _runs_of(address: Address) -> Path:
    """Return where this machine keeps the state of its runs for a registry on object storage."""
    digest = hashlib.sha256(str(address).encode()).hexdigest()[:16]
    return user_folder().with_name("remote") / digest / RUNS


def _keep_runs(folder: Folder, address: Address) -> None:
    """Have the copy's folder of runs be one that outlives it; without a home it does not."""
    with suppress(OSError):
        _runs_of(address).mkdir(parents=True, exist_ok=True)
        (folder.path / RUNS).symlink_to(_runs_of(address))


def _require_utf8(path: Path) -> None:
    """Raise StoreError for a path that pyarrow and DuckDB cannot be told of."""
    place = path.absolute()
    try:
        str(place).encode()
    except UnicodeEncodeError:
        escaped = os.fsencode(place).decode(errors="backslashreplace")
        raise StoreError(
            f"{escaped}: found a path that is not UTF-8; expected one that is; use another name, "
            "or rename the folder"
        ) from None


def _expand(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:  # a user without a home folder
        return path


def create_registry(path: Path, *, curated: bool = True) -> Folder:
    """Create an empty registry; with ``curated`` false it reads no curated records.

    Raises StoreError where something is at ``path`` already, it cannot be written, or it is not
    UTF-8.
    """
    settings = {"format": FORMAT_VERSION, "curated": curated}
    text = f"{json.dumps(settings)}\n"
    if address := parse_address(path):
        folder = _open_remote(address)
        folder.remote.create(text.encode()) if folder.remote else None
        return folder
    require_known_scheme(path)
    _require_utf8(path)
    folder = Folder(path)
    if folder.is_registry:
        raise StoreError(
            f"{path}: is already a registry; expected a folder to create; nothing to do"
        )
    require_free(path)
    with filled_folder(path, last="tables") as temporary:
        for part in (Folder(temporary).journal, Folder(temporary).tables):
            part.mkdir()
        (temporary / SETTINGS).write_text(text, encoding="utf-8")
        (temporary / _GITIGNORE).write_bytes(_IGNORED)
    return folder


def ensure_ignored(folder: Folder) -> None:
    """Have git leave out of a registry what one that is created today leaves out."""
    if folder.remote is None:
        folder.storage.put_if_absent(_GITIGNORE, _IGNORED)


def copy_plans(folder: Folder) -> Path | None:
    """Copy the plans that come with the package into a registry; a file that is there stays.

    Return the folder with the plans; None where the package has none.
    """
    shipped = sorted((curated_dir() / PLANS).glob("*.toml"))
    target = folder.path / PLANS
    if not shipped or folder.remote:
        return None
    target.mkdir(exist_ok=True)
    for plan in shipped:
        with suppress(FileExistsError), (target / plan.name).open("xb") as file:
            file.write(plan.read_bytes())
    return target


def ensure_writable(location: Location) -> Folder:
    """Return the folder to write to; the user's own is created by its first write.

    Raises StoreError where it cannot be, or this user has no home folder.
    """
    if location.own.path == NO_HOME:
        raise StoreError(
            "this user has no home folder (no HOME, no entry in passwd); expected a registry to "
            f"write to; create one with `registry init PATH`, and name it with --registry or "
            f"{ENVIRONMENT_VARIABLE}"
        )
    if location.own.remote:
        location.own.remote.require_conditions()
        _keep_runs(location.own, location.own.remote.address)
    elif not location.own.is_registry:
        try:
            create_registry(location.own.path)
        except StoreError:
            if not location.own.is_registry:  # else another first write was faster
                raise
    return location.own


def reads_curated(folder: Folder) -> bool:
    """Return whether the curated records are read alongside a registry."""
    try:
        return _parse_curated(folder, json.loads(folder.storage.get(SETTINGS)))
    except FileNotFoundError:
        return True
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise StoreError(
            f"{folder.path / SETTINGS}: found no valid settings ({error}); expected a JSON object "
            'such as {"format": 2, "curated": true}; write that'
        ) from None


def _parse_curated(folder: Folder, settings: dict[str, Any]) -> bool:
    """Return the setting; a word such as "false" would pass for true, and a gap for false."""
    if settings.get("format", FORMAT_VERSION) > FORMAT_VERSION:
        raise newer_format(folder.path / SETTINGS, settings["format"])
    curated = settings.get("curated", True)
    if not isinstance(curated, bool):
        raise TypeError(f"curated is {json.dumps(curated)}, which is neither true nor false")
    return curated


#: Stands for the own registry of a user without a home folder; nothing is ever there.
NO_HOME = Path("/nonexistent/peft-registry/records")


def user_folder() -> Path:
    """Return the user's own registry folder, which need not exist yet; NO_HOME without a home."""
    from platformdirs import user_data_path  # noqa: PLC0415 - where a wheel is built, it is missing

    try:
        folder = user_data_path("peft-registry", appauthor=False)
    except RuntimeError:
        return NO_HOME
    # older versions of platformdirs leave the ~ that they cannot resolve
    return folder / "records" if folder.is_absolute() else NO_HOME


@lru_cache(maxsize=1)
def curated_dir() -> Path:
    """Return the folder of the installed package's curated records, which nobody writes to.

    Raises:
        ContractError: they are neither inside the installed package nor beside it in a checkout.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "curated", package.parent / "records"):
        if (folder / "tables").is_dir():
            return folder
    raise ContractError(
        f"{package}: found no curated records inside or beside the package, expected them there; "
        "install the package again"
    )
