"""Time one `add`, warm and as a fresh process, in registries of several sizes.

Run as ``python -m benchmarks.add_latency [OBSERVATIONS ...]``.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.store.bulk import add_tables

from benchmarks.synthetic import synthetic_tables
from benchmarks.timing import command, print_ratios, time_in_turns
from registry.api import open_registry
from registry.store.folder import create_registry

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZES = (0, 10_000, 1_000_000)
_WARM_REPEATS = 200
_FRESH_REPEATS = 25
_SCRIPT = Path(sys.executable).parent / "registry"


def main(sizes: list[int]) -> None:
    """Measure and print all sizes together."""
    with tempfile.TemporaryDirectory() as temporary:
        folders = {size: _fill(Path(temporary) / str(size), size) for size in sizes}
        _measure_warm(folders)
        _measure_fresh(folders, Path(temporary))


def _fill(path: Path, size: int) -> Path:
    folder = create_registry(path, curated=False)
    if size:
        add_tables(folder, synthetic_tables(size))
    return path


def _documents(kind: str) -> Iterator[dict[str, Any]]:
    for number in itertools.count():
        yield {
            "source": {"source_id": "latency"},
            "observations": [
                {
                    "outcome": "ok",
                    "run_id": f"{kind}-{number}",
                    "configuration": {
                        "model_id": "llama-2-7b",
                        "method": "lora",
                        "gpu_id": "rtx-3090",
                        "n_gpus": 1,
                        "seq_len": 2048,
                    },
                    "measurements": [
                        {"metric": "peak_memory", "kind": "reserved", "value": "20.5 GiB"},
                        {"metric": "step_time", "value": 1.5},
                    ],
                }
            ],
        }


def _measure_warm(folders: dict[int, Path]) -> None:
    documents = _documents("warm")
    registries = {size: open_registry(path) for size, path in folders.items()}
    sides = {
        f"warm, {size} observations": (lambda db=db: db.add(next(documents)))
        for size, db in registries.items()
    }
    medians = time_in_turns(sides, _WARM_REPEATS, warm_up=10)
    print_ratios("add in a running process", medians, next(iter(medians)))


def _measure_fresh(folders: dict[int, Path], temporary: Path) -> None:
    documents = _documents("fresh")
    path = temporary / "submission.json"

    def add(folder: Path) -> None:
        path.write_text(json.dumps(next(documents)), encoding="utf-8")
        command(_SCRIPT, "add", path, "--registry", folder)()

    sides: dict[str, Any] = {"python -c 'import pydantic'": _bare("import pydantic")}
    for size, folder in folders.items():
        sides[f"registry add, {size} observations"] = partial(add, folder)
    medians = time_in_turns(sides, _FRESH_REPEATS)
    first = next(name for name in medians if name.startswith("registry"))
    print_ratios("add as a fresh process, against pydantic's import", medians, next(iter(medians)))
    del medians["python -c 'import pydantic'"]
    print_ratios("add as a fresh process, against the smallest registry", medians, first)


def _bare(program: str) -> Any:
    return command(sys.executable, "-c", program)


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or list(SIZES))
