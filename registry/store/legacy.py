"""Registries that releases before 0.2 wrote: read their documents; nothing else is needed.

Their tables, one set of Parquet files for each fold below ``tables/``, are derived anew. Rows that
were added as whole tables have no document: it is composed from the rows.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from registry.contract import TABLES
from registry.errors import StoreError
from registry.store.compose import compose_observations, compose_submissions
from registry.store.curated import read_curated
from registry.store.derive_tables import Document, derive_tables, read_document, select_new
from registry.store.files import for_engine
from registry.store.folder import Folder, curated_dir
from registry.store.ids import KnownIds
from registry.store.manifest import REPAIR, list_versions, manifest_name
from registry.store.parts import hash_file
from registry.store.renamed import read_folder
from registry.submission.identity import canonical_json, document_id, observation_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from registry.store.curated import Curated

_PART = re.compile(r"submissions-([0-9a-f]{16})\.parquet")
_ANY_FILE = re.compile(r"(ids|catalogue|[a-z]+)-[0-9a-f]{16}\.(parquet|bin|json)")
_FILE = re.compile(r"[a-z]+-[0-9a-f]{16}\.parquet")

#: Tables that rows without a document are composed from.
_NOT_COMPOSED = ("models", "gpus", "submissions", "retractions")
_COMPOSED = [name for name in TABLES if name not in _NOT_COMPOSED]


def has_legacy_parts(folder: Folder) -> bool:
    """Return whether there are tables of an earlier release."""
    return bool(_part_digests(folder))


def legacy_files(folder: Folder) -> list[Path]:
    """Return the files of an earlier release's tables."""
    names = folder.storage.list("tables")
    return [folder.tables / name for name in names if _ANY_FILE.fullmatch(name)]


def read_legacy(folder: Folder, version: int | None = None) -> list[Document]:
    """Return the documents of a version, in the order in which they were folded.

    Raises StoreError where its manifest or one of the files is missing or damaged.
    """
    manifest = _read_manifest(folder, version)
    parts = [_check_part(folder, part["tables"]) for part in manifest["parts"]]
    return list(_read_parts(folder, parts))


def recover_legacy(folder: Folder) -> tuple[list[Document], dict[str, str]]:
    """Return the documents of all parts that lie there, whatever a manifest says of them.

    Also return the ids that their observations had, and what they are today.
    """
    parts = []
    for digest in _part_digests(folder):
        files = {
            table: folder.tables / f"{table}-{digest}.parquet"
            for table in (*_COMPOSED, "submissions")
        }
        parts.append({table: path for table, path in files.items() if path.is_file()})
    documents = {document.submission_id: document for document in _read_parts(folder, parts)}
    return list(documents.values()), _map_ids(_read_rows(parts))


def _part_digests(folder: Folder) -> list[str]:
    names = folder.storage.list("tables")
    return sorted(match[1] for name in names if (match := _PART.fullmatch(name)))


def _read_manifest(folder: Folder, version: int | None) -> Any:
    number = list_versions(folder)[-1] if version is None else version
    path = folder.storage.path(manifest_name(number))
    try:
        manifest = json.loads(folder.storage.get(manifest_name(number)))
        names = [file["name"] for part in manifest["parts"] for file in part["tables"].values()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path}: damaged manifest ({error}); {REPAIR}") from None
    if not all(_FILE.fullmatch(name) for name in names) or len(set(names)) < len(names):
        raise StoreError(f"{path}: damaged manifest (its files are not plain names); {REPAIR}")
    return manifest


def _check_part(folder: Folder, tables: dict[str, Any]) -> dict[str, Path]:
    found = {}
    for table, file in tables.items():
        path = folder.tables / file["name"]
        if not path.is_file() or hash_file(path) != file["sha256"]:
            raise StoreError(f"{path}: missing, or not as it was written; {REPAIR}")
        found[table] = path
    return found


