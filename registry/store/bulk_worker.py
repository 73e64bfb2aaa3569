"""The processes that validate batches for :mod:`registry.store.bulk_pool`.

Run as ``python -m registry.store.bulk_worker SOCKET CONTEXT WORKERS``, with the numbers of two
inherited descriptors. The first process loads the modules once, forks the workers and waits for
them. It forks before DuckDB is loaded, whose threads would not survive; the one thread beside it is
of Arrow's allocator, which takes part in forks. Workers share the socket, from which each takes the
next batch when it is free, and end when its other end is closed: none outlives the parent for
longer than one batch.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
import warnings
from typing import TYPE_CHECKING, Any

import pandas as pd  # noqa: F401 - loaded once, before the fork
import pandera.pandas as pandera  # noqa: F401 - loaded once, before the fork
import pyarrow as pa

from registry.errors import RegistryError
from registry.store.bulk_check import Checked, Context, check_batch
from registry.store.ids import id_files
from registry.store.shared_tables import read_shared, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NUMBER_BYTES = 8


def run_workers(work: Callable[[], None], n_workers: int) -> int:
    """Fork workers and wait for them; return 1, and end all, where one ends before its time."""
    pids: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: _end(pids))
    for _ in range(n_workers):
        pid = _fork()
        if not pid:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _work_and_exit(work)
        pids.append(pid)
    failed = False
    while pids:
        pid, status = os.wait()
        pids.remove(pid)
        if status and not failed:
            failed = True
            _end(pids)
    return int(failed)


def _fork() -> int:
    with warnings.catch_warnings():
        # Newer Pythons warn of any thread; the one that is there is prepared for it (see above).
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _work_and_exit(work: Callable[[], None]) -> None:
    status = 1
    try:
        work()
        status = 0
    except (BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone
    finally:
        os._exit(status)  # what the first process would do at its end is not the worker's


def _end(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def serve(connection: socket.socket, context_descriptor: int) -> None:
    """Validate batches until there are no more."""
    pa.set_cpu_count(1)
    context = None
    for number, descriptor in _receive_batches(connection):
        context = context or _read_context(context_descriptor)
        batch = _take_tables(descriptor)
        answer = share(*_check(context, batch))
        socket.send_fds(connection, [number], [answer])
        os.close(answer)


def _receive_batches(connection: socket.socket) -> Iterator[tuple[bytes, int]]:
    while True:
        number, descriptors, _, _ = socket.recv_fds(connection, _NUMBER_BYTES, 1)
        if not number:
            return
        yield number, descriptors[0]


def _read_context(descriptor: int) -> Context:
    import duckdb  # noqa: PLC0415 - only after the fork

    (folder, manifest), whole = read_shared(descriptor)
    connection = duckdb.connect(":memory:")
    return Context(folder, manifest, id_files(folder, manifest), whole, connection)


def _take_tables(descriptor: int) -> dict[str, pa.Table]:
    _, tables = read_shared(descriptor)
    os.close(descriptor)
    return {name: table.combine_chunks() for name, table in tables.items()}


def _check(context: Context, batch: dict[str, pa.Table]) -> tuple[Any, dict[str, pa.Table]]:
    """Return what became of a batch, and those tables that the parent does not have already."""
    try:
        checked = check_batch(context, batch)
    except RegistryError as error:
        return error, {}
    except Exception as error:  # noqa: BLE001 - a worker's last line: the parent raises it
        return RuntimeError("".join(traceback.format_exception(error))), {}
    changed = {name: rows for name, rows in checked.fresh.items() if rows is not batch.get(name)}
    return Checked(checked.problems, {}, checked.n_observations), changed


def main() -> int:
    """Serve what the command line names."""
    inherited, context, n_workers = (int(word) for word in sys.argv[1:])
    connection = socket.socket(fileno=inherited)
    return run_workers(lambda: serve(connection, context), n_workers)


if __name__ == "__main__":
    sys.exit(main())
