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
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from registry.errors import QueryError, QueryTimeoutError, did_you_mean
from registry.query.child import start_child
from registry.query.database import mentions_catalogue
from registry.query.messages import format_crash, format_memory_error, format_timeout
from registry.query.model import FORMATS, SELF_DESCRIBING, Job, Limits, Query, Summary
from registry.query.params import validate_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from registry.query.child import Child
    from registry.query.model import Dataset


class _Clock:
    """The time a query has left; the clock stops while the reader of the output is slow."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._since: float | None = time.monotonic()

    def left(self) -> float | None:
        """Return the seconds left, None while the clock is stopped."""
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

    def __init__(self, child: Child) -> None:
        self._child = child
        self._channel = child.channel
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
        return self._child.process.pid

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
            validate_text(query.sql, query.params)
            self._send(dataset, query, output if isinstance(output, int) else output.fileno())
            return self._await_result(query.limits)
        finally:
            self.close()

    def fetch(self, dataset: Dataset, query: Query) -> bytes:
        """Return the result of ``query`` in its format; raise what `run` raises."""
        with _open_memory_file() as file:
            self.run(dataset, query, file)
            file.seek(0)
            return file.read()

    def close(self) -> None:
        """Kill the child, if it is still running, and reap it."""
        self._child.close()

    def _send(self, dataset: Dataset, query: Query, output: int) -> None:
        comments = dataset.comments if mentions_catalogue(query.sql) else ()
        metadata = dataset.column_metadata if query.format in SELF_DESCRIBING else {}
        dataset = replace(
            dataset,
            comments=comments() if callable(comments) else comments,
            column_metadata=metadata() if callable(metadata) else metadata,
        )
        query = replace(query, params=dict(query.params))
        # a child that has already died is noticed by its silence
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self._channel, [b"Q"], [output])
            self._channel.sendall(pickle.dumps(Job(dataset, query)))
            self._channel.shutdown(socket.SHUT_WR)

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
        number = -self._child.process.wait()
        if number == signal.SIGKILL:  # not ours: the system's out-of-memory killer
            return QueryError(format_memory_error(limits.memory_bytes))
        reason = signal.Signals(number).name if number > 0 else f"status {-number}"
        return QueryError(format_crash(reason, limits.memory_bytes))


def start_worker() -> Worker:
    """Start a child that loads the engine while the caller does other things."""
    return Worker(start_child())


def _open_memory_file() -> BinaryIO:
    """Return a file that is in no folder, because there may be none to write to."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("registry-query"), "w+b")
    import tempfile  # noqa: PLC0415 - slow to load, and not needed on Linux

    return tempfile.TemporaryFile()


def read_rows(
    dataset: Dataset, sql: str, params: Mapping[str, Any], worker: Worker | None = None
) -> list[dict[str, Any]]:
    """Return the rows of ``sql`` as JSON has them. Raises what `Worker.run` raises.

    ``worker`` is one that waits for its query; a new one, if left out.
    """
    with worker or start_worker() as running:
        rows: list[dict[str, Any]] = json.loads(running.fetch(dataset, Query(sql, params, "json")))
        return rows


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
    with start_worker() as worker:
        return pa.ipc.open_file(worker.fetch(dataset, query)).read_all()
