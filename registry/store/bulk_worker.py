"""The process that validates batches for :mod:`registry.store.bulk_pool`.

Run as ``python -m registry.store.bulk_worker SOCKET CONTEXT``, with the numbers of two inherited
descriptors. It takes batches from the socket, which it shares with other workers, and ends when the
other end is closed: it never outlives its parent for longer than one batch.
"""

from __future__ import annotations

import os
import socket
import sys
import traceback
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd  # noqa: F401 - loaded while the parent still prepares
import pandera.pandas as pandera  # noqa: F401 - loaded while the parent still prepares
import pyarrow as pa

from registry.errors import RegistryError
from registry.store.bulk_check import Checked, Context, check_batch
from registry.store.fold import id_files
from registry.store.shared_tables import read_shared, share

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBER_BYTES = 8


def main(connection: socket.socket, context_descriptor: int) -> None:
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
    changed = {
        name: rows for name, rows in checked.fresh.items() if rows is not batch.get(name)
    }
    return Checked(checked.problems, {}, checked.n_observations), changed


if __name__ == "__main__":
    try:
        main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
    except (BrokenPipeError, ConnectionResetError):
        sys.exit(1)  # the parent is gone
