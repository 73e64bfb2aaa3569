"""Choose the observations of one's own registry that go out, and the documents that hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import StoreError, did_you_mean
from registry.store.derive_tables import derive_tables, without_observations
from registry.store.documents import read_documents
from registry.store.snapshot import curated_ids, read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from registry.store.derive_tables import Document
    from registry.store.folder import Location
    from registry.store.snapshot import Snapshot

Row = dict[str, Any]


@dataclass(frozen=True)
class Selection:
    """Documents that hold the chosen observations and no others."""

    documents: tuple[Document, ...]
    observation_ids: tuple[str, ...]
    #: Chosen observations that the curated records hold already.
    n_curated: int = 0

    @property
    def source_ids(self) -> tuple[str, ...]:
        """The sources of the observations."""
        return tuple(sorted({one.plain["source"]["source_id"] for one in self.documents}))


@dataclass(frozen=True)
class OwnRecords:
    """What a user added and did not withdraw: documents, and their observations."""

    documents: tuple[Document, ...]
    observations: tuple[Row, ...]
    curated: frozenset[str]

    @property
    def observation_ids(self) -> frozenset[str]:
        """The ids of the observations."""
        return frozenset(row["observation_id"] for row in self.observations)

    def choose_ids(self, prefixes: Iterable[str]) -> Selection:
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

    def choose_source(self, source_id: str) -> Selection:
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

    def choose_last(self) -> Selection:
        """Return the observation that was measured last. Raises StoreError where there is none."""
        dated = [row for row in self.observations if row.get("observed_at")]
        if not dated:
            raise StoreError(
                "found no dated observation of your own; expected one that was measured here; "
                "measure with `registry run`, or name ids"
            )
        last = max(dated, key=lambda row: row["observed_at"])
        return self._select({last["observation_id"]})

    def _ids(self, wanted: Callable[[Row], bool]) -> set[str]:
        return {row["observation_id"] for row in self.observations if wanted(row)}

    def _select(self, chosen: Collection[str]) -> Selection:
        """Return what of the chosen the curated records lack. Raises StoreError for nothing."""
        new = set(chosen) - self.curated
        if not new:
            raise StoreError(
                f"the curated records hold all {len(chosen)} of these observations already; "
                "there is nothing to share"
            )
        others = self.observation_ids | self.curated
        kept = without_observations(self.documents, others - new, set())
        documents = tuple(one for one in kept if one.plain.get("observations"))
        ids = tuple(row["observation_id"] for row in derive_tables(documents)["observations"])
        return Selection(documents, ids, len(chosen) - len(new))


def read_own(location: Location) -> OwnRecords:
    """Return what the user's own registry holds. Raises StoreError."""
    snapshot = read_snapshot(location)
    documents = _own_documents(snapshot)
    rows = derive_tables(documents)
    retracted = {row["observation_id"] for row in rows["retractions"]}
    observations = [r for r in rows["observations"] if r["observation_id"] not in retracted]
    without = without_observations(documents, retracted, set())
    return OwnRecords(tuple(without), tuple(observations), curated_ids(snapshot))


def _own_documents(snapshot: Snapshot) -> Sequence[Document]:
    """Return each of the user's documents once."""
    folded = (one for part in snapshot.state.parts for one in read_documents(part))
    listed = [*folded, *snapshot.legacy, *snapshot.journal.entries]
    return list({one.submission_id: one for one in listed}.values())
