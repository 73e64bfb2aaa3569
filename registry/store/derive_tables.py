"""Documents are the only way in: this is how tables follow from them.

One function serves the fold, readers of what is pending, the build of the curated
records, the check, migration and repair.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from registry.contract import TABLES, Column, load_table
from registry.errors import StoreError
from registry.store.ids import ERASED, IDENTIFIED, KnownIds, row_key
from registry.store.manifest import REPAIR
from registry.submission.derive import complete_observation
from registry.submission.identity import (
    canonical_json,
    configuration_id,
    document_id,
    environment_id,
    float_columns,
    observation_id,
)
from registry.tracking import track

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from registry.catalogue import Catalogue

Row = dict[str, Any]
Rows = dict[str, list[Row]]

#: What `results` is computed from: the rows of observations that no part holds yet, all rows that
#: they share with others, and the catalogue.
FRESH_INPUTS = ("observations", "measurements", "citations")
SHARED_INPUTS = ("configurations", "environments")
CATALOGUE_TABLES = ("models", "gpus")

#: Tables whose rows belong to an observation and come with it.
_OWNED = ("measurements", "samples")

_NOT_RECORDED = f"found a document that `registry add` does not record; {REPAIR}"

_NESTED = {"configuration", "environment", "citations", *_OWNED}


@dataclass(frozen=True, slots=True)
class Document:
    """A recorded submission: its id, its text as recorded, and what it says."""

    submission_id: str
    text: str
    plain: Mapping[str, Any]

    @property
    def key(self) -> bytes:
        """What the files of ids have of it."""
        return bytes.fromhex(self.submission_id[:32])


def read_document(submission_id: str, text: str, place: object) -> Document:
    """Return a document from its text. Raises StoreError where that is not what was recorded.

    ``place`` is the file that holds it.
    """
    if document_id(text) != submission_id:
        raise StoreError(
            f"{place}: submission {submission_id[:12]} does not match its id; {REPAIR}"
        )
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        plain, found = None, f"no JSON ({error})"
    else:
        found = f"JSON of a {type(plain).__name__}"
    if not isinstance(plain, dict):
        raise StoreError(
            f"{place}: submission {submission_id[:12]}: found {found}; expected an object; {REPAIR}"
        )
    if not _has_form(plain):
        raise StoreError(f"{place}: submission {submission_id[:12]}: {_NOT_RECORDED}")
    return Document(submission_id, text, plain)


def _has_form(plain: Mapping[str, Any]) -> bool:
    """Return whether the objects and lists of a document are where those of a submission are."""
    observations = plain.get("observations", [])
    keyed = [("retractions", "observation_id"), ("models", "model_id"), ("gpus", "gpu_id")]
    return (
        isinstance(plain.get("source", {}), dict)
        and _are_objects(observations)
        and all(_are_objects(plain.get(name, []), key) for name, key in keyed)
        and all(
            isinstance(one.get("configuration"), dict)
            and isinstance(one.get("environment", {}), dict)
            and all(_are_objects(one.get(name, [])) for name in ("citations", *_OWNED))
            for one in observations
        )
    )


def _are_objects(value: object, key: str = "") -> bool:
    """Return whether a value is a list of objects, each with an id where ``key`` names it."""
    return isinstance(value, list) and all(
        isinstance(row, dict) and (not key or isinstance(row.get(key), str)) for row in value
    )


def derive_tables(documents: Iterable[Document], known: KnownIds | None = None) -> Rows:
    """Return the rows of all tables that follow from documents, each row once.

    Of an observation that several documents report, the first counts and the others add their
    citations. One that was erased, by these documents or parts in ``known``, leaves no row. Raises
    StoreError where a document is none that was validated.
    """
    documents = list(documents)
    tables = _Tables(erased_ids(documents), known or KnownIds())
    for document in track(documents, "deriving rows", len(documents)):
        try:
            tables.add(document)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            submission = f"submission {document.submission_id[:12]}"
            raise StoreError(f"{submission}: {_NOT_RECORDED}") from error
    return tables.rows


def erased_ids(documents: Iterable[Document]) -> frozenset[str]:
    """Return the observations that documents erase."""
    return frozenset(read_erasures(documents))


def read_erasures(documents: Iterable[Document]) -> dict[str, str]:
    """Return the observations that documents erase, each with the reason that is stated."""
    return {
        row["observation_id"]: str(row.get("reason"))
        for document in documents
        for row in document.plain.get("retractions", ())
        if row.get("erased")
    }


def content_keys(
    document: Document, without: Callable[[bytes], bool] = lambda _key: False
) -> Iterator[tuple[str, bytes]]:
    """Yield table and key of each row that a document's content is known by.

    Observations with their citations, models, GPUs and retractions; ``without`` says which
    observations are left out.
    """
    source_id = document.plain.get("source", {}).get("source_id", "")
    for observation in document.plain.get("observations", ()):
        identity = observation_id(source_id, observation)
        if without(key := bytes.fromhex(identity)):
            continue
        yield "observations", key
        ids = {"observation_id": identity, "source_id": source_id}
        for citation in observation.get("citations", ()):
            yield "citations", row_key("citations", {**citation, **ids})
    for table in (*CATALOGUE_TABLES, "retractions"):
        for row in document.plain.get(table, ()):
            yield table, row_key(table, stored_row(table, row))


def without_observations(
    documents: Iterable[Document],
    erased: Collection[str],
    given_up: set[str],
    removed: set[str] | None = None,
) -> Iterator[Document]:
    """Yield documents without some observations; the ids of those that held one are added.

    To ``removed`` the observations themselves are. What else a document holds stays: models, GPUs,
    and retractions of other observations.
    """
    for document in documents:
        plain = document.plain
        source_id = plain.get("source", {}).get("source_id", "")
        observations = plain.get("observations", [])
        kept = observations
        if erased:
            kept = [o for o in observations if observation_id(source_id, o) not in erased]
        if len(kept) == len(observations):
            yield document
            continue
        given_up.add(document.submission_id)
        if removed is not None:
            removed |= {observation_id(source_id, o) for o in observations} & {*erased}
        rest = {name: value for name, value in plain.items() if name != "observations"}
        rest |= {"observations": kept} if kept else {}
        if any(rest.get(name) for name in ("observations", "models", "gpus", "retractions")):
            text = canonical_json(rest)
            yield Document(document_id(text), text, rest)


def with_described(catalogue: Catalogue, documents: Iterable[Document]) -> Catalogue:
    """Return a catalogue with the models and GPUs that documents describe."""
    for document in documents:
        models, gpus = document.plain.get("models", ()), document.plain.get("gpus", ())
        if models or gpus:
            catalogue = catalogue.extended(models, gpus)
    return catalogue


class _Tables:
    """Rows as they are collected, each once."""

    def __init__(self, erased: frozenset[str], known: KnownIds) -> None:
        self.rows: Rows = {name: [] for name in TABLES}
        self._seen: dict[str, set[bytes]] = {name: set() for name in IDENTIFIED}
        self._erased = erased
        self._known = known

    def add(self, document: Document) -> None:
        plain = document.plain
        source: Row = plain.get("source", {})
        observations = plain.get("observations", ())
        for table, rows in (
            ("sources", [source] if source else ()),
            ("models", plain.get("models", ())),
            ("gpus", plain.get("gpus", ())),
            ("retractions", plain.get("retractions", ())),
        ):
            for row in rows:
                self._put(table, row)
        for observation in observations:
            self._add_observation(source["source_id"], observation)
        submission = {
            "submission_id": document.submission_id,
            "source_id": source.get("source_id"),
            "n_observations": len(observations),
            "document": document.text,
        }
        self._put("submissions", submission)

    def _put(self, table: str, row: Mapping[str, Any]) -> bool:
        key = row_key(table, row)
        if key in self._seen[table]:
            return False
        self._seen[table].add(key)
        self.rows[table].append(stored_row(table, row))
        return True

    def _add_observation(self, source_id: str, stated: Mapping[str, Any]) -> None:
        identity = observation_id(source_id, stated)
        if identity in self._erased or self._known.contains(ERASED, bytes.fromhex(identity)):
            return
        observation = complete_observation(stated)
        ids = {
            "observation_id": identity,
            "configuration_id": configuration_id(stated["configuration"]),
            "environment_id": environment_id(stated.get("environment", {})),
            "source_id": source_id,
        }
        self._put("configurations", {**observation["configuration"], **ids})
        self._put("environments", {**observation.get("environment", {}), **ids})
        own = {name: value for name, value in observation.items() if name not in _NESTED}
        if self._put("observations", {**own, **ids}):
            for table in _OWNED:
                for row in observation.get(table, ()):
                    self.rows[table].append(stored_row(table, {**row, **ids}))
        for citation in observation["citations"]:
            self._put("citations", {**citation, **ids})


def select_new(rows: Rows, known: KnownIds) -> Rows:
    """Return the rows that no part holds yet.

    Measurements and samples go with their observation; a further citation of an observation that
    a part holds is new.
    """
    fresh = {
        table: [row for row in rows[table] if not known.contains(table, row_key(table, row))]
        for table in IDENTIFIED
    }
    new = {row["observation_id"] for row in fresh["observations"]}
    for table in _OWNED:
        fresh[table] = [row for row in rows[table] if row["observation_id"] in new]
    return fresh


def count_later_citations(fresh: Rows) -> list[Row]:
    """Return how many new citations there are of each observation that is not new itself."""
    new = {row["observation_id"] for row in fresh["observations"]}
    counts: dict[str, int] = {}
    for row in fresh["citations"]:
        if row["observation_id"] not in new:
            counts[row["observation_id"]] = counts.get(row["observation_id"], 0) + 1
    return [{"observation_id": key, "n": n} for key, n in sorted(counts.items())]


def stored_row(table: str, stated: Mapping[str, Any]) -> Row:
    """Return a part of a document as a row of its table, each value in the column's type."""
    special = _special_columns(table)
    floats = float_columns(table)
    row: Row = {}
    for name in load_names(table):
        value = stated.get(name)
        if value is None or value == []:
            continue
        if name in special:
            value = _converted(special[name], value)
        row[name] = float(value) if name in floats else value
    return row


@lru_cache(maxsize=len(TABLES))
def load_names(table: str) -> tuple[str, ...]:
    """Return the names of a table's columns."""
    return load_table(table).names


@lru_cache(maxsize=len(TABLES))
def _special_columns(table: str) -> dict[str, Column]:
    special = ("json", "timestamp")
    return {column.name: column for column in load_table(table).columns if column.type in special}


def _converted(column: Column, value: Any) -> Any:
    if column.type == "json":
        return value if isinstance(value, str) else canonical_json(value)
    return datetime.fromisoformat(value) if isinstance(value, str) else value
