"""Which folder is the registry, and what lies where in it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from registry.errors import MissingRegistryError
from registry.resources import curated_dir

ENVIRONMENT_VARIABLE = "REGISTRY_PATH"


@dataclass(frozen=True, slots=True)
class Folder:
    """A registry's folder: ``journal/`` holds what is not folded yet, ``tables/`` what is."""

    path: Path

    @property
    def journal(self) -> Path:
        """Folder of the pending submissions, one file each."""
        return self.path / "journal"

    @property
    def tables(self) -> Path:
        """Folder of the Parquet parts and the manifests."""
        return self.path / "tables"

    @property
    def is_registry(self) -> bool:
        """Whether the folder holds a registry."""
        return self.tables.is_dir() or self.journal.is_dir()

    def require(self) -> Folder:
        """Return the folder; raise MissingRegistryError where it holds no registry."""
        if self.is_registry:
            return self
        found = (
            "no such folder" if not self.path.exists() else "a folder without tables/ or journal/"
        )
        if self.path.exists() and not self.path.is_dir():
            found = "not a folder"
        raise MissingRegistryError(
            f"{self.path}: {found}; expected a registry; create one with "
            f"`registry init {self.path}`, or name another with --registry or "
            f"{ENVIRONMENT_VARIABLE}"
        )


@dataclass(frozen=True, slots=True)
class Location:
    """The registry to read, and the one to write to: the same, but for the curated records."""

    read: Folder
    write: Folder
    #: Whether the first write must create ``write`` with the curated records.
    creates: bool = False


def find_registry(path: Path | str | None = None) -> Location:
    """Return the registry in use: ``path``, else REGISTRY_PATH, else ./records, else the user's.

    The user's own folder is created by the first write, with the curated records; until then the
    curated records themselves are read. Raises MissingRegistryError where a named folder holds no
    registry.
    """
    named = path or os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        folder = Folder(Path(named).expanduser()).require()
        return Location(folder, folder)
    here = Folder(Path("records"))
    if here.tables.is_dir():
        return Location(here, here)
    own = Folder(user_folder())
    if own.is_registry:
        return Location(own, own)
    return Location(Folder(curated_dir()), own, creates=True)


def user_folder() -> Path:
    """Return the user's own registry folder, which need not exist yet."""
    from platformdirs import user_data_path  # noqa: PLC0415 - only where nothing else is named

    return user_data_path("peft-registry", appauthor=False) / "records"
