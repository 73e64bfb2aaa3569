"""Time the view `results` against one flat Parquet file of the same rows.

Run as ``python -m benchmarks.results_view [OBSERVATIONS ...]``. Both sides run in one DuckDB
process of the same settings, warm, with nothing pending.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

import duckdb
from registry.store.bulk import add_tables

from benchmarks.synthetic import synthetic_tables
from benchmarks.timing import print_ratios, time_in_turns
from registry.query.database import connect, create_objects, select_names, set_limits
from registry.query.model import Limits
from registry.store.folder import create_registry
from registry.store.read import read_dataset

SIZES = (1_000_000,)
_REPEATS = 15

QUERIES = {
    "group by": (
        "select model_id, method_label, gpu_id, count(*), median(peak_memory_bytes), "
        "avg(tokens_per_second) from {} group by all"
    ),
    "filter": (
        "select observation_id, seq_len, peak_memory_bytes, seconds_per_step from {} "
        "where model_id = 'qwen-7b' and method = 'lora' and seq_len = 8192 and outcome = 'ok' "
        "and peak_memory_bytes < 20000000000"
    ),
    "whole rows of a filter": "select * from {} where n_samples between 1000 and 1100",
    "count": "select count(*) from {}",
}


def main(sizes: list[int]) -> None:
    """Measure and print all sizes."""
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            _measure(Path(folder), size)


def _measure(path: Path, size: int) -> None:
    folder = create_registry(path / "registry", curated=False)
    add_tables(folder, synthetic_tables(size))
    flat = path / "flat.parquet"
    dataset, _ = read_dataset(folder)
    with connect(duckdb) as connection:
        set_limits(connection, Limits())
        create_objects(connection, dataset, select_names(dataset, "from results"))
        connection.execute(f"copy (from results) to '{flat}' (format parquet, compression zstd)")
        for name, sql in QUERIES.items():
            sides = {
                "one flat file": partial(_run, connection, sql.format(f"'{flat}'")),
                "results": partial(_run, connection, sql.format("results")),
            }
            medians = time_in_turns(sides, _REPEATS, warm_up=2)
            print_ratios(f"{name}, {size} observations", medians, "one flat file")


def _run(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    connection.execute(sql).fetchall()


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or list(SIZES))
