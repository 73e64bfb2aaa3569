"""The parent's side: start a child, hand it a query, wait, and end it in any case.

The parent never loads the engine. It gives the child one job over a socket (with the descriptor
for the result), and gets events back as JSON lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self

from registry.errors import QueryError, QueryTimeoutError, did_you_mean
from registry.query.database import mentions_catalogue
from registry.query.formats import FORMATS
from registry.query.messages import format_crash, format_memory_error, format_timeout
from registry.query.model import Dataset, Job, Limits, Query, Summary

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

StartMode = Literal["fork", "spawn"]

_SPAWN = "import sys; sys.path.insert(0, {root!r}); from registry.query.worker import main; main()"


class _Clock:
    """The time a query has left; it stands still while the reader of the output is slow."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._since: float | None = time.monotonic()

    def left(self) -> float | None:
        """Return the seconds left, None while the clock stands still."""
        if self._since is None:
            return None
        return self._left - (time.monotonic() - self._since)

    def stop(self) -> None:
        if (left := self.left()) is not None:
            self._left, self._since = left, None

    def start(self) -> None:
        if self._since is None:
            self._since = time.monotonic()


class Worker:
    """A child process that runs one query; a context manager that leaves no process behind."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        self._channel = channel
        self._pid = pid
        self._status: int | None = None
        self._pending = b""

    def __enter__(self) -> Self:
        """Return the worker itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process behind."""
        self.close()

    @property
    def pid(self) -> int:
        """The child's process id, also that of its process group."""
        return self._pid

    def run(self, dataset: Dataset, query: Query, output: int | BinaryIO) -> Summary:
        """Run ``query`` over ``dataset``, its result written to the descriptor ``output``.

        A reader that hangs up (``| head``) ends the query quietly.

        Raises:
            QueryError: the SQL is not valid, reaches for what it may not have, or needs more
                memory than it may use.
            QueryTimeoutError: the time limit was reached; the child has been killed.
            KeyboardInterrupt: as it came; the child has been killed.
        """
        if query.format not in FORMATS:
            hint = did_you_mean(query.format, FORMATS)
            raise QueryError(
                f"query: unknown format {query.format!r}, expected {', '.join(FORMATS)}{hint}"
            )
        try:
            self._send(dataset, query, output if isinstance(output, int) else output.fileno())
            return self._await_result(query.limits)
        finally:
            self.close()

    def close(self) -> None:
        """Kill the child, if it still runs, and reap it."""
        if self._status is None:
            self._kill()
            self._reap()
        self._channel.close()

    def _send(self, dataset: Dataset, query: Query, output: int) -> None:
        comments = dataset.comments if mentions_catalogue(query.sql) else ()
        dataset = replace(dataset, comments=comments() if callable(comments) else comments)
        query = replace(query, params=dict(query.params))
        with tempfile.TemporaryFile() as file:
            pickle.dump(Job(dataset, query), file)
            file.flush()
            # a child that has died already is told from its silence
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(self._channel, [b"Q"], [output, file.fileno()])

    def _await_result(self, limits: Limits) -> Summary:
        clock = _Clock(limits.seconds)
        while True:
            event = self._read_event(clock, limits)
            match event["event"]:
                case "blocked":
                    clock.stop()
                case "running":
                    clock.start()
                case "done":
                    return Summary(tuple(event["columns"]), event["rows"], event["complete"])
                case "error":
                    raise QueryError(event["message"])
                case _:
                    raise RuntimeError(f"the query's process failed:\n{event['message']}")

    def _read_event(self, clock: _Clock, limits: Limits) -> dict[str, Any]:
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        while b"\n" not in self._pending:
            left = clock.left()
            if left is not None and left <= 0:
                raise QueryTimeoutError(format_timeout(limits.seconds))
            if not poll.poll(None if left is None else max(1, left * 1000)):
                continue
            data = self._receive()
            if not data:
                raise self._explain_end(limits)
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    def _receive(self) -> bytes:
        try:
            return self._channel.recv(65_536)
        except ConnectionResetError:
            return b""

    def _explain_end(self, limits: Limits) -> QueryError:
        """Return the error of a child that ended without a last word."""
        self._reap()
        number = -os.waitstatus_to_exitcode(self._status or 0)
        if number == signal.SIGKILL:  # not ours: the system's out-of-memory killer
            return QueryError(format_memory_error(limits.memory_bytes))
        reason = signal.Signals(number).name if number > 0 else f"status {-number}"
        return QueryError(format_crash(reason, limits.memory_bytes))

    def _kill(self) -> None:
        # The group is there only after the child's first step, so the child itself is named too.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def _reap(self) -> None:
        try:
            _, self._status = os.waitpid(self._pid, 0)
        except ChildProcessError:  # a handler of the program was faster
            self._status = 0


def _count_own_threads() -> int:
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except FileNotFoundError:
        return threading.active_count()


def _fork(ours: socket.socket, theirs: socket.socket) -> int:
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        ours.close()
        from registry.query.worker import serve  # noqa: PLC0415 - the parent stays light

        serve(theirs, parent)
    finally:
        os._exit(1)


def _spawn(theirs: socket.socket) -> int:
    root = str(Path(__file__).resolve().parents[2])
    number = theirs.fileno()
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", _SPAWN.format(root=root), str(number), str(os.getpid())],
        pass_fds=[number],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    child.returncode = 0  # reaped by Worker, Popen need not warn of a running child
    return child.pid


def start_worker(mode: StartMode | None = None) -> Worker:
    """Start a child that loads the engine while the caller does other things.

    Args:
        mode: ``fork`` costs least and suits a process with one thread, ``spawn`` any; without
            it the number of threads decides.
    """
    ours, theirs = socket.socketpair()
    if mode is None:
        mode = "fork" if _count_own_threads() == 1 else "spawn"
    try:
        pid = _fork(ours, theirs) if mode == "fork" else _spawn(theirs)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return Worker(ours, pid)


def query_arrow(
    dataset: Dataset,
    sql: str,
    params: Mapping[str, Any] | None = None,
    *,
    limits: Limits | None = None,
    landlock: bool = True,
) -> pa.Table:
    """Return the result of ``sql`` as a ``pyarrow.Table``; safe in programs with threads.

    The result is bounded by the memory limit. Raises what `Worker.run` raises.
    """
    import pyarrow as pa  # noqa: PLC0415 - heavy, and only this function needs it

    limits = limits or Limits()
    limits = replace(limits, output_bytes=limits.output_bytes or limits.memory_bytes)
    query = Query(sql, params or {}, "arrow", limits, landlock)
    with tempfile.TemporaryFile() as file, start_worker("spawn") as worker:
        worker.run(dataset, query, file.fileno())
        file.seek(0)
        return pa.ipc.open_stream(file.read()).read_all()
