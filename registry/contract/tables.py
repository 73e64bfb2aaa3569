"""The contract of ``schemas/``: tables, columns, vocabularies and rules, as typed objects.

Everything that knows a column's name, type, unit, range or meaning asks here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from registry.contract.resources import read_yaml, schemas_dir
from registry.errors import ContractError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Version of the layout of a registry's folder, and of what ids are computed over.
FORMAT_VERSION = 2

#: Views that others are made from, in the order in which they are made.
_VIEWS_OF_VIEWS = ("results", "finetuning", "utilization")

#: Tables in the order in which rows may refer to each other.
TABLES = (
    "models",
    "gpus",
    "sources",
    "environments",
    "configurations",
    "observations",
    "measurements",
    "citations",
    "samples",
    "retractions",
    "submissions",
)

TYPES = ("string", "int64", "float64", "bool", "timestamp", "json", "list<string>")

#: Bounds of a column that states none: what 64 bits hold, and the longest text.
LARGEST_INTEGER = 2**63 - 1
LONGEST_TEXT = 100_000

#: Most items of a list of words, most characters of a JSON object, and most levels of one.
MOST_WORDS = 10_000
LONGEST_JSON = 1_000_000
DEEPEST_JSON = 100

#: What no text may hold: control characters, and halves of surrogate pairs.
FORBIDDEN_CHARACTERS = r"\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its type, unit, nullability, range, vocabulary and meaning."""

    name: str
    type: str
    meaning: str
    required: bool = False
    unit: str | None = None
    vocabulary: str | None = None
    pattern: str | None = None
    min: float | None = None
    max: float | None = None
    references: str | None = None
    max_length: int = LONGEST_TEXT


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its columns, its key, and those that identify an observation."""

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    #: Columns that enter the id of the observation that a row belongs to.
    identifying: tuple[str, ...] = ()

    def column(self, name: str) -> Column:
        """Return the column called ``name``; raise KeyError where there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class CrossFieldRule:
    """One rule over several facts of an observation.

    One ``for_new`` observations alone came when others had been recorded already.
    """

    name: str
    require: str
    expected: str
    way_out: str
    for_new: bool = False


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its canonical unit, meaning and range.

    A figure above zero and below ``least`` was written in another unit.
    """

    name: str
    unit: str
    meaning: str
    min: float | None = None
    max: float | None = None
    least: float | None = None


@lru_cache(maxsize=len(TABLES))
def load_table(name: str) -> Table:
    """Return the contract of one table; raise ContractError where its file is not valid."""
    document = read_yaml(f"tables/{name}.yaml")
    columns = tuple(_column(name, entry) for entry in document["columns"])
    return Table(
        name=document["table"],
        meaning=document["meaning"],
        key=tuple(document["key"]),
        columns=columns,
        identifying=tuple(document.get("identifying", ())),
    )


def _column(table: str, entry: Mapping[str, Any]) -> Column:
    try:
        column = Column(**entry)
    except TypeError as error:
        raise ContractError(f"schemas/tables/{table}.yaml, {entry.get('name')}: {error}") from None
    if column.type not in TYPES:
        raise ContractError(
            f"schemas/tables/{table}.yaml, {column.name}: unknown type {column.type!r}; "
            f"expected one of {', '.join(TYPES)}"
        )
    return column


@lru_cache(maxsize=1)
def load_vocabularies() -> dict[str, dict[str, Any]]:
    """Return all vocabularies: name to (value to meaning)."""
    vocabularies: dict[str, dict[str, Any]] = read_yaml("vocabularies.yaml")
    return vocabularies


def vocabulary(name: str) -> dict[str, Any]:
    """Return one vocabulary: value to meaning."""
    return load_vocabularies()[name]


@lru_cache(maxsize=1)
def load_metrics() -> dict[str, Metric]:
    """Return all metrics by name."""
    return {name: Metric(name=name, **entry) for name, entry in vocabulary("metric").items()}


@lru_cache(maxsize=1)
def load_rules() -> tuple[CrossFieldRule, ...]:
    """Return the cross-field rules, in order."""
    return tuple(
        CrossFieldRule(name=name, **entry)
        for name, entry in read_yaml("rules.yaml")["rules"].items()
    )


@lru_cache(maxsize=1)
def rule_facts() -> dict[str, str]:
    """Return the facts that rules may use besides the columns: name to meaning."""
    facts: dict[str, str] = read_yaml("rules.yaml")["facts"]
    return facts


def view_names() -> tuple[str, ...]:
    """Return the names of the views, those first that others are made from."""
    names = {path.stem for path in (schemas_dir() / "views").glob("*.sql")}
    return (*_VIEWS_OF_VIEWS, *sorted(names - set(_VIEWS_OF_VIEWS)))


@lru_cache(maxsize=32)
def read_view(name: str) -> str:
    """Return the SQL of one view: a single SELECT."""
    return (schemas_dir() / "views" / f"{name}.sql").read_text(encoding="utf-8")
