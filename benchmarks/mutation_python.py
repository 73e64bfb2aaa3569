"""Break the library's Python in one place at a time and see whether its tests notice.

Run as ``python -m benchmarks.mutation_python [ROOM ...]`` from the root of a checkout; ``--help``
names the options. The tests of a room are run once, to see which of them run which function. Then
a seeded sample of the faults that `benchmarks.python_mutants` finds in the room is tried in copies
of the tracked files: for each, the tests that run its function, the most particular ones first; and
all of the room's for what runs while modules are imported, or in other processes. A fault that lets
a test fail or hang is killed. What a fixture runs for several tests is tried with the first of them
alone. Faults that cannot change what the tests may ask for are in
``mutation_python_equivalent.txt``, one a line with the reason on the line before. Exits with 1
where fewer than 85 % of the others are killed.

An own script, because mutmut 3.8 has no seeded sample, and cosmic-ray 8.7 has neither that nor more
than one test command for a configuration; a table of rooms is all that is needed here.
"""

from __future__ import annotations

import argparse
import ast
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coverage import CoverageData

from benchmarks.python_mutants import Mutant, list_mutants

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[1]
LEAST_SHARE = 0.85
_EQUIVALENT = Path(__file__).with_name("mutation_python_equivalent.txt")
_PROCESSES = 2
_TESTS_FAILED = (1, 2, 4)  # a failed test, a module or a conftest that no longer imports


@dataclass(frozen=True)
class Room:
    """Modules, and the tests that are to notice what is wrong with them."""

    modules: str
    tests: tuple[str, ...]
    #: Tests that take too long to be run for each fault.
    left_out: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The tests as arguments of pytest."""
        return (*self.tests, *(f"--ignore={name}" for name in self.left_out))


ROOMS = {
    "units": Room("registry/units/*.py", ("tests/unit/units", "tests/unit/test_doc_examples.py")),
    "submission": Room("registry/submission/*.py", ("tests/unit/submission",)),
    "store": Room(
        "registry/store/*.py",
        ("tests/unit/store", "tests/unit/test_check.py"),
        ("tests/unit/store/test_crash_points.py",),
    ),
}


@dataclass(frozen=True)
class Placed:
    """A fault and the module that has it."""

    path: str
    mutant: Mutant

    @property
    def name(self) -> str:
        """What is changed where; it stays the same while the code around it moves."""
        return f"{self.path}: {self.mutant.function}: {' '.join(self.mutant.change.split())}"


class Tree:
    """A copy of the tracked files, in which one module at a time is broken."""

    def __init__(self, folder: Path) -> None:
        """Copy the tracked files."""
        self.folder = folder
        #: How often tests took too long: on a busy machine that may have another reason.
        self.n_late = 0
        command = ["git", "ls-files", "-z"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode()
        for name in filter(None, listed.split("\0")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)

    def is_noticed(self, placed: Placed, room: Room, ran: Ran, seconds: float) -> bool:
        """Return whether tests fail, or take too long, with this fault."""
        path = self.folder / placed.path
        original = path.read_text(encoding="utf-8")
        chosen, are_all = ran.choose(placed, original)
        try:
            self._write(path, placed.mutant.source)
            tries = [chosen, *([] if are_all else [room.arguments])]
            return any(self.fails(tests, seconds) for tests in tries if tests)
        finally:
            self._write(path, original)

    def _write(self, path: Path, source: str) -> None:
        # Bytecode is known by size and second, and a fault changes neither for certain.
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(source, encoding="utf-8")

    def fails(self, tests: tuple[str, ...], seconds: float) -> bool:
        """Return whether tests fail in this tree, or take too long."""
        code = self.run((*_ALONE, *tests), seconds)
        self.n_late += code is None
        if code not in (None, 0, *_TESTS_FAILED):
            raise SystemExit(f"pytest {' '.join(tests)} ended with {code}; expected tests to run")
        return code != 0

    def run(self, arguments: tuple[str, ...], seconds: float, **env: str) -> int | None:
        """Return the exit status of pytest in this tree, None where it takes too long."""
        path = f"{self.folder}{os.pathsep}{self.folder / 'cli'}"
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pytest", "-q", "--hypothesis-seed=0", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)


#: One test after the other, up to the first that fails.
_ALONE = ("-x", "-p", "no:cacheprovider", "-p", "no:xdist")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End pytest and what its tests have started: they share its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # all have ended
    finally:
        process.wait()


@dataclass(frozen=True)
class Ran:
    """Which tests ran which lines of a room's modules."""

    #: Tests by module and line; those of another process, or of no test, are called "".
    by_line: Mapping[str, Mapping[int, frozenset[str]]]
    #: How many lines each test ran.
    sizes: Mapping[str, int]
    #: Seconds that all tests took together.
    seconds: float

    def choose(self, placed: Placed, source: str) -> tuple[tuple[str, ...], bool]:
        """Return the tests to try a fault with, and whether they are all that can notice it."""
        body = _find_body(source, placed.mutant.line)
        ran = self.by_line.get(placed.path, {})
        found = frozenset().union(*(ran.get(line, ()) for line in body))
        ordered = sorted(found - {""}, key=lambda test: (self.sizes[test], test))
        return tuple(ordered), bool(body) and "" not in found


