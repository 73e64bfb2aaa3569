"""The curated records of a checkout: the catalogue, and one submission for each source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from registry.catalogue import Catalogue
from registry.contract import load_table
from registry.errors import SourceError, did_you_mean
from registry.reading.json_reader import parse_json
from registry.resources import parse_yaml
from registry.store.whole import stated_row
from registry.tables.apply import import_document
from registry.tables.mapping_reader import read_mapping
from registry.validation import Prepared, check_value, prepare_submission

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAPPING_NAME = "mapping.yaml"
SUBMISSIONS_NAME = "submissions.jsonl"


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
    try:
        entries = parse_yaml(path.read_bytes())
    except OSError as error:
        raise SourceError(
            f"{path}: cannot be read: {error.strerror}; expected a part of the catalogue"
        ) from error
    except yaml.YAMLError as error:
        raise SourceError(f"{path}: found no valid YAML: {error}") from error
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
    for row in rows:
        for name, value in row.items():
            if name not in table.names:
                hint = did_you_mean(name, table.names)
                yield f"{path}, {row[key]}: unknown column {name!r}{hint}"
                continue
            problem = check_value(table.column(name), value)
            if problem:
                yield f"{path}, {row[key]}, {name}: found {value!r}; {problem}"


def iter_curated_submissions(records: Path, catalogue: Catalogue) -> Iterator[tuple[str, Prepared]]:
    """Yield the submissions of ``records/sources`` in order of their folders' names.

    A folder holds ``mapping.yaml`` beside its tables as CSV, or ``submissions.jsonl`` with one
    canonical submission on each line, which are taken as they are.

    Raises:
        SourceError: a folder holds neither, or its tables cannot be read as the mapping says; all
            problems of a source together.
        SubmissionError: a submission is not valid.
    """
    for folder in _source_folders(records / "sources"):
        if (folder / MAPPING_NAME).is_file():
            yield folder.name, _import_folder(folder, catalogue)
        elif (folder / SUBMISSIONS_NAME).is_file():
            for prepared in _read_submissions(folder / SUBMISSIONS_NAME, catalogue):
                yield folder.name, prepared
        else:
            raise SourceError(
                f"{folder}: found neither {MAPPING_NAME} nor {SUBMISSIONS_NAME}, expected one"
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
    result = import_document(folder, mapping, catalogue)
    if result.problems:
        raise SourceError("\n".join(result.problems))
    return prepare_submission(result.submission, catalogue, origin=str(folder))


def _read_submissions(path: Path, catalogue: Catalogue) -> Iterator[Prepared]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                origin = f"{path}, line {number}"
                yield prepare_submission(parse_json(line, origin=origin), catalogue, origin=origin)
