"""An export: written as its manifest says, and refused where it is other than that."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.contract import TABLES
from registry.errors import StoreError, SubmissionError
from registry.store import exported as exported_module
from registry.store.export import export_folder
from registry.store.exported import read_exported
from tests.unit.store.registries import add_numbers, build_document, make_registry

if TYPE_CHECKING:
    from pathlib import Path

WAY_OUT = (
    "expected the manifest of `registry export`: for each table its file, rows and sha256; export "
    "it again"
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an export of three submissions, one of which describes nothing."""
    folder = tmp_path_factory.mktemp("export")
    db = make_registry(folder / "registry")
    plain = build_document(0)
    del plain["models"], plain["gpus"]
    add_numbers(db, 1, 2)
    db.add(plain)
    assert export_folder(db.location, folder / "out")["observations"] == 3
    return folder / "out"


@pytest.fixture
def out(written: Path, tmp_path: Path) -> Path:
    """Return a copy of the export to change."""
    return shutil.copytree(written, tmp_path / "out")


def change(out: Path, edit: Any) -> Path:
    """Change the manifest by ``edit``; return where it is."""
    path = out / "manifest.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    edit(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def rewrite_documents(out: Path, table: pa.Table) -> None:
    pq.write_table(table, out / "submissions.parquet")
    digest = hashlib.sha256((out / "submissions.parquet").read_bytes()).hexdigest()
    change(out, lambda document: document["tables"]["submissions"].update(sha256=digest))


def test_the_manifest_of_an_export_names_each_table(written: Path) -> None:
    text = (written / "manifest.json").read_text(encoding="utf-8")
    document = json.loads(text)
    assert text == json.dumps(document, indent=1) + "\n"
    assert document["format"] == 2
    assert document["tables"].keys() == {*TABLES, "results"}
    assert sorted(path.name for path in written.iterdir()) == sorted(
        [
            *("manifest.json", "README.md", "croissant.json", "CITATION.cff"),
            *(entry["file"] for entry in document["tables"].values()),
        ]
    )
    for name, entry in document["tables"].items():
        data = (written / f"{name}.parquet").read_bytes()
        assert entry == {
            "file": f"{name}.parquet",
            "rows": pq.read_metadata(written / f"{name}.parquet").num_rows,
            "sha256": hashlib.sha256(data).hexdigest(),
        }


def test_an_exported_table_is_sorted_by_its_key(written: Path) -> None:
    table = pq.read_table(written / "measurements.parquet")
    ids = table["observation_id"].to_pylist()
    assert ids == sorted(ids)
    assert len(ids) == 9


def test_documents_that_describe_models_come_first(written: Path) -> None:
    found = list(read_exported(written))
    assert [document["observations"][0]["run_id"] for _, document in found][2] == "run-0"
    assert [bool(document.get("models")) for _, document in found] == [True, True, False]
    rows = pq.read_table(written / "submissions.parquet").to_pylist()
    expected = {f"{written}, submission {row['submission_id'][:12]}" for row in rows}
    assert {origin for origin, _ in found} == expected


def test_a_gpu_alone_is_a_description_too(out: Path) -> None:
    table = pq.read_table(out / "submissions.parquet")
    texts = ['{"observations": []}', '{"models": [], "gpus": [1]}', '{"models": [1]}']
    place = table.schema.get_field_index("document")
    rewrite_documents(out, table.set_column(place, "document", pa.array(texts)))
    found = [document for _, document in read_exported(out)]
    assert found == [json.loads(texts[n]) for n in (1, 2, 0)]


