"""``registry query``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.contract import TABLES, view_names, vocabulary
from registry.contract.descriptions import describe_column
from registry.errors import QueryError, did_you_mean
from registry.query.model import Layout, Limits, default_memory_bytes
from registry.query.params import parse_assignment
from registry.query.unmatched import explain_unmatched
from registry.reading.bounded_file import read_bytes, read_stream
from registry.store.read import build_dataset
from registry_cli import console
from registry_cli.options import Seconds, parse_size, registry_option
from registry_cli.output import (
    at_option,
    open_dataset,
    open_snapshot,
    output_options,
    parse_destination,
    read_query,
    read_sql,
    write_query,
)

if TYPE_CHECKING:
    from registry.query.model import Dataset
    from registry_cli.output import Destination

#: Longest statement that is read, in bytes.
_LONGEST_STATEMENT = 2**20
_STATEMENT = "a SQL statement"

#: The columns of `results` that are shown first where a terminal is too narrow for all of them.
_LAYOUT = Layout(
    first=(
        *("model_id", "method_label", "gpu_id", "seq_len", "outcome", "peak_memory_bytes"),
        *("tokens_per_second", "n_gpus", "micro_batch_size", "observation_id", "source_id"),
        *("seconds_per_step", "evidence", "memory_kind", "samples_per_second", "framework"),
    )
)


#: A statement that begins with a comment; an option has no space before its ``=``.
_COMMENT = re.compile(r"--[^=\s]*\s")


class _QueryCommand(click.Command):
    """Takes a statement that begins with a comment, which click would take for an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; a space makes such a statement an argument and means nothing."""
        args = [f" {text}" if _COMMENT.match(text) else text for text in args]
        return super().parse_args(ctx, args)


@click.command(name="query", cls=_QueryCommand)
@click.argument("sql", required=False)
@click.option(
    "-p",
    "--param",
    "params",
    metavar="NAME=VALUE",
    multiple=True,
    help="Value bound to $NAME; repeatable. Numbers, true, false and null are text only if "
    "quoted: -p 'v=\"12.1\"'.",
)
@click.option(
    "--file",
    "sql_file",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Read the statement from FILE.",
)
@click.option("--schema", is_flag=True, help="List the columns of all tables and views, or of one.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=Seconds(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Stop the query after this long (exit 124).",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Memory the query may use, such as 8GiB (else 4 GiB, or half of the machine's if less).",
)
@output_options
@at_option
@registry_option
def command(
    sql: str | None,
    params: tuple[str, ...],
    sql_file: Path | None,
    *,
    schema: bool,
    timeout: float,
    memory: str | None,
    format_name: str | None,
    output: Path | None,
    at: int | None,
    registry_path: Path | None,
) -> None:
    """Run one SQL SELECT over the registry's tables and views.

    SQL is the statement; without it, or with -, it is read from standard input. With --schema, SQL
    is the name of a table or view. The statement can only read the registry: it cannot write, and
    has no access to files, the network or settings. On a terminal that is too narrow for all
    columns, the most useful ones are shown and the others counted.

    \b
    Examples:
      registry query "select model_id, method_label, max(seq_len) as longest from results
                      where outcome = 'ok' group by all order by all"
      registry query 'from results where gpu_id = $gpu' -p gpu=rtx-3090 -o rtx-3090.parquet
      registry query --schema results
      echo "from max_seq_len" | registry query -f json
    """  # noqa: D301 - \b keeps the examples' lines
    destination = parse_destination(format_name, output, registry_path)
    memory_bytes = default_memory_bytes() if memory is None else parse_size(memory)
    limits = Limits(memory_bytes=memory_bytes, seconds=timeout)
    if schema:
        relation = _check_relation(sql)
        _write_schema(open_dataset(registry_path, at), relation, destination)
        return
    statement, bound = _read_statement(sql, sql_file), _parse_params(params)
    snapshot = open_snapshot(registry_path, at)
    dataset = build_dataset(snapshot)
    summary = write_query(dataset, statement, bound, destination, limits, layout=_LAYOUT)
    if summary.is_empty and sys.stderr.isatty():
        console.hint("0 rows")
    if summary.rows <= 1:  # a count of nothing is a row
        for text in explain_unmatched(statement, bound, snapshot.catalogue):
            console.hint(text)


def _write_schema(dataset: Dataset, relation: str | None, destination: Destination) -> None:
    """Write the columns of a table or view, or of all: units, meanings, and words they may hold."""
    columns = read_query(dataset, read_sql("schema"), {"relation": relation})
    rows = json.dumps([_describe(column) for column in columns])
    sql = read_sql("described_schema")
    write_query(dataset, sql, {"rows": rows}, destination, layout=Layout(prose=("meaning",)))


def _describe(column: dict[str, Any]) -> dict[str, Any]:
    found = describe_column(column["relation"], column["column"])
    if found is None:
        return column
    words = ", ".join(vocabulary(found.vocabulary)) if found.vocabulary else None
    return column | {"unit": found.unit, "meaning": found.meaning, "values": words}


def _read_statement(sql: str | None, sql_file: Path | None) -> str:
    if sql is not None and sql_file is not None:
        raise _no_statement()
    if sql_file is not None:
        data = read_bytes(sql_file, limit=_LONGEST_STATEMENT, what=_STATEMENT)
        return _decode(data, str(sql_file))
    if sql not in ("-", None):
        return str(sql)
    if sys.stdin is None or (sql is None and sys.stdin.isatty()):
        raise _no_statement()
    data = read_stream(sys.stdin.buffer, limit=_LONGEST_STATEMENT, what=_STATEMENT)
    if sql is None and not data.strip():
        raise _no_statement()
    return _decode(data, "standard input")


def _no_statement() -> click.UsageError:
    return click.UsageError(
        "expected one statement: as an argument, from standard input, or with --file"
    )


def _decode(data: bytes, origin: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise QueryError(
            f"{origin}: byte {error.start}: not UTF-8; expected a SQL statement in UTF-8"
        ) from None


def _parse_params(params: tuple[str, ...]) -> dict[str, Any]:
    try:
        return dict(parse_assignment(text) for text in params)
    except QueryError as error:
        raise click.UsageError(str(error)) from None


def _check_relation(name: str | None) -> str | None:
    known = (*TABLES, *view_names())
    if name is not None and name not in known:
        raise click.UsageError(
            f"no table or view {name!r}{did_you_mean(name, known)}; expected one of "
            f"{', '.join(known)}"
        )
    return name
