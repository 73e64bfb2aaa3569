"""Break the views' SQL in one place at a time and see whether their cases notice.

Run as ``python -m benchmarks.mutation_views [VIEW ...]`` from the root of a checkout. Every fault
that `benchmarks.sql_mutants` finds, or a seeded sample of them (``--sample N --seed N``), is tried
against the cases in ``tests/unit/views/cases``, in this process. Those that cannot change any
result are in ``mutation_views_equivalent.txt``, as patterns under their reason; a pattern that no
fault has any more, or that a case contradicts, is named. Exits with 1 where fewer than 95 % of the
others are found.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

import registry
from benchmarks.sql_mutants import list_mutants
from registry.contract import TABLES, read_view, view_names
from registry.store.folder import create_registry
from tests.unit.views.view_cases import Names, find_problems, load_cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from benchmarks.sql_mutants import SqlMutant

LEAST_SHARE = 0.95
_NOT_YET = ("awaits", "fails")  # cases that the registry does not pass either
_EQUIVALENT = Path(__file__).with_name("mutation_views_equivalent.txt")

Outcome = str  # killed, survived, equivalent, invalid


class Bench:
    """The tables that the cases give, in one database, and the cases to hold views against."""

    def __init__(self) -> None:
        """Hand all cases in to a registry, fold it and copy its tables into memory."""
        self.cases = [case for case in load_cases() if case.stated.keys().isdisjoint(_NOT_YET)]
        self.connection = duckdb.connect(":memory:")
        self.connection.execute("set timezone = 'UTC'")
        with tempfile.TemporaryDirectory() as folder:
            opened = registry.open(create_registry(Path(folder) / "registry", curated=False).path)
            for case in self.cases:
                for document in case.documents():
                    added = opened.add(document)
                    runs = [observation["run_id"] for observation in document["observations"]]
                    for run, identity in zip(runs, added.observation_ids, strict=True):
                        if run in case.retracted:
                            opened.retract(identity, reason="the case says so")
            opened.fold()
            for name in TABLES:
                table = opened.query(f"from {name}").arrow()
                self.connection.register("handed_over", table)
                self.connection.execute(f"create table {name} as from handed_over")
                self.connection.unregister("handed_over")
        self.names = Names.of(self._rows("observations"))

    def _rows(self, relation: str) -> list[dict[str, object]]:
        rows: list[dict[str, object]]
        rows = self.connection.execute(f"from {relation}").to_arrow_table().to_pylist()
        return rows

    def create_views(self, changed: Mapping[str, str]) -> None:
        """Create all views, those that are named in ``changed`` with that SQL."""
        for name in sorted(view_names(), key=lambda name: name != "results"):
            sql = changed.get(name) or read_view(name)
            self.connection.execute(f"create or replace view {name} as {sql}")

    def failing(self, views: Iterable[str]) -> Iterator[str]:
        """Yield the claims that do not hold."""
        for view in views:
            rows = self._rows(view)
            for case in self.cases:
                if case.view == view and find_problems(case, rows, self.names):
                    yield case.stated["claim"]


def try_mutant(bench: Bench, view: str, sql: str) -> Outcome:
    """Return whether the cases of the view, or of those built on it, notice another SQL."""
    try:
        bench.create_views({view: sql})
    except duckdb.Error:
        return "invalid"  # no database would take it
    views = sorted(view_names(), key=lambda name: name != view) if view == "results" else [view]
    try:
        return "killed" if next(bench.failing(views), None) else "survived"
    except duckdb.Error:
        return "killed"


def read_equivalent() -> dict[str, re.Pattern[str]]:
    """Return patterns of the names of the faults that change no result, by how they are written."""
    lines = _EQUIVALENT.read_text(encoding="utf-8").splitlines()
    patterns = (line for line in lines if line and not line.startswith("#"))
    return {line: re.compile(".*".join(map(re.escape, line.split("…")))) for line in patterns}


def list_faults(bench: Bench, views: Iterable[str]) -> list[tuple[str, SqlMutant]]:
    """Return the faults of some views, each with its view."""
    connection = bench.connection
    return [(view, one) for view in views for one in list_mutants(connection, read_view(view))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the faults and print those that nobody noticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("views", nargs="*", help="all where none is named")
    parser.add_argument("--sample", type=int, help="so many faults of all (every one)")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args(arguments)
    begin, bench = time.monotonic(), Bench()
    bench.create_views({})
    if wrong := list(bench.failing(view_names())):
        print(f"{len(wrong)} cases do not hold without any fault: {'; '.join(wrong)}")
        return 1
    equivalent, seen = read_equivalent(), set()
    views = options.views or view_names()
    faults = list_faults(bench, views)
    if options.sample is not None and options.sample < len(faults):
        faults = random.Random(options.seed).sample(faults, options.sample)  # noqa: S311 - a sample
    counts: dict[str, Counter[Outcome]] = {view: Counter() for view in views}
    for view, mutant in faults:
        name = f"{view}: {mutant.name}"
        listed = {line for line, pattern in equivalent.items() if pattern.fullmatch(name)}
        seen |= listed
        outcome = try_mutant(bench, view, mutant.sql)
        if outcome == "killed" and listed:
            print(f"listed as equivalent and noticed: {name}")
        elif listed and outcome == "survived":
            outcome = "equivalent"
        counts[view][outcome] += 1
        if outcome == "survived":
            print(name, flush=True)
    is_whole = options.sample is None and not options.views
    return _report(counts, equivalent.keys() - seen if is_whole else (), begin)


def _report(counts: Mapping[str, Counter[Outcome]], stale: Iterable[str], begin: float) -> int:
    for line in stale:
        print(f"listed as equivalent and not there: {line}")
    total: Counter[Outcome] = sum(counts.values(), Counter())
    for view, count in [*counts.items(), ("all", total)]:
        judged = count["killed"] + count["survived"]
        share = count["killed"] / max(judged, 1)
        print(
            f"{view:16} {count['killed']:4} of {judged:4} killed ({share:.1%}), "
            f"{count['equivalent']} equivalent, {count['invalid']} invalid"
        )
    print(f"{time.monotonic() - begin:.0f} s")
    share = total["killed"] / (total["killed"] + total["survived"])
    return 0 if share >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
