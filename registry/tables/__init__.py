"""Tables that people publish: read as written, and turned into a submission by a mapping."""

from __future__ import annotations

from registry.tables.apply import ImportResult, import_document
from registry.tables.mapping import SourceMapping
from registry.tables.mapping_reader import parse_mapping, read_mapping

__all__ = ["ImportResult", "SourceMapping", "import_document", "parse_mapping", "read_mapping"]