def test_rows_without_documents_are_composed(out: Path) -> None:
    table = pq.read_table(out / "submissions.parquet")
    place = table.schema.get_field_index("document")
    rewrite_documents(out, table.set_column(place, "document", pa.nulls(3, pa.string())))
    ((origin, document),) = read_exported(out)
    assert origin == f"{out}, source src-a"
    assert {o["run_id"] for o in document["observations"]} == {"run-0", "run-1", "run-2"}
    original = build_document(1)
    for part in ("samples", "measurements", "citations", "environment"):
        (found,) = (o[part] for o in document["observations"] if o["run_id"] == "run-1")
        assert len(found) >= len(original["observations"][0][part]), part
    assert {"model_id": "tiny", "n_params": 1_000} in document["models"]
    assert {"gpu_id": "gpu-a", "memory_bytes": 24 * 2**30} in document["gpus"]
    assert document["source"] == {"source_id": "src-a", "kind": "run"}


def test_a_submission_that_is_there_twice_is_refused(out: Path) -> None:
    table = pq.read_table(out / "submissions.parquet")
    rewrite_documents(out, pa.concat_tables([table.slice(0, 1)] * 2))
    key = table["submission_id"][0].as_py()
    assert refusal(out) == (
        f"{out}, submission {key[:12]}: submissions.parquet: found it twice; expected each "
        "submission once; export it again"
    )


def test_only_so_many_rows_are_composed(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pq.read_table(out / "submissions.parquet")
    place = table.schema.get_field_index("document")
    rewrite_documents(out, table.set_column(place, "document", pa.nulls(3, pa.string())))
    monkeypatch.setattr("registry.store.exported.LARGEST_COMPOSED", 100)
    assert refusal(out).startswith(
        f"{out}: models.parquet: found more than 100 bytes of rows without a document; expected "
        "fewer; `registry fold` the registry"
    )


def refusal(out: Path) -> str:
    with pytest.raises((StoreError, SubmissionError)) as caught:
        list(read_exported(out))
    return str(caught.value)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda d: d.pop("format"), "KeyError('format')"),
        (lambda d: d.pop("tables"), "KeyError('tables')"),
        (lambda d: d["tables"]["samples"].pop("sha256"), "KeyError('sha256')"),
        (
            lambda d: d["tables"].pop("submissions"),
            "ValueError('no submissions, or a file that is not a plain name')",
        ),
        (
            lambda d: d["tables"]["samples"].update(file="../samples.parquet"),
            "ValueError('no submissions, or a file that is not a plain name')",
        ),
    ],
)
def test_a_manifest_of_another_form_is_refused(out: Path, edit: Any, reason: str) -> None:
    path = change(out, edit)
    assert refusal(out) == f"{path}: cannot be read ({reason}); {WAY_OUT}"


def test_an_export_without_a_manifest_is_refused(out: Path) -> None:
    (out / "manifest.json").unlink()
    assert refusal(out).startswith(f"{out / 'manifest.json'}: cannot be read: No such file")


def test_a_manifest_that_never_ends_is_refused(out: Path) -> None:
    (out / "manifest.json").unlink()
    os.mkfifo(out / "manifest.json")
    assert refusal(out).startswith(f"{out / 'manifest.json'}: found a pipe, expected a manifest")


def test_an_export_of_a_newer_release_says_to_upgrade(out: Path) -> None:
    path = change(out, lambda document: document.update(format=3))
    assert refusal(out) == (
        f"{path}: found format 3; expected at most 2: a newer release wrote it; upgrade with "
        "`pip install -U peft-registry`"
    )


