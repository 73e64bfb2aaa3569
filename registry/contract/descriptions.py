"""Meanings and units of the columns of tables and views, for comments, docs and data frames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from registry.contract import TABLES, load_table, view_names
from registry.contract.resources import read_yaml

#: Tables that a view's column of the same name is taken from, the first that has it.
_LOOKED_UP = (
    "configurations",
    "observations",
    "environments",
    "models",
    "gpus",
    "citations",
    "measurements",
)


@dataclass(frozen=True, slots=True)
class Description:
    """What a column means, in which unit it is, and the vocabulary of its values."""

    meaning: str
    unit: str | None = None
    vocabulary: str | None = None
    references: str | None = None


def describe_relation(name: str) -> str:
    """Return what one row of a table or view is."""
    if name in TABLES:
        return load_table(name).meaning
    meaning: str = read_yaml("views.yaml")[name]["meaning"]
    return meaning


@lru_cache(maxsize=512)
def describe_column(relation: str, column: str) -> Description | None:
    """Return what is known of a column of a table or view, or None for a name it does not have."""
    if relation in TABLES:
        return _of_table(relation, column)
    described = read_yaml("views.yaml")
    for view in dict.fromkeys((relation, "results")):
        entry = described[view]["columns"].get(column)
        if entry is not None:
            return Description(entry["meaning"], entry.get("unit"))
    found = (_of_table(table, column) for table in _LOOKED_UP)
    return next((description for description in found if description), None)


def _of_table(table: str, name: str) -> Description | None:
    for column in load_table(table).columns:
        if column.name == name:
            return Description(column.meaning, column.unit, column.vocabulary, column.references)
    return None


def describe_result_column(name: str) -> Description | None:
    """Return what is known of a column of any query's result, by its name alone."""
    for relation in ("results", *TABLES, *view_names()):
        description = describe_column(relation, name)
        if description is not None:
            return description
    return None


def format_comment(description: Description) -> str:
    """Return the meaning with its unit."""
    unit = f" [{description.unit}]" if description.unit else ""
    return f"{description.meaning}{unit}"


def collect_comments() -> tuple[tuple[str, str, str], ...]:
    """Return (relation, column, text); the column is empty for a relation as a whole."""
    comments = [(name, "", describe_relation(name)) for name in (*TABLES, *view_names())]
    for table in TABLES:
        for column in load_table(table).columns:
            description = Description(column.meaning, column.unit)
            comments.append((table, column.name, format_comment(description)))
    for name in view_columns("results"):
        described = describe_column("results", name)
        if described is not None:
            comments.append(("results", name, format_comment(described)))
    return tuple(comments)


@lru_cache(maxsize=1)
def collect_column_metadata() -> dict[str, dict[str, str]]:
    """Return meaning and unit of every column that the contract knows, by name."""
    names = [column.name for table in TABLES for column in load_table(table).columns]
    names += [name for view in view_names() for name in view_columns(view)]
    described = {name: describe_result_column(name) for name in dict.fromkeys(names)}
    return {name: format_metadata(found) for name, found in described.items() if found is not None}


def format_metadata(description: Description) -> dict[str, str]:
    """Return what Arrow and Parquet say of a column."""
    unit = {"unit": description.unit} if description.unit else {}
    return {"meaning": description.meaning, **unit}


@lru_cache(maxsize=16)
def view_columns(view: str) -> tuple[str, ...]:
    """Return the columns of a view that ``views.yaml`` lists, in order."""
    entry = read_yaml("views.yaml")[view]
    return tuple(entry.get("order", entry["columns"]))
