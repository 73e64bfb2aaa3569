"""The hash of the contract: two registries with the same hash read and compute alike."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Any

from registry.contract.resources import read_yaml, schemas_dir
from registry.contract.tables import (
    FORMAT_VERSION,
    TABLES,
    load_rules,
    load_table,
    load_vocabularies,
    read_view,
)

_HASH_DIGITS = 16


def contract_stamp() -> str:
    """Return the mark of the contract that a part carries: its hash and that of its files."""
    return f"{contract_hash()}.{_hash_schemas()}"


def is_current(stamp: str) -> bool:
    """Return whether the contract of a stamp is today's.

    The contract is parsed only if the bytes of its files have changed: that takes longer than
    everything else before a query.
    """
    contract, _, schemas = stamp.partition(".")
    return schemas == _hash_schemas() or contract == contract_hash()


@lru_cache(maxsize=1)
def _hash_schemas() -> str:
    digest = hashlib.sha256(f"{FORMAT_VERSION}\n".encode())
    for path in sorted(schemas_dir().rglob("*.*")):
        data = path.read_bytes()
        digest.update(f"{path.name}\n{len(data)}\n".encode() + data)
    return digest.hexdigest()[:_HASH_DIGITS]


@lru_cache(maxsize=1)
def contract_hash() -> str:
    """Return the hash of names, types, units, words and rules; the wording of meanings is left out.

    The view ``results`` is part of it, because its rows are stored beside the tables.
    """
    text = json.dumps(_described(), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


def _described() -> dict[str, Any]:
    return {
        "format": FORMAT_VERSION,
        "tables": {name: _table(name) for name in TABLES},
        "vocabularies": {name: _words(name, words) for name, words in load_vocabularies().items()},
        "units": read_yaml("units.yaml"),
        "rules": [(rule.name, rule.require) for rule in load_rules()],
        "submission": read_yaml("submission.yaml"),
        "results": read_view("results"),
    }


def _table(name: str) -> list[Any]:
    table = load_table(name)
    columns = [
        (c.name, c.type, c.required, c.unit, c.vocabulary, c.pattern, c.min, c.max, c.max_length)
        for c in table.columns
    ]
    return [table.key, table.identifying, columns]


def _words(name: str, words: dict[str, Any]) -> Any:
    """Return the words of a vocabulary; of metrics also unit and range, which change figures.

    ``least`` is left out: it judges what is handed in, and nothing that is recorded.
    """
    if name != "metric":
        return sorted(words)
    return {
        word: {k: v for k, v in entry.items() if k not in ("meaning", "least")}
        for word, entry in words.items()
    }
