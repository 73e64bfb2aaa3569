"""Validate batches side by side, in processes of their own.

Much of the work holds Python's lock, so threads would not make it faster. The workers share one
socket, from which each takes the next batch when it is free; tables travel through shared memory.
This process is never forked: the threads of Arrow and DuckDB would not survive that.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from registry.errors import StoreError
from registry.store.bulk_check import Checked, Context, check_batch
from registry.store.shared_tables import open_shared, read_shared, share, write_shared

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    import pyarrow as pa

#: Most workers; each takes about 300 MB.
_MOST_WORKERS = 4

#: Batches that wait beside those being validated, so that no worker waits.
_WAITING = 2

_NUMBER_BYTES = 8

#: How often to see whether the workers still live.
_POLL_SECONDS = 1.0

#: How long the workers may take to end.
_END_SECONDS = 10.0


class Inline:
    """Validates each batch in this process, when its result is asked for."""

    def __init__(self) -> None:
        self._context: Context | None = None
        self._batches: list[dict[str, pa.Table]] = []
        self.most_running = 1

    def __enter__(self) -> Self:
        """Start nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """End nothing."""

    def set_context(self, context: Context) -> None:
        """Say what the rows of all batches may refer to."""
        self._context = context

    @property
    def n_running(self) -> int:
        """Batches whose result was not taken yet."""
        return len(self._batches)

    def submit(self, batch: dict[str, pa.Table]) -> None:
        """Hand in a batch."""
        self._batches.append(batch)

    def take(self) -> Checked:
        """Return the result of the first batch whose result was not taken yet."""
        if self._context is None:
            raise RuntimeError("take() before set_context()")
        return check_batch(self._context, self._batches.pop(0))


class Pool:
    """Validates batches in worker processes, which end with the ``with`` block, whatever comes."""

    def __init__(self) -> None:
        n_workers = min(_MOST_WORKERS, len(os.sched_getaffinity(0)))
        self.most_running = n_workers + _WAITING
        self._running: dict[int, dict[str, pa.Table]] = {}
        self._done: dict[int, Checked] = {}
        self._n_submitted = self._n_taken = 0
        self._context = open_shared()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_POLL_SECONDS)
        with theirs:
            try:
                self._workers = self._start(theirs.fileno(), n_workers)
            except BaseException:
                self._socket.close()
                os.close(self._context)
                raise

    def _start(self, theirs: int, n_workers: int) -> subprocess.Popen[bytes]:
        words = [str(theirs), str(self._context), str(n_workers)]
        return subprocess.Popen(
            # -P: modules in the folder one stands in must not stand for others.
            [sys.executable, "-P", "-m", "registry.store.bulk_worker", *words],
            env=_worker_environment(),
            pass_fds=(theirs, self._context),
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches the parent alone, which ends them
        )

    def __enter__(self) -> Self:
        """Return the pool; its workers are starting."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the workers and wait for them."""
        self._close()

    def _close(self) -> None:
        self._socket.close()
        os.close(self._context)
        self._workers.terminate()
        try:
            self._workers.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._workers.pid, signal.SIGKILL)
            self._workers.wait()

    def set_context(self, context: Context) -> None:
        """Say what the rows of all batches may refer to; comes before the first batch."""
        write_shared(self._context, (context.folder, context.manifest), context.whole)

    @property
    def n_running(self) -> int:
        """Batches whose result was not taken yet."""
        return self._n_submitted - self._n_taken

    def submit(self, batch: dict[str, pa.Table]) -> None:
        """Hand in a batch."""
        descriptor = share(None, batch)
        try:
            number = self._n_submitted.to_bytes(_NUMBER_BYTES, "little")
            socket.send_fds(self._socket, [number], [descriptor])
        except ConnectionError:
            raise _ended_early() from None
        finally:
            os.close(descriptor)
        self._running[self._n_submitted] = batch
        self._n_submitted += 1

    def take(self) -> Checked:
        """Return the result of the first batch whose result was not taken yet.

        Raises what the worker met; StoreError where a worker ended before its time.
        """
        while self._n_taken not in self._done:
            self._receive()
        self._n_taken += 1
        return self._done.pop(self._n_taken - 1)

    def _receive(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, _NUMBER_BYTES, 1)
        except TimeoutError:
            self._require_workers()
            return
        except ConnectionError:
            raise _ended_early() from None
        if not data:
            raise _ended_early()
        number = int.from_bytes(data, "little")
        try:
            checked, changed = read_shared(descriptors[0])
        finally:
            os.close(descriptors[0])
        if isinstance(checked, BaseException):
            raise checked
        fresh = {} if checked.problems else {**self._running[number], **changed}
        del self._running[number]
        self._done[number] = Checked(checked.problems, fresh, checked.n_observations)

    def _require_workers(self) -> None:
        if self._workers.poll() is not None:
            raise _ended_early()


def _worker_environment() -> dict[str, str]:
    """Return the environment of a worker: it finds the modules that this process finds."""
    paths = [path or str(Path.cwd()) for path in sys.path]
    own = {
        "PYTHONPATH": os.pathsep.join(paths),
        "OPENBLAS_NUM_THREADS": "1",  # no threads before the fork
        # Memory that is asked for again and again is not handed back in between.
        "MALLOC_MMAP_THRESHOLD_": str(2**30),
        "MALLOC_TRIM_THRESHOLD_": str(2**33),
    }
    return {**os.environ, **own}


def _ended_early() -> StoreError:
    return StoreError(
        "found that a process that validates rows ended early; expected it to answer; nothing was "
        "recorded; see whether memory ran out, then repeat the command"
    )


def build_checker(n_observations: int | None, *, fewest: int) -> Inline | Pool:
    """Return what validates batches: processes from ``fewest`` observations on, or if unknown."""
    is_small = n_observations is not None and n_observations < fewest
    if is_small or sys.platform != "linux" or not sys.executable:
        return Inline()
    return Pool()
