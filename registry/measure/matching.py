"""Call the models and GPUs of a recorded submission as the catalogue does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry.contract import vocabulary
from registry.contract.methods import QUANTIZED
from registry.measure.recording.catalogue_rows import SHAPE
from registry.submission.identity import canonical_json, document_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.catalogue import Catalogue

Row = dict[str, Any]


def match_to_catalogue(document: Row, catalogue: Catalogue, *, prefer: str | None = None) -> Row:
    """Return the submission with ids of the catalogue where it knows the model or the GPU.

    A model is known by its hub name or by its shape; ``prefer`` is the id to take where several
    models share a shape. What the catalogue does not know, or knows by the same id from another
    run, stays described in the submission, which is then complete by itself; unless it is the same
    thing and only described otherwise (a driver sees less memory). A model whose id the catalogue
    has for another one gets an id of its own.
    """
    document = tell_apart(document, catalogue)
    models = {
        row["model_id"]: _other(find_model(row, catalogue, prefer), row["model_id"])
        for row in document.get("models", ())
    }
    gpus = {
        row["gpu_id"]: _other(find_gpu(row, catalogue), row["gpu_id"])
        for row in document.get("gpus", ())
    }
    matched = {
        **document,
        "models": _to_describe("models", document, models, catalogue),
        "gpus": _to_describe("gpus", document, gpus, catalogue),
        "observations": [
            _in_known_words(
                {**each, "configuration": _renamed(each["configuration"], models, gpus)}
            )
            for each in document.get("observations", ())
        ],
    }
    return {name: value for name, value in matched.items() if value != []}


def _to_describe(
    part: str, document: Row, known: Mapping[str, str | None], catalogue: Catalogue
) -> list[Row]:
    """Return the rows of ``models`` or ``gpus`` that the submission has to describe."""
    key = "model_id" if part == "models" else "gpu_id"
    return [
        row
        for row in document.get(part, ())
        if not known[row[key]] and not catalogue.contradiction(part, row)
    ]


def tell_apart(document: Row, catalogue: Catalogue) -> Row:
    """Return the submission with another id for each thing whose name is that of another.

    The id of a model without a name says its shape, and two models may share it that differ in what
    it does not say, such as the width of a head. The new id follows from the description alone. A
    card with another memory than those of its name gets an id with its memory.
    """
    models = {
        row["model_id"]: f"{row['model_id']}-{_digest(row)}"
        for row in document.get("models", ())
        if catalogue.contradiction("models", row) and not find_model(row, catalogue)
    }
    gpus = {
        row["gpu_id"]: f"{row['gpu_id']}-{round(row['memory_bytes'] / 2**30)}gb"
        for row in document.get("gpus", ())
        if _resolve_gpu(row, catalogue) and not find_gpu(row, catalogue)
    }
    if not models and not gpus:
        return document
    described = {
        "models": [
            {**row, "model_id": models.get(row["model_id"], row["model_id"])}
            for row in document.get("models", ())
        ],
        "gpus": [
            {**row, "gpu_id": gpus[row["gpu_id"]], "device_names": []}
            if row["gpu_id"] in gpus
            else row
            for row in document.get("gpus", ())
        ],
    }
    return {
        **document,
        **{part: rows for part, rows in described.items() if rows},
        "observations": [
            {**each, "configuration": _renamed(each["configuration"], models, gpus)}
            for each in document.get("observations", ())
        ],
    }


def _digest(row: Row) -> str:
    return document_id(canonical_json(row))[:_DIGITS]


#: Digits that tell two models of one shape apart.
_DIGITS = 6


def _in_known_words(observation: Row) -> Row:
    """Return an observation whose method is a word of the contract; the word found stays beside.

    A name that stands for a method and more is left as it is: validation says what it stands for.
    """
    configuration = observation["configuration"]
    method = configuration.get("method")
    if method is None or method in vocabulary("method") or str(method).lower() in QUANTIZED:
        return observation
    provenance = {**observation.get("provenance", {}), "method": method}
    return {
        **observation,
        "configuration": {**configuration, "method": "other"},
        "provenance": provenance,
    }


def _other(known: str | None, own: str) -> str | None:
    return None if known == own else known


def _renamed(
    configuration: Row, models: Mapping[str, str | None], gpus: Mapping[str, str | None]
) -> Row:
    renamed = dict(configuration)
    for column, names in (("model_id", models), ("gpu_id", gpus)):
        known = names.get(renamed.get(column, ""))
        if known:
            renamed[column] = known
    return renamed


def find_model(row: Row, catalogue: Catalogue, prefer: str | None = None) -> str | None:
    """Return the catalogue's id of a described model, or None."""
    if row.get("hf_id"):
        known = catalogue.resolve_model(row["hf_id"])
        if known:
            return known
    alike = [
        model_id
        for model_id, known_row in catalogue.models.items()
        if all(row.get(name) is not None and row.get(name) == known_row.get(name) for name in SHAPE)
        and row.get("n_params") in (None, known_row.get("n_params"))
    ]
    if prefer in alike:
        return prefer
    return alike[0] if alike else None


def find_gpu(row: Row, catalogue: Catalogue) -> str | None:
    """Return the catalogue's id of a described GPU, or None.

    Cards of different memory may have one name (an RTX 3080 has 10 or 12 GB): the one with the
    memory that is described counts, and no other.
    """
    found, memory = _resolve_gpu(row, catalogue), row.get("memory_bytes")
    if found in (None, row["gpu_id"]) or memory is None:
        return found
    return catalogue.kind_with(found, memory)


def _resolve_gpu(row: Row, catalogue: Catalogue) -> str | None:
    """Return the catalogue's id of the card that has a described one's name, or None."""
    names = [*row.get("device_names", ()), row["gpu_id"]]  # the driver's own words first
    return next((known for name in names if (known := catalogue.resolve_gpu(name))), None)
