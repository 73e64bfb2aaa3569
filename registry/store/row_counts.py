"""How many rows the tables of a registry hold, each counted once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from registry.store.derive_tables import derive_tables, select_new
from registry.store.ids import IDENTIFIED, KnownIds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.store.derive_tables import Document
    from registry.store.snapshot import Snapshot


def count_rows(snapshot: Snapshot, documents: Sequence[Document]) -> dict[str, int]:
    """Return how many rows each table holds with those that documents add, and how many entries."""
    names = sorted({name for part in snapshot.parts for name in part.files})
    tables = [name.removesuffix(".parquet") for name in names if name.endswith(".parquet")]
    counts = {
        table: sum(part.rows(table) for part in snapshot.parts) - _count_shared(snapshot, table)
        for table in tables
        if table not in ("results", "later_citations")
    }
    if documents:
        derived = select_new(derive_tables(documents, snapshot.known), snapshot.known)
        named = {table: len(rows) for table, rows in derived.items() if rows and table != "results"}
        counts = dict(sorted((Counter(counts) + Counter(named)).items()))
    return {**counts, "journal": len(snapshot.journal.entries)}


def _count_shared(snapshot: Snapshot, table: str) -> int:
    """Return how many rows of the curated records a registry's own parts hold as well."""
    built = snapshot.curated.part if snapshot.curated else None
    if built is None or table not in IDENTIFIED:
        return 0
    return len(snapshot.state.known.shared_with(KnownIds([built.ids]), table))
