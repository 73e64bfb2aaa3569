"""From rows back to documents: the inverse of ``derive_tables``, for rows that came without one."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from registry.contract import TABLES, load_table
from registry.store.derive_tables import Document
from registry.submission.identity import canonical_json, document_id
from registry.submission.spec import PartSpec, part_spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from registry.store.derive_tables import Row

#: Most observations that are put into one document.
_MOST_OBSERVATIONS = 1000

#: Tables of what a document describes, and what an entry of it is called.
_DESCRIBED = {"models": "Model", "gpus": "Gpu"}


def compose_documents(tables: Mapping[str, Iterable[Row]]) -> Iterator[Document]:
    """Yield documents from which the rows of these tables follow; some for each source."""
    yield from map(_as_document, compose_submissions(tables))


def compose_described(
    tables: Mapping[str, Iterable[Row]], sources: Iterable[Row]
) -> Iterator[Document]:
    """Yield a document for each source that describes the models and GPUs of these tables."""
    described = _describe({part: list(tables[part]) for part in _DESCRIBED})
    for row in sources:
        source = _stated(part_spec("Source"), row)
        yield _as_document({"schema_version": 1, "source": source, **described})


def compose_retractions(rows: Iterable[Row]) -> Iterator[Document]:
    """Yield the document that withdraws what these rows withdraw, if there are any."""
    retractions = [_stated(part_spec("Retraction"), row) for row in rows]
    if retractions:
        yield _as_document({"retractions": retractions})


def _as_document(plain: dict[str, Any]) -> Document:
    text = canonical_json(plain)
    return Document(document_id(text), text, plain)


def compose_submissions(tables: Mapping[str, Iterable[Row]]) -> Iterator[dict[str, Any]]:
    """Yield the submissions themselves, as somebody would submit them."""
    rows = {name: list(tables.get(name, ())) for name in TABLES}
    by_source: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for observation in compose_observations(rows):
        by_source[observation.pop("source_id")].append(observation)
    sources = {row["source_id"]: row for row in rows["sources"]}
    described = _describe(rows)
    for source_id, observations in sorted(by_source.items()):
        source = _stated(part_spec("Source"), sources.get(source_id, {"source_id": source_id}))
        for start in range(0, len(observations), _MOST_OBSERVATIONS):
            some = observations[start : start + _MOST_OBSERVATIONS]
            yield {"schema_version": 1, "source": source, "observations": some, **described}


def _describe(rows: Mapping[str, list[Row]]) -> dict[str, Any]:
    return {
        part: [_stated(part_spec(name), row) for row in rows[part]]
        for part, name in _DESCRIBED.items()
        if rows[part]
    }


def compose_observations(rows: Mapping[str, list[Row]]) -> Iterator[dict[str, Any]]:
    """Yield the observations of some rows as a submission nests them, with their ``source_id``."""
    spec = part_spec("Observation")
    shared = {
        part: {row[f"{part}_id"]: row for row in rows[f"{part}s"]}
        for part in ("configuration", "environment")
    }
    owned = {name: _by_observation(rows[name]) for name in ("measurements", "citations", "samples")}
    for row in rows["observations"]:
        nested: dict[str, Any] = {
            name: _stated(spec.nested[name].part, found[row[f"{name}_id"]])
            for name, found in shared.items()
            if row.get(f"{name}_id") in found
        }
        for name, found in owned.items():
            nested[name] = [
                _stated(spec.nested[name].part, child) for child in found[row["observation_id"]]
            ]
        stated = {name: value for name, value in nested.items() if value}
        yield {**_stated(spec, row), **stated, "source_id": row["source_id"]}


def _by_observation(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["observation_id"]].append(row)
    return found


def _stated(part: PartSpec, row: Row) -> dict[str, Any]:
    """Return what a row states of a part's own columns, as a document writes it."""
    types = {column.name: column.type for column in load_table(str(part.table)).columns}
    return {
        name: _written(types[name], row[name])
        for name in part.columns
        if row.get(name) is not None and row[name] != []
    }


def _written(kind: str, value: Any) -> Any:
    if kind == "json" and isinstance(value, str):
        return json.loads(value)
    if kind == "timestamp" and isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if kind == "list<string>":
        return sorted(value)
    return value
