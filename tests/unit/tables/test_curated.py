"""The curated folder: its catalogue, and one or more submissions for each source."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from registry.errors import SourceError
from registry.store.folder import Folder, Location
from registry.store.snapshot import load_catalogue
from registry.tables.curated import load_curated_catalogue, read_source_documents

if TYPE_CHECKING:
    from pathlib import Path

    from registry.catalogue import Catalogue


def test_the_catalogue_knows_models_and_gpus_by_id(catalogue: Catalogue) -> None:
    assert catalogue.models["qwen-7b"]["n_params"] == 7_721_324_544
    assert catalogue.gpus["rtx-3090"]["memory_bytes"] == 24576 * 2**20


def test_sources_come_in_order_of_their_names(records: Path, catalogue: Catalogue) -> None:
    names = ("swift-benchmark", "llama2-lora-3090", "torchtune")
    documents = read_source_documents(records, catalogue, only=names)
    plain = [document.plain for document in documents]
    source_ids = [one["source"]["source_id"] for one in plain if "source" in one]
    assert source_ids == sorted(source_ids)
    assert set(source_ids) == set(names)


def test_canonical_submissions_are_taken_as_they_are(
    records: Path, tmp_path: Path, catalogue: Catalogue
) -> None:
    names = ("swift-benchmark", "llm-train-throughput")
    documents = read_source_documents(records, catalogue, only=names)
    by_id = {document.plain["source"]["source_id"]: document for document in documents}
    for name in names:
        (tmp_path / "sources" / name).mkdir(parents=True)
        path = tmp_path / "sources" / name / "submissions.jsonl"
        path.write_text(by_id[name].text + "\n", encoding="utf-8")
    again = {document.text for document in read_source_documents(tmp_path, catalogue)}
    assert again == {by_id[name].text for name in names}


@pytest.mark.parametrize("name", ["submissions.jsonl", "a.json"])
def test_documents_of_a_folder_are_of_its_source_and_erase_nothing(
    tmp_path: Path, catalogue: Catalogue, name: str
) -> None:
    folder = tmp_path / "sources" / "mine"
    folder.mkdir(parents=True)
    source = {"source_id": "another", "kind": "person"}
    run = {"outcome": "oom", "configuration": {"model_id": "llama-2-7b", "method": "lora"}}
    row = {"observation_id": "0" * 32, "reason": "x", "retracted_at": "2024-01-01T00:00:00Z"}
    for document, found in (
        ({"source": source, "observations": [run]}, "found source_id 'another', expected 'mine'"),
        ({"retractions": [row | {"erased": True}]}, "found an erasure, expected a retraction"),
    ):
        (folder / name).write_text(json.dumps(document), encoding="utf-8")
        with pytest.raises(SourceError, match=found):
            list(read_source_documents(tmp_path, catalogue))


def test_a_source_of_another_name_than_its_folder_is_refused(
    records: Path, tmp_path: Path, catalogue: Catalogue
) -> None:
    folder = tmp_path / "sources" / "other"
    shutil.copytree(records / "sources" / "swift-benchmark", folder)
    with pytest.raises(SourceError) as raised:
        list(read_source_documents(tmp_path, catalogue))
    assert str(raised.value) == (
        f"{folder / 'mapping.yaml'}: found source_id 'swift-benchmark', expected 'other' as the "
        "folder is called"
    )


def test_a_cell_that_cannot_be_read_stops_the_build(
    records: Path, tmp_path: Path, catalogue: Catalogue
) -> None:
    folder = tmp_path / "sources" / "swift-benchmark"
    shutil.copytree(records / "sources" / "swift-benchmark", folder)
    table = folder / "06-model-type.csv"
    table.write_text(table.read_text(encoding="utf-8").replace("8.18min", "soon"), encoding="utf-8")
    with pytest.raises(SourceError) as raised:
        list(read_source_documents(tmp_path, catalogue))
    assert str(raised.value) == (
        f"{folder}, table 6, row 6, column 'Training Speed': found 'soon', expected a duration "
        "such as '7.01min', '5h35min', '3:35:20' or '07:01'; a text in the place of a figure has "
        "its meaning under `words` of the column: `words: {'soon': {}}` "
        f"({folder / 'mapping.yaml'}, line 43)"
    )


_MAPPING = """
source: {{source_id: {name}}}
{models}
tables:
  - match: {{table: 1}}
    defaults: {{model_id: new-7b, method: lora, gpu_id: rtx-3090, n_gpus: 1}}
    columns: {{peak: {{figure: {{metric: peak_memory, kind: reserved, scope: total, unit: GiB}}}}}}
"""


def _write_source(records: Path, name: str, models: str = "") -> None:
    folder = records / "sources" / name
    folder.mkdir(parents=True)
    (folder / "01-notes.csv").write_text("peak\n17\n", encoding="utf-8")
    text = _MAPPING.format(name=name, models=models)
    (folder / "mapping.yaml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("names", [("a-describes", "b-names"), ("b-describes", "a-names")])
def test_what_one_source_describes_the_others_may_name(
    tmp_path: Path, catalogue: Catalogue, names: tuple[str, str]
) -> None:
    describes, says = names
    _write_source(tmp_path, describes, "models: [{model_id: new-7b, n_params: 7000000000}]")
    _write_source(tmp_path, says)
    documents = list(read_source_documents(tmp_path, catalogue))
    assert [one.plain["source"]["source_id"] for one in documents] == sorted(names)
    with pytest.raises(SourceError, match="unknown model 'new-7b'"):
        list(read_source_documents(tmp_path, catalogue, only=[says]))
    known = catalogue.extended([{"model_id": "new-7b"}], [])
    assert list(read_source_documents(tmp_path, catalogue, only=[says], described=known))


def test_an_empty_folder_is_refused(tmp_path: Path, catalogue: Catalogue) -> None:
    (tmp_path / "sources" / "empty").mkdir(parents=True)
    with pytest.raises(SourceError) as raised:
        list(read_source_documents(tmp_path, catalogue))
    assert str(raised.value) == (
        f"{tmp_path / 'sources' / 'empty'}: found neither mapping.yaml nor submissions.jsonl "
        "nor a recorded submission, expected one"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, ": cannot be read: No such file or directory; expected a readable file"),
        ("- [", ", line 1, column 4: expected the node content, but found"),
        (
            "- {model_id: a, n_params: 7}\n- {model_id: a, n_params: 8}",
            ", a: found 2 entries; expected one; unite them",
        ),
        ("- {a: 1}", ": found no list of entries with 'model_id', expected one"),
    ],
)
def test_a_catalogue_that_cannot_be_read_is_an_error(
    tmp_path: Path, text: str | None, message: str
) -> None:
    (tmp_path / "catalogue").mkdir()
    path = tmp_path / "catalogue" / "models.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(SourceError) as raised:
        load_curated_catalogue(tmp_path)
    assert str(raised.value).startswith(f"{path}{message}")


def test_every_model_and_card_says_where_its_figures_are_from(records: Path) -> None:
    known = load_catalogue(Location(Folder(records)))
    rows = [*known.models.values(), *known.gpus.values()]
    assert len(rows) > 600
    assert [row for row in rows if not row.get("source") and row.get("verified") is not False] == []
