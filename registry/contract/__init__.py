"""The contract of ``schemas/``, and the forms that are derived from it."""

from registry.contract.tables import (
    FORMAT_VERSION,
    TABLES,
    TYPES,
    Column,
    CrossFieldRule,
    Metric,
    Table,
    load_metrics,
    load_rules,
    load_table,
    load_vocabularies,
    read_view,
    rule_facts,
    view_names,
    vocabulary,
)

__all__ = [
    "FORMAT_VERSION",
    "TABLES",
    "TYPES",
    "Column",
    "CrossFieldRule",
    "Metric",
    "Table",
    "load_metrics",
    "load_rules",
    "load_table",
    "load_vocabularies",
    "read_view",
    "rule_facts",
    "view_names",
    "vocabulary",
]
