"""Many writers at once, while one process folds and two read."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.campaign.operations import SERVER, locate
from benchmarks.campaign.truth import Verdict, ask_engine, ask_query, build_document, judge
from registry.errors import RegistryError
from registry.store.add import add_submissions
from registry.store.check import check_registry
from registry.store.fold import fold
from registry.store.folder import create_registry

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.synchronize import Event
    from pathlib import Path

N_WRITERS = 32
_READERS = 2

#: A writer pauses at random, so that the registry does not outgrow its readers.
_LONGEST_PAUSE = 1.0
_NUMBERS_OF_A_WRITER = 100_000
_DEADLINE_SECONDS = 900.0


def write(path: Path, writer: int, stop: Event) -> None:
    """Add documents until told to stop; note each once it is recorded."""
    draw = random.Random(writer)  # noqa: S311 - pauses, no secrets
    number = writer * _NUMBERS_OF_A_WRITER
    with (path.parent / f"recorded-{writer}").open("a", encoding="ascii") as file:
        while not stop.is_set():
            add_submissions(locate(path), [("", build_document(number))])
            file.write(f"{number}\n")
            file.flush()
            number += 1
            stop.wait(draw.uniform(0, _LONGEST_PAUSE))


def fold_often(path: Path, _: int, stop: Event) -> None:
    """Fold until told to stop; note each fold."""
    while not stop.is_set():
        result = fold(locate(path))
        _note(path, "folds", str(len(result.problems)))


def read(path: Path, reader: int, stop: Event) -> None:
    """Read until told to stop; note of each reading what is wrong with it."""
    ask = (ask_engine, ask_query)[reader % 2]
    while not stop.is_set():
        must = _read_recorded(path)
        try:
            verdict = judge(ask(locate(path)), must)
            text = f"{verdict.lost} {verdict.doubled} {verdict.half}"
        except RegistryError as error:
            text = f"refused {error}"
        _note(path, f"reads-{reader}", text)


def _note(path: Path, name: str, text: str) -> None:
    with (path.parent / name).open("a", encoding="utf-8") as file:
        file.write(text + "\n")


def _lines(path: Path, pattern: str) -> list[str]:
    files = sorted(path.parent.glob(pattern))
    return [line for file in files for line in file.read_text("utf-8").splitlines(keepends=True)]


def _read_recorded(path: Path) -> set[int]:
    return {int(line) for line in _lines(path, "recorded-*") if line.endswith("\n")}


@dataclass
class Crowd:
    """What many writers left."""

    n_recorded: int = 0
    n_folds: int = 0
    n_reads: int = 0
    verdict: Verdict = field(default_factory=Verdict)
    refusals: list[str] = field(default_factory=list)


def run_crowd(path: Path, *, n_folds: int, n_reads: int) -> Crowd:
    """Run the writers until there were that many folds and reads; judge all of them."""
    create_registry(path, curated=False)
    stop = SERVER.Event()
    jobs: list[tuple[Callable[[Path, int, Event], None], int]] = [
        *((write, writer) for writer in range(N_WRITERS)),
        *((read, reader) for reader in range(_READERS)),
        (fold_often, 0),
    ]
    processes = [SERVER.Process(target=work, args=(path, n, stop)) for work, n in jobs]
    for process in processes:
        process.start()
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while len(_lines(path, "folds")) < n_folds or len(_lines(path, "reads-*")) < n_reads:
        if time.monotonic() > deadline or not all(p.is_alive() for p in processes):
            break
        time.sleep(0.2)
    stop.set()
    for process in processes:
        process.join()
    failed = [f"a process ended with {p.exitcode}" for p in processes if p.exitcode]
    return _collect(path, failed)


def _collect(path: Path, failed: list[str]) -> Crowd:
    crowd = Crowd(refusals=failed)
    crowd.n_folds = len(_lines(path, "folds"))
    for line in _lines(path, "reads-*"):
        crowd.n_reads += 1
        if line.startswith("refused"):
            crowd.refusals.append(line.strip())
        else:
            crowd.verdict += Verdict(*map(int, line.split()))
    must = _read_recorded(path)
    crowd.n_recorded = len(must)
    fold(locate(path))
    crowd.verdict += judge(ask_query(locate(path)), must)
    crowd.refusals += [str(problem) for problem in check_registry(locate(path)).problems]
    return crowd