def test_files_other_than_the_manifest_says_are_named_together(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (out / "samples.parquet").rename(out / "elsewhere")
    (out / "samples.parquet").symlink_to("elsewhere")
    (out / "gpus.parquet").unlink()
    (out / "models.parquet").write_bytes(b"PAR1")
    size = exported_module._unpacked_size(out / "submissions.parquet") or 0
    monkeypatch.setattr(exported_module, "LARGEST_UNPACKED", size - 1)
    others = [
        name
        for name in ("sources", "environments", "configurations", "observations", "measurements")
        if (exported_module._unpacked_size(out / f"{name}.parquet") or 0) >= size
    ]
    with pytest.raises(SubmissionError) as caught:
        list(read_exported(out))
    assert caught.value.origin == str(out)
    for problem in (
        "found no samples.parquet; expected it, because manifest.json names it; export it again",
        "found no gpus.parquet; expected it, because manifest.json names it; export it again",
        "models.parquet: its content is not what manifest.json says; export it again",
        (
            f"submissions.parquet: unpacks to {size} bytes, expected a table below 8 GiB; export "
            "it again"
        ),
    ):
        assert problem in caught.value.problems
    assert len(caught.value.problems) == 4 + len(others)


DOCUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "no JSON": ({"document": ["{"]}, "line 1, column 2: expecting property name"),
    "nested": ({"document": ["[" * 100_000]}, "nested too deeply"),
    "a key twice": ({"document": ['{"a": 1, "a": 2}']}, "key 'a' appears twice"),
    "no document": ({"x": ["{}"]}, "column document: found no such column; expected texts"),
    "no id": ({"submission_id": [None]}, "column submission_id: found null; expected texts"),
    "numbers": ({"document": [1]}, "column document: found int64; expected texts"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_that_are_none_are_refused(out: Path, name: str) -> None:
    columns, reason = DOCUMENTS[name]
    given = columns if "x" in columns else {"document": ["{}"], **columns}
    rewrite_documents(out, pa.table({"submission_id": ["a" * 64], **given}))
    with pytest.raises(SubmissionError) as caught:
        list(read_exported(out))
    assert reason in str(caught.value)
    assert caught.value.origin in (str(out), f"{out}, submission aaaaaaaaaaaa")


def test_a_document_without_an_id_is_read(out: Path) -> None:
    ids = pa.array([None], pa.string())
    rewrite_documents(out, pa.table({"submission_id": ids, "document": ["{}"]}))
    assert list(read_exported(out)) == [(f"{out}, submission without an id", {})]


def test_rows_that_do_not_belong_together_are_refused(out: Path) -> None:
    documents = pa.table({"submission_id": ["a"], "document": pa.nulls(1, pa.string())})
    rewrite_documents(out, documents)
    pq.write_table(pa.table({"x": [1]}), out / "observations.parquet")
    digest = hashlib.sha256((out / "observations.parquet").read_bytes()).hexdigest()
    change(out, lambda document: document["tables"]["observations"].update(sha256=digest))
    with pytest.raises(SubmissionError, match="its rows do not belong together"):
        list(read_exported(out))


def test_what_is_no_parquet_is_refused(out: Path) -> None:
    (out / "submissions.parquet").write_bytes(b"PAR1")
    digest = hashlib.sha256(b"PAR1").hexdigest()
    change(out, lambda document: document["tables"]["submissions"].update(sha256=digest))
    with pytest.raises(SubmissionError, match=r"submissions\.parquet: found no Parquet; export"):
        list(read_exported(out))


def test_a_table_may_be_as_large_as_the_limit(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exported_module.LARGEST_UNPACKED == 8 * 1024**3
    sizes = [exported_module._unpacked_size(path) or 0 for path in out.glob("*.parquet")]
    monkeypatch.setattr(exported_module, "LARGEST_UNPACKED", max(sizes))
    assert len(list(read_exported(out))) == 3


def test_one_document_that_is_too_long_is_refused_however_short_the_others_are(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = pq.read_table(written / "submissions.parquet")["document"].to_pylist()
    lengths = sorted(len(text.encode()) for text in texts)
    assert lengths[0] < lengths[-1]
    monkeypatch.setattr(exported_module, "LARGEST_EXPORTED", lengths[-1])
    assert len(list(read_exported(written))) == len(texts)
    monkeypatch.setattr(exported_module, "LARGEST_EXPORTED", lengths[-1] - 1)
    with pytest.raises(SubmissionError) as caught:
        list(read_exported(written))
    assert str(caught.value) == (
        f"{written}: submissions.parquet: holds a document of {lengths[-1]} bytes; expected at "
        f"most {lengths[-1] - 1}"
    )
