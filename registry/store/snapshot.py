"""What a registry holds at one moment: curated records, folded parts, and what is pending."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from registry.store.catalogue_files import with_parts
from registry.store.curated import Curated, read_curated
from registry.store.derive_tables import derive_tables, read_erasures, with_described
from registry.store.ids import ERASED, KnownIds
from registry.store.journal import Journal, RawJournal, entry_name, read_entries, validate_entries
from registry.store.legacy import read_legacy, without_curated
from registry.store.manifest import Manifest
from registry.store.renamed import read_renamed
from registry.store.state import State, read_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from registry.catalogue import Catalogue
    from registry.store.derive_tables import Document
    from registry.store.folder import Location
    from registry.store.parts import Part


@dataclass(frozen=True)
class Snapshot:
    """The layers of a registry, read in an order in which nothing can be missed."""

    #: Models and GPUs, the pending ones included.
    catalogue: Catalogue
    #: Hash of the curated models and GPUs that parts were computed with.
    catalogue_hash: str
    #: Where the curated models and GPUs are; None where they are derived from changed sources.
    catalogue_part: Part | None
    #: None where the curated records are left out.
    curated: Curated | None
    state: State
    journal: Journal
    #: Documents of a registry that an earlier release wrote.
    legacy: tuple[Document, ...]
    location: Location

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts of both layers."""
        built = self.curated.part if self.curated else None
        return (*([built] if built else ()), *self.state.parts)

    @cached_property
    def known(self) -> KnownIds:
        """The ids of the rows of all parts."""
        return KnownIds([part.ids for part in self.parts])

    @cached_property
    def renamed(self) -> dict[str, str]:
        """The ids that changed, with those of today. Raises StoreError where they are damaged."""
        return read_renamed(self.location)

    @cached_property
    def pending(self) -> list[Document]:
        """The documents whose rows may be in no part."""
        curated = self.curated.pending if self.curated else ()
        documents = [*curated, *self.legacy, *self.journal.entries]
        known = self.known
        return [
            document for document in documents if not known.contains("submissions", document.key)
        ]


def read_snapshot(location: Location, at: int | None = None) -> Snapshot:
    """Return all there is to read; with ``at``, the folded state of that version alone.

    The copy of a registry on object storage is brought up to date first. The journal is read before
    the manifest: an entry that a fold takes in between is then in the manifest, so that nothing is
    missed; what both hold counts once. Raises StoreError.
    """
    location.require()
    own = location.own
    own.pull(history=at is not None)
    raw = read_entries(own) if at is None else RawJournal({})
    curated = read_curated(location.catalogue_folder)
    state = State(Manifest()) if own.is_curated else read_state(own, at)
    legacy: tuple[Document, ...] = ()
    if state.is_legacy:
        legacy = tuple(without_curated(curated, read_legacy(own, state.manifest.version)))
    catalogue = with_described(with_parts(curated.catalogue, own, state.parts), legacy)
    journal = validate_entries(raw, state.known)
    catalogue = with_described(catalogue, journal.entries)
    return Snapshot(
        catalogue,
        curated.catalogue_hash,
        curated.part,
        curated if location.shows_curated else None,
        state,
        journal,
        legacy,
        location,
    )


def describe_erasures(snapshot: Snapshot) -> Iterator[str]:
    """Yield a hint on each pending entry that erases: it may come from elsewhere, as by a merge."""
    known = snapshot.known
    for entry in snapshot.journal.entries:
        erasures = read_erasures([entry]).items()
        pending = [pair for pair in erasures if not known.contains(ERASED, bytes.fromhex(pair[0]))]
        if pending:
            identity, reason = pending[0]
            noun = "1 erasure is" if len(pending) == 1 else f"{len(pending)} erasures are"
            others = f", and {len(pending) - 1} more" if len(pending) > 1 else ""
            yield (
                f"{entry_name(entry.submission_id)}: {noun} pending: {identity} ({reason})"
                f"{others}; `registry fold` removes the content for good; to keep it, move the "
                "file out of the registry"
            )


def ids_of(parts: Iterable[Part]) -> frozenset[str]:
    """Return the ids of the observations of some parts."""
    return frozenset(
        key.hex() for key in KnownIds([part.ids for part in parts]).keys("observations")
    )


def curated_ids(snapshot: Snapshot) -> frozenset[str]:
    """Return the observations of the curated records, in the tables or pending."""
    curated = snapshot.curated
    if curated is None:
        return frozenset()
    pending = derive_tables(curated.pending)["observations"]
    found = ids_of([curated.part] if curated.part else [])
    return found | {row["observation_id"] for row in pending}


def load_catalogue(location: Location) -> Catalogue:
    """Return the models and GPUs that a registry knows."""
    return read_snapshot(location).catalogue
