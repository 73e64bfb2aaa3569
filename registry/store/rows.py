"""Take submissions apart into rows of the tables."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from registry.contract import TABLES, Column, load_table
from registry.identity import canonical_json, figures_hash, row_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Row = dict[str, Any]

#: Tables whose rows hang on an observation.
CHILD_TABLES = ("measurements", "citations", "samples")

#: Tables whose rows several submissions may share.
SHARED_TABLES = ("sources", "environments", "configurations", "observations")


class RowCollector:
    """Collects the rows of submissions, each shared row once, in the order of the submissions."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = {name: [] for name in TABLES}
        self._seen: dict[str, set[str]] = {name: set() for name in TABLES}
        self._cited: set[tuple[str, str, str]] = set()

    def add(self, submission_id: str, document: Mapping[str, Any], text: str) -> None:
        """Take one canonical submission apart."""
        source_id = document["source"]["source_id"]
        self._add_once("sources", source_id, document["source"])
        for model in document.get("models", ()):
            self._add_once("models", model["model_id"], model)
        for gpu in document.get("gpus", ()):
            self._add_once("gpus", gpu["gpu_id"], gpu)
        observations = document.get("observations", ())
        for observation in observations:
            self._add_observation(source_id, observation)
        row = {
            "submission_id": submission_id,
            "source_id": source_id,
            "n_observations": len(observations),
            "document": text,
        }
        self._add_once("submissions", submission_id, row)

    def _add_once(self, table: str, key: str, row: Mapping[str, Any]) -> bool:
        if key in self._seen[table]:
            return False
        self._seen[table].add(key)
        self.tables[table].append(dict(row))
        return True

    def _add_observation(self, source_id: str, document: Mapping[str, Any]) -> None:
        configuration, environment, observation = observation_rows(source_id, document)
        self._add_once("configurations", configuration["configuration_id"], configuration)
        self._add_once("environments", environment["environment_id"], environment)
        observation_id = observation["observation_id"]
        if self._add_once("observations", observation_id, observation):
            for table in ("measurements", "samples"):
                for row in document.get(table, ()):
                    child = {"observation_id": observation_id, **row}
                    self.tables[table].append(stored_row(table, child))
        for citation in document.get("citations", ()):
            self._add_citation(
                {"observation_id": observation_id, "source_id": source_id, **citation}
            )

    def _add_citation(self, row: Row) -> None:
        key = (row["observation_id"], row["source_id"], row["locator"])
        if key not in self._cited:
            self._cited.add(key)
            self.tables["citations"].append(stored_row("citations", row))


def observation_rows(source_id: str, document: Mapping[str, Any]) -> tuple[Row, Row, Row]:
    """Return the rows of one observation: configuration, environment, observation."""
    configuration = _with_id("configurations", document["configuration"])
    environment = _with_id("environments", document.get("environment", {}))
    nested = {"configuration", "environment", *CHILD_TABLES}
    stated = {name: value for name, value in document.items() if name not in nested}
    observation = _with_id(
        "observations",
        {
            **stated,
            "configuration_id": configuration["configuration_id"],
            "environment_id": environment["environment_id"],
            "source_id": source_id,
            "figures_hash": figures_hash(document.get("measurements", ())),
        },
    )
    return configuration, environment, observation


def _with_id(table: str, document: Mapping[str, Any]) -> Row:
    row = stored_row(table, document)
    identity = load_table(table).identity or load_table(table).key[0]
    return {identity: row_id(table, row), **row}


def stored_row(table: str, document: Mapping[str, Any]) -> Row:
    """Return a part of a submission as a row: JSON columns as text, timestamps as datetimes."""
    convert = _conversions(table)
    if not convert.keys() & document.keys():
        return dict(document)
    return {
        name: _converted(convert[name], value) if name in convert else value
        for name, value in document.items()
    }


@lru_cache(maxsize=len(TABLES))
def _conversions(table: str) -> dict[str, Column]:
    special = ("json", "timestamp")
    return {column.name: column for column in load_table(table).columns if column.type in special}


def _converted(column: Column, value: Any) -> Any:
    if value is None or not isinstance(value, str | dict):
        return value
    if column.type == "json":
        return value if isinstance(value, str) else canonical_json(value)
    return datetime.fromisoformat(str(value))


def collect_rows(submissions: Iterable[tuple[str, Mapping[str, Any], str]]) -> dict[str, list[Row]]:
    """Return the rows of submissions, given as (id, document, canonical text), by table."""
    collector = RowCollector()
    for submission_id, document, text in submissions:
        collector.add(submission_id, document, text)
    return collector.tables
