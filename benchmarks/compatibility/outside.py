"""Run a command and watch the memory of its processes from outside."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: Seconds between two looks at the processes, and between two looks for new ones.
_LOOK_SECONDS = 0.01
_SEARCH_SECONDS = 0.25


@dataclass
class Watched:
    """What was seen of a command from outside.

    ``rises`` holds, by process id, each new maximum of its resident bytes with the moment.
    """

    returncode: int
    output: str
    rises: dict[int, list[tuple[float, int]]] = field(default_factory=dict)

    def peak_until(self, pid: int, moment: float) -> int:
        """Return the most bytes that a process held until a moment of the monotonic clock."""
        seen = [value for when, value in self.rises.get(pid, ()) if when <= moment]
        return seen[-1] if seen else 0


def run_watched(
    command: Sequence[str], *, environment: Mapping[str, str], folder: Path, limit_seconds: float
) -> Watched:
    """Run a command to its end, with its output in a file; kill it at the limit."""
    log = folder / "output.log"
    with log.open("wb") as file:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            cwd=folder,
            start_new_session=True,
        )
        rises = _watch(child, time.monotonic() + limit_seconds)
    output = log.read_text(encoding="utf-8", errors="replace")
    return Watched(child.returncode, output, rises)


def _watch(child: subprocess.Popen[bytes], deadline: float) -> dict[int, list[tuple[float, int]]]:
    rises: dict[int, list[tuple[float, int]]] = {}
    processes: list[psutil.Process] = []
    searched = 0.0
    root = psutil.Process(child.pid)
    while child.poll() is None:
        now = time.monotonic()
        if now > deadline:
            _end(root)
        if now - searched > _SEARCH_SECONDS:
            with suppress(psutil.Error):
                processes = [root, *root.children(recursive=True)]
            searched = now
        for process in processes:
            with suppress(psutil.Error):
                resident = process.memory_info().rss
                known = rises.setdefault(process.pid, [(now, resident)])
                if resident > known[-1][1]:
                    known.append((now, resident))
        time.sleep(_LOOK_SECONDS)
    return rises


def _end(root: psutil.Process) -> None:
    with suppress(psutil.Error):
        for process in [*root.children(recursive=True), root]:
            with suppress(psutil.Error):
                process.kill()
