"""Compare the views on Spark or Sail with DuckDB's, row by row, and print a table.

Run as ``python -m benchmarks.readers spark|sail [OBSERVATIONS]`` with the extra of that name
installed. Without a number the curated records are compared as `registry.spark` registers them;
with one, that many synthetic observations (`benchmarks.copies`), on which every view is computed.
Exits with 1 where a row differs. `.ci/readers` installs what is needed and calls it for both.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq

from benchmarks.copies import write_copies
from registry.contract import view_names
from registry.query.database import all_names, connect, create_objects, set_limits
from registry.query.model import Limits
from registry.query.spark import register_dataset
from registry.store.folder import find_registry
from registry.store.read import read_dataset

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from registry.query.model import Dataset

RECORDS = Path(__file__).parents[1] / "records"

#: Sums and medians of floating-point figures depend on the order of rows.
_RELATIVE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Comparison:
    """A view on two engines: rows on either side that the other lacks, and the seconds of both."""

    view: str
    rows: int
    only_duckdb: int
    only_other: int
    seconds_duckdb: float
    seconds_other: float

    @property
    def is_equal(self) -> bool:
        """Whether both engines gave the same rows."""
        return self.only_duckdb == self.only_other == 0


@contextmanager
def start_session(engine: str) -> Iterator[Any]:
    """Give a session of Spark or Sail on this machine, and stop it in the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PySpark, about pandas 3
        start = {"sail": _start_sail, "spark": _start_spark}[engine]
        with start() as session:
            yield session


@contextmanager
def _start_sail() -> Iterator[Any]:
    from pysail.spark import SparkConnectServer  # noqa: PLC0415 - one engine is installed at a time
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as above

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    port = server.listening_address[1]
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        server.stop()


@contextmanager
def _start_spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - one engine is installed at a time

    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "8g",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # else one without a zone
        "spark.sql.shuffle.partitions": "32",  # of four, one of a million rows is too large
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def compare_views(session: Any, dataset: Dataset, names: Sequence[str]) -> Iterator[Comparison]:
    """Yield a comparison of each of the named tables or views."""
    register_dataset(session, dataset)
    with tempfile.TemporaryDirectory() as folder, connect(duckdb) as connection:
        connection.execute(f"set temp_directory = '{folder}/spilled'")
        set_limits(connection, Limits())
        create_objects(connection, dataset, all_names(dataset))
        for name in names:
            yield _compare_view(session, connection, name, Path(folder) / name)


def _compare_view(
    session: Any, connection: duckdb.DuckDBPyConnection, name: str, folder: Path
) -> Comparison:
    begin = time.perf_counter()
    _write_rows(session.table(name), folder)
    middle = time.perf_counter()
    connection.execute(f"copy (from {name}) to '{folder}.parquet' (format parquet)")
    end = time.perf_counter()
    ours, theirs = f"'{folder}.parquet'", f"'{folder}/*.parquet'"
    found = _compare_files(connection, name, ours, theirs)
    shutil.rmtree(folder)
    Path(f"{folder}.parquet").unlink()
    return Comparison(name, *found, end - middle, middle - begin)


def _write_rows(frame: Any, folder: Path) -> None:
    frame.write.parquet(str(folder))
    if not any(folder.glob("*.parquet")):  # Sail writes no file where there is no row
        folder.mkdir(exist_ok=True)
        pq.write_table(frame.toArrow(), folder / "empty.parquet")


def _compare_files(
    connection: duckdb.DuckDBPyConnection, name: str, ours: str, theirs: str
) -> tuple[int, int, int]:
    """Return the rows of our file, those that theirs lack, and those that only theirs have."""
    kinds = [connection.execute(f"describe from {file}").fetchall() for file in (ours, theirs)]
    described = [[(column, kind) for column, kind, *_ in one] for one in kinds]
    if described[0] != described[1]:
        raise SystemExit(f"{name}: found the columns {described[1]}, expected {described[0]}")
    ((rows,),) = connection.execute(f"from (from {ours}) select count(*)").fetchall()
    left = connection.execute(f"from (from {ours} except all from {theirs})").fetchall()
    right = connection.execute(f"from (from {theirs} except all from {ours})").fetchall()
    pairs = zip(sorted(left, key=_sort_key), sorted(right, key=_sort_key), strict=False)
    close = sum(_are_close(one, other) for one, other in pairs)
    return rows, len(left) - close, len(right) - close


def _sort_key(row: tuple[Any, ...]) -> str:
    """Return the same key for rows whose figures differ in their last digits."""
    rounded = [f"{value:.6g}" if isinstance(value, float) else value for value in row]
    return repr(rounded)


def _are_close(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=_RELATIVE_TOLERANCE)
        if isinstance(a, float) and isinstance(b, float)
        else a == b
        for a, b in zip(one, other, strict=True)
    )


def _compare(engine: str, dataset: Dataset, title: str) -> bool:
    """Print the comparison of all views; return whether they are equal."""
    print(f"{engine} against DuckDB, {title}")
    print(f"{'view':<16}{'rows':>10}  {'comparison':<30}{'DuckDB s':>10}{engine + ' s':>10}")
    equal = True
    with start_session(engine) as session:
        for one in compare_views(session, dataset, view_names()):
            verdict = "equal" if one.is_equal else f"-{one.only_duckdb} +{one.only_other} rows"
            seconds = f"{one.seconds_duckdb:>10.2f}{one.seconds_other:>10.2f}"
            print(f"{one.view:<16}{one.rows:>10,}  {verdict:<30}{seconds}", flush=True)
            equal = equal and one.is_equal
    return equal


def main(engine: str, n_observations: int | None = None) -> int:
    """Compare and print; return the exit code."""
    if n_observations is None:
        dataset, _ = read_dataset(find_registry(RECORDS))
        return 0 if _compare(engine, dataset, "curated records") else 1
    with tempfile.TemporaryDirectory() as folder:
        dataset = write_copies(duckdb, RECORDS / "tables", Path(folder), n_observations)
        return 0 if _compare(engine, dataset, f"{n_observations:,} synthetic observations") else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:3])))
