"""The models and GPUs that a registry knows: the curated ones, and those its documents describe."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from registry.catalogue import Catalogue
from registry.errors import StoreError
from registry.store.parts import CATALOGUE

if TYPE_CHECKING:
    from registry.store.folder import Folder
    from registry.store.parts import Part

_HASH_DIGITS = 16


def catalogue_text(catalogue: Catalogue) -> str:
    """Return a catalogue as it is stored: rows sorted by id."""
    document = {
        table: [dict(sorted(rows[key].items())) for key in sorted(rows)]
        for table, rows in (("models", catalogue.models), ("gpus", catalogue.gpus))
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def hash_catalogue(text: str | bytes) -> str:
    """Return the hash by which a part says with which catalogue it was computed."""
    data = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(data).hexdigest()[:_HASH_DIGITS]


def parse_catalogue(document: Any) -> Catalogue:
    """Return a catalogue from its plain form: lists of rows under ``models`` and ``gpus``."""
    return Catalogue(
        models={row["model_id"]: row for row in document.get("models", ())},
        gpus={row["gpu_id"]: row for row in document.get("gpus", ())},
    )


def read_part_catalogue(folder: Folder, part: Part) -> Catalogue:
    """Return the models and GPUs that the documents of a part describe."""
    if CATALOGUE not in part.files:
        return Catalogue()
    place = f"{part.path.relative_to(folder.path).as_posix()}/{CATALOGUE}"
    try:
        data = folder.storage.get(place)
        if hashlib.sha256(data).hexdigest() != part.files[CATALOGUE].sha256:
            raise ValueError("it is other than was written")  # noqa: TRY301 - one message for all
        return parse_catalogue(json.loads(data))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{part.path / CATALOGUE}: cannot be read ({error}); expected the models and GPUs of "
            "this part; run `registry repair`"
        ) from None
