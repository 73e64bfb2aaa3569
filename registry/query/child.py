"""Start the interpreter that one query runs in, and end it.

Little is imported here, so that the child can be started first: it loads the engine while the
caller loads the rest of itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # noqa: PTH120 - pathlib is slow to load

#: What the interpreter runs; its arguments are those of `registry.query.worker.main`.
SERVE = f"import sys; sys.path.insert(0, {_ROOT!r}); from registry.query.worker import main; main()"


class Child:
    """A process of `registry.query.worker`, and the socket to it."""

    def __init__(self, channel: socket.socket, process: subprocess.Popen[bytes]) -> None:
        self.channel = channel
        self.process = process

    @property
    def is_running(self) -> bool:
        """Whether it is waiting for its query or running it."""
        return self.process.returncode is None

    def close(self) -> None:
        """Kill it and all that it started, if it is still running."""
        if self.is_running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.channel.close()


def start_child() -> Child:
    """Start a new interpreter, which inherits nothing but a socket; it ends with this process."""
    ours, theirs = socket.socketpair()
    number = theirs.fileno()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", SERVE, str(number), str(os.getpid())],
            pass_fds=[number],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    return Child(ours, process)
