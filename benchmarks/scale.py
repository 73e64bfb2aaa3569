"""Measure how cost grows with a registry: CPU time and memory of each command, and the slopes.

Run as ``python -m benchmarks.scale [OBSERVATIONS ...]``. Each step is a process of its own, and its
CPU time and peak memory are those that the kernel counted for it and its children. A slope is the
exponent between two sizes: 0 is flat, 1 is linear.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.synthetic import build_documents
from benchmarks.timing import format_load
from registry.api import open_registry
from registry.store.folder import create_registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SIZES = (1_000, 10_000, 100_000, 1_000_000)
_PER_DOCUMENT = 100
_SCRIPT = Path(sys.executable).parent / "registry"

_GROUPED = """
select model_id, method_label, gpu_id, max(seq_len) as longest, min(peak_memory_bytes) as least
from results where outcome = 'ok' group by all order by all
"""
_POINT = "from results where observation_id = $id"


@dataclass(frozen=True)
class Cost:
    """What a process took, its children included."""

    cpu_seconds: float
    peak_mib: float


#: Runs a command and prints what it took. A process of its own, because it must be small (a child's
#: peak begins with what its parent has) and the children of others must become its own (a query
#: leaves its engine to end alone).
_METER = """
import ctypes, json, os, resource, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
with open(os.devnull, "wb") as null:
    child = subprocess.Popen(sys.argv[1:], stdout=null)
_, status = os.waitpid(child.pid, 0)
try:
    while True:
        os.wait()
except ChildProcessError:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
sys.exit(os.waitstatus_to_exitcode(status))
"""


def measure(arguments: Sequence[object]) -> Cost:
    """Run a command to its end; return what it took. Raises CalledProcessError."""
    command = [sys.executable, "-I", "-S", "-c", _METER, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return Cost(*json.loads(done.stdout))


def measure_size(n_observations: int, folder: Path) -> Iterator[tuple[str, Cost]]:
    """Yield the steps in the life of a registry of that size, and what each took."""
    registry = create_registry(folder / "registry", curated=False).path
    at = ("--registry", registry)
    program = (sys.executable, "-m", "benchmarks.scale", "add")
    yield "add all, 100 a document", measure([*program, registry, n_observations])
    yield "fold", measure([_SCRIPT, "fold", *at])
    one = folder / "one.json"
    one.write_text(json.dumps(next(build_documents(1, seed=1))), encoding="utf-8")
    yield "add one more", measure([_SCRIPT, "add", one, *at])
    yield "fold one more", measure([_SCRIPT, "fold", *at])
    sql = "select observation_id from results limit 1"
    (row,) = open_registry(registry).query(sql).rows()
    query = (_SCRIPT, "query")
    count = "select count(*) from results"
    yield "query: count", measure([*query, count, *at])
    yield "query: group by", measure([*query, _GROUPED, *at])
    point = [*query, _POINT, "-p", f"id={row['observation_id']}", *at]
    yield "query: point look-up", measure(point)
    yield "check", measure([_SCRIPT, "check", *at])
    yield "export", measure([_SCRIPT, "export", folder / "export", *at])
    parts = sum(path.stat().st_size for path in registry.rglob("*") if path.is_file())
    yield "files on the disk", Cost(math.nan, parts / 2**20)


def add(registry: str, n_observations: str) -> None:
    """Add synthetic observations, in this process."""
    documents = build_documents(int(n_observations), per_document=_PER_DOCUMENT)
    open_registry(registry).add_many(documents)


def slope(before: float, after: float, factor: float) -> float:
    """Return the exponent with which a cost grew while the size grew by a factor.

    >>> round(slope(2.0, 20.0, 10), 3)
    1.0
    """
    return math.log(after / before) / math.log(factor)


def main(sizes: Sequence[int]) -> None:
    """Measure all sizes, smallest first, and print a Markdown table."""
    costs: dict[str, list[Cost]] = {}
    for size in sorted(sizes):
        folder = Path(tempfile.mkdtemp())
        try:
            for step, cost in measure_size(size, folder):
                costs.setdefault(step, []).append(cost)
                text = f"{size:,}: {step}: {_format_cost(cost)} ({format_load()})"
                print(text, file=sys.stderr, flush=True)
        finally:
            shutil.rmtree(folder)
    print("\n".join(format_table(sorted(sizes), costs)))


def format_table(sizes: Sequence[int], costs: dict[str, list[Cost]]) -> Iterator[str]:
    """Yield a Markdown table: CPU seconds and MiB of each size, and the last slopes of both."""
    titles = [f"{size:,}" for size in sizes]
    yield f"| step | {' | '.join(titles)} | slope of time | slope of memory |"
    yield f"|---|{'--:|' * (len(sizes) + 2)}"
    for step, found in costs.items():
        cells = [_format_cost(cost) for cost in found]
        slopes = ["", ""]
        if len(found) > 1:
            factor = sizes[-1] / sizes[-2]
            pairs = [(one.cpu_seconds, one.peak_mib) for one in found[-2:]]
            slopes = [f"{slope(*pair, factor):.2f}" for pair in zip(*pairs, strict=True)]
        yield f"| {step} | {' | '.join([*cells, *slopes])} |".replace("nan", "")


def _format_cost(cost: Cost) -> str:
    seconds = "" if math.isnan(cost.cpu_seconds) else f"{cost.cpu_seconds:.2f} s, "
    return f"{seconds}{cost.peak_mib:,.0f} MiB"


if __name__ == "__main__":
    if sys.argv[1:2] == ["add"]:
        add(*sys.argv[2:])
    else:
        main([int(text) for text in sys.argv[1:]] or SIZES)
