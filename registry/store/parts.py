"""Parts: the rows that one fold wrote, in a folder of their own that says what it holds.

A part's name is the hash of its description, which holds the hashes of its files, so that a
changed part no longer matches its name. The description is written last: a part that has one is
complete.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from registry.contract import TABLES, load_table
from registry.contract.fingerprint import contract_stamp, is_current
from registry.errors import StoreError
from registry.store.files import TEMPORARY_PREFIX, temporary_name
from registry.store.ids import ERASED, IDENTIFIED, IdFile, format_ids
from registry.store.manifest import REPAIR
from registry.submission.identity import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from registry.store.folder import Folder

DESCRIPTION = "part.json"

#: Name of the curated tables, which their own manifest describes instead of a part.json.
CURATED = "curated"

#: Models and GPUs that a part's documents describe, for looking up without loading an engine.
CATALOGUE = "catalogue.json"

REINSTALL = "install the package again, or in a checkout run `registry build`"

_NAME_DIGITS = 24

#: Names of a part's files.
_FILE = re.compile(r"[a-z_]+\.(parquet|ids|json)")


@dataclass(frozen=True, slots=True)
class PartFile:
    """One file of a part."""

    size: int
    sha256: str
    #: Rows of a table's file.
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A complete part, as its description says."""

    name: str
    path: Path
    #: Hash of the contract that wrote it, and of the models and GPUs that were known then.
    contract: str
    catalogue: str
    files: Mapping[str, PartFile] = field(default_factory=dict)
    #: Whether another contract let documents of it in, which may not be valid today.
    is_earlier: bool = False

    @property
    def way_out(self) -> str:
        """What to do where one of its files is missing or damaged."""
        return REINSTALL if self.name == CURATED else "run `registry repair`"

    def rows(self, table: str) -> int:
        """Return the number of its rows of a table."""
        file = self.files.get(f"{table}.parquet")
        return file.rows or 0 if file else 0

    def file(self, table: str) -> Path | None:
        """Return the Parquet file of a table, if it has rows."""
        name = f"{table}.parquet"
        return self.path / name if name in self.files else None

    def ids(self, table: str) -> IdFile | None:
        """Return the ids of its rows of a table, if it has any."""
        name = f"{table}.ids"
        file = self.files.get(name)
        return IdFile(self.path / name, file.size, file.sha256, self.way_out) if file else None

    @property
    def admits_earlier(self) -> bool:
        """Whether its documents were valid when they were recorded, whatever is valid today."""
        return self.is_earlier or not is_current(self.contract)

    def is_current(self, catalogue: str) -> bool:
        """Return whether its computed tables are what would be computed today."""
        return self.catalogue == catalogue and is_current(self.contract)


def describe_part(
    contract: str,
    catalogue: str,
    files: Mapping[str, PartFile],
    writer: str | None = None,
    *,
    is_earlier: bool = False,
) -> bytes:
    """Return the description of a part; ``writer`` tells it from an equal one of another."""
    described = {
        name: {"size": f.size, "sha256": f.sha256, **({} if f.rows is None else {"rows": f.rows})}
        for name, f in files.items()
    }
    document: dict[str, Any] = {"contract": contract, "catalogue": catalogue, "files": described}
    document |= {"writer": writer} if writer else {}
    document |= {"earlier": True} if is_earlier else {}
    return canonical_json(document).encode() + b"\n"


def part_name(description: bytes) -> str:
    """Return the name of the part that has this description."""
    return hashlib.sha256(description).hexdigest()[:_NAME_DIGITS]


def read_part(folder: Folder, name: str) -> Part:
    """Return a part; raise StoreError where it is missing, incomplete or changed."""
    place = f"tables/parts/{name}/{DESCRIPTION}"
    path = folder.storage.path(place)
    require_own(path.parent)
    try:
        description = folder.storage.get(place)
    except FileNotFoundError:
        raise StoreError(
            f"{path}: found no such file; expected the part that a manifest names; {REPAIR}"
        ) from None
    if part_name(description) != name:
        raise StoreError(
            f"{path}: its content does not match the part's name; expected it as "
            f"`registry fold` wrote it; {REPAIR}"
        )
    try:
        document = json.loads(description)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: found no JSON ({error}); expected a part's; {REPAIR}") from None
    return parse_part(name, path.parent, document)


def require_own(path: Path) -> None:
    """Raise StoreError where a part is a link: what that leads to may be others'."""
    if path.is_symlink():
        raise StoreError(f"{path}: found a link; expected a folder of the registry; {REPAIR}")


