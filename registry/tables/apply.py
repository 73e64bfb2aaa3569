"""Apply a mapping to a document: rows become reports, reports of one experiment are merged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.errors import SourceError
from registry.tables.matching import TABLE_SUFFIXES, match_tables, read_tables
from registry.tables.merge import format_observation, merge_reports
from registry.tables.notes import Notes
from registry.tables.problems import Place, Problems
from registry.tables.row_reader import RowReader

if TYPE_CHECKING:
    from registry.catalogue import Catalogue
    from registry.tables.mapping import SourceMapping
    from registry.tables.matching import FoundTable, TableDocument
    from registry.tables.report import Report

#: Most observations that a document of one's own may report; as many take a minute or two, once.
_MOST_REPORTS = 50_000
#: The same of a source, three times those of the longest there is: a checkout reads one that is not
#: folded yet at each command; as many take some seconds.
MOST_OF_A_SOURCE = 5_000


@dataclass(frozen=True)
class ImportResult:
    """What a document says in the registry's terms.

    Attributes:
        submission: the plain document, to be validated by `prepare_submission`; where there are
            problems it lacks what could not be read, and must not be stored.
        problems: what could not be read, each with table, row and column; empty if all was.
        notes: what a reader is to know of how it was read, each with its place.
        n_tables: tables that were read.
        n_rows: rows that were read.
        n_reports: places that report an observation, of tables and of prose.
        n_observations: distinct observations.
        skipped_tables: numbers of the document's tables that the mapping does not read.
    """

    submission: dict[str, Any]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    n_tables: int
    n_rows: int
    n_reports: int
    n_observations: int
    skipped_tables: tuple[int, ...]


def import_document(
    document: Path, mapping: SourceMapping, catalogue: Catalogue, *, most: int | None = None
) -> ImportResult:
    """Return what a document, or a folder of CSV files, says under a mapping.

    What the mapping names and the document has not, cells that cannot be read, unknown models and
    GPUs are collected in ``problems``.

    Args:
        document: Path of the document.
        mapping: How it is read.
        catalogue: The models and GPUs that are known.
        most: Observations that it may report at most.

    Raises:
        SourceError: the document cannot be read, or reports more.
    """
    problems, notes = Problems(str(document), mapping), Notes()
    read = read_tables(document, mapping)
    _check_hash(document, read, mapping, problems)
    found = match_tables(read, mapping, problems)
    known = catalogue.extended(mapping.models, mapping.gpus)
    reader = RowReader(mapping, known, problems, notes)
    reports = _read_reports(reader, found, notes, most or _MOST_REPORTS)
    merged = merge_reports(reports, mapping.unite, origin=str(document))
    notes.add_runs(merged)
    observations = [format_observation(group, mapping.related.n_tokens) for group in merged.groups]
    read_numbers = {entry.number for entry in found}
    return ImportResult(
        submission=_format_submission(mapping, read, observations),
        problems=problems.format(),
        notes=notes.format(),
        n_tables=len(found),
        n_rows=sum(len(entry.table.rows) for entry in found),
        n_reports=len(reports),
        n_observations=len(observations),
        skipped_tables=tuple(
            table.index for table in read.tables if table.index not in read_numbers
        ),
    )


def _read_reports(
    reader: RowReader, found: list[FoundTable], notes: Notes, most: int
) -> list[Report]:
    reports: list[Report] = []
    _check_size(reader, found, most)
    reader.look_over(found)
    for entry in found:
        notes.add_table(entry)
        reports.extend(reader.read_table(entry))
    reader.note_rules()
    return [*reports, *reader.read_claims()]


def _check_size(reader: RowReader, found: list[FoundTable], most: int) -> None:
    """Refuse a document of too many rows before they are read, which takes far longer."""
    n_left = most
    for entry in found:
        n_left -= reader.count_reports(entry, most=n_left + 1)
        if n_left < 0:
            raise SourceError(
                f"table {entry.number}: found more than {most} rows to import, "
                "expected fewer in one document; split it"
            )


def _check_hash(
    document: Path, read: TableDocument, mapping: SourceMapping, problems: Problems
) -> None:
    """Hold the hash that the mapping states against a document's.

    The CSV files beside a mapping are copies of the tables of the document that it states.
    """
    stated = mapping.source.model_dump().get("sha256")
    is_beside = Path(mapping.origin).parent == document.parent
    is_copy = bool(read.files) or (is_beside and document.suffix.lower() in TABLE_SUFFIXES)
    if stated is not None and not is_copy and stated != read.sha256:
        problems.add(
            f"found a document with sha256 {read.sha256}, expected {stated} as the mapping states: "
            "it is another version; check the mapping against it, then correct or remove sha256",
            Place(),
            path=("source", "sha256"),
        )


def _format_submission(
    mapping: SourceMapping, read: TableDocument, observations: list[dict[str, Any]]
) -> dict[str, Any]:
    described = {"models": mapping.models, "gpus": mapping.gpus}
    return {
        "schema_version": 1,
        "source": _format_source(mapping, read),
        **{part: rows for part, rows in described.items() if rows},
        "observations": observations,
    }


def _format_source(mapping: SourceMapping, read: TableDocument) -> dict[str, Any]:
    """Return the source as the mapping states it; a folder keeps the stated document's hash."""
    stated = mapping.source.model_dump(exclude_none=True)
    is_folder = bool(read.files)
    sha256 = stated.get("sha256", read.sha256) if is_folder else read.sha256
    return {"kind": "document", **stated, "sha256": sha256}
