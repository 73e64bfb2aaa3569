"""Which of some documents are valid, where one names what another describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry.catalogue import Catalogue
from registry.store.derive_tables import Document
from registry.store.valid_documents import select_valid, validate_document
from registry.submission.identity import canonical_json, document_id
from registry.submission.prepare import prepare_submission
from tests.unit.store.registries import build_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.errors import SubmissionError

EVERYTHING = Catalogue().extended(
    [{"model_id": "tiny", "n_params": 1_000}], [{"gpu_id": "gpu-a", "memory_bytes": 24 * 2**30}]
)


def build(number: int, *described: str) -> Document:
    """Return a recorded document that describes only some of ``models`` and ``gpus``."""
    plain: dict[str, Any] = build_document(number)
    for part in {"models", "gpus"}.difference(described):
        del plain[part]
    text = canonical_json(prepare_submission(plain, EVERYTHING, origin="").document)
    return Document(document_id(text), text, plain)


def validate(document: Document, catalogue: Catalogue) -> Document:
    return validate_document(document.submission_id, document.text, document.plain, catalogue)


def select(documents: Sequence[Document]) -> tuple[list[int], list[tuple[int, str]]]:
    """Return the places of the valid documents, in their order, and of the refused, with why."""
    refused: list[tuple[Document, SubmissionError]] = []
    ids = [document.submission_id for document in documents]
    valid = select_valid(documents, Catalogue(), validate, lambda *one: refused.append(one))
    found = [ids.index(document.submission_id) for document in valid]
    return found, [(ids.index(one.submission_id), str(error)) for one, error in refused]


def test_a_document_may_name_what_a_later_one_describes() -> None:
    assert select([build(1), build(2, "models", "gpus")]) == ([1, 0], [])


def test_what_only_a_waiting_document_describes_is_waited_for() -> None:
    gpu = build_document(3)
    gpu["observations"][0]["configuration"] |= {"model_id": "other"}
    gpu["models"][0]["model_id"] = "other"
    text = canonical_json(prepare_submission(gpu, Catalogue(), origin="").document)
    documents = [build(1), build(2, "models"), Document(document_id(text), text, gpu)]

    assert select(documents) == ([2, 1, 0], [])


def test_what_nothing_describes_is_refused_once_with_the_reason() -> None:
    found, refused = select([build(1), build(2), build(3, "models")])

    assert found == []
    assert [place for place, _ in refused] == [0, 1, 2]
    assert "tiny" in refused[0][1]
    assert "gpu-a" in refused[2][1]


def test_what_is_left_out_describes_nothing_and_is_not_refused() -> None:
    described, naming = build(1, "models", "gpus"), build(2)
    refused: list[Document] = []

    def leave_out(document: Document, catalogue: Catalogue) -> Document | None:
        valid = validate(document, catalogue)
        return None if document is described else valid

    found = select_valid(
        [described, naming], Catalogue(), leave_out, lambda one, _: refused.append(one)
    )
    assert list(found) == []
    assert refused == [naming]
