"""The child that runs one query: confined first, then the engine's threads, then the statement.

Order matters: whatever must be read from the system (the engine, time zones, control groups) is
read before the confinement, and no thread is started before it.
Started by `registry.query.process`.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import sys
import traceback
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from registry.errors import QueryError
from registry.query import confine, database
from registry.query.formats import (
    ARROW_FORMATS,
    ROW_FORMATS,
    apply_schema,
    choose_writer,
    describe_schema,
)
from registry.query.messages import (
    format_engine_error,
    format_memory_error,
    is_number_for_text,
    is_unknown_name,
)
from registry.query.output import Output
from registry.query.params import bind_parameters, explain_numbers
from registry.query.statements import parse_statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from registry.query.model import Job

_BATCH_ROWS = 2048
_ARROW_BATCH_ROWS = 65_536


def load_engine() -> Any:
    """Import DuckDB's core and what it imports while it fetches.

    The core alone, not ``duckdb``: on 1.5.5 that package opens a default database, whose threads
    could no longer be confined (and it doubles the time to start).
    """
    import decimal  # noqa: F401, PLC0415 - fetching DECIMAL needs it
    import inspect  # noqa: F401, PLC0415 - the engine's Python layer looks for it
    import uuid  # noqa: F401, PLC0415 - fetching UUID needs it

    import _duckdb  # noqa: PLC0415 - the child alone loads the engine
    import pytz  # type: ignore[import-untyped]  # noqa: PLC0415 - fetching TIMESTAMPTZ needs it

    pytz.timezone("UTC")
    return _duckdb


def load_arrow() -> None:
    """Import pyarrow and DuckDB's bridge to it, without leaving a thread behind."""
    # Each of these would start a thread, or reserve gigabytes of address space.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    import duckdb  # noqa: PLC0415 - heavy, only the Arrow formats need it
    import pyarrow as pa  # noqa: F401, PLC0415 - as above
    import pyarrow.parquet  # noqa: F401, PLC0415 - as above

    if confine.landlock_abi() and confine.count_threads() > 1:
        duckdb.close()  # the default database of 1.5.5 and its threads


@dataclass
class Session:
    """The engine, its connection, and what of the dataset is in it so far."""

    engine: Any
    connection: Any
    job: Job
    landlock: bool
    loaded: set[str] = field(default_factory=set)

    def open(self) -> None:
        """Confine the process and create what the statement mentions."""
        query, dataset = self.job.query, self.job.dataset
        if self.landlock:
            confine.restrict_files(dataset.readable)
        database.set_limits(self.connection, query.limits)
        confine.limit_memory(query.limits.memory_bytes)
        whole = database.mentions_catalogue(query.sql)
        self.loaded = (
            database.all_names(dataset) if whole else database.select_names(dataset, query.sql)
        )
        self._create(self.loaded)
        if whole:
            database.add_comments(self.connection, dataset, in_memory=not self.landlock)
        self._shut()

    def load_rest(self) -> bool:
        """Create all that is not there yet; return whether there was anything."""
        names = database.all_names(self.job.dataset)
        if names == self.loaded:
            return False
        if self.landlock:
            self._create(names - self.loaded)
        else:  # its files are out of reach by now: start again
            self.connection.close()
            self.connection = database.connect(self.engine)
            database.set_limits(self.connection, self.job.query.limits)
            self._create(names)
            self._shut()
        self.loaded = names
        return True

    def _create(self, names: set[str]) -> None:
        database.create_objects(
            self.connection, self.job.dataset, names, in_memory=not self.landlock
        )

    def _shut(self) -> None:
        relations = self.job.dataset.relations if self.landlock else ()
        files = [path for relation in relations for path in relation.files]
        database.shut_doors(self.connection, files)

    def execute(self) -> Any:
        """Return the result of the statement, a cursor or (Arrow formats) a batch reader."""
        try:
            return self._execute_once()
        except self.engine.Error as error:
            if not is_unknown_name(self.engine, error) or not self.load_rest():
                raise
            return self._execute_once()

    def _execute_once(self) -> Any:
        query = self.job.query
        statement = parse_statement(self.engine, self.connection, query.sql)
        values = bind_parameters(set(statement.named_parameters), query.params)
        if query.format in ROW_FORMATS:
            return self.connection.execute(statement, values)
        if database.is_first_version(self.engine):
            return self.connection.execute(statement, values).to_arrow_reader(_ARROW_BATCH_ROWS)
        relation = self.connection.sql(query.sql, params=values)  # streams only this way on 2.0
        return relation.to_arrow_reader(_ARROW_BATCH_ROWS)


