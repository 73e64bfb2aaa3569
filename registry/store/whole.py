"""The models and GPUs a registry knows: small tables that are written whole."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from registry.catalogue import Catalogue
from registry.errors import StoreError
from registry.identity import canonical_json
from registry.store.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.store.folder import Folder
    from registry.store.manifest import Manifest

_KEYS = {"models": "model_id", "gpus": "gpu_id"}


def read_catalogue(folder: Folder, manifest: Manifest) -> Catalogue:
    """Return the models and GPUs of a registry's folded state."""
    if manifest.catalogue is None:
        return Catalogue()
    path = folder.tables / manifest.catalogue
    try:
        return parse_catalogue(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(
            f"{path}: cannot be read ({error}); expected the catalogue that the manifest names; "
            "restore it from a backup, or rebuild the registry from its submissions"
        ) from None


def parse_catalogue(document: Mapping[str, Any]) -> Catalogue:
    """Return a catalogue from its plain form: lists of rows under ``models`` and ``gpus``."""
    return Catalogue(
        models={row["model_id"]: row for row in document["models"]},
        gpus={row["gpu_id"]: row for row in document["gpus"]},
    )


def write_catalogue(folder: Folder, catalogue: Catalogue) -> str:
    """Write a catalogue under a name that depends on its content; return the name."""
    text = format_catalogue(catalogue)
    name = f"catalogue-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    if not (folder.tables / name).exists():
        write_atomically(folder.tables / name, text.encode())
    return name


def format_catalogue(catalogue: Catalogue) -> str:
    """Return the plain form of a catalogue, sorted by id."""
    document = {
        table: [stated_row(rows[key]) for key in sorted(rows)]
        for table, rows in (("models", catalogue.models), ("gpus", catalogue.gpus))
    }
    return canonical_json(document) + "\n"


def stated_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a row states: without nulls and empty lists, lists sorted."""
    return {
        name: sorted(set(value)) if isinstance(value, list) else value
        for name, value in row.items()
        if value not in (None, [])
    }
