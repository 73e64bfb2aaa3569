"""Time cold queries on the curated records against a bare DuckDB process.

Run as ``python -m benchmarks.cold_query [REPEATS]``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.timing import command, print_ratios, time_in_turns

_SCRIPT = Path(sys.executable).parent / "registry"
_BARE = "import duckdb; duckdb.sql('select 1').fetchall()"
_REAL = """
select model_id, method_label, gpu_id, max(seq_len) as longest, min(peak_memory_bytes) as least
from results where outcome = 'ok' group by all order by all
"""


def main(repeats: int) -> None:
    """Measure and print."""
    sides = {
        "python -c 'import duckdb; select 1'": command(sys.executable, "-c", _BARE),
        "registry query 'select 1'": command(_SCRIPT, "query", "select 1"),
        "registry query, results grouped": command(_SCRIPT, "query", _REAL),
        "registry ls": command(_SCRIPT, "ls"),
        "registry --help": command(_SCRIPT, "--help"),
    }
    medians = time_in_turns(sides, repeats, warm_up=2)
    print_ratios("cold processes", medians, next(iter(sides)))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
