"""The models and GPUs that a registry knows: the curated ones, and those its documents describe."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from registry.catalogue import Catalogue
from registry.errors import StoreError
from registry.store.parts import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from registry.store.folder import Folder
    from registry.store.parts import Part
    from registry.store.storage import LocalStorage

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


def read_catalogue(
    storage: LocalStorage, name: str, is_as_written: Callable[[bytes], bool], way_out: str
) -> Catalogue:
    """Return the models and GPUs of a file; raise StoreError where it is not as written."""
    try:
        data = storage.get(name)
        if not is_as_written(data):
            raise ValueError("it differs from what was written")  # noqa: TRY301 - one message for all
        return parse_catalogue(json.loads(data))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"{storage.path(name)}: cannot be read ({error}); expected models and GPUs as they "
            f"were written; {way_out}"
        ) from None


def read_part_catalogue(folder: Folder, part: Part) -> Catalogue:
    """Return the models and GPUs that the documents of a part describe."""
    if CATALOGUE not in part.files:
        return Catalogue()

    def is_as_written(data: bytes) -> bool:
        return hashlib.sha256(data).hexdigest() == part.files[CATALOGUE].sha256

    place = f"{part.path.relative_to(folder.path).as_posix()}/{CATALOGUE}"
    return read_catalogue(folder.storage, place, is_as_written, part.way_out)


def with_parts(catalogue: Catalogue, folder: Folder, parts: Iterable[Part]) -> Catalogue:
    """Return a catalogue with the models and GPUs that the documents of some parts describe."""
    for part in parts:
        described = read_part_catalogue(folder, part)
        catalogue = catalogue.extended(described.rows("models"), described.rows("gpus"))
    return catalogue
