"""Whole tables that somebody hands in: a folder as ``registry export`` writes it, or Arrow tables.

Tables whose rows hang on an observation are read along with the observations, batch by batch, so
that a bundle need not fit into memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from registry.arrow import table_schema
from registry.bulk_order import compare_neighbours, is_sorted
from registry.contract import TABLES, load_table
from registry.errors import StoreError, SubmissionError, did_you_mean
from registry.store.integrity import Integrity, open_integrity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    Tables = Mapping[str, pa.Table | pa.RecordBatchReader]

#: Tables that are read along with the observations.
STREAMED = ("observations", "measurements", "citations", "samples")

#: Tables up to this many rows are sorted in memory where they are not.
LARGEST_SORTED = 500_000

#: Rows that are read from a file at once.
_READ_ROWS = 65_536


class Cursor:
    """Reads the rows of a table that is sorted by observation, piece by piece."""

    def __init__(self, name: str, batches: Iterator[pa.Table]) -> None:
        self.name = name
        self._batches = batches
        self._held = empty_table(name)
        self._last = ""

    def take_rows(self, count: int) -> pa.Table:
        """Return the next ``count`` rows; fewer at the end."""
        while self._held.num_rows < count and self._fetch():
            pass
        return self._split(min(count, self._held.num_rows))

    def take_until(self, last: str | None) -> pa.Table:
        """Return the next rows, up to those of the observation ``last``; None for all."""
        while last is None or self._last <= last:
            if not self._fetch():
                break
        if last is None:
            return self._split(self._held.num_rows)
        upto = pc.sum(pc.less_equal(self._held.column("observation_id"), last)).as_py() or 0
        return self._split(upto)

    def _split(self, count: int) -> pa.Table:
        taken, self._held = self._held.slice(0, count), self._held.slice(count)
        return taken

    def _fetch(self) -> bool:
        batch = next(self._batches, None)
        if batch is None:
            return False
        if batch.num_rows:
            ids = batch.select(["observation_id"])
            first = ids.column(0)[0].as_py() or ""
            if first < self._last or compare_neighbours(ids, ["observation_id"])[0].any():
                raise SubmissionError(
                    f"{self.name}: found rows that are not in the order of observation_id; "
                    f"expected that of more than {LARGEST_SORTED} rows; sort the table",
                    origin="tables",
                )
            self._last = ids.column(0)[-1].as_py() or ""
            self._held = pa.concat_tables([self._held, batch])
        return True


class Bundle:
    """The tables of a bundle: small ones whole, the others through cursors."""

    def __init__(
        self,
        origin: str,
        batches: dict[str, Iterator[pa.Table]],
        *,
        n_observations: int | None = None,
        integrity: Integrity | None = None,
    ) -> None:
        self.origin = origin
        #: How many observations there are; None where only reading them tells.
        self.n_observations = n_observations
        self._batches = batches
        self._integrity = integrity

    def __enter__(self) -> Self:
        """Return the bundle."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop reading files for their hashes."""
        if self._integrity:
            self._integrity.stop()

    def require_integrity(self) -> None:
        """Raise SubmissionError where a file is not what the export's manifest says."""
        if self._integrity:
            self._integrity.require()

    def whole(self, name: str) -> pa.Table:
        """Return all rows of a table."""
        pieces = [empty_table(name), *self._batches.get(name, ())]
        return pa.concat_tables(pieces).combine_chunks()

    def cursor(self, name: str) -> Cursor:
        """Return a cursor at the first row of a table."""
        return Cursor(name, iter(self._batches.get(name, iter(()))))


def empty_table(name: str) -> pa.Table:
    """Return a table of the contract without rows, whose columns all may hold nulls."""
    return _nullable(name).empty_table()


def _nullable(name: str) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in table_schema(name)])


