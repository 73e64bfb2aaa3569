"""What a query sees: the layers of a registry as relations and views, each row once."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from registry.contract import TABLES, load_table, read_view, view_names
from registry.contract.descriptions import collect_column_metadata, collect_comments, view_columns
from registry.contract.fingerprint import is_current
from registry.query.model import Dataset, Digest, Relation, View
from registry.store.derive_tables import (
    CATALOGUE_TABLES,
    FRESH_INPUTS,
    SHARED_INPUTS,
    Rows,
    count_later_citations,
    derive_tables,
    select_new,
)
from registry.store.ids import ID_BYTES, KnownIds, row_key
from registry.store.parts import CATALOGUE
from registry.store.snapshot import Snapshot, read_snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from registry.store.folder import Location
    from registry.store.parts import Part

DUCKDB_TYPES = {
    "string": "VARCHAR",
    "json": "VARCHAR",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
    "timestamp": "TIMESTAMPTZ",
    "list<string>": "VARCHAR[]",
}

#: Tables whose rows belong to an observation: they are hidden with it.
_OF_OBSERVATIONS = ("observations", "measurements", "citations", "samples", "results")

_LATER_CITATIONS = (("observation_id", "VARCHAR"), ("n", "BIGINT"))


def read_dataset(location: Location, at: int | None = None) -> tuple[Dataset, tuple[str, ...]]:
    """Return what a query may read, and what is wrong with sources and the journal.

    With ``at``, the folded state of that version alone. Raises StoreError.
    """
    snapshot = read_snapshot(location, at)
    return build_dataset(snapshot), list_problems(snapshot)


def list_problems(snapshot: Snapshot) -> tuple[str, ...]:
    """Return what is wrong with sources and the journal."""
    curated = snapshot.curated.problems if snapshot.curated else ()
    return (*curated, *snapshot.journal.problems)


def build_dataset(snapshot: Snapshot) -> Dataset:
    """Return the relations and views over all layers of a registry."""
    build = _Build(snapshot)
    for table in TABLES:
        build.add_table(table)
    build.add_results()
    views = [View(name, read_view(name)) for name in view_names() if name != "results"]
    parts = (*snapshot.parts, *([snapshot.catalogue_part] if snapshot.catalogue_part else ()))
    folders = tuple(dict.fromkeys(part.path for part in parts))
    return Dataset(
        tuple(build.relations),
        (*build.views, *views),
        folders,
        comments=collect_comments,
        column_metadata=collect_column_metadata,
    )


class _Build:
    """The relations and views as they are collected."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.relations: list[Relation] = []
        self.views: list[View] = []
        curated = snapshot.curated.part if snapshot.curated else None
        self._curated = (curated,) if curated else ()
        self._own = snapshot.state.parts
        self._all: Rows = {}
        self._fresh: Rows = {}
        if documents := snapshot.pending:
            self._all = derive_tables(documents, snapshot.known)
            self._fresh = select_new(self._all, snapshot.known)
            self._leave_out_known_descriptions()
        self._add_new_entries()
        self._outdated = self._find_outdated()
        self._leave_out_outdated()
        #: Whether the user's own layer withdraws something. What the curated records withdraw has
        #: the ids that they have today.
        self._own_retracts = bool(
            sum(part.rows("retractions") for part in self._own) or self._fresh.get("retractions")
        )

    def _find_outdated(self) -> frozenset[str]:
        """Return ids of before of observations that are there under their id of today too.

        One that was shared keeps its old id in the user's own registry when the curated records
        are corrected.
        """
        pending = {row["observation_id"] for row in self._all.get("observations", ())}
        if not self._own and not pending:
            return frozenset()
        renamed = {old: new for old, new in self.snapshot.renamed.items() if new != old}
        held = _select_held(KnownIds([part.ids for part in self._own]), renamed)
        old_ids = held | (pending & renamed.keys())
        today = _select_held(self.snapshot.known, {renamed[old] for old in old_ids}) | pending
        return frozenset(old for old in old_ids if renamed[old] in today)

    def _leave_out_outdated(self) -> None:
        for table in _OF_OBSERVATIONS if self._outdated else ():
            rows = self._fresh.get(table, [])
            self._fresh[table] = [r for r in rows if r["observation_id"] not in self._outdated]

    def _leave_out_known_descriptions(self) -> None:
        """Leave out pending models and GPUs that the curated catalogue has."""
        part = self.snapshot.catalogue_part
        known = KnownIds([part.ids] if part else [])
        for table in CATALOGUE_TABLES:
            rows = self._fresh[table]
            self._fresh[table] = [r for r in rows if not known.contains(table, row_key(table, r))]

    def _add_new_entries(self) -> None:
        """Add models and GPUs that the catalogue has got since its tables were built."""
        curated = self.snapshot.curated
        if not curated or not curated.part or CATALOGUE not in curated.pending_sources:
            return
        known = KnownIds([part.ids for part in (curated.part, *self._own)])
        for table in CATALOGUE_TABLES:
            fresh = {row_key(table, row): row for row in self._fresh.get(table, ())}
            now = {row_key(table, row): row for row in curated.catalogue.rows(table)}
            new = {key: row for key, row in now.items() if not known.contains(table, key)}
            self._fresh[table] = [*(fresh | new).values()]

    def add_table(self, table: str) -> None:
        """Add one table: the files of both layers and the pending rows.

        The user's own rows that the curated records hold too are hidden.
        """
        if table == "retractions" and self._own_retracts and self.snapshot.renamed:
            self._add_retractions()
            return
        condition = self._hidden(table)
        curated, rows = self._layer_below(table), self._fresh.get(table, [])
        if table in CATALOGUE_TABLES and not curated:
            self._add(table, table, (), self.snapshot.catalogue.rows(table))
            return
        if not condition:
            self._add(table, table, (*curated, *self._own), rows)
            return
        self._add(f"curated_{table}", table, curated, [])
        self._add(f"own_{table}", table, self._own, rows, where=condition)
        self.views.append(View(table, _union(_all_of(f"curated_{table}"), _all_of(f"own_{table}"))))

    def _add_retractions(self) -> None:
        """Add the retractions, each also with the id that its observation has today."""
        pairs = [{"old_id": old, "new_id": new} for old, new in self.snapshot.renamed.items()]
        columns = (("old_id", "VARCHAR"), ("new_id", "VARCHAR"))
        self.relations.append(
            Relation("pending_renamed", columns=columns, json_rows=_json_rows(pairs))
        )
        self._add("curated_retractions", "retractions", self._curated, [])
        self._add("own_retractions", "retractions", self._own, self._fresh.get("retractions", []))
        self.views.append(View("retractions", _FOLLOWED.format(columns=_followed_columns())))

    def _layer_below(self, table: str) -> tuple[Part, ...]:
        """Return the curated part; models and GPUs are read even where its rows are left out."""
        part = self.snapshot.catalogue_part
        return (part,) if table in CATALOGUE_TABLES and part else self._curated

    def _hidden(self, table: str) -> str:
        """Return the condition for the user's own rows that the curated records lack."""
        counted = "observations" if table in _OF_OBSERVATIONS else table
        below = self._layer_below(table)
        ours, theirs = (KnownIds([part.ids for part in parts]) for parts in (self._own, below))
        shared = ours.shared_with(theirs, counted) if self._own and below else []
        outdated = self._outdated if counted == "observations" else ()
        if not shared and not outdated:
            return ""
        key = load_table(counted).key[0]
        if counted in (*CATALOGUE_TABLES, "sources"):
            return f"{key} not in (select {key} from curated_{table})"  # noqa: S608 - our own names
        hidden = (*(identity.hex() for identity in shared), *sorted(outdated))
        known = ", ".join(f"'{identity}'" for identity in hidden)
        return f"left({key}, {2 * ID_BYTES}) not in ({known})"

    def _add(
        self,
        name: str,
        table: str,
        parts: Iterable[Part],
        rows: list[dict[str, Any]],
        *,
        where: str = "",
    ) -> None:
        parts = tuple(parts)
        files, digests = _files(parts, table)
        evolved = table in TABLES and not all(is_current(part.contract) for part in parts)
        needs_columns = table in TABLES and (evolved or rows or not files)
        self.relations.append(
            Relation(
                name,
                files,
                _columns(table) if needs_columns else (),
                json_rows=_json_rows(rows) if rows else None,
                evolved=evolved,
                where=where,
                digests=digests,
            )
        )

    def add_results(self) -> None:
        """Add `results`: rows as they were computed with the parts, pending ones on the fly.

        All are computed where a part was written under another contract or with other models.
        """
        snapshot = self.snapshot
        parts = [part for part in snapshot.parts if part.rows("observations")]
        if all(part.is_current(snapshot.catalogue_hash) for part in parts):
            sql = _union(*self._stored_results(parts), *self._pending_results())
        else:
            sql = read_view("results")
        self.views.append(View("results", sql or read_view("results")))

    def _stored_results(self, parts: list[Part]) -> list[str]:
        """Return the SQL of the rows that are stored with the parts."""
        queries = []
        for name, some in (("curated_results", self._curated), ("own_results", self._own)):
            files = [part for part in parts if part in some]
            if files:
                where = self._hidden("results") if some is self._own else ""
                self._add(name, "results", files, [], where=where)
                queries.append(_all_of(name))
        if queries and self._add_later_citations():
            columns = ", ".join(map(_recounted, view_columns("results")))
            queries = [_RECOUNTED.format(columns=columns, source=query) for query in queries]
        is_curated = any(part.rows("retractions") for part in self._curated)
        if self._own_retracts or is_curated:
            queries = [_STANDING.format(source=query) for query in queries]
        return queries

    def _add_later_citations(self) -> bool:
        """Add citations from later parts or pending documents; return whether there are any."""
        rows = count_later_citations(self._fresh) if self._fresh else []
        files, digests = _files(self.snapshot.parts, "later_citations")
        if rows or files:
            pending = _json_rows(rows) if rows else None
            relation = Relation(
                "later_citations", files, _LATER_CITATIONS, json_rows=pending, digests=digests
            )
            self.relations.append(relation)
        return bool(rows or files)

    def _pending_results(self) -> list[str]:
        """Return the SQL of the rows that are computed from pending documents."""
        if not self._fresh.get("observations"):
            return []
        for table in (*FRESH_INPUTS, *SHARED_INPUTS):
            rows = self._fresh[table] if table in FRESH_INPUTS else self._all[table]
            relation = Relation(
                f"pending_{table}", columns=_columns(table), json_rows=_json_rows(rows) or None
            )
            self.relations.append(relation)
        shadowed = ", ".join(
            f"{name} as ({_all_of(f'pending_{name}')})" for name in (*FRESH_INPUTS, *SHARED_INPUTS)
        )
        return [_PENDING.format(shadowed=shadowed, view=read_view("results"))]


