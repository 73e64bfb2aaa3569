"""Whether recorded documents are valid, as when they were added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.errors import StoreError, SubmissionError
from registry.store.derive_tables import Document, derive_tables, with_described
from registry.submission.identity import canonical_json
from registry.submission.spec import keep_known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from registry.catalogue import Catalogue


def validate_document(
    submission_id: str,
    text: str,
    document: object,
    catalogue: Catalogue | None = None,
) -> Document:
    """Return a document as it is derived from; raise SubmissionError where it is not valid.

    What a registry recorded itself is held against no catalogue: it stays, whatever a later one
    calls a model or says of a card.

    A valid one in another form than it is recorded in is refused as well: what follows from its
    text would differ from what follows from its form.
    """
    from registry.submission.prepare import prepare_submission  # noqa: PLC0415 - loads pydantic-core, which a query with nothing pending does not need

    ready = prepare_submission(document, catalogue, origin="", is_new=False)
    if ready.text != text:
        stated = Document(submission_id, text, document)  # type: ignore[arg-type] # it is valid
        recorded = Document(submission_id, text, ready.document)
        try:
            is_alike = derive_tables([stated]) == derive_tables([recorded])
        except StoreError:
            is_alike = False
        if not is_alike:
            raise SubmissionError("it is not in the form in which `registry add` records it")
    return Document(submission_id, text, ready.document)


def validate_stored(document: Document, _catalogue: Catalogue) -> Document:
    """Return a document that is valid, but for columns that another contract had: as stored."""
    identity, text = document.submission_id, document.text
    try:
        return validate_document(identity, text, document.plain)
    except SubmissionError:
        known = keep_known(document.plain)
        if known == document.plain:
            raise
        validate_document(identity, canonical_json(known), known)
        return document


def select_valid(
    documents: Iterable[Document],
    catalogue: Catalogue,
    validate: Callable[[Document, Catalogue], Document | None],
    refuse: Callable[[Document, SubmissionError], None],
) -> Iterator[Document]:
    """Yield the documents that are valid, in their order; ``refuse`` gets each of the others.

    One may name a model that another describes: what fails is tried again at the end, and as long
    as that makes others valid. ``catalogue`` holds what is known otherwise. ``validate`` raises
    SubmissionError where a document is not valid, and returns None where it is to be left out.
    """
    waiting: Iterable[Document] = documents
    while True:
        failed: list[tuple[Document, SubmissionError]] = []
        n_valid = 0
        for document in waiting:
            try:
                valid = validate(document, catalogue)
            except SubmissionError as error:
                failed.append((document, error))
                continue
            n_valid += 1
            if valid:
                catalogue = with_described(catalogue, [valid])
                yield valid
        if not n_valid:
            break
        waiting = [document for document, _ in failed]
    for document, reason in failed:
        refuse(document, reason)
