"""Time adding and folding many observations, one in each document and 100 in each.

Run as ``python -m benchmarks.add_many [OBSERVATIONS ...]``. Every run is a process of its own, so
that its peak of memory is its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.synthetic import build_documents
from benchmarks.timing import format_load
from registry.api import open_registry
from registry.store.folder import create_registry

SIZES = (10_000, 100_000)


def main(sizes: list[int]) -> None:
    """Measure and print all sizes."""
    for per_document in (1, 100):
        for size in sizes:
            _print_run(size, per_document)


def _print_run(size: int, per_document: int) -> None:
    arguments = [sys.executable, "-m", "benchmarks.add_many", "run", str(size), str(per_document)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    add, fold, cpu = found["add"], found["fold"], found["cpu"]
    print(
        f"{size:,} observations, {per_document} a document: {size / (add + fold):,.0f} a second "
        f"(add {size / add:,.0f}, fold {size / fold:,.0f}), {size / cpu:,.0f} a second and core, "
        f"peak {found['peak_mib']:,.0f} MiB ({format_load()})",
        flush=True,
    )


def run(size: int, per_document: int) -> dict[str, float]:
    """Add and fold in this process; return seconds and peak memory."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = create_registry(Path(temporary) / "registry", curated=False)
        db = open_registry(folder.path)
        begin, cpu = time.perf_counter(), time.process_time()
        db.add_many(build_documents(size, per_document=per_document))
        added = time.perf_counter()
        db.fold()
        end = time.perf_counter()
        return {
            "add": added - begin,
            "fold": end - added,
            "cpu": time.process_time() - cpu,
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        sys.stdout.write(json.dumps(run(*map(int, sys.argv[2:]))))
    else:
        main([int(text) for text in sys.argv[1:]] or list(SIZES))
