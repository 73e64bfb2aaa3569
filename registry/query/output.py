"""The child's output: bytes to one descriptor, telling the parent when its reader is slow."""

from __future__ import annotations

import io
import os
import select
import stat
from typing import TYPE_CHECKING, Any

from registry.errors import QueryError
from registry.query.messages import format_bytes
from registry.text import escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Callable

_PIPE_CHUNK_BYTES = 4096  # a pipe that polls writable takes PIPE_BUF bytes without blocking


class Output(io.RawIOBase):
    """A binary file to write to, one that pyarrow takes too; it owns no descriptor.

    ``is_file`` says that it goes to a regular file, not to a pipe or a device.
    """

    def __init__(self, number: int, notify: Callable[[str], None], limit: int | None) -> None:
        self._number = number
        self._notify = notify
        self._limit = limit
        self._written = 0
        self.is_file = stat.S_ISREG(os.fstat(number).st_mode)
        self._is_terminal = os.isatty(number)

    def write_text(self, text: str) -> None:
        """Write a text, exactly unless a person reads it; raise what `write` raises."""
        self.write((escape_unprintable(text, "\n\t") if self._is_terminal else text).encode())

    def write(self, data: Any, /) -> int:
        """Write all of ``data``.

        Raises:
            BrokenPipeError: the reader hung up.
            QueryError: the result is larger than its limit, or cannot be written.
        """
        view = memoryview(data).cast("B")
        if self._limit is not None and self._written + len(view) > self._limit:
            raise QueryError(
                f"query: its result is larger than {format_bytes(self._limit)};"
                " select less, or write it to a Parquet file"
            )
        step = max(1, len(view)) if self.is_file else _PIPE_CHUNK_BYTES
        for start in range(0, len(view), step):
            self._write_chunk(view[start : start + step])
        self._written += len(view)
        return len(view)

    def _write_chunk(self, chunk: memoryview) -> None:
        while chunk:
            if not self.is_file:
                self._wait_for_reader()
            try:
                chunk = chunk[os.write(self._number, chunk) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise
            except OSError as error:
                raise QueryError(f"query: cannot write its result: {error.strerror}") from error

    def _wait_for_reader(self) -> None:
        poll = select.poll()
        poll.register(self._number, select.POLLOUT)
        if not poll.poll(0):
            self._notify("blocked")
            poll.poll()
            self._notify("running")

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._written

    def writable(self) -> bool:
        """Tell that bytes can be written."""
        return True
