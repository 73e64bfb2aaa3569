"""Tables of an earlier release: what is not as its manifest says is refused."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.errors import StoreError
from registry.store import legacy as legacy_module
from registry.store.curated import read_curated
from registry.store.derive_tables import Document, derive_tables
from registry.store.legacy import has_legacy_parts, legacy_files, read_legacy, without_curated
from registry.submission.identity import canonical_json, document_id
from registry.tables.curated import read_source_documents
from tests.unit.store.registries import build_document, write_source

if TYPE_CHECKING:
    from registry.store.folder import Folder

WAY_OUT = "run `registry repair`, which rebuilds it from the parts and documents that are there"
NAME = f"submissions-{'a' * 16}.parquet"
OTHER = f"sources-{'a' * 16}.parquet"


def put_part(folder: Folder, *documents: Any) -> dict[str, Any]:
    """Write documents as a part of an earlier release; return how a manifest names it."""
    texts = [canonical_json(document) for document in documents]
    rows = [{"submission_id": document_id(text), "document": text} for text in texts]
    pq.write_table(pa.Table.from_pylist(rows), folder.tables / NAME)
    digest = hashlib.sha256((folder.tables / NAME).read_bytes()).hexdigest()
    return {"tables": {"submissions": {"name": NAME, "sha256": digest}}}


def put_manifest(folder: Folder, *parts: Any) -> str:
    document = {"format": 1, "version": 1, "parts": parts}
    folder.storage.put("tables/manifest-000001.json", json.dumps(document).encode())
    return str(folder.tables / "manifest-000001.json")


def refusal(folder: Folder) -> str:
    with pytest.raises(StoreError) as caught:
        read_legacy(folder)
    return str(caught.value)


def test_documents_are_read_in_their_order(folder: Folder) -> None:
    documents = [build_document(number) for number in (2, 0, 1)]
    put_manifest(folder, put_part(folder, *documents))
    assert [document.plain for document in read_legacy(folder)] == documents
    assert read_legacy(folder, 1) == read_legacy(folder)


@pytest.mark.parametrize(
    "names",
    [
        ("../x.parquet",),
        (NAME, "x.parquet"),
        (NAME, NAME),
        (f"{NAME}.2",),
        (f"x/{NAME}",),
    ],
)
def test_a_manifest_names_distinct_files_of_its_folder(
    folder: Folder, names: tuple[str, ...]
) -> None:
    tables = {str(n): {"name": name, "sha256": ""} for n, name in enumerate(names)}
    path = put_manifest(folder, {"tables": tables})
    assert refusal(folder) == (
        f"{path}: damaged manifest (its files are not plain names); {WAY_OUT}"
    )


def test_a_manifest_of_another_form_is_refused(folder: Folder) -> None:
    path = put_manifest(folder, {})
    assert refusal(folder) == f"{path}: damaged manifest ('tables'); {WAY_OUT}"


@pytest.mark.parametrize("data", [None, b"other"])
def test_a_file_that_is_missing_or_changed_is_refused(folder: Folder, data: bytes | None) -> None:
    put_manifest(folder, put_part(folder, build_document(0)))
    (folder.tables / NAME).unlink()
    if data:
        (folder.tables / NAME).write_bytes(data)
    assert refusal(folder) == (
        f"{folder.tables / NAME}: missing, or not as it was written; {WAY_OUT}"
    )


def test_a_document_of_another_hash_is_refused(folder: Folder) -> None:
    rows = [{"submission_id": "0f" * 32, "document": "{}"}]
    part = put_part(folder)
    pq.write_table(pa.Table.from_pylist(rows), folder.tables / NAME)
    digest = hashlib.sha256((folder.tables / NAME).read_bytes()).hexdigest()
    part["tables"]["submissions"]["sha256"] = digest
    put_manifest(folder, part)
    assert refusal(folder) == (
        f"{folder.tables / NAME}: submission 0f0f0f0f0f0f does not match its id; {WAY_OUT}"
    )


def test_files_of_an_earlier_release_are_known_by_their_names(folder: Folder) -> None:
    assert not has_legacy_parts(folder)
    (folder.tables / OTHER).touch()
    (folder.tables / f"ids-{'0' * 16}.bin").touch()
    (folder.tables / f"x-{'0' * 17}.bin").touch()
    (folder.tables / "notes.txt").touch()
    assert not has_legacy_parts(folder)
    assert {path.name for path in legacy_files(folder)} == {OTHER, f"ids-{'0' * 16}.bin"}
    put_part(folder, build_document(0))
    assert has_legacy_parts(folder)


def test_what_the_curated_records_hold_is_not_taken_for_ones_own(records: Folder) -> None:
    curated = read_curated(records)
    write_source(records.path, 2)
    documents = list(read_source_documents(records.path, curated.catalogue))
    names = [document.plain["source"]["source_id"] for document in documents]
    assert names == ["src-0", "src-1", "src-2"]
    assert list(without_curated(curated, documents)) == documents[2:]


@pytest.mark.parametrize("table", ["models", "gpus"])
def test_what_only_describes_a_model_or_gpu_is_ones_own(records: Folder, table: str) -> None:
    described = {"models": {"model_id": "acme-1b"}, "gpus": {"gpu_id": "acme-card"}}[table]
    text = canonical_json({table: [described]})
    document = Document(document_id(text), text, json.loads(text))
    assert list(without_curated(read_curated(records), [document])) == [document]


def test_a_run_that_the_curated_records_have_under_another_source_is_not_ones_own(
    records: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    curated = read_curated(records)
    today = list(read_source_documents(records.path, curated.catalogue))[1]
    text = canonical_json(
        {**today.plain, "source": {**today.plain["source"], "source_id": "run-1"}}
    )
    before = Document(document_id(text), text, json.loads(text))
    assert list(without_curated(curated, [before])) == [before]
    (old,), (new,) = (
        [row["observation_id"] for row in derive_tables([one])["observations"]]
        for one in (before, today)
    )
    (records.path / "ids.csv").write_text(f"old_id,new_id\n{old},{new}\n", encoding="utf-8")
    monkeypatch.setattr(legacy_module, "curated_dir", lambda: records.path)
    assert list(without_curated(curated, [before])) == []
