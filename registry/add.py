"""Record submissions: validate, then write one journal entry each.

Nothing heavy is loaded and nothing but the journal is written, so that the cost of a submission
does not depend on what the registry holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import SubmissionError
from registry.store.create import ensure_writable
from registry.store.ids import IdFiles, id_bytes, id_files
from registry.store.journal import entry_path, read_journal, write_entries
from registry.store.manifest import read_manifest
from registry.store.rows import observation_rows
from registry.store.whole import read_catalogue
from registry.validation import Prepared, prepare_submission

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from registry.catalogue import Catalogue
    from registry.store.folder import Folder, Location


@dataclass(frozen=True, slots=True)
class Added:
    """What became of one submission."""

    submission_id: str
    observation_ids: tuple[str, ...]
    #: False where the registry held it already.
    is_new: bool
    origin: str


def prepare_all(
    location: Location, documents: Iterable[tuple[str, Any]]
) -> list[tuple[str, Prepared]]:
    """Return the valid forms of documents, given as (origin, document).

    Raises SubmissionError with the problems of all of them.
    """
    manifest = read_manifest(location.read)
    catalogue = read_catalogue(location.read, manifest)
    prepared: list[tuple[str, Prepared]] = []
    problems: list[str] = []
    for origin, document in documents:
        try:
            known = _with_pending(location.read, catalogue, document)
            document = _settled(document, known)  # noqa: PLW2901 - the same document, by other names
            ready = prepare_submission(document, known, origin=origin)
        except SubmissionError as error:
            problems += [f"{error.origin}: {problem}" for problem in error.problems]
        else:
            prepared.append((origin, ready))
            new = ready.document
            catalogue = catalogue.extended(new.get("models", ()), new.get("gpus", ()))
    if problems:
        raise SubmissionError(problems, origin="")
    return prepared


def _with_pending(folder: Folder, catalogue: Catalogue, document: Any) -> Catalogue:
    """Return the catalogue with models and GPUs of pending submissions, where they are needed."""
    if _refers_only_to(catalogue, document):
        return catalogue
    for entry in read_journal(folder).entries:
        catalogue = catalogue.extended(
            entry.document.get("models", ()), entry.document.get("gpus", ())
        )
    return catalogue


def _settled(document: Any, catalogue: Catalogue) -> Any:
    """Call what a run of the recorder describes as the catalogue does, where it knows it."""
    source = document.get("source") if isinstance(document, dict) else None
    if not isinstance(source, dict) or source.get("kind") != "run":
        return document
    from registry.measure.matching import match_to_catalogue  # noqa: PLC0415 - only for runs

    try:
        return match_to_catalogue(document, catalogue)
    except (AttributeError, KeyError, TypeError):
        return document  # not of the form of a submission: validation says how


def _refers_only_to(catalogue: Catalogue, document: Any) -> bool:
    observations = document.get("observations") if isinstance(document, dict) else None
    for observation in observations if isinstance(observations, list) else ():
        configuration = observation.get("configuration") if isinstance(observation, dict) else None
        if not isinstance(configuration, dict):
            continue
        model, gpu = configuration.get("model_id"), configuration.get("gpu_id")
        if isinstance(model, str) and catalogue.resolve_model(model) is None:
            return False
        if isinstance(gpu, str) and catalogue.resolve_gpu(gpu) is None:
            return False
    return True


def add_submissions(location: Location, documents: Sequence[tuple[str, Any]]) -> list[Added]:
    """Record documents, given as (origin, document): all of them, or none where one is not valid.

    Raises SubmissionError, and StoreError where the registry cannot be written.
    """
    prepared = prepare_all(location, documents)
    folder = ensure_writable(location)
    added, new = _sort_out(folder, prepared)
    write_entries(folder, new)
    return added


def check_submissions(location: Location, documents: Sequence[tuple[str, Any]]) -> list[Added]:
    """Return what `add_submissions` would do, and write nothing."""
    added, _ = _sort_out(location.read, prepare_all(location, documents))
    return added


def _sort_out(
    folder: Folder, prepared: Sequence[tuple[str, Prepared]]
) -> tuple[list[Added], dict[str, str]]:
    """Return what becomes of submissions, and the texts of the new ones by their ids."""
    ids = id_files(folder, read_manifest(folder))
    new: dict[str, str] = {}
    added = []
    for origin, ready in prepared:
        is_new = ready.submission_id not in new and not _is_known(folder, ids, ready)
        if is_new:
            new[ready.submission_id] = ready.text
        added.append(_added(origin, ready, is_new=is_new))
    return added, new


def _is_known(folder: Folder, ids: IdFiles, ready: Prepared) -> bool:
    if entry_path(folder, ready.submission_id).exists():
        return True
    return ids.contains(id_bytes("submissions", ready.submission_id))


def _added(origin: str, ready: Prepared, *, is_new: bool) -> Added:
    source_id = ready.document["source"]["source_id"]
    observations = ready.document.get("observations", ())
    ids = tuple(observation_rows(source_id, row)[2]["observation_id"] for row in observations)
    return Added(ready.submission_id, ids, is_new, origin)
