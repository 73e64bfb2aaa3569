"""Which files of a folder belong to one run: same prefix, checkpoints with what they are of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from registry.importers.base import RunFile

#: What frameworks call the files of a run; a prefix before it separates the runs of a folder.
_ROLE = re.compile(
    r"(?P<prefix>.*?)[._-]?"
    r"(?:trainer_state|(?:all|train|eval|test|predict)_results|trainer_log|logging|args|"
    r"training_args|adapter_config|llamaboard_config|config|trainer_config|running_log|"
    r"hydra_config|training_results|benchmark_(?:report|config))",
)
_CHECKPOINT = re.compile(r"[._-]?checkpoint[._-]?(?:\d+|final|last)$")

Run = tuple[str, str]


def group_runs(files: Iterable[RunFile]) -> dict[Run, list[RunFile]]:
    """Return the files by run, keyed by folder and prefix."""
    runs: dict[Run, list[RunFile]] = {}
    for file in files:
        runs.setdefault(run_of(file.path), []).append(file)
    return runs


def run_of(path: Path) -> Run:
    """Return the run that a file belongs to, judged by where it lies.

    >>> from pathlib import Path
    >>> run_of(Path("out/checkpoint-500/trainer_state.json"))
    ('out', '')
    """
    folder = path.parent
    while _CHECKPOINT.match(folder.name):
        folder = folder.parent
    stem = path.name.removesuffix(path.suffix)
    role = _ROLE.fullmatch(stem)
    prefix = role["prefix"] if role else stem.rpartition(".")[0]
    return str(folder), _CHECKPOINT.sub("", prefix)
