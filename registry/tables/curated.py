"""The curated records of a checkout: the catalogue, and the submissions of each source."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from registry.catalogue import Catalogue
from registry.contract import load_table
from registry.errors import SourceError, SubmissionError
from registry.reading.bounded_file import read_bytes
from registry.reading.json_reader import parse_json, read_json_file, read_text
from registry.reading.yaml_reader import parse_yaml
from registry.sources.logs import import_source
from registry.store.derive_tables import Document, with_described
from registry.submission.messages import check_row
from registry.submission.prepare import Prepared, prepare_submission
from registry.tables.mapping_reader import read_mapping
from registry.tracking import track

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

MAPPING_NAME = "mapping.yaml"
SUBMISSIONS_NAME = "submissions.jsonl"

#: Most bytes of one file of the catalogue, several times today's longest.
_LARGEST_PART = 2**20


def load_curated_catalogue(records: Path) -> Catalogue:
    """Return the models and GPUs of ``records/catalogue``.

    Raises:
        SourceError: a file is missing, or is no YAML list of entries with an id.
    """
    return Catalogue(
        models=_read_entries(records / "catalogue" / "models.yaml", "model_id"),
        gpus=_read_entries(records / "catalogue" / "gpus.yaml", "gpu_id"),
    )


def _read_entries(path: Path, key: str) -> dict[str, dict[str, Any]]:
    data = read_bytes(path, limit=_LARGEST_PART, what="a part of the catalogue")
    entries = parse_yaml(data, origin=str(path), limit=_LARGEST_PART)
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and key in entry for entry in entries
    ):
        raise SourceError(f"{path}: found no list of entries with {key!r}, expected one")
    rows = [stated_row(entry) for entry in entries]
    problems = [*_check_entries(path, key, rows)]
    if problems:
        raise SourceError("\n".join(problems))
    return {row[key]: row for row in rows}


def _check_entries(path: Path, key: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what the contract finds wrong with entries of the catalogue."""
    table = load_table(path.stem)
    for repeated, n in Counter(str(row[key]) for row in rows).items():
        if n > 1:
            yield f"{path}, {repeated}: found {n} entries; expected one; unite them"
    for row in rows:
        for problem in check_row(table, row):
            yield f"{path}, {row[key]}: {problem}"


def stated_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a row states: without nulls and empty lists, lists sorted."""
    return {
        name: sorted(set(value)) if isinstance(value, list) else value
        for name, value in row.items()
        if value not in (None, [])
    }


def read_source_documents(
    records: Path,
    catalogue: Catalogue,
    *,
    only: Collection[str] | None = None,
    described: Catalogue | None = None,
) -> Iterator[Document]:
    """Yield the documents of ``records/sources``, as `read_sources` returns them."""
    for documents in read_sources(records, catalogue, only=only, described=described).values():
        yield from documents


def read_sources(
    records: Path,
    catalogue: Catalogue,
    *,
    only: Collection[str] | None = None,
    described: Catalogue | None = None,
) -> dict[str, list[Document]]:
    """Return the documents of ``records/sources``, or of some sources, by their folders' names.

    A folder holds ``mapping.yaml`` beside its tables as CSV or its packed logs,
    ``submissions.jsonl`` with one submission on each line, or recorded submissions, each in a file
    named by its id. ``described`` is what sources that are not read describe.

    Raises:
        SourceError: a folder holds none of these, or its tables cannot be read as the mapping
            says; all problems of a source together.
        SubmissionError: a submission is not valid.
    """
    found, refused = read_what_can_be(records, catalogue, only=only, described=described)
    for error in refused.values():
        raise error
    return found


def read_what_can_be(
    records: Path,
    catalogue: Catalogue,
    *,
    only: Collection[str] | None = None,
    described: Catalogue | None = None,
) -> tuple[dict[str, list[Document]], dict[str, SourceError | SubmissionError]]:
    """Return the documents of sources, by their folders' names, and why others cannot be read.

    What one source describes, the others may name: those that are refused are read again with the
    models and GPUs of the rest, and with those in ``described``.
    """
    others = described or Catalogue()
    folders = _source_folders(records / "sources")
    waiting = [folder for folder in folders if only is None or folder.name in only]
    found: dict[str, list[Document]] = {}
    while True:
        refused: dict[str, SourceError | SubmissionError] = {}
        for folder in track(waiting, "reading sources", len(waiting)):
            try:
                found[folder.name] = list(_read_documents(folder, catalogue))
            except (SourceError, SubmissionError) as error:
                refused[folder.name] = error
        found = dict(sorted(found.items()))
        if not refused:
            return found, refused
        known = with_described(catalogue, [one for each in found.values() for one in each])
        known = known.extended(others.rows("models"), others.rows("gpus"))
        if known == catalogue:
            return found, refused
        catalogue = known
        waiting = [folder for folder in waiting if folder.name in refused]


def _read_documents(folder: Path, catalogue: Catalogue) -> Iterator[Document]:
    found = list(_read_folder(folder, catalogue))
    if not found:
        raise SourceError(
            f"{folder}: found neither {MAPPING_NAME} nor {SUBMISSIONS_NAME} nor a recorded "
            "submission, expected one"
        )
    for prepared in found:
        yield Document(prepared.submission_id, prepared.text, prepared.document)


def _read_folder(folder: Path, catalogue: Catalogue) -> Iterator[Prepared]:
    if (folder / MAPPING_NAME).is_file():
        yield _import_folder(folder, catalogue)
    if (folder / SUBMISSIONS_NAME).is_file():
        for ready in _read_submissions(folder / SUBMISSIONS_NAME, catalogue):
            _require_own(folder, folder / SUBMISSIONS_NAME, ready)
            yield ready
    for path in sorted(folder.glob("*.json")):
        document = read_json_file(path)
        ready = prepare_submission(document, catalogue, origin=str(path), is_new=False)
        _require_own(folder, path, ready)
        yield ready


def _require_own(folder: Path, path: Path, ready: Prepared) -> None:
    """Raise SourceError for a document of another source, and for one that erases."""
    found = ready.document.get("source", {}).get("source_id", folder.name)
    if found != folder.name:
        raise SourceError(
            f"{path}: found source_id {found!r}, expected {folder.name!r} as the folder is called"
        )
    if any(row.get("erased") for row in ready.document.get("retractions", ())):
        raise SourceError(
            f"{path}: found an erasure, expected a retraction: what is to go from curated records "
            "is taken out of its source's folder"
        )


def _source_folders(sources: Path) -> list[Path]:
    if not sources.is_dir():
        raise SourceError(f"{sources}: found no such folder, expected one folder for each source")
    return sorted(path for path in sources.iterdir() if path.is_dir())


def _import_folder(folder: Path, catalogue: Catalogue) -> Prepared:
    mapping = read_mapping(folder / MAPPING_NAME)
    if mapping.source.source_id != folder.name:
        raise SourceError(
            f"{folder / MAPPING_NAME}: found source_id {mapping.source.source_id!r}, expected "
            f"{folder.name!r} as the folder is called"
        )
    result = import_source(folder, mapping, catalogue)
    if result.problems:
        raise SourceError("\n".join(result.problems))
    return prepare_submission(result.submission, catalogue, origin=str(folder))


def _read_submissions(path: Path, catalogue: Catalogue) -> Iterator[Prepared]:
    text = read_text(path, origin=str(path))
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            origin = f"{path}, line {number}"
            yield prepare_submission(parse_json(line, origin=origin), catalogue, origin=origin)
