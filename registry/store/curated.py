"""Curated records: one file for each table, made from sources that are kept as text.

In a checkout the sources are next to the tables. A source whose content the tables do not hold yet
is pending: readers derive its rows, as they do for the journal.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from registry.catalogue import Catalogue
from registry.errors import StoreError
from registry.store.catalogue_files import catalogue_text, hash_catalogue, read_catalogue
from registry.store.derive_tables import CATALOGUE_TABLES, with_described
from registry.store.parts import CATALOGUE, CURATED, REINSTALL, Part, parse_part

if TYPE_CHECKING:
    from pathlib import Path

    from registry.store.derive_tables import Document
    from registry.store.folder import Folder

#: A file as it was when its folder was listed: path, size, time of change.
FileStamp = tuple[str, int, int]

MANIFEST = "tables/manifest.json"

#: What the tables are read through: without these, only the sources say what there is.
_TABLES = (MANIFEST, f"tables/{CATALOGUE}")

#: What the manifest lists: the documents of each source, the models and GPUs of the catalogue.
_LISTED = ("documents", "curated_ids")

REBUILD = "run `registry build`, which makes the tables from the sources"


@dataclass(frozen=True, slots=True)
class Curated:
    """What curated records hold: tables, and documents whose rows are not in them yet."""

    catalogue: Catalogue
    #: Hash of these models and GPUs.
    catalogue_hash: str
    #: None where a source was changed or removed: all rows are derived then.
    part: Part | None
    pending: tuple[Document, ...] = ()
    #: Sources whose current content is not in the tables.
    pending_sources: tuple[str, ...] = ()
    #: Sources among them that cannot be read, and why: they are left out.
    problems: tuple[str, ...] = ()


def read_curated(folder: Folder) -> Curated:
    """Return the curated records of a folder. Raises StoreError where they are damaged.

    Within a process, records are read again only if one of their files changed.
    """
    return _read_curated(folder, (*_stamp_tables(folder.path), *_stamp_sources(folder.path)))


def read_built(folder: Folder) -> Curated:
    """Return the curated records as their tables hold them, without a look at the sources.

    Where the tables are not there, all is read from the sources. Raises StoreError.
    """
    stamps = _stamp_tables(folder.path)
    return _read_built(folder, stamps) if len(stamps) == len(_TABLES) else read_curated(folder)


def _stamp_tables(records: Path) -> tuple[FileStamp, ...]:
    paths = [f"{records}/{name}" for name in _TABLES]
    return tuple(map(_stamp, filter(os.path.exists, paths)))


def _stamp_sources(records: Path) -> list[FileStamp]:
    folders = (_list_files(f"{records}/{name}") for name in ("sources", "catalogue"))
    return [stamp for listed in folders for stamp in listed]


@lru_cache(maxsize=8)
def _read_curated(folder: Folder, files: tuple[FileStamp, ...]) -> Curated:
    built = _read_manifest(folder)
    changed, new = _compare_sources(folder, built)
    if CATALOGUE in changed and _has_all_entries(folder, built, files):
        changed, new = changed - {CATALOGUE}, new | {CATALOGUE}
    if _can_have_grown(built, changed):
        curated = _read_built(folder, files)
        if changed or new:
            curated = _with_pending(folder, curated.part, curated.catalogue, changed | new)
        if _holds_all(curated, built, changed):
            return curated
    return _with_pending(folder, None, Catalogue(), changed | new)


def _has_all_entries(folder: Folder, built: dict[str, Any], files: tuple[FileStamp, ...]) -> bool:
    """Return whether the models and GPUs of the tables are as they were: others may have come.

    A new entry with the id of what a source describes counts in its place, and so changes it.
    """
    from registry.tables.curated import load_curated_catalogue  # noqa: PLC0415 - loads YAML

    if built["curated_ids"].keys() != {*CATALOGUE_TABLES}:
        return False  # tables of an earlier build do not say which entries were the catalogue's
    before, now = _read_built(folder, files).catalogue, load_curated_catalogue(folder.path)
    for table in CATALOGUE_TABLES:
        (_, then), (_, today) = before.by_id(table), now.by_id(table)
        kept = {key for key, row in today.items() if then.get(key) == row}
        if then.keys() & today.keys() != kept or not kept.issuperset(built["curated_ids"][table]):
            return False
    return True


def _can_have_grown(built: dict[str, Any], changed: set[str]) -> bool:
    """Return whether the tables say which documents they have of each source that changed."""
    return not changed - built["documents"].keys()


def _holds_all(curated: Curated, built: dict[str, Any], changed: set[str]) -> bool:
    """Return whether sources that changed still hold all documents that the tables have of them.

    Recorded runs are added to a source without any other change: then only these are derived.
    """
    there = {document.submission_id for document in curated.pending}
    return all(there.issuperset(built["documents"][name]) for name in changed)


@lru_cache(maxsize=8)
def _read_built(folder: Folder, _files: tuple[FileStamp, ...]) -> Curated:
    built = _read_manifest(folder)
    expected = built["catalogue"]
    catalogue = read_catalogue(
        folder.storage,
        _TABLES[1],
        lambda data: hash_catalogue(data) == expected,
        REINSTALL,
    )
    return Curated(catalogue, expected, parse_part(CURATED, folder.tables, built))


def find_pending_sources(folder: Folder) -> tuple[str, ...]:
    """Return the sources whose content the tables do not hold as it is now."""
    changed, new = _compare_sources(folder, _read_manifest(folder))
    return tuple(sorted(changed | new))


def _compare_sources(folder: Folder, built: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Return the names of sources that changed since they were built, and of new ones."""
    if not (folder.path / "sources").is_dir():
        return set(), set()
    hashes = hash_sources(folder.path)
    changed = {name for name, found in built["sources"].items() if hashes.get(name) != found}
    return changed, hashes.keys() - built["sources"].keys()


