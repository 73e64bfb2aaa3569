"""Content hashes: equal statements have the same id, wherever and whenever they are submitted.

An id is SHA-256 over canonical JSON. Nulls are left out, so that a new nullable column changes no
id; so is what a reader notes (flags, reasons, provenance) and what follows from other columns.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from registry.contract import load_table
from registry.submission.derive import without_derived

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Hexadecimal digits of a row's id (128 bits).
ROW_ID_DIGITS = 32

_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical_json(document: Any) -> str:
    """Return the one canonical JSON text of a document: sorted keys, no white space.

    Raises ValueError on NaN and infinity.

    >>> canonical_json({"b": 1.0, "a": [True, None]})
    '{"a":[true,null],"b":1.0}'
    """
    return _CANONICAL.encode(document)


def document_id(text: str) -> str:
    """Return the id of a canonical document: SHA-256, 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def configuration_id(configuration: Mapping[str, Any]) -> str:
    """Return the id of a configuration, whether or not what follows is filled in."""
    return _row_id("configurations", without_derived(configuration))


def environment_id(environment: Mapping[str, Any]) -> str:
    """Return the id of an environment."""
    return _row_id("environments", environment)


def observation_id(source_id: str, observation: Mapping[str, Any]) -> str:
    """Return the id of an observation as a submission nests it.

    It covers the source, configuration, environment, the reported figures, and of the observation
    itself the columns that the contract calls identifying.
    """
    stated = {
        "source_id": source_id,
        "configuration_id": configuration_id(observation["configuration"]),
        "environment_id": environment_id(observation.get("environment", {})),
        "measurements": _figures(observation.get("measurements", ())),
    }
    return _row_id("observations", stated | _identifying("observations", observation))


def _figures(measurements: Any) -> list[str]:
    """Return the reported figures as sorted texts: their order has no meaning."""
    return sorted(
        canonical_json(_typed("measurements", _identifying("measurements", figure)))
        for figure in measurements
        if figure.get("origin", "reported") == "reported"
    )


def _identifying(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in load_table(table).identifying if name in row}


def _row_id(table: str, row: Mapping[str, Any]) -> str:
    text = canonical_json([table, _typed(table, row)])
    return hashlib.sha256(text.encode()).hexdigest()[:ROW_ID_DIGITS]


def _typed(table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a row states, each value in the one form of its type: 1 equals 1.0."""
    floats = float_columns(table)
    return {
        name: float(value) + 0.0 if name in floats else value
        for name, value in row.items()
        if value is not None and value != []
    }


@lru_cache(maxsize=16)
def float_columns(table: str) -> frozenset[str]:
    """Return the names of a table's columns that hold floats."""
    return frozenset(c.name for c in load_table(table).columns if c.type == "float64")
