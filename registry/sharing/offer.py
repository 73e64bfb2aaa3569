"""The files of a contribution: documents as text, under the sources of the curated records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from registry.store.curated_fold import source_name
from registry.store.derive_tables import Document
from registry.submission.identity import canonical_json, document_id

if TYPE_CHECKING:
    from registry.sharing.patch import Author
    from registry.sharing.selection import Selection

#: The licence of what is contributed, as LICENSE-DATA says.
LICENCE = "CC-BY-4.0"


def offer_documents(chosen: Selection, author: Author) -> list[Document]:
    """Return the documents as they go out: who publishes them, and under which licence."""
    return [_published(document.plain, author.name) for document in chosen.documents]


def _published(plain: Any, publisher: str) -> Document:
    source = {"licence": LICENCE, "publisher": publisher, **plain["source"]}
    text = canonical_json({**plain, "source": source})
    return Document(document_id(text), text, json.loads(text))


def format_files(documents: list[Document]) -> dict[str, bytes]:
    """Return the content of each file by its path in the repository."""
    return {f"records/{source_name(document)}": _format(document.plain) for document in documents}


def _format(plain: Any) -> bytes:
    """Return a document as a reviewer reads it: a line for each value."""
    return f"{json.dumps(plain, indent=1, ensure_ascii=False, sort_keys=True)}\n".encode()
