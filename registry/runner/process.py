"""Run a child in a process group of its own and be sure that nothing of it is left behind."""

from __future__ import annotations

import os
import re
import secrets
import select
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Environment variable by which the processes of one child are found, wherever they moved.
_MARK = "REGISTRY_CHILD_MARK"

#: Environment variables that a trial's job gets: what finds programs, caches and devices, and what
#: tunes them. Keys and tokens are not among them.
_ALLOWED = re.compile(
    r"^(PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TZ|TMPDIR|VIRTUAL_ENV|LD_LIBRARY_PATH|XDG_CACHE_HOME|"
    r"HF_(HOME|HUB_CACHE|DATASETS_CACHE|HUB_OFFLINE|ENDPOINT)|TRANSFORMERS_OFFLINE|"
    r"(CUDA|NVIDIA|NCCL|GLOO|OMP|MKL|PYTORCH|TORCH|TORCHINDUCTOR|TRITON|BNB)_\w+|PYTHONHASHSEED)$"
)


@dataclass(frozen=True)
class Finished:
    """How a child ended: its exit status (negative: the signal) and how long it took."""

    returncode: int
    seconds: float
    timed_out: bool = False
    kernel_oom_kills: int = 0


def allowed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a trial's job gets."""
    return {name: value for name, value in environment.items() if _ALLOWED.match(name)}


def run_process(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    output: Path,
    errors: Path,
    timeout_seconds: float | None,
) -> Finished:
    """Run a command to its end or to its time-out, its output into files, and clean up after it.

    The caller sleeps meanwhile. Whatever the child left running is killed, in its process group or
    out of it. Raises OSError where the command cannot be started.
    """
    mark = secrets.token_hex(16)
    kills = _kernel_oom_kills()
    began = time.monotonic()
    with output.open("wb") as out, errors.open("wb") as err:
        child = subprocess.Popen(
            list(command),
            env={**environment, _MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            in_time = wait_for(child.pid, timeout_seconds)
        finally:
            kill_all(child.pid, mark)
            child.wait()
    seconds = time.monotonic() - began
    return Finished(child.returncode, seconds, not in_time, _kernel_oom_kills() - kills)


def wait_for(pid: int, timeout_seconds: float | None) -> bool:
    """Sleep until a child process ends; return False where the time is up before."""
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        limit = None if timeout_seconds is None else max(int(timeout_seconds * 1000), 1)
        return bool(poll.poll(limit))
    finally:
        os.close(descriptor)


def kill_all(group: int, mark: str) -> None:
    """Kill a process group, and every process that carries the mark."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    while marked := find_marked(mark):
        for pid in marked:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def find_marked(mark: str) -> list[int]:
    """Return the live processes whose environment at their start held the mark."""
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def _kernel_oom_kills() -> int:
    """Return how often the kernel has killed for want of memory since it started."""
    with suppress(OSError):
        text = Path("/proc/vmstat").read_text(encoding="ascii")
        found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
        return int(found[1]) if found else 0
    return 0


def format_exit(returncode: int) -> str:
    """Return an exit status in words.

    >>> format_exit(-9)
    'killed by signal 9 (SIGKILL)'
    """
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        return f"killed by signal {-returncode}"
    return f"killed by signal {-returncode} ({name})"
