"""Break the library's Python in one place at a time and see whether its tests notice.

Run as ``python -m benchmarks.mutation_python [ROOM ...]`` from the root of a checkout; ``--help``
names the options. A seeded sample of the faults that `benchmarks.python_mutants` finds in a
room is tried in copies of the tracked files; only those of the room's own tests run that run its
line in their process, those of the module first; where a fixture runs it, which may serve a whole
file, all tests of that file. Where none does, because the line runs at import alone, it is the 300
tests that run most of the module's lines. What another process or another test would have noticed,
as the command does, is not counted. A fault that lets a test fail or hang is killed. Those that
cannot change what the tests may ask for are in
``mutation_python_equivalent.txt``, one a line with the reason on the line before. What became of
each is printed at once, in the random order of the sample, so that a run that is cut off has
tried a sample too. Exits with 1 where fewer than 85 % of the others are killed.

An own script, because mutmut 3.8 has no seeded sample, and cosmic-ray 8.7 has neither that nor more
than one test command for a configuration; a table of rooms is all that is needed here.
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
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
_N_CONCERNED = 300  # tests of a line that only an import runs
_TESTS_FAILED = (1, 2, 4)  # a failed test, a module or a conftest that no longer imports


@dataclass(frozen=True)
class Room:
    """Modules, and the tests that are to notice what is wrong with them."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    #: Tests to run first, beside a module's own, by the name of the module.
    first: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Tests that take too long to be run for each fault.
    left_out: tuple[str, ...] = ()

    def collect_first(self, module: str, tree: Path) -> tuple[str, ...]:
        """Return the tests that are about a module, in a copy of the checkout."""
        stem = Path(module).stem
        own = sorted(str(p.relative_to(tree)) for p in tree.glob(f"tests/**/test_{stem}.py"))
        inside = (name for name in own if any(Path(name).is_relative_to(t) for t in self.tests))
        named = self.first.get(stem, ())
        for name in named:
            if not (tree / name).exists():
                raise SystemExit(f"{name}: is not there; expected tests; mend ROOMS in {__file__}")
        return (*(name for name in inside if name not in named), *named)

    def collect_all(self) -> tuple[str, ...]:
        """Return all tests but those left out, as arguments of pytest."""
        return (*self.tests, *(f"--ignore={name}" for name in self.left_out))


