"""Tables that people publish: read as written, and turned into a submission by a mapping."""

from __future__ import annotations

from registry.tables.apply import MOST_OF_A_SOURCE, ImportResult, import_document
from registry.tables.draft import draft_mapping
from registry.tables.listing import format_listing
from registry.tables.mapping import SourceMapping
from registry.tables.mapping_reader import parse_mapping, read_mapping
from registry.tables.matching import read_tables

__all__ = [
    "MOST_OF_A_SOURCE",
    "ImportResult",
    "SourceMapping",
    "draft_mapping",
    "format_listing",
    "import_document",
    "parse_mapping",
    "read_mapping",
    "read_tables",
]
