"""Untrusted SQL over the registry's tables, in a confined child process.

The process that asks never loads the engine, and nothing but the tables it hands over is within
the statement's reach.
"""

from __future__ import annotations

from registry.query.formats import FORMATS
from registry.query.model import Dataset, Limits, Query, Relation, Summary, View
from registry.query.params import parse_assignment, parse_parameter
from registry.query.process import Worker, query_arrow, start_worker

__all__ = [
    "FORMATS",
    "Dataset",
    "Limits",
    "Query",
    "Relation",
    "Summary",
    "View",
    "Worker",
    "parse_assignment",
    "parse_parameter",
    "query_arrow",
    "start_worker",
]
