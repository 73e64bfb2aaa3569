"""What readers see: the folded tables plus what is pending, each submission once."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from registry.contract import TABLES, load_table, read_view, view_names
from registry.descriptions import collect_comments
from registry.query.model import Dataset, Relation, View
from registry.store.ids import IdFiles, id_bytes, id_files
from registry.store.journal import Journal, read_journal, unfolded_entries
from registry.store.manifest import Manifest, read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from registry.store.folder import Folder

DUCKDB_TYPES = {
    "string": "VARCHAR",
    "json": "VARCHAR",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
    "timestamp": "TIMESTAMPTZ",
    "list<string>": "VARCHAR[]",
}

#: Tables that `results` of pending observations is computed from, besides models and GPUs.
_RESULT_INPUTS = ("observations", "configurations", "environments", "measurements", "citations")

_RECITED = (("observation_id", "VARCHAR"), ("n", "BIGINT"))

Rows = dict[str, list[dict[str, Any]]]


def read_dataset(folder: Folder, at: int | None = None) -> tuple[Dataset, tuple[str, ...]]:
    """Return what a query may read, and what is wrong with the journal.

    The journal is read before the manifest: an entry that a fold takes in between is then in the
    manifest, so that nothing is missed; what both hold counts once. With ``at``, the folded state
    of that version alone. Raises StoreError.
    """
    folder.require()
    journal = read_journal(folder) if at is None else Journal((), ())
    manifest = read_manifest(folder, at)
    pending = _Pending(folder, manifest, journal) if journal.entries else None
    if pending is not None and not pending.entries:
        pending = None
    return _build_dataset(folder, manifest, pending), journal.problems


class _Pending:
    """The rows of the journal's entries that no part holds."""

    def __init__(self, folder: Folder, manifest: Manifest, journal: Journal) -> None:
        ids = id_files(folder, manifest)
        self.entries = unfolded_entries(journal.entries, ids)
        self.all: Rows = {}
        self.fresh: Rows = {}
        if self.entries:
            self._collect(ids)

    def _collect(self, ids: IdFiles) -> None:
        from registry.store.rows import collect_rows  # noqa: PLC0415 - only where something is pending

        self.all = collect_rows((e.submission_id, e.document, e.text) for e in self.entries)
        for table, rows in self.all.items():
            self.fresh[table] = list(_unfolded(table, rows, ids))

    def recited(self) -> list[dict[str, Any]]:
        """Return the numbers of new citations of folded observations."""
        new = {row["observation_id"] for row in self.fresh["observations"]}
        counts: dict[str, int] = {}
        for row in self.fresh["citations"]:
            if row["observation_id"] not in new:
                counts[row["observation_id"]] = counts.get(row["observation_id"], 0) + 1
        return [{"observation_id": key, "n": n} for key, n in sorted(counts.items())]


def _unfolded(table: str, rows: list[dict[str, Any]], ids: IdFiles) -> Iterable[dict[str, Any]]:
    if table in ("models", "gpus", "citations"):
        return rows
    owner = "observations" if table in ("measurements", "samples") else table
    key = load_table(owner).key[0]
    return (row for row in rows if not ids.contains(id_bytes(owner, row[key])))


def _build_dataset(folder: Folder, manifest: Manifest, pending: _Pending | None) -> Dataset:
    relations = [_relation(folder, manifest, table, pending) for table in TABLES]
    results = _result_relations(folder, manifest, pending)
    relations += results
    if pending is not None:
        relations += [
            Relation(
                f"pending_{table}",
                columns=_columns(table),
                json_rows=_json_rows(
                    pending.fresh[table] if table in _OF_OBSERVATIONS else pending.all[table]
                ),
            )
            for table in _RESULT_INPUTS
        ]
    views = [View("results", _results_sql({relation.name for relation in results}, pending))]
    views += [View(name, read_view(name)) for name in view_names() if name != "results"]
    return Dataset(
        tuple(relations), tuple(views), readable=(folder.tables,), comments=collect_comments
    )


_OF_OBSERVATIONS = ("observations", "measurements", "citations")


def _relation(folder: Folder, manifest: Manifest, table: str, pending: _Pending | None) -> Relation:
    files = _paths(folder, manifest.files(table))
    rows = pending.fresh[table] if pending else []
    if table in ("models", "gpus") and pending:
        rows = _unknown(folder, manifest, table, rows)
    if files and not rows:
        return Relation(table, files)
    return Relation(table, files, _columns(table), json_rows=_json_rows(rows) if rows else None)


def _unknown(
    folder: Folder, manifest: Manifest, table: str, rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    from registry.store.whole import read_catalogue  # noqa: PLC0415 - only where something is pending

    catalogue = read_catalogue(folder, manifest)
    known = catalogue.models if table == "models" else catalogue.gpus
    return [row for row in rows if row[load_table(table).key[0]] not in known]


def _result_relations(
    folder: Folder, manifest: Manifest, pending: _Pending | None
) -> list[Relation]:
    relations = []
    if files := _paths(folder, manifest.files("results")):
        relations.append(Relation("results_folded", files))
    recited = pending.recited() if pending else []
    files = _paths(folder, manifest.files("recited"))
    if files or recited:
        relations.append(
            Relation("recited", files, _RECITED, json_rows=_json_rows(recited) or None)
        )
    return relations


def _results_sql(relations: set[str], pending: _Pending | None) -> str:
    """Return the SQL of `results`: the folded rows as they were computed, the others on the fly.

    ``relations`` are the names of those that `_result_relations` gives.
    """
    parts = []
    if "results_folded" in relations:
        parts.append(_folded_sql(recited="recited" in relations))
    if pending is not None:
        shadowed = ", ".join(f"{name} as (from pending_{name})" for name in _RESULT_INPUTS)
        parts.append(f"from (with {shadowed} from ({read_view('results')}))")
    return "\nunion all by name ".join(parts) or read_view("results")


def _folded_sql(*, recited: bool) -> str:
    if not recited:
        return "from results_folded"
    return (
        "select r.* replace (r.n_citations + coalesce(x.n, 0) as n_citations) "
        "from results_folded as r left join "
        "(select observation_id, sum(n)::bigint as n from recited group by all) as x "
        "using (observation_id)"
    )


def _paths(folder: Folder, names: Iterable[str]) -> tuple[Path, ...]:
    return tuple(folder.tables / name for name in names)


def _columns(table: str) -> tuple[tuple[str, str], ...]:
    return tuple((column.name, DUCKDB_TYPES[column.type]) for column in load_table(table).columns)


def _json_rows(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps(rows, default=_format_timestamp).encode() if rows else b""


def _format_timestamp(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"unexpected value of type {type(value).__name__}")