# Like the views in schemas/, these run as they are on every engine that reads the tables.
_RECOUNTED = (
    "select {columns} from ({source}) as r "
    "left join (select observation_id, cast(sum(n) as bigint) as n from later_citations "
    "group by observation_id) as x on r.observation_id = x.observation_id"
)

_STANDING = (
    "select r.* from ({source}) as r where not exists "
    "(select 1 from retractions as x where x.observation_id = r.observation_id)"
)


# each id once, though an export has brought the row with the id of today
_FOLLOWED = (
    "with stated as (select * from curated_retractions union all select * from own_retractions) "
    "select * from stated union select {columns} "
    "from stated as r inner join pending_renamed as n on r.observation_id = n.old_id"
)

_PENDING = "select * from (with {shadowed} select * from ({view}) as computed) as pending"


def _select_held(known: KnownIds, wanted: Collection[str]) -> set[str]:
    """Return which ids of observations some parts hold; what is none of theirs is no id."""
    keys = {bytes.fromhex(one) for one in wanted if _is_id(one)}
    return {key.hex() for key in known.select("observations", keys)}


_DIGITS = frozenset("0123456789abcdef")


def _is_id(text: str) -> bool:
    return len(text) == 2 * ID_BYTES and _DIGITS.issuperset(text)


def _followed_columns() -> str:
    names = load_table("retractions").names
    return ", ".join("n.new_id" if name == "observation_id" else f"r.{name}" for name in names)


def _all_of(relation: str) -> str:
    return f"select * from {relation}"  # noqa: S608 - our own names


def _recounted(column: str) -> str:
    return (
        "r.n_citations + coalesce(x.n, 0) as n_citations"
        if column == "n_citations"
        else f"r.{column}"
    )


def _union(*queries: str) -> str:
    """Return the SQL of all rows; the queries have the same columns, in the contract's order."""
    return "\nunion all ".join(queries)


def _files(parts: Iterable[Part], table: str) -> tuple[tuple[Path, ...], tuple[Digest, ...]]:
    """Return the files that parts have of a table, and what each must hold."""
    found = [
        (path, Digest(file.size, file.sha256, part.way_out))
        for part in parts
        if (path := part.file(table)) and (file := part.files[path.name])
    ]
    return tuple(path for path, _ in found), tuple(digest for _, digest in found)


def _columns(table: str) -> tuple[tuple[str, str], ...]:
    return tuple((column.name, DUCKDB_TYPES[column.type]) for column in load_table(table).columns)


def _json_rows(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps(rows, default=_format_timestamp).encode() if rows else b""


def _format_timestamp(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"unexpected value of type {type(value).__name__}")
