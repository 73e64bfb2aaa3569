"""Hand Arrow tables to another process through a file that lives in memory and has no name.

Nothing is left behind, however either process ends: the memory is free once both have closed it.
"""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = b"table"
_NOTE = b"note"


def write_shared(descriptor: int, note: Any, tables: Mapping[str, pa.Table]) -> None:
    """Write a note (any object that pickles) and tables, as Arrow's IPC streams, one by one."""
    noted = pa.schema([], metadata={_NOTE: pickle.dumps(note)})
    with pa.OSFile(_path(descriptor), "wb") as sink:
        with pa.ipc.new_stream(sink, noted):
            pass
        for name, table in tables.items():
            schema = table.schema.with_metadata({_NAME: name.encode()})
            with pa.ipc.new_stream(sink, schema) as writer:
                writer.write_table(table.replace_schema_metadata(schema.metadata))


def read_shared(descriptor: int) -> tuple[Any, dict[str, pa.Table]]:
    """Return the note and the tables of a shared file, which stay where they are: not copied.

    The note is trusted: read only what a process of one's own wrote.
    """
    tables: dict[str, pa.Table] = {}
    size = os.fstat(descriptor).st_size
    source = pa.memory_map(_path(descriptor))
    noted = pa.ipc.open_stream(source)
    noted.read_all()
    while source.tell() < size:
        table = pa.ipc.open_stream(source).read_all()
        name = table.schema.metadata[_NAME].decode()
        tables[name] = table.replace_schema_metadata(None)
    return pickle.loads(noted.schema.metadata[_NOTE]), tables  # noqa: S301 - own process wrote it


def share(note: Any, tables: Mapping[str, pa.Table]) -> int:
    """Return the descriptor of a new shared file with a note and tables; the caller closes it."""
    descriptor = open_shared()
    try:
        write_shared(descriptor, note, tables)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_shared() -> int:
    """Return the descriptor of a new, empty shared file (Linux); the caller closes it."""
    return os.memfd_create("registry-tables")


def _path(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"