def parse_part(name: str, path: Path, document: Mapping[str, Any]) -> Part:
    """Return a part from its description; raise StoreError where that is none.

    A file is named as one of the part's own folder, so that a part reaches nothing outside.
    """
    try:
        files = {key: PartFile(**entry) for key, entry in document["files"].items()}
        marks = str(document["contract"]), str(document["catalogue"])
        part = Part(name, path, *marks, files, document.get("earlier") is True)
    except (AttributeError, KeyError, TypeError):
        part = None
    if part is None or not all(_is_described(*item) for item in part.files.items()):
        raise StoreError(
            f"{path}: found a description that names no files of the part with their size, hash "
            f"and rows; expected one; {REINSTALL if name == CURATED else REPAIR}"
        )
    return part


def _is_described(name: str, file: PartFile) -> bool:
    counts = (file.size, 0 if file.rows is None else file.rows)
    is_counted = all(type(count) is int and count >= 0 for count in counts)
    return bool(_FILE.fullmatch(name)) and is_counted and isinstance(file.sha256, str)


def write_part(
    folder: Folder, tables: Mapping[str, pa.Table], catalogue: str, *, is_earlier: bool = False
) -> Part:
    """Write the rows of a new part; nothing refers to it until a manifest does.

    ``tables`` hold rows in the order in which they are stored, the computed ``results`` and
    ``later_citations`` among them; ``catalogue`` is the hash of the models and GPUs they were
    computed with. With ``is_earlier`` another contract let some of the documents in. Raises
    StoreError where the folder cannot be written.
    """
    contents = format_part(tables)
    files = {name: _describe_file(*content) for name, content in contents.items()}
    marks = contract_stamp(), catalogue, files, folder.storage.writer
    description = describe_part(*marks, is_earlier=is_earlier)
    name = part_name(description)
    place = f"tables/parts/{name}"
    with folder.storage.writing() as batch:
        for file, (data, _) in contents.items():
            batch.add(f"{place}/{file}", data)
        batch.commit()
    folder.storage.put(f"{place}/{DESCRIPTION}", description)
    return read_part(folder, name)


def remove_part(folder: Folder, name: str) -> None:
    """Remove a part; under another name first, where it is none. Raises StoreError."""
    path, leftover = folder.parts / name, folder.parts / temporary_name()
    with _explained_removal(path):
        path.rename(leftover)
    _remove(leftover)


def remove_leftover_parts(folder: Folder) -> None:
    """Remove what removals that were interrupted left. Raises StoreError where that fails."""
    for leftover in folder.parts.glob(f"{TEMPORARY_PREFIX}*"):
        _remove(leftover)


def _remove(path: Path) -> None:
    """Remove a folder with all that is in it; of a link itself, not what it leads to."""
    with _explained_removal(path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def _explained_removal(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be removed: {error.strerror or error}; no answer needs it; remove it "
            "otherwise, as its owner can, then repeat the command"
        ) from error


def _describe_file(data: bytes, rows: int | None) -> PartFile:
    return PartFile(len(data), hashlib.sha256(data).hexdigest(), rows)


def format_part(
    tables: Mapping[str, pa.Table], *, complete: bool = False
) -> dict[str, tuple[bytes, int | None]]:
    """Return the files of a part: content, and number of rows for Parquet.

    With ``complete``, tables without rows have a file too, which gives their columns.
    """
    from registry.store.parquet import format_parquet  # noqa: PLC0415 - loads pyarrow

    contents: dict[str, tuple[bytes, int | None]] = {
        f"{name}.parquet": (format_parquet(table), table.num_rows)
        for name, table in tables.items()
        if table.num_rows or (complete and name in TABLES)
    }
    for name in IDENTIFIED:
        if name in tables and tables[name].num_rows:
            keys = tables[name].select(load_table(name).key).to_pylist()
            contents[f"{name}.ids"] = (format_ids(name, keys), None)
    retractions = tables["retractions"].to_pylist() if "retractions" in tables else []
    if erased := [row for row in retractions if row["erased"]]:
        contents[f"{ERASED}.ids"] = (format_ids("observations", erased), None)
    if described := _described(tables):
        contents[CATALOGUE] = (canonical_json(described).encode() + b"\n", None)
    return contents


def _described(tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """Return the models and GPUs that are among the rows, without nulls."""
    return {
        name: [
            {column: value for column, value in row.items() if value is not None}
            for row in tables[name].to_pylist()
        ]
        for name in ("models", "gpus")
        if name in tables and tables[name].num_rows
    }


def check_files(part: Part, largest: float = math.inf) -> Iterable[str]:
    """Yield what is wrong with the files of a part: missing or changed.

    Files of more than ``largest`` bytes are known by their size alone.
    """
    for name, file in part.files.items():
        path = part.path / name
        if path.is_symlink() or not path.is_file():
            yield f"{path}: found no such file; {REPAIR}"
        elif path.stat().st_size != file.size or (
            file.size <= largest and hash_file(path) != file.sha256
        ):
            yield f"{path}: found content that differs from what was written; {REPAIR}"


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