def open_bundle(source: Path | str | Tables) -> Bundle:
    """Open what somebody hands in: a folder of Parquet files, or tables by name.

    Raises StoreError where the folder cannot be read, SubmissionError where a table or column is
    not one of the contract.
    """
    if isinstance(source, Mapping):
        _check_names(list(source), "tables")
        batches = {name: _table_batches(name, table) for name, table in source.items()}
        return Bundle("tables", batches, n_observations=_count_rows(source.get("observations")))
    path = Path(source)
    files = _bundle_files(path)
    batches = {name: file_batches(name, found) for name, found in files.items()}
    n_observations = count_file_rows(files.get("observations", []))
    integrity = open_integrity(path)
    return Bundle(str(path), batches, n_observations=n_observations, integrity=integrity)


def _count_rows(table: pa.Table | pa.RecordBatchReader | None) -> int | None:
    if table is None:
        return 0
    return table.num_rows if isinstance(table, pa.Table) else None


def count_file_rows(files: list[str]) -> int:
    """Return the rows of some Parquet files; raise StoreError where one cannot be read."""
    with _readable(files):
        return sum(pq.read_metadata(file).num_rows for file in files)


@contextlib.contextmanager
def _readable(files: list[str]) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise StoreError(
            f"{files[0]}: cannot be read ({error}); expected a Parquet file; export it again"
        ) from None


def _check_names(names: list[str], origin: str) -> None:
    unknown = [name for name in names if name not in TABLES]
    if unknown:
        raise SubmissionError(
            [
                f"unknown table {name!r}{did_you_mean(name, TABLES)}; expected one of "
                f"{', '.join(TABLES)}"
                for name in unknown
            ],
            origin=origin,
        )


def _bundle_files(path: Path) -> dict[str, list[str]]:
    if not path.is_dir():
        raise StoreError(
            f"{path}: no such folder; expected one as `registry export` writes it: a Parquet file "
            "for each table"
        )
    files: dict[str, list[str]] = {}
    for entry in sorted(path.iterdir()):
        if entry.suffix == ".parquet":
            files[entry.stem] = [str(entry)]
        elif entry.is_dir():
            files[entry.name] = [str(file) for file in sorted(entry.glob("*.parquet"))]
    files = {name: found for name, found in files.items() if found}
    if not files:
        raise StoreError(f"{path}: found no Parquet files; expected one for each table")
    _check_names(list(files), str(path))
    return files


def _table_batches(name: str, table: pa.Table | pa.RecordBatchReader) -> Iterator[pa.Table]:
    if isinstance(table, pa.Table):
        yield from _in_order(name, conform(name, table))
    else:
        for batch in table:
            yield conform(name, pa.Table.from_batches([batch]))


def file_batches(name: str, files: list[str]) -> Iterator[pa.Table]:
    """Yield the rows of a table's files in pieces, with the contract's columns and types."""
    with _readable(files):
        dataset = ds.dataset(files)
        if dataset.count_rows() <= LARGEST_SORTED:
            yield from _in_order(name, conform(name, dataset.to_table()))
            return
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(batch_size=_READ_ROWS):
                yield conform(name, pa.Table.from_batches([batch]))


def _in_order(name: str, table: pa.Table) -> Iterator[pa.Table]:
    key = load_table(name).key
    if name in STREAMED and not is_sorted(table, key):
        table = table.sort_by([(column, "ascending") for column in key])
    for start in range(0, table.num_rows, _READ_ROWS):
        yield table.slice(start, _READ_ROWS)


def conform(name: str, table: pa.Table) -> pa.Table:
    """Return a table with the contract's columns and types; raise SubmissionError on others."""
    schema = _nullable(name)
    if table.schema.equals(schema, check_metadata=False):
        return table.replace_schema_metadata(None)
    unknown = [column for column in table.schema.names if column not in schema.names]
    missing = [column for column in schema.names if column not in table.schema.names]
    problems = [
        f"{name}: unknown column {column!r}{did_you_mean(column, schema.names)}"
        for column in unknown
    ]
    problems += [f"{name}: column {column!r} is missing; expected it" for column in missing]
    if problems:
        raise SubmissionError(problems, origin="tables")
    return pa.table([_cast(name, table, field) for field in schema], schema=schema)


def _cast(name: str, table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    column = table.column(field.name)
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SubmissionError(
            f"{name}.{field.name}: found {column.type}; expected {field.type} ({error})",
            origin="tables",
        ) from None
