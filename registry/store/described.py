"""What a registry's own documents call and say of models and cards, beside the catalogue of today.

A later release may describe a card that a user had described, or give a model another id. What was
recorded stays as it was stated; answers use the catalogue's figures.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

from registry.store.derive_tables import CATALOGUE_TABLES
from registry.store.documents import read_all_documents
from registry.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from registry.catalogue import Catalogue
    from registry.store.derive_tables import Document
    from registry.store.snapshot import Snapshot

#: Most differences that are named.
_MOST: Final = 10


def describe_apart(snapshot: Snapshot) -> Iterator[str]:
    """Yield where documents describe or name a model or card otherwise than the catalogue.

    Raises StoreError where a document cannot be read.
    """
    documents = [*read_all_documents(snapshot.state.parts), *snapshot.journal.entries]
    found = dict.fromkeys(_find_apart(documents, snapshot.catalogue))
    yield from islice(found, _MOST)
    if len(found) > _MOST:
        yield f"and {format_count(len(found) - _MOST, 'more such difference')}"


def _find_apart(documents: Iterable[Document], catalogue: Catalogue) -> Iterator[str]:
    named: Counter[tuple[str, str]] = Counter()
    for document in documents:
        for table in CATALOGUE_TABLES:
            key, known = catalogue.by_id(table)
            for row in document.plain.get(table, ()):
                for identity, name, own, value in catalogue.differences(table, row):
                    yield (
                        f"{table.removesuffix('s')} {identity!r}: {name} is {own!r} in the "
                        f"catalogue and {value!r} in one of your documents; answers use the "
                        "catalogue's"
                    )
            stated = (
                one["configuration"].get(key) for one in document.plain.get("observations", ())
            )
            named.update((table, name) for name in stated if name is not None and name not in known)
    for (table, name), count in named.items():
        yield _format_unknown(table, name, count, catalogue)


def _format_unknown(table: str, name: str, count: int, catalogue: Catalogue) -> str:
    resolve = catalogue.resolve_model if table == "models" else catalogue.resolve_gpu
    today = resolve(name)
    now = f"is {today!r} in the catalogue now" if today else "is not in the catalogue"
    kept = f"{format_count(count, 'observation')} of yours"
    stay = "stays" if count == 1 else "stay"
    return (
        f"{table.removesuffix('s')} {name!r} {now}: {kept} {stay} under that name, without its "
        "figures"
    )
