"""What a query is asked over, and within which limits: plain values that cross to the child."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30

#: Formats that we write the engine's rows in, and those that Arrow writes.
SELF_DESCRIBING = ("parquet", "arrow")
FORMATS = ("table", "csv", "tsv", "json", "jsonl", "markdown", *SELF_DESCRIBING)

#: Formats in which a spreadsheet takes a text for a formula.
GUARDED_FORMATS = ("csv", "tsv")

#: Runs a statement with its parameters, and returns its rows as JSON has them.
Read = Callable[[str, Mapping[str, Any]], list[dict[str, Any]]]

Comment = tuple[str, str, str]
Comments = tuple[Comment, ...] | Callable[[], tuple[Comment, ...]]

#: What is written into Arrow and Parquet beside a column of a name: its unit and meaning.
ColumnMetadata = Mapping[str, Mapping[str, str]]


class Digest(NamedTuple):
    """What a file held when it was written, and what to do where it holds something else."""

    size: int
    sha256: str
    way_out: str


@dataclass(frozen=True)
class Relation:
    """A table: Parquet files, plus rows that are not in any file yet.

    ``columns`` holds (name, DuckDB type); it types the pending rows and an empty relation.
    ``json_rows``, a JSON array of objects, are the pending rows. ``evolved`` says that some files
    have other columns or types than those: what a file lacks is null, what it has in addition is
    left out, and the rest is cast. ``where`` is an SQL condition that all rows must meet, ours and
    never a user's; it may name relations that come before this one in the dataset. ``digests``,
    one for each file, say what the files must hold; without them their content is not verified.
    """

    name: str
    files: tuple[Path, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    json_rows: bytes | None = None
    evolved: bool = False
    where: str | None = None
    digests: tuple[Digest, ...] = ()


@dataclass(frozen=True)
class View:
    """A named SELECT over relations and earlier views."""

    name: str
    sql: str


@dataclass(frozen=True)
class Dataset:
    """Everything within a query's reach.

    ``views`` are in the order of their dependencies. ``readable`` are the only folders that
    the confined child can open. ``comments`` are (object, column or "", text), applied only for
    a query about the catalogue; a callable is asked only then. ``column_metadata`` is what Arrow
    and Parquet say of columns by their names; it is asked only for these.
    """

    relations: tuple[Relation, ...] = ()
    views: tuple[View, ...] = ()
    readable: tuple[Path, ...] = ()
    comments: Comments = ()
    column_metadata: ColumnMetadata | Callable[[], ColumnMetadata] = field(default_factory=dict)


def default_memory_bytes() -> int:
    """Return 4 GiB, or half of this machine's memory where that is less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(4 * GIB, physical // 2)


def default_threads() -> int:
    """Return the number of processors, at most 8: each thread costs memory."""
    return min(8, os.cpu_count() or 1)


@dataclass(frozen=True)
class Limits:
    """What a query may use.

    ``seconds`` do not count while the reader of the output (a pager) makes the query wait.
    ``output_bytes`` bounds the result, None does not.
    """

    memory_bytes: int = field(default_factory=default_memory_bytes)
    seconds: float = 60.0
    threads: int = field(default_factory=default_threads)
    output_bytes: int | None = None


@dataclass(frozen=True)
class Layout:
    """How a table for people is laid out.

    ``width`` is that of the terminal in cells; without one, all columns are shown. ``first`` names
    the columns to show where not all fit, ``key`` one whose ids are not cut, and ``prose`` those
    whose text continues on the next line. ``way_out`` says where columns that do not fit are.
    """

    width: int | None = None
    first: tuple[str, ...] = ()
    key: str | None = None
    prose: tuple[str, ...] = ()
    way_out: str = "-f csv for all"


@dataclass(frozen=True)
class Query:
    """One SQL statement, its bound values, and the format (of a table, the layout) of its result.

    ``landlock=False`` treats the system as one without Landlock: the tables are copied into
    memory before the statement runs, and no file can be opened after that. ``guards_formulas``
    marks text in CSV and TSV that a spreadsheet would run.
    """

    sql: str
    params: Mapping[str, Any] = field(default_factory=dict)
    format: str = "csv"
    limits: Limits = field(default_factory=Limits)
    landlock: bool = True
    layout: Layout = Layout()
    guards_formulas: bool = False


@dataclass(frozen=True)
class Summary:
    """What a finished query wrote; ``complete`` is false where the reader hung up early."""

    columns: tuple[str, ...]
    rows: int
    complete: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether there was no row; nothing is known of that where the reader hung up."""
        return self.complete and self.rows == 0


@dataclass(frozen=True)
class Job:
    """A query with its dataset, as handed to the child."""

    dataset: Dataset
    query: Query