def _with_pending(
    folder: Folder, part: Part | None, of_part: Catalogue, names: set[str]
) -> Curated:
    """Return the records of a part, with its models and GPUs, and of sources beside it."""
    from registry.tables.curated import load_curated_catalogue, read_what_can_be  # noqa: PLC0415 - only where a source is pending

    catalogue = load_curated_catalogue(folder.path)
    wanted = names if part else hash_sources(folder.path).keys() - {CATALOGUE}
    found, refused = read_what_can_be(folder.path, catalogue, only=wanted, described=of_part)
    pending = [document for each in found.values() for document in each]
    problems = [
        f"source {name}: {str(error).splitlines()[0]}; it is left out of all answers until then"
        for name, error in refused.items()
    ]
    known = catalogue.extended(of_part.rows("models"), of_part.rows("gpus"))
    catalogue = with_described(known, pending)
    catalogue_hash = hash_catalogue(catalogue_text(catalogue))
    named = tuple(sorted(names))
    return Curated(catalogue, catalogue_hash, part, tuple(pending), named, tuple(problems))


def _read_manifest(folder: Folder) -> dict[str, Any]:
    path = folder.storage.path(MANIFEST)
    try:
        built: dict[str, Any] = json.loads(folder.storage.get(MANIFEST))
        for name in _LISTED:
            built.setdefault(name, {})  # of an earlier build
        _check_shape(built)
    except FileNotFoundError:
        empty: dict[str, Any] = {"contract": "", "catalogue": "", "files": {}, "documents": {}}
        return empty | {"sources": {CATALOGUE: ""}, "curated_ids": {}}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(
            f"{path}: damaged manifest ({error}); expected it as `registry build` writes it; "
            f"{REINSTALL}"
        ) from None
    return built


def _check_shape(built: dict[str, Any]) -> None:
    if not all(isinstance(built[name], dict) for name in ("sources", "files", *_LISTED)):
        raise TypeError("no sources or files")
    for name in _LISTED:
        if not all(isinstance(ids, list) for ids in built[name].values()):
            raise TypeError(f"no lists of {name}")


def hash_sources(records: Path) -> dict[str, str]:
    """Return the content hash of each source, and of the models and GPUs as ``catalogue.json``."""
    with os.scandir(records / "sources") as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    folders = {name: records / "sources" / name for name in names}
    folders[CATALOGUE] = records / "catalogue"
    return {name: _hash_files(folder) for name, folder in folders.items()}


def _hash_files(folder: Path) -> str:
    """Return the hash of the names and contents of a folder's files."""
    digest = hashlib.sha256()
    for path, *_ in _list_files(folder):
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - of many files, pathlib is slow
            data = file.read()
        digest.update(f"{path[len(str(folder)) + 1 :]}\n{len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


def _list_files(folder: Path | str) -> list[FileStamp]:
    paths = [f"{root}/{name}" for root, _, names in os.walk(folder) for name in names]
    return sorted(_stamp(path) for path in paths if not _is_of_an_editor(path))


def _is_of_an_editor(path: str) -> bool:
    """Return whether an editor or a file browser left a file there, such as `.DS_Store`."""
    name = path.rpartition("/")[2]
    return name.startswith(".") or name.endswith(("~", "#"))


def _stamp(path: str) -> FileStamp:
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(
            f"{path}: found no regular file; expected one of the curated records; remove it"
        )
    return path, status.st_size, status.st_mtime_ns
