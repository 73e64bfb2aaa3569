"""The data dictionary: every table, view, vocabulary, metric and rule, as one Markdown page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry.contract import (
    TABLES,
    load_metrics,
    load_rules,
    load_table,
    load_vocabularies,
    read_view,
    rule_facts,
    view_names,
    vocabulary,
)
from registry.contract.descriptions import describe_column, describe_relation
from registry.text import format_markdown_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from registry.contract import Column

_PREAMBLE = """\
# Data dictionary

Generated from `schemas/` by `python -m registry.contract.documentation`; change it there.

Memory is in bytes, time in seconds, rates are per second. Null means *not stated*, never a default.
Texts hold no control characters. `registry query --schema [NAME]` prints the same."""


def format_data_dictionary() -> str:
    """Return the data dictionary as Markdown."""
    return "\n\n".join(_blocks()) + "\n"


def _blocks() -> Iterator[str]:
    yield _PREAMBLE
    yield "## Views"
    columns = collect_view_columns()
    for name in view_names():
        yield from _view(name, columns[name])
    yield "## Tables"
    for name in TABLES:
        yield from _table(name)
    yield from _metrics()
    yield from _vocabularies()
    yield from _rules()


def collect_view_columns() -> dict[str, dict[str, str]]:
    """Return for each view its columns in order, with their SQL types, as the engine sees them."""
    import duckdb  # noqa: PLC0415 - heavy

    from registry.contract.arrow import table_schema  # noqa: PLC0415 - heavy

    with duckdb.connect(":memory:") as connection:
        for name in TABLES:
            connection.register(name, table_schema(name).empty_table())
        for name in view_names():
            connection.execute(f'create view "{name}" as {read_view(name)}')
        return {
            name: {row[0]: row[1] for row in connection.execute(f'describe "{name}"').fetchall()}
            for name in view_names()
        }


def _view(name: str, columns: Mapping[str, str]) -> Iterator[str]:
    yield f"### `{name}`"
    yield describe_relation(name)
    yield format_markdown_table(
        ("column", "type", "unit", "meaning"),
        (_view_column(name, column, sql_type) for column, sql_type in columns.items()),
    )


def _view_column(view: str, column: str, sql_type: str) -> tuple[str, ...]:
    described = describe_column(view, column)
    unit, meaning = (described.unit or "", described.meaning) if described else ("", "")
    return (f"`{column}`", _SQL_TYPES.get(sql_type, sql_type.lower()), unit, meaning)


_SQL_TYPES = {
    "VARCHAR": "string",
    "VARCHAR[]": "list of string",
    "BIGINT": "int64",
    "DOUBLE": "float64",
    "BOOLEAN": "bool",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
}


def _table(name: str) -> Iterator[str]:
    table = load_table(name)
    yield f"### `{name}`"
    yield f"{table.meaning} Key: {', '.join(f'`{column}`' for column in table.key)}."
    yield format_markdown_table(
        ("column", "type", "unit", "values", "meaning"),
        (
            (
                f"`{column.name}`",
                _format_type(column),
                column.unit or "",
                _format_values(column),
                column.meaning,
            )
            for column in table.columns
        ),
    )


def _format_type(column: Column) -> str:
    name = "list of string" if column.type == "list<string>" else column.type
    return f"{name}, not null" if column.required else name


def _format_values(column: Column) -> str:
    if column.vocabulary:
        return f"[{column.vocabulary}](#{column.vocabulary})"
    if column.references:
        return f"id of [`{column.references}`](#{column.references})"
    if column.pattern:
        return f"`{column.pattern}`"
    return _format_range(column.min, column.max)


def _format_range(low: float | None, high: float | None) -> str:
    bounds = (("≥", low), ("≤", high))
    return ", ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)


def _metrics() -> Iterator[str]:
    yield "## metric"
    yield "What `measurements.metric` can be; each has one unit, that of `measurements.value`."
    yield format_markdown_table(
        ("metric", "unit", "values", "meaning"),
        (
            (f"`{metric.name}`", metric.unit, _format_range(metric.min, metric.max), metric.meaning)
            for metric in load_metrics().values()
        ),
    )


def _vocabularies() -> Iterator[str]:
    yield "## Vocabularies"
    for name in load_vocabularies():
        if name != "metric":
            yield f"### {name}"
            yield format_markdown_table(("value", "meaning"), _terms(vocabulary(name)))


def _terms(terms: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for value, meaning in terms.items():
        yield f"`{value}`", str(meaning)


def _rules() -> Iterator[str]:
    yield "## Rules"
    yield (
        "What must hold across the columns of one observation. What is not stated breaks no rule. "
        "Besides the columns of the configuration and the observation, rules use the facts below."
    )
    yield format_markdown_table(
        ("rule", "expected", "where it fails"),
        (
            (f"`{rule.name}`", f"{rule.expected}: `{rule.require}`", rule.way_out)
            for rule in load_rules()
        ),
    )
    yield format_markdown_table(("fact", "meaning"), _terms(rule_facts()))
