"""From rows back to documents: as somebody would hand them in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from registry.catalogue import Catalogue
from registry.store import compose as compose_module
from registry.store.compose import compose_documents, compose_submissions
from registry.store.derive_tables import Document, Rows, derive_tables
from registry.submission.identity import canonical_json, document_id
from registry.submission.prepare import prepare_submission
from tests.unit.store.registries import build_document

if TYPE_CHECKING:
    import pytest


def derive(*numbers: int, **choices: str) -> Rows:
    """Return the rows of some small submissions."""
    documents = []
    for number in numbers:
        ready = prepare_submission(build_document(number, **choices), Catalogue(), origin="test")
        documents.append(Document(ready.submission_id, ready.text, ready.document))
    return derive_tables(documents)


def test_composed_documents_give_the_rows_they_were_composed_from() -> None:
    rows = derive(0, 1)
    documents = list(compose_documents(rows))
    (document,) = documents
    assert document.text == canonical_json(document.plain)
    assert document.submission_id == document_id(document.text)
    assert document.plain["schema_version"] == 1
    again = derive_tables(documents)
    for name in ("observations", "configurations", "environments", "measurements", "samples"):
        assert again[name] == rows[name], name


def test_each_source_has_documents_of_its_own_in_the_order_of_their_ids() -> None:
    rows = {
        name: [*some, *more]
        for (name, some), more in zip(
            derive(0, source_id="src-b").items(), derive(1).values(), strict=True
        )
    }
    found = [document["source"]["source_id"] for document in compose_submissions(rows)]
    assert found == ["src-a", "src-b"]


def test_a_document_holds_so_many_observations(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compose_module._MOST_OBSERVATIONS == 1000
    monkeypatch.setattr(compose_module, "_MOST_OBSERVATIONS", 2)
    sizes = [len(d["observations"]) for d in compose_submissions(derive(0, 1, 2, 3, 4))]
    assert sizes == [2, 2, 1]


def test_values_are_written_as_in_a_document() -> None:
    rows = derive(0)
    rows["configurations"][0]["lora_target_modules"] = ["v_proj", "q_proj"]
    rows["observations"][0]["observed_at"] = datetime(
        2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2))
    )
    (document,) = compose_submissions(rows)
    (observation,) = document["observations"]
    assert observation["configuration"]["lora_target_modules"] == ["q_proj", "v_proj"]
    assert observation["observed_at"] == "2024-05-01T10:00:00Z"
    assert observation["provenance"] == {"command": "train"}
    assert observation["citations"][0]["cells"] == {"a": "1.5"}
    assert datetime.fromisoformat(observation["observed_at"]).tzinfo == UTC


def test_what_has_no_rows_is_left_out() -> None:
    rows = derive(0)
    rows |= {"environments": [], "samples": [], "models": [], "gpus": [], "sources": []}
    rows["observations"][0]["flags"] = []
    (document,) = compose_submissions(rows)
    assert set(document) == {"schema_version", "source", "observations"}
    assert document["source"] == {"source_id": "src-a"}
    (observation,) = document["observations"]
    assert not {"environment", "samples", "flags", "source_id"} & observation.keys()


def test_a_submission_is_a_row_with_its_source_and_number_of_observations() -> None:
    (row,) = derive(0)["submissions"]
    assert (row["source_id"], row["n_observations"]) == ("src-a", 1)
    assert row["submission_id"] == document_id(row["document"])
