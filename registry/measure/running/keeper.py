"""Keeps one job: runs its command to the end in a process of its own, so that several can run.

The order is JSON on standard input, the answer a file in the job's folder. Whatever the job starts
is ended with it, and the keeper ends with the process that started it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.measure.child_process import (
    Finished,
    die_with_parent,
    interrupted_by_signals,
    module_command,
    run_process,
)
from registry.measure.record_files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MODULE = "registry.measure.running.keeper"

#: The file of the job's folder that says how it ended.
_ANSWER_NAME = "finished.json"


def start_keeper(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    timeout_seconds: float | None,
    cpus: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start the keeper of a command; its job runs on some processors, or on all of ours."""
    (folder / _ANSWER_NAME).unlink(missing_ok=True)
    order = {
        "command": list(command),
        "environment": dict(environment),
        "folder": str(folder),
        "timeout_seconds": timeout_seconds,
        "cpus": list(cpus),
    }
    keeper = subprocess.Popen(
        module_command(_MODULE),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for us, who end it
    )
    assert keeper.stdin is not None  # noqa: S101 - a pipe, as asked
    with keeper.stdin as pipe:
        pipe.write(json.dumps(order).encode())
    return keeper


def read_finished(folder: Path, keeper: subprocess.Popen[bytes], seconds: float) -> Finished:
    """Return how the job of a keeper that has ended ended; raise OSError where it never started."""
    answer: Any = read_json(folder / _ANSWER_NAME)
    if answer is None:  # the keeper itself was killed
        return Finished(keeper.wait(), seconds)
    if "error" in answer:
        raise OSError(*answer["error"])
    return Finished(**answer)


def main() -> int:
    """Run the command of the order on standard input; return the exit status."""
    die_with_parent(signal.SIGTERM)
    order = json.load(sys.stdin)
    folder = Path(order.pop("folder"))
    if cpus := order.pop("cpus"):
        os.sched_setaffinity(0, cpus)
    try:
        with interrupted_by_signals():
            answer = asdict(run_process(order.pop("command"), folder=folder, **order))
    except OSError as error:
        answer = {"error": [error.errno, error.strerror, error.filename]}
    except KeyboardInterrupt:
        return 1
    write_json(folder / _ANSWER_NAME, answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
