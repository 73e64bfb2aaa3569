"""Time one addition: as a fresh process, in a running one, and from 16 processes at once.

Run as ``python -m benchmarks.add_latency [OBSERVATIONS ...]``; these are the sizes of the
registries that a fresh process adds to.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.synthetic import build_documents, fill_registry
from benchmarks.timing import command, format_load, print_ratios, time_in_turns
from registry.api import open_registry
from registry.store.folder import create_registry
from registry.submission.identity import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.synchronize import Barrier

SIZES = (0, 100_000)
_PAIRS = 15
_WARM_PAIRS = 200
_WRITERS = 16
_WRITTEN_BY_EACH = 50
_SCRIPT = Path(sys.executable).parent / "registry"
_PYDANTIC = "from pydantic import BaseModel\nclass Row(BaseModel):\n" + "".join(
    f"    field_{n}: int | None = None\n" for n in range(40)
)


def main(sizes: list[int]) -> None:
    """Measure and print all."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for size in sizes:
            fill_registry(folder / str(size), size)
        _measure_fresh({size: folder / str(size) for size in sizes}, folder)
        create_registry(folder / "warm", curated=False)
        _measure_warm(folder / "warm", folder / "raw")
        _measure_writers(folder)


def _numbered(seed: int) -> Iterator[dict[str, Any]]:
    """Yield documents that no registry has yet."""
    for number in itertools.count(seed * 1_000_000):
        yield next(build_documents(1, seed=number))


def _measure_fresh(folders: dict[int, Path], temporary: Path) -> None:
    documents = _numbered(2)
    path = temporary / "submission.json"

    def add(folder: Path) -> None:
        path.write_text(json.dumps(next(documents)), encoding="utf-8")
        command(_SCRIPT, "add", path, "--registry", folder)()

    sides: dict[str, Any] = {
        "pydantic, a class of 40 fields": command(sys.executable, "-c", _PYDANTIC)
    }
    for size, folder in folders.items():
        sides[f"registry add to {size} observations"] = partial(add, folder)
    medians = time_in_turns(sides, _PAIRS, warm_up=2)
    print_ratios("registry add as a fresh process", medians, next(iter(medians)))


def _measure_warm(registry: Path, raw: Path) -> None:
    raw.mkdir()
    db = open_registry(registry)
    documents = _numbered(3)
    texts = (canonical_json(document).encode() for document in _numbered(4))
    sides = {
        "a raw fsynced write": lambda: _write_raw(raw, next(texts)),
        "db.add": lambda: db.add(next(documents)),
    }
    medians = time_in_turns(sides, _WARM_PAIRS, warm_up=10)
    print_ratios("db.add in a running process", medians, next(iter(medians)))


def _write_raw(folder: Path, data: bytes) -> None:
    """Write a file as safely as a journal entry: content, name and folder on the disk."""
    temporary = folder / f".tmp-{os.urandom(8).hex()}"
    with temporary.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(folder / f"{os.urandom(32).hex()}.json")
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _measure_writers(temporary: Path) -> None:
    rates: dict[str, list[float]] = {"raw": [], "add": []}
    for turn in range(_PAIRS):
        for kind, found in rates.items():
            folder = temporary / f"{kind}-{turn}"
            if kind == "add":
                create_registry(folder, curated=False)
            else:
                folder.mkdir()
            found.append(_WRITERS * _WRITTEN_BY_EACH / _time_writers(kind, folder))
    raw, add = (sorted(found)[_PAIRS // 2] for found in rates.values())
    print(f"{_WRITERS} writers at once ({format_load()})")
    print(f"  raw {raw:9.0f} documents/s\n  add {add:9.0f} documents/s   {100 * add / raw:.0f} %")


def _time_writers(kind: str, folder: Path) -> float:
    """Return the seconds from the start of the first write to the end of the last."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(_WRITERS + 1)
    writers = [
        context.Process(target=_write_many, args=(kind, folder, number, barrier))
        for number in range(_WRITERS)
    ]
    for writer in writers:
        writer.start()
    barrier.wait()
    begin = time.perf_counter()
    for writer in writers:
        writer.join()
    return time.perf_counter() - begin


def _write_many(kind: str, folder: Path, number: int, barrier: Barrier) -> None:
    documents = list(itertools.islice(_numbered(100 + number), _WRITTEN_BY_EACH))
    texts = [canonical_json(document).encode() for document in documents]
    db = open_registry(folder) if kind == "add" else None
    barrier.wait()
    for document, text in zip(documents, texts, strict=True):
        if db:
            db.add(document)
        else:
            _write_raw(folder, text)


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or list(SIZES))
