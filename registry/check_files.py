"""Check the files of a registry: there, unchanged, of the contract's schema, ids and all."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from registry.arrow import table_schema
from registry.check import RESTORE, Problem
from registry.contract import TABLES, load_table
from registry.errors import StoreError
from registry.frames import check_columns
from registry.store.fold import catalogue_tables
from registry.store.ids import format_ids
from registry.store.parts import IDENTIFIED, collect_ids, hash_file
from registry.store.whole import format_catalogue, read_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.store.folder import Folder
    from registry.store.manifest import File, Manifest, PartFiles

_CATALOGUE_DIGITS = 16


def list_files(manifest: Manifest) -> Iterator[tuple[str, File]]:
    """Yield all Parquet files of a manifest with the table each belongs to."""
    yield from manifest.whole.items()
    for part in manifest.parts:
        yield from part.tables.items()


def check_files(folder: Folder, manifest: Manifest) -> Iterator[Problem]:
    """Yield files that are missing or whose bytes are not those that were written."""
    for name in sorted(manifest.all_files()):
        if not (folder.tables / name).is_file():
            yield Problem("files", f"tables/{name}", f"found no such file; {RESTORE}")
    for _, file in list_files(manifest):
        path = folder.tables / file.name
        if path.is_file() and (found := hash_file(path)) != file.sha256:
            message = f"found SHA-256 {found[:12]}…; expected {file.sha256[:12]}…; {RESTORE}"
            yield Problem("files", f"tables/{file.name}", message)


def check_schemas(folder: Folder, manifest: Manifest) -> Iterator[Problem]:
    """Yield files whose columns or number of rows are not what the contract and manifest say."""
    for table, file in list_files(manifest):
        place = f"tables/{file.name}"
        try:
            found = pq.read_metadata(folder.tables / file.name).num_rows
            schema = pq.read_schema(folder.tables / file.name)
        except (OSError, pa.ArrowInvalid) as error:
            yield Problem("schema", place, f"cannot be read ({error}); {RESTORE}")
            continue
        if found != file.rows:
            yield Problem("schema", place, f"found {found} rows; expected {file.rows}; {RESTORE}")
        if table in TABLES and not _is_of_contract(table, schema):
            problems = check_columns(table, schema) or ["found the columns in another order"]
            for text in problems:
                yield Problem("schema", place, f"{text}; {RESTORE}")


def _is_of_contract(table: str, schema: pa.Schema) -> bool:
    expected = table_schema(table)
    return bool(schema.names == expected.names and schema.types == expected.types)


def check_ids(folder: Folder, manifest: Manifest) -> Iterator[Problem]:
    """Yield id files that do not hold the ids of their part's rows."""
    for part in manifest.parts:
        expected = format_ids(collect_ids(_key_tables(folder, part)))
        if (folder.tables / part.ids).read_bytes() != expected:
            message = f"found other ids than those of the rows of part {part.name}; {RESTORE}"
            yield Problem("ids", f"tables/{part.ids}", message)


def _key_tables(folder: Folder, part: PartFiles) -> dict[str, pa.Table]:
    return {
        table: pq.read_table(
            folder.tables / part.tables[table].name, columns=list(load_table(table).key)
        )
        for table in IDENTIFIED
        if table in part.tables
    }


def check_catalogue(folder: Folder, manifest: Manifest) -> Iterator[Problem]:
    """Yield where the catalogue's file is not that of the tables ``models`` and ``gpus``."""
    if manifest.catalogue is None:
        return
    place = f"tables/{manifest.catalogue}"
    try:
        catalogue = read_catalogue(folder, manifest)
    except StoreError as error:
        yield Problem("catalogue", place, str(error))
        return
    digest = hashlib.sha256(format_catalogue(catalogue).encode()).hexdigest()[:_CATALOGUE_DIGITS]
    if digest not in manifest.catalogue:
        yield Problem("catalogue", place, f"found content of another hash, {digest}; {RESTORE}")
        return
    for name, table in catalogue_tables(catalogue).items():
        stored = pq.read_table(folder.tables / manifest.whole[name].name)
        if not stored.equals(table):
            message = f"found other rows than {place} has; {RESTORE}"
            yield Problem("catalogue", f"tables/{manifest.whole[name].name}", message)
