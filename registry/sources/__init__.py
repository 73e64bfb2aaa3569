"""From the tables of a document to a submission, as a declarative mapping says."""

from __future__ import annotations

from registry.sources.apply import ImportResult, import_document
from registry.sources.mapping import Mapping
from registry.sources.mapping_reader import parse_mapping, read_mapping

__all__ = [
    "ImportResult",
    "Mapping",
    "import_document",
    "parse_mapping",
    "read_mapping",
]