def _find_body(source: str, line: int) -> range:
    """Return the lines of the innermost function that has a line; none outside of functions."""
    around = [
        range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
    ]
    return min((body for body in around if line in body), key=len, default=range(0))


def measure(tree: Tree, room: Room) -> Ran:
    """Return which tests run what; raise SystemExit where they fail without any fault."""
    begin, data_file = time.monotonic(), tree.folder / ".mutation-coverage"
    measured = ("--cov=registry", "--cov-context=test", "--cov-report=", "-p", "no:cacheprovider")
    workers = ("-n", str(_PROCESSES))
    if tree.run((*measured, *workers, *room.arguments), 7200, COVERAGE_FILE=str(data_file)) != 0:
        raise SystemExit(f"{' '.join(room.tests)}: fails without any fault; expected it to pass")
    seconds = time.monotonic() - begin
    data = CoverageData(str(data_file))
    data.read()
    by_line: dict[str, dict[int, frozenset[str]]] = {}
    sizes: Counter[str] = Counter()
    for path in tree.folder.glob(room.modules):
        lines = data.contexts_by_lineno(str(path)).items()
        tests = {line: frozenset(n.partition("|")[0] for n in names) for line, names in lines}
        by_line[str(path.relative_to(tree.folder))] = tests
        sizes.update(name for names in tests.values() for name in names)
    return Ran(by_line, sizes, seconds)


def collect_faults(room: Room) -> list[Placed]:
    """Return all faults of a room's modules; raise SystemExit where its pattern names none."""
    paths = sorted(ROOT.glob(room.modules))
    if not paths:
        raise SystemExit(f"{room.modules}: no module is named so; mend ROOMS in {__file__}")
    return [
        Placed(str(path.relative_to(ROOT)), mutant)
        for path in paths
        for mutant in list_mutants(path.read_text(encoding="utf-8"))
    ]


def try_room(room: Room, chosen: list[Placed]) -> tuple[list[Placed], int]:
    """Return the faults that the room's tests do not notice, and how many made them too slow.

    Each fault that is not noticed is printed at once: a run takes long.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: queue.SimpleQueue[Tree] = queue.SimpleQueue()
        for number in range(_PROCESSES):
            trees.put(Tree(Path(folder).resolve() / str(number)))
        ran = measure(first := trees.get(), room)
        trees.put(first)

        def try_one(placed: Placed) -> bool:
            tree = trees.get()
            try:
                is_noticed = tree.is_noticed(placed, room, ran, 60 + 4 * ran.seconds)
            finally:
                trees.put(tree)
            print(".", end="", file=sys.stderr, flush=True)
            if not is_noticed:
                print(f"line {placed.mutant.line:4} {placed.name}", flush=True)
            return is_noticed

        with ThreadPoolExecutor(_PROCESSES) as pool:
            noticed = list(pool.map(try_one, chosen))
        n_late = sum(trees.get().n_late for _ in range(_PROCESSES))
    survivors = [placed for placed, found in zip(chosen, noticed, strict=True) if not found]
    return survivors, n_late


def read_equivalent() -> frozenset[str]:
    """Return the names of the faults that the tests need not notice."""
    lines = _EQUIVALENT.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def main(arguments: list[str] | None = None) -> int:
    """Try the sample of each room and print what nobody noticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rooms", nargs="*", help=f"of {', '.join(ROOMS)}; all where none is named")
    parser.add_argument("--sample", type=int, default=200, help="faults of each room (200)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", default="", help="try all faults whose name holds this text")
    options = parser.parse_args(arguments)
    share = 1.0
    for name in options.rooms or ROOMS:
        share = min(share, _report(name, options))
    return 0 if share >= LEAST_SHARE else 1


def _report(name: str, options: argparse.Namespace) -> float:
    begin, equivalent = time.monotonic(), read_equivalent()
    faults = [placed for placed in collect_faults(ROOMS[name]) if options.only in placed.name]
    n_chosen = len(faults) if options.only else min(options.sample, len(faults))
    sample = random.Random(options.seed).sample(faults, n_chosen)  # noqa: S311 - a sample, no secret
    chosen = sorted(
        (placed for placed in sample if placed.name not in equivalent),
        key=lambda placed: (placed.path, placed.mutant.line),
    )
    survivors, n_late = try_room(ROOMS[name], chosen)
    killed = len(chosen) - len(survivors)
    print(
        f"{name}: {killed} of {len(chosen)} killed ({killed / len(chosen):.1%}), {n_late} by time, "
        f"{len(sample) - len(chosen)} equivalent, of {len(faults)} faults; "
        f"{time.monotonic() - begin:.0f} s",
        flush=True,
    )
    return killed / len(chosen)


if __name__ == "__main__":
    sys.exit(main())
