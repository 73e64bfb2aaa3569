"""Time cold queries of the curated records against a bare process that reads one flat file.

Run as ``python -m benchmarks.cold_query [REPEATS]``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.timing import command, print_ratios, time_in_turns
from registry.api import open_registry

_SCRIPT = Path(sys.executable).parent / "registry"
_GROUPED = """
select model_id, method_label, gpu_id, max(seq_len) as longest, min(peak_memory_bytes) as least
from {} where outcome = 'ok' group by all order by all
"""
_BARE = "import duckdb; duckdb.sql({sql!r}).fetchall()"


def main(repeats: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        flat = Path(folder) / "flat.parquet"
        open_registry().load("results").to_parquet(flat)
        for title, sql in (("count", "select count(*) from {}"), ("group by", _GROUPED)):
            bare = _BARE.format(sql=sql.format(f"'{flat}'"))
            sides = {
                "bare DuckDB on one flat file": command(sys.executable, "-c", bare),
                "registry query": command(_SCRIPT, "query", sql.format("results")),
            }
            medians = time_in_turns(sides, repeats, warm_up=2)
            print_ratios(f"cold query of the curated records, {title}", medians, next(iter(sides)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
