"""Apply a mapping to a document: rows become reports, reports of one experiment are merged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.tables.matching import match_tables, read_tables
from registry.tables.merge import format_observation, merge_reports
from registry.tables.row_reader import RowReader

if TYPE_CHECKING:
    from pathlib import Path

    from registry.catalogue import Catalogue
    from registry.tables.mapping import SourceMapping
    from registry.tables.matching import TableDocument


@dataclass(frozen=True)
class ImportResult:
    """What a document says in the registry's terms.

    Attributes:
        submission: the plain document, to be validated by `prepare_submission`; where there are
            problems it lacks what could not be read, and must not be stored.
        problems: what could not be read, each with table, row and column; empty if all was.
        n_tables: tables that were read.
        n_rows: rows that were read.
        n_reports: places that report an observation, of tables and of prose.
        n_observations: distinct observations.
        skipped_tables: numbers of the document's tables that the mapping does not read.
    """

    submission: dict[str, Any]
    problems: tuple[str, ...]
    n_tables: int
    n_rows: int
    n_reports: int
    n_observations: int
    skipped_tables: tuple[int, ...]


def import_document(document: Path, mapping: SourceMapping, catalogue: Catalogue) -> ImportResult:
    """Return what a document, or a folder of CSV files, says under a mapping.

    Cells that cannot be read, unknown models and GPUs are collected in ``problems``.

    Raises:
        SourceError: the document cannot be read, or its tables are not those of the mapping.
    """
    origin = str(document)
    read = read_tables(document, mapping)
    found = match_tables(read, mapping)
    reader = RowReader(mapping, catalogue, origin)
    reports = [report for entry in found for report in reader.read_table(entry)]
    reports += reader.read_claims()
    groups = merge_reports(reports, mapping.unite, origin=origin)
    observations = [format_observation(group, mapping.related.n_tokens) for group in groups]
    read_numbers = {entry.number for entry in found}
    return ImportResult(
        submission={
            "schema_version": 1,
            "source": _format_source(mapping, read),
            "observations": observations,
        },
        problems=tuple(reader.problems),
        n_tables=len(found),
        n_rows=sum(len(entry.table.rows) for entry in found),
        n_reports=len(reports),
        n_observations=len(observations),
        skipped_tables=tuple(
            table.index for table in read.tables if table.index not in read_numbers
        ),
    )


def _format_source(mapping: SourceMapping, read: TableDocument) -> dict[str, Any]:
    """Return the source as the mapping states it; a folder keeps the stated document's hash."""
    stated = mapping.source.model_dump(exclude_none=True)
    is_folder = bool(read.files)
    sha256 = stated.get("sha256", read.sha256) if is_folder else read.sha256
    return {"kind": "document", **stated, "sha256": sha256}
