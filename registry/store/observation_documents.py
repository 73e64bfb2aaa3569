"""Observations in full: the statement that reads them, and its rows as documents."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from registry.contract import TABLES, load_table


def read_statement() -> str:
    """Return the SELECT of all about the ``$most`` first observations whose ids begin with ``$id``.

    One row each, with a column for each part: observation, configuration, environment, source,
    measurements, citations, retractions, n_samples.
    """
    path = files("registry.store") / "observation_documents.sql"
    return path.read_text(encoding="utf-8")


@cache
def _json_columns() -> set[str]:
    tables = (load_table(name) for name in TABLES)
    return {column.name for table in tables for column in table.columns if column.type == "json"}


def as_document(value: Any) -> Any:
    """Return a row, or rows in it, without what is not stated, JSON columns as objects."""
    if isinstance(value, list):
        return [as_document(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: json.loads(item) if name in _json_columns() else as_document(item)
        for name, item in value.items()
        if item is not None
    }
