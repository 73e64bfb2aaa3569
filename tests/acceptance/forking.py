"""Processes of the command, each forked from one that has loaded other people's packages.

Loading them takes a third of the time of a command that does little. What is forked has loaded
nothing of the command's own: it runs the installed script, as a shell would start it, and ends with
its status.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMAND = Path(sys.executable).parent / "registry"

#: What the command imports, none of which starts a thread.
_PACKAGES = (
    *("click", "numpy", "platformdirs", "pydantic_core", "typing_extensions", "yaml"),
    *("ast", "csv", "difflib", "hashlib", "inspect", "json", "pickle", "subprocess", "tomllib"),
)

#: Longest input that a pipe takes at once.
LONGEST_INPUT = 2**15

_SECONDS = 300


class ForkServer:
    """A process that forks the command, one call at a time."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.settimeout(_SECONDS)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,  # pipes as those of the forked: Python asks when it starts
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )

    def run(
        self, arguments: list[str], cwd: Path, environment: Mapping[str, str], stdin: bytes
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the command as ``subprocess.run`` does, with input that fits into a pipe."""
        pipes = [os.pipe() for _ in range(3)]
        (their_in, our_in), (our_out, their_out), (our_err, their_err) = pipes
        os.write(our_in, stdin)
        os.close(our_in)
        call = pickle.dumps((arguments, str(cwd), dict(environment)))
        theirs = [their_in, their_out, their_err]
        socket.send_fds(self._socket, [len(call).to_bytes(4, "big")], theirs)
        self._socket.sendall(call)
        for descriptor in theirs:
            os.close(descriptor)
        with ThreadPoolExecutor(2) as readers, self._killed_when_late():
            out, err = (readers.submit(_read_all, one) for one in (our_out, our_err))
            stdout, stderr = out.result(_SECONDS), err.result(_SECONDS)
            status = self._receive_status()  # it may go on after it has closed its output
        return subprocess.CompletedProcess([str(COMMAND), *arguments], status, stdout, stderr)

    @contextlib.contextmanager
    def _killed_when_late(self) -> Any:
        pid = int.from_bytes(_receive(self._socket, 4), "big")
        try:
            yield
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            self._receive_status()  # else the next call would take it for its own
            raise

    def _receive_status(self) -> int:
        return int.from_bytes(_receive(self._socket, 4), "big", signed=True)

    def close(self) -> None:
        """End the process, which has no other by then."""
        self._socket.close()
        self._process.communicate(timeout=_SECONDS)


def _read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def _receive(channel: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        part = channel.recv(length - len(found))
        if not part:
            raise EOFError
        found += part
    return found


def _serve(channel: socket.socket) -> None:
    for name in _PACKAGES:
        importlib.import_module(name)
    while True:
        size, descriptors, _, _ = socket.recv_fds(channel, 4, 3)
        if not size:
            return
        call = pickle.loads(_receive(channel, int.from_bytes(size, "big")))  # noqa: S301 - ours
        pid = os.fork()
        if not pid:
            channel.close()
            _become(descriptors, *call)
        for descriptor in descriptors:
            os.close(descriptor)
        channel.sendall(pid.to_bytes(4, "big"))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        channel.sendall(status.to_bytes(4, "big", signed=True))


def _become(
    descriptors: list[int], arguments: list[str], cwd: str, environment: dict[str, str]
) -> NoReturn:
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
        os.close(descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [str(COMMAND), *arguments]
    sys.path[0] = str(COMMAND.parent)
    runpy.run_path(str(COMMAND), run_name="__main__")
    sys.exit()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
