"""Regenerate the curated tables from their sources, byte for byte.

What the tables hold besides, because somebody folded a contribution into them, is kept: only the
submissions of sources that stand in ``sources/`` are made anew.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.errors import StoreError
from registry.store.files import sync_folder
from registry.store.fold import build_state, find_leftovers
from registry.store.folder import Folder
from registry.store.lock import fold_lock
from registry.store.manifest import Manifest, manifest_path, read_manifest, write_manifest
from registry.tables.curated import iter_curated_submissions, load_curated_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator

Documents = list[tuple[str, dict[str, Any], str]]


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a build found: the files that differ from those that were there."""

    n_submissions: int
    n_observations: int
    changed: tuple[str, ...]


def build_tables(records: Path, *, check: bool = False) -> BuildResult:
    """Make ``records/tables`` anew from ``records/sources`` and ``records/catalogue``.

    With ``check``, nothing is written; ``changed`` names the files that would be. Raises
    SourceError where a source cannot be read, StoreError where the folder cannot be written.
    """
    folder = Folder(records)
    if not (records / "sources").is_dir():
        raise StoreError(
            f"{records}: no folder sources/; expected the curated records of a checkout; "
            "run the command in a checkout, or name its records/ with --registry"
        )
    with tempfile.TemporaryDirectory(prefix=".tmp-build-", dir=records) as temporary:
        target = Folder(Path(temporary))
        target.tables.mkdir()
        documents = _collect_documents(folder)
        state = build_state(target, load_curated_catalogue(records), documents)
        write_manifest(target, replace(state, version=1))
        for path in find_leftovers(target):  # the catalogue without the sources' own models
            path.unlink()
        changed = tuple(sorted(_differing(folder, target)))
        if changed and not check:
            _install(folder, target)
    return BuildResult(len(documents), state.rows("observations"), changed)


def _collect_documents(folder: Folder) -> Documents:
    catalogue = load_curated_catalogue(folder.path)
    built = [
        (ready.submission_id, ready.document, ready.text)
        for _, ready in iter_curated_submissions(folder.path, catalogue)
    ]
    owned = {document["source"]["source_id"] for _, document, _ in built}
    owned |= {path.name for path in (folder.path / "sources").iterdir() if path.is_dir()}
    return [*built, *_contributed(folder, read_manifest(folder), owned)]


def _contributed(folder: Folder, manifest: Manifest, owned: set[str]) -> Iterator[Any]:
    """Yield the folded submissions that no source of the checkout made."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - heavy

    for name in manifest.files("submissions"):
        table = pq.read_table(folder.tables / name).to_pylist()
        for row in table:
            if row["source_id"] not in owned and row["document"] is not None:
                yield row["submission_id"], json.loads(row["document"]), row["document"]


def _differing(folder: Folder, target: Folder) -> Iterator[str]:
    old = {path.name: path for path in folder.tables.glob("*") if path.name[0] != "."}
    new = {path.name: path for path in target.tables.glob("*") if path.name[0] != "."}
    for name in old.keys() | new.keys():
        if name not in old or name not in new or old[name].read_bytes() != new[name].read_bytes():
            yield name


def _install(folder: Folder, target: Folder) -> None:
    folder.tables.mkdir(exist_ok=True)
    with fold_lock(folder):
        new = {path.name for path in target.tables.iterdir()}
        last = manifest_path(folder, 1).name
        for name in sorted(new - {last}):
            shutil.move(target.tables / name, folder.tables / name)
        shutil.move(target.tables / last, folder.tables / last)
        for path in folder.tables.iterdir():
            if path.name not in new and path.name[0] != ".":
                path.unlink()
        sync_folder(folder.tables)