class _Counted:
    """Batches of rows on their way from the engine to a format, counted."""

    def __init__(self, batches: Iterable[Any]) -> None:
        self.rows = 0
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            self.rows += len(batch)
            yield batch


def write_result(job: Job, result: Any, output: Output) -> dict[str, Any]:
    """Write all rows in the query's format; return the columns and the number of rows."""
    query = job.query
    complete = True
    if query.format in ROW_FORMATS:
        columns = [column[0] for column in result.description or ()]
        counted = _Counted(iter(partial(result.fetchmany, _BATCH_ROWS), []))
        write = partial(choose_writer(query), columns)
    else:
        schema = describe_schema(result.schema, job.dataset.column_metadata)
        columns = list(schema.names)
        counted = _Counted(apply_schema(schema, result))
        write = partial(ARROW_FORMATS[query.format], schema)
    try:
        write(iter(counted), output)
    except BrokenPipeError:  # `| head` has seen enough
        complete = False
    return {"event": "done", "columns": columns, "rows": counted.rows, "complete": complete}


def run_job(engine: Any, connection: Any, job: Job, output: Output) -> dict[str, Any]:
    """Return the last event of a query: ``done``, or ``error`` with its message."""
    query = job.query
    if query.format in ARROW_FORMATS:
        load_arrow()
    landlock = query.landlock and confine.landlock_abi() > 0
    session = Session(engine, connection, job, landlock)
    try:
        session.open()
        return write_result(job, session.execute(), output)
    except QueryError as error:
        message = str(error)
    except MemoryError:
        message = format_memory_error(query.limits.memory_bytes)
    except engine.Error as error:
        message = format_engine_error(error, query.limits.memory_bytes)
        if is_number_for_text(error) and (way_out := explain_numbers(query.params)):
            message = f"{message}\n{way_out}"
    except OSError as error:
        place = f": {str(error.filename)!r}" if error.filename else ""
        message = f"query: {error.strerror or error}{place}"
    return {"event": "error", "message": message}


def receive_job(channel: socket.socket) -> tuple[Job, int]:
    """Return the job and the descriptor its result goes to; leave if the parent hangs up."""
    data, numbers, _, _ = socket.recv_fds(channel, 1, 1)
    if not data:
        os._exit(0)
    with channel.makefile("rb") as file:
        job: Job = pickle.load(file)  # noqa: S301 - written by our own parent
    return job, numbers[0]


def serve(channel: socket.socket, parent: int) -> None:
    """Run one query for ``parent`` and end the process."""

    def send(event: dict[str, Any]) -> None:
        channel.sendall(json.dumps(event).encode() + b"\n")

    try:
        confine.end_with_parent(parent)
        confine.forbid_new_privileges()
        engine = load_engine()
        connection = database.connect(engine)
        job, number = receive_job(channel)
        output = Output(number, lambda state: send({"event": state}), job.query.limits.output_bytes)
        send(run_job(engine, connection, job, output))
    except BaseException:  # noqa: BLE001 - the process's last line: the parent must hear of a bug
        send({"event": "bug", "message": traceback.format_exc()})
    finally:
        os._exit(0)


def main() -> None:
    """Serve on the descriptor given as the first argument, for the parent given as the second."""
    number, parent = map(int, sys.argv[1:3])
    serve(socket.socket(fileno=number), parent)
