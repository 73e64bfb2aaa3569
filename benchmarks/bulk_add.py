"""Time adding whole tables, validated, against writing the same tables with pyarrow alone.

Run as ``python -m benchmarks.bulk_add [OBSERVATIONS ...]``. Both sides take turns in one run; the
ratio is that of the medians, beside that of the fastest. Each side works in a process of its own,
so that the peak of its memory, and of the processes it starts, is its own.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq
from registry.store.bulk import add_tables

from benchmarks.synthetic import synthetic_tables
from registry.store.folder import Folder
from registry.store.parts import ROW_GROUP_ROWS

#: Sizes that are measured where none is named.
SIZES = (100_000, 1_000_000)

REPEATS = 3
_SIDES = ("raw", "bulk", "folder")
_KIB = 1024
_SAMPLE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Timing:
    """One repeat of one side."""

    seconds: float
    #: Largest memory of the process and its children together, in bytes.
    peak_memory_bytes: int
    #: Memory before the work began, in bytes: the modules, and the tables where they are in memory.
    base_memory_bytes: int


def main(sizes: list[int]) -> None:
    """Measure and print all sizes."""
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            _write_input(Path(folder) / "input", size)
            timings = _measure(Path(folder))
        _print_ratios(size, timings)


def _write_input(folder: Path, size: int) -> None:
    folder.mkdir()
    for name, table in synthetic_tables(size).items():
        _write_raw(folder / f"{name}.parquet", table)


def _write_raw(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path, compression="zstd", row_group_size=ROW_GROUP_ROWS)


def _measure(folder: Path) -> dict[str, list[Timing]]:
    timings: dict[str, list[Timing]] = {side: [] for side in _SIDES}
    for _ in range(REPEATS):
        for side in _SIDES:
            with tempfile.TemporaryDirectory(dir=folder) as target:
                timings[side].append(_run_side(side, folder / "input", Path(target)))
    return timings


def _run_side(side: str, source: Path, target: Path) -> Timing:
    command = [sys.executable, "-m", "benchmarks.bulk_add", side, str(source), str(target)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Timing(**json.loads(done.stdout))


def work(side: str, source: Path, target: Path) -> Timing:
    """Do the work of one side, in this process."""
    if side == "folder":
        tables: dict[str, pa.Table] = {}
    else:
        tables = {path.stem: pq.read_table(path) for path in sorted(source.glob("*.parquet"))}
    registry = Folder(target / "registry")
    registry.tables.mkdir(parents=True)
    registry.journal.mkdir()
    with MemoryPeak() as memory:
        start = time.perf_counter()
        if side == "raw":
            for name, table in tables.items():
                _write_raw(target / f"{name}.parquet", table)
        else:
            add_tables(registry, tables or source)
        seconds = time.perf_counter() - start
    return Timing(seconds, memory.peak_bytes, memory.base_bytes)


class MemoryPeak:
    """Samples the memory of this process and its children: private and shared pages, each once."""

    def __init__(self) -> None:
        self.base_bytes = self.peak_bytes = _family_bytes()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        """Start sampling."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop sampling."""
        self._stopped.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stopped.wait(_SAMPLE_SECONDS):
            self.peak_bytes = max(self.peak_bytes, _family_bytes())


def _family_bytes() -> int:
    """Return the memory of this process and all that descend from it, shared pages once."""
    return sum(_resident_bytes(pid) for pid in ["self", *_descendants("self")])


def _descendants(pid: str) -> list[str]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [child for task in tasks for child in _read_text(task).split()]
    return children + [pid for child in children for pid in _descendants(child)]


def _resident_bytes(pid: str) -> int:
    lines = _read_text(Path(f"/proc/{pid}/smaps_rollup")).splitlines()
    sizes = [int(line.split()[1]) for line in lines if line.startswith("Pss:")]
    return sum(sizes) * _KIB


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return ""  # ended meanwhile


def _print_ratios(size: int, timings: dict[str, list[Timing]]) -> None:
    raw = [timing.seconds for timing in timings["raw"]]
    print(f"{size:,} observations, {REPEATS} repeats, taken in turn")
    for side, repeats in timings.items():
        seconds = [timing.seconds for timing in repeats]
        median = statistics.median(seconds)
        more = max(timing.peak_memory_bytes - timing.base_memory_bytes for timing in repeats)
        peak = max(timing.peak_memory_bytes for timing in repeats)
        print(
            f"  {side:6} median {median:6.2f} s, fastest {min(seconds):6.2f} s; "
            f"{median / statistics.median(raw):4.1f} x raw (fastest: "
            f"{min(seconds) / min(raw):4.1f} x); peak {peak / 2**20:6,.0f} MiB with children, "
            f"{more / 2**20:6,.0f} MiB above the start"
        )


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in _SIDES:
        timing = work(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
        sys.stdout.write(
            json.dumps({name: getattr(timing, name) for name in Timing.__dataclass_fields__})
        )
    else:
        main([int(size) for size in sys.argv[1:]] or list(SIZES))
