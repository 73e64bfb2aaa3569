"""Choose the observations of one's own registry that go out, and the documents that hold them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from registry.errors import StoreError, did_you_mean
from registry.store.derive_tables import content_keys, derive_tables, without_observations
from registry.store.documents import read_all_documents
from registry.store.renamed import with_ids_of_today
from registry.store.snapshot import curated_ids, read_snapshot
from registry.submission.identity import canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from registry.store.derive_tables import Document
    from registry.store.folder import Location
    from registry.store.snapshot import Snapshot

Row = dict[str, Any]

#: What a source states of where it comes from, as it is told.
_PROVENANCE = ("kind", "publisher", "licence", "url")

PUBLISHED_WAY_OUT = (
    "expected your own measurements; a published document becomes a source of its own in a clone "
    "of the curated records: `registry source new DOC`; if you measured it yourself, submit it "
    "again with `kind: person` and no publisher but you under `source`"
)


@dataclass(frozen=True)
class ChosenRecords:
    """Documents that hold the chosen observations and no others."""

    documents: tuple[Document, ...]
    observation_ids: tuple[str, ...]
    #: Chosen observations that the curated records hold already.
    n_curated: int = 0
    #: Sources that others published, and how many of the chosen observations are theirs.
    published: tuple[tuple[str, int], ...] = ()

    @property
    def source_ids(self) -> tuple[str, ...]:
        """The sources of the observations."""
        return tuple(sorted({source["source_id"] for source in self.sources}))

    @property
    def sources(self) -> tuple[Row, ...]:
        """What each document states of its source, alike ones once."""
        sources = (document.plain["source"] for document in self.documents)
        stated = {canonical_json(source): source for source in sources}
        return tuple(stated[text] for text in sorted(stated))


@dataclass(frozen=True)
class OwnRecords:
    """What a user added and did not withdraw: documents of their own, and all observations."""

    documents: tuple[Document, ...]
    observations: tuple[Row, ...]
    curated: frozenset[str]
    #: What others published, by observation: its source, and what says so.
    published: Mapping[str, str] = field(default_factory=dict)

    @property
    def observation_ids(self) -> frozenset[str]:
        """The ids of the observations."""
        return frozenset(row["observation_id"] for row in self.observations)

    def choose_ids(self, prefixes: Iterable[str]) -> ChosenRecords:
        """Return the observations whose ids begin so. Raises StoreError unless each names one."""
        return self._select({self._find(prefix) for prefix in prefixes})

    def _find(self, prefix: str) -> str:
        known = self.observation_ids | self.curated
        found = [one for one in known if one.startswith(prefix.lower())]
        if len(found) != 1:
            raise StoreError(
                f"{prefix}: {len(found)} observation ids of your own begin like this; expected "
                "one; list them with `registry ls --no-curated`"
            )
        return found[0]

    def choose_source(self, source_id: str) -> ChosenRecords:
        """Return all observations of a source: the trials of a plan. Raises StoreError for none."""
        known = {row["source_id"] for row in self.observations}
        if source_id not in known:
            listed = ", ".join(sorted(known)) or "nothing, as this registry has no observations"
            raise StoreError(
                f"{source_id}: found no observations of your own from this plan or source"
                f"{did_you_mean(source_id, known)}; expected one of {listed}; run the plan first "
                "with `registry run`"
            )
        return self._select(self._ids(lambda row: row["source_id"] == source_id))

    def choose_last(self) -> ChosenRecords:
        """Return the observation that was measured last. Raises StoreError where there is none."""
        own = (row for row in self.observations if row["observation_id"] not in self.published)
        dated = [row for row in own if row.get("observed_at")]
        if not dated:
            raise StoreError(
                "found no dated observation of your own; expected one that was measured here; "
                "measure with `registry run`, or name ids"
            )
        last = max(dated, key=lambda row: row["observed_at"])
        return self._select({last["observation_id"]})

    def _ids(self, wanted: Callable[[Row], bool]) -> set[str]:
        return {row["observation_id"] for row in self.observations if wanted(row)}

    def _select(self, chosen: Collection[str]) -> ChosenRecords:
        """Return what of the chosen is the user's own and new. Raises StoreError for nothing."""
        left = set(chosen) - self.curated
        published = Counter(self.published[one] for one in left & self.published.keys())
        new = left - self.published.keys()
        if left and not new:
            raise StoreError(
                f"found what others published: {'; '.join(sorted(published))}; {PUBLISHED_WAY_OUT}"
            )
        if not new:
            raise StoreError(
                f"the curated records hold all {len(chosen)} of these observations already; "
                "there is nothing to share"
            )
        others = self.observation_ids | self.curated
        kept = without_observations(self.documents, others - new, set())
        documents = tuple(one for one in kept if one.plain.get("observations"))
        ids = tuple(row["observation_id"] for row in derive_tables(documents)["observations"])
        return ChosenRecords(
            documents, ids, len(chosen) - len(left), tuple(sorted(published.items()))
        )


def read_own(location: Location, giver: str) -> OwnRecords:
    """Return what the user's own registry holds. Raises StoreError.

    ``giver`` is the name of who shares: what states another publisher is not theirs to give.
    """
    snapshot = read_snapshot(location)
    documents = _own_documents(snapshot)
    rows = derive_tables(documents)
    withdrawn = {row["observation_id"] for row in rows["retractions"]}
    retracted = with_ids_of_today(withdrawn, snapshot.renamed)
    observations = [r for r in rows["observations"] if r["observation_id"] not in retracted]
    without = list(without_observations(documents, retracted, set()))
    said = [_find_publisher(document.plain.get("source", {}), giver) for document in without]
    own = tuple(one for one, text in zip(without, said, strict=True) if not text)
    others = zip(without, said, strict=True)
    published = {one: text for document, text in others if text for one in _ids_of(document)}
    for document in own:  # handed in again as their own
        for one in _ids_of(document):
            published.pop(one, None)
    curated = curated_ids(snapshot)
    shared = {old for old, new in snapshot.renamed.items() if new in curated}  # corrected there
    return OwnRecords(own, tuple(observations), curated | shared, published)


def _ids_of(document: Document) -> Iterator[str]:
    """Yield the ids of a document's observations."""
    for table, key in content_keys(document):
        if table == "observations":
            yield key.hex()


def _find_publisher(source: Mapping[str, Any], giver: str) -> str:
    """Return the source and what says that others published it; nothing where nothing does."""
    publisher = source.get("publisher", giver)
    if source.get("kind") != "document" and publisher.casefold() == giver.casefold():
        return ""
    return format_source(source)


def format_source(source: Mapping[str, Any]) -> str:
    """Return a source's id and what it states of where it comes from."""
    stated = [f"{name} {source[name]}" for name in _PROVENANCE if source.get(name)]
    return f"{source['source_id']} ({', '.join(stated)})"


def _own_documents(snapshot: Snapshot) -> Sequence[Document]:
    """Return each of the user's documents once."""
    listed = [
        *read_all_documents(snapshot.state.parts),
        *snapshot.legacy,
        *snapshot.journal.entries,
    ]
    return list({one.submission_id: one for one in listed}.values())