def _read_parts(folder: Folder, parts: list[dict[str, Path]]) -> Iterator[Document]:
    import pyarrow.parquet as pq  # noqa: PLC0415 - heavy

    documents: list[Document] = []
    is_complete = True
    for part in parts:
        path = part.get("submissions")
        table = pq.read_table(for_engine(path), partitioning=None) if path else None
        for row in table.to_pylist() if table else ():
            if row["document"] is None:
                is_complete = False
            else:
                documents.append(read_document(row["submission_id"], row["document"], path))
    yield from documents
    if not is_complete:
        yield from _compose_rest(folder, parts, documents)


def _compose_rest(
    folder: Folder, parts: list[dict[str, Path]], documents: list[Document]
) -> Iterator[Document]:
    """Yield documents of the observations that no other document reports."""
    described = _read_described(folder)
    there = {row["observation_id"] for row in derive_tables(documents)["observations"]}
    for plain in compose_submissions(_read_rows(parts)):
        source_id = plain["source"]["source_id"]
        rest = [o for o in plain["observations"] if observation_id(source_id, o) not in there]
        if rest:
            whole = {**plain, "observations": rest, **_described_of(rest, described)}
            text = canonical_json(whole)
            yield Document(document_id(text), text, whole)


def _read_described(folder: Folder) -> dict[str, dict[str, Any]]:
    """Return the models and GPUs of the tables that the curated records do not know, by id."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - heavy

    curated = read_curated(Folder(curated_dir())).catalogue
    known: dict[str, Collection[str]] = {"models": curated.models, "gpus": curated.gpus}
    described: dict[str, dict[str, Any]] = {"models": {}, "gpus": {}}
    for path in legacy_files(folder):
        table = path.name.partition("-")[0]
        key = f"{table.removesuffix('s')}_id"
        if table in described and path.suffix == ".parquet":
            for row in pq.read_table(for_engine(path), partitioning=None).to_pylist():
                if row[key] not in known[table]:
                    described[table][row[key]] = {k: v for k, v in row.items() if v is not None}
    return described


def _described_of(
    observations: list[dict[str, Any]], described: dict[str, dict[str, Any]]
) -> dict[str, list[dict[str, Any]]]:
    """Return the descriptions of the models and GPUs that observations refer to."""
    found = {}
    for table, rows in described.items():
        key = f"{table.removesuffix('s')}_id"
        ids = sorted({o["configuration"].get(key, "") for o in observations} & rows.keys())
        if ids:
            found[table] = [rows[one] for one in ids]
    return found


def _read_rows(parts: list[dict[str, Path]]) -> dict[str, list[dict[str, Any]]]:
    import pyarrow as pa  # noqa: PLC0415 - heavy
    import pyarrow.parquet as pq  # noqa: PLC0415 - heavy

    tables = {}
    for table in _COMPOSED:
        files = [for_engine(part[table]) for part in parts if table in part]
        pieces = [pq.read_table(file, partitioning=None) for file in files]
        tables[table] = pa.concat_tables(pieces).to_pylist() if pieces else []
    return tables


def map_legacy_ids(folder: Folder, version: int | None = None) -> dict[str, str]:
    """Return the ids that observations of a version had, and what they are today."""
    manifest = _read_manifest(folder, version)
    return _map_ids(_read_rows([_check_part(folder, part["tables"]) for part in manifest["parts"]]))


def _map_ids(rows: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    later = read_folder(Folder(curated_dir()))
    renamed = {}
    for old, observation in zip(rows["observations"], compose_observations(rows), strict=True):
        new = observation_id(observation.pop("source_id"), observation)
        renamed[old["observation_id"]] = later.get(new, new)
    return renamed


def without_curated(curated: Curated, documents: Iterable[Document]) -> Iterator[Document]:
    """Yield the documents that report an observation, model or GPU the curated records lack.

    Those of runs that the curated records now have under another source lead there by ``ids.csv``.
    """
    known = KnownIds([curated.part.ids] if curated.part else [])
    renamed = read_folder(Folder(curated_dir()))
    for document in documents:
        rows = derive_tables([document])
        for row in rows["observations"]:
            row["observation_id"] = renamed.get(row["observation_id"], row["observation_id"])
        if any(select_new(rows, known)[name] for name in _CONTENT):
            yield document


#: Tables that tell whether the curated records hold all that a document says.
_CONTENT = ("observations", "models", "gpus")