def _by_module(tests: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the files of tests for each module, given as ``"test_a test_b": "module other"``."""
    return {
        module: tuple(f"tests/unit/{name}.py" for name in names.split())
        for names, modules in tests.items()
        for module in modules.split()
    }


#: Most modules of the store have no tests of their own: they are tested by what they do together.
_STORE_FIRST = _by_module(
    {
        "store/test_recover store/test_repair": "parts state repair recover documents",
        "store/test_repair store/test_sync": "valid_documents",
        "store/test_fold": "derive_tables parquet results fold lock",
        "store/test_layers store/test_read": "read snapshot curated_fold",
        "store/test_build store/test_layers": "curated",
        "store/test_parts store/test_build": "catalogue_files",
        "store/test_migration": "legacy compose renamed",
        "store/test_exported": "export observation_documents",
        "store/test_published": "croissant",
        "store/test_remote": "address objects sync",
        "store/test_retract": "retract prune",
        "store/test_add": "add frames",
        "store/test_build store/test_state test_check": "check",
        "test_check": "check_rows",
    }
)

ROOMS = {
    "units": Room(
        ("registry/units/*.py",), ("tests/unit/units", "tests/unit/test_doc_examples.py")
    ),
    "submission": Room(
        ("registry/submission/*.py",),
        ("tests/unit/submission",),
    ),
    "store": Room(
        ("registry/store/*.py",),
        ("tests/unit/store", "tests/unit/test_check.py"),
        _STORE_FIRST,
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


@dataclass(frozen=True)
class Tests:
    """The tests of a room: how long each takes, and which of them run a line of a module."""

    #: Seconds by the name that pytest takes, in the order in which they ran.
    seconds: Mapping[str, float]
    #: By the module's path, then by the number of the line.
    on_line: Mapping[str, Mapping[int, frozenset[str]]]

    def select(self, placed: Placed, first: tuple[str, ...]) -> list[str]:
        """Return the tests that may notice a fault; those of the files ``first`` come first."""
        module = self.on_line.get(placed.path, {})
        on_line = module.get(placed.mutant.line) or self._most_concerned(module)
        served = {name.partition("::")[0] for name in on_line if name.endswith(_SETUP)}
        chosen = [
            name for name in self.seconds if name in on_line or name.partition("::")[0] in served
        ] or list(self.seconds)
        return sorted(chosen, key=lambda name: name.partition("::")[0] not in first)

    @staticmethod
    def _most_concerned(module: Mapping[int, frozenset[str]]) -> frozenset[str]:
        n_lines = Counter(name for tests in module.values() for name in tests)
        return frozenset(name for name, _ in n_lines.most_common(_N_CONCERNED))

    def limit(self, chosen: list[str]) -> float:
        """Return how many seconds a run of some tests may take."""
        return 60 + 4 * sum(self.seconds[name] for name in chosen)


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

    def collect_tests(self, room: Room) -> Tests:
        """Run a room's tests, without any fault; raise SystemExit where they fail."""
        noted = {name: self.folder / f"noted.{name}" for name in ("rc", "data", "xml")}
        noted["rc"].write_text("[run]\nsource = registry\nrelative_files = true\n")
        told = ("--cov", f"--cov-config={noted['rc']}", "--cov-context=test", "--cov-report=")
        written = ("-o", "junit_family=xunit1", f"--junitxml={noted['xml']}")
        process = self._start(*told, *written, *room.collect_all(), COVERAGE_FILE=noted["data"])
        if process.wait() != 0:
            raise SystemExit(
                f"{' '.join(room.tests)}: fails without any fault; expected it to pass"
            )
        seconds: dict[str, float] = defaultdict(float)
        for case in ET.parse(noted["xml"]).iter("testcase"):  # noqa: S314 - written just now
            if case.find("skipped") is None:
                seconds[f"{case.get('file')}::{case.get('name')}"] += float(case.get("time", 0))
        noted["xml"].write_text("\n".join(seconds), encoding="utf-8")
        if self._start("--collect-only", f"@{noted['xml']}").wait() != 0:
            raise SystemExit(f"{noted['xml']}: pytest does not find its own tests by these names")
        data = CoverageData(str(noted["data"]))
        data.read()
        return Tests(dict(seconds), {path: _tests_of(data, path) for path in data.measured_files()})

    def is_noticed(self, placed: Placed, room: Room, tests: Tests) -> bool:
        """Return whether the tests fail, or take too long, with this fault."""
        path = self.folder / placed.path
        chosen = tests.select(placed, room.collect_first(placed.path, self.folder))
        original = path.read_text(encoding="utf-8")
        try:
            self._write(path, placed.mutant.source)
            return self._fails(chosen, tests.limit(chosen))
        finally:
            self._write(path, original)

    def _write(self, path: Path, source: str) -> None:
        # Bytecode is known by size and second, and a fault changes neither for certain.
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(source, encoding="utf-8")

    def _fails(self, tests: list[str], seconds: float) -> bool:
        named = self.folder / "noted.tests"  # they may be more than a command line takes
        named.write_text("\n".join(tests), encoding="utf-8")
        process = self._start(f"@{named}")
        try:
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.n_late += 1
            return True
        finally:
            _end(process)
        if code not in (0, *_TESTS_FAILED):
            raise SystemExit(
                f"pytest of {len(tests)} tests ended with {code}; expected them to run"
            )
        return code != 0

    def _start(self, *arguments: str, **variables: Path) -> subprocess.Popen[bytes]:
        path = f"{self.folder}{os.pathsep}{self.folder / 'cli'}"
        return subprocess.Popen(
            [*_PYTEST, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path, **{k: str(v) for k, v in variables.items()}},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _tests_of(data: CoverageData, path: str) -> dict[int, frozenset[str]]:
    """Return the tests that ran each line of a module; what an import ran has none.

    One whose fixtures ran it is in it twice, once with `_SETUP` at its end.
    """
    return {
        line: frozenset(
            name
            for context in contexts
            if context
            for name in (context.rpartition("|")[0], *[context] * context.endswith(_SETUP))
        )
        for line, contexts in data.contexts_by_lineno(path).items()
    }


#: How the context of coverage ends in which a test's fixtures run.
_SETUP = "|setup"
_PYTEST = (
    *(sys.executable, "-P", "-m", "pytest", "-x", "-q"),
    *("-p", "no:cacheprovider", "--hypothesis-seed=0", "--hypothesis-profile=faults"),
    "--dist=no",  # where tests may be spread, coverage names none
)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End pytest and what its tests have started: they share its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # all have ended
    finally:
        process.wait()


def collect_faults(room: Room) -> list[Placed]:
    """Return all faults of a room's modules; raise SystemExit where a pattern names none."""
    faults = []
    for pattern in room.modules:
        paths = sorted(ROOT.glob(pattern))
        if not paths:
            raise SystemExit(
                f"no module is named {pattern}; expected one; mend ROOMS in {__file__}"
            )
        for path in paths:
            mutants = list_mutants(path.read_text(encoding="utf-8"))
            faults += [Placed(str(path.relative_to(ROOT)), mutant) for mutant in mutants]
    return faults


def try_room(room: Room, chosen: list[Placed]) -> tuple[list[Placed], int]:
    """Return the faults that the room's tests do not notice, and how many made them too slow."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: queue.SimpleQueue[Tree] = queue.SimpleQueue()
        for number in range(_PROCESSES):
            trees.put(Tree(Path(folder) / str(number)))
        tree = trees.get()
        tests = tree.collect_tests(room)
        trees.put(tree)

        def try_one(placed: Placed) -> bool:
            tree = trees.get()
            try:
                is_noticed = tree.is_noticed(placed, room, tests)
            finally:
                trees.put(tree)
            found = "killed" if is_noticed else "survived"
            print(f"{found:8} line {placed.mutant.line:4} {placed.name}", flush=True)
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
    chosen = [placed for placed in sample if placed.name not in equivalent]
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
