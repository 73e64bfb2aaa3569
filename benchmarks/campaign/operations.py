"""What the killed processes do. Each is forked from a server that has loaded the libraries."""

from __future__ import annotations

import multiprocessing
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.campaign.truth import build_document
from registry.errors import RegistryError
from registry.store.add import add_submissions
from registry.store.export import export_folder
from registry.store.fold import fold
from registry.store.folder import Folder, Location
from registry.store.prune import prune
from registry.store.repair import repair

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

#: Documents that one call of `add` records together.
_BATCH = 3

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([__name__, "pyarrow.parquet", "duckdb"])


def locate(path: Path) -> Location:
    """Return a registry without the curated records."""
    return Location(Folder(path))


def operate(name: str, path: Path, numbers: list[int], channel: Connection) -> None:
    """Do one thing to a registry; say when it begins, what is recorded, and when it is done."""
    location = locate(path)
    channel.send("begun")
    try:
        _operate(name, location, numbers, channel)
    except RegistryError as error:
        channel.send(str(error))
    else:
        channel.send("done")


def _operate(name: str, location: Location, numbers: list[int], channel: Connection) -> None:
    path = location.own.path
    match name:
        case "add":
            for start in range(0, len(numbers), _BATCH):
                some = numbers[start : start + _BATCH]
                add_submissions(location, [(str(n), build_document(n)) for n in some])
                channel.send(some)
        case "fold" | "migrate":
            fold(location)
        case "repair":
            repair(location)
        case "export":
            export_folder(location, export_path(path))
        case "prune":
            prune(location.own)


def export_path(path: Path) -> Path:
    """Return where a registry is exported to."""
    return path.with_name("export")


@dataclass
class Run:
    """What became of a process."""

    was_killed: bool
    seconds: float
    #: Why it could not be done; empty where it was killed or done.
    refusal: str = ""
    recorded: set[int] = field(default_factory=set)


def run_killed(name: str, path: Path, numbers: list[int], delay: float | None) -> Run:
    """Run an operation and kill it ``delay`` seconds after it began; None lets it end."""
    shutil.rmtree(export_path(path), ignore_errors=True)
    ours, theirs = SERVER.Pipe(duplex=False)
    process = SERVER.Process(target=operate, args=(name, path, numbers, theirs))
    process.start()
    theirs.close()
    ours.recv()  # it has begun
    begin = time.monotonic()
    process.join(delay)
    run = Run(process.is_alive(), time.monotonic() - begin)
    process.kill()
    process.join()
    last = _receive(ours, run)
    if not run.was_killed and last != "done":
        run.refusal = f"{name}: {last}"
    return run


def _receive(channel: Connection, run: Run) -> object:
    """Take what the process said of what it did; return its last word."""
    word: object = None
    with suppress(EOFError):
        while True:
            word = channel.recv()
            if isinstance(word, list):
                run.recorded.update(word)
    return word
