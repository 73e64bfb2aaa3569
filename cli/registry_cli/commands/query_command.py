"""``registry query``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from registry.contract import TABLES, view_names
from registry.errors import QueryError, UnitError, did_you_mean
from registry.query.model import Limits, default_memory_bytes
from registry.query.params import parse_assignment
from registry.reading.bounded_file import read_bytes, read_stream
from registry_cli.options import Seconds, registry_option
from registry_cli.output import (
    at_option,
    open_dataset,
    output_options,
    parse_destination,
    read_sql,
    write_query,
)

#: Longest statement that is read, in bytes.
_LONGEST_STATEMENT = 2**20
_STATEMENT = "a SQL statement"


@click.command(name="query")
@click.argument("sql", required=False)
@click.option(
    "-p",
    "--param",
    "params",
    metavar="NAME=VALUE",
    multiple=True,
    help="Value bound to $NAME; repeatable.",
)
@click.option(
    "--file",
    "sql_file",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Read the statement from FILE.",
)
@click.option("--schema", is_flag=True, help="List tables, views and columns, or those of SQL.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=Seconds(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="End the query after this long (exit 124).",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Memory the query may use, such as 8GiB (else 4 GiB, or half the memory if less).",
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

    SQL is the statement, or - to read it from standard input. The statement can reach nothing
    but the registry: no file, network or setting, and it cannot write.

    \b
    Examples:
      registry query "select model_id, method_label, max(seq_len) as longest from results
                      where outcome = 'ok' group by all order by all"
      registry query 'from results where gpu_id = $gpu' -p gpu=rtx-3090 -o rtx-3090.parquet
      registry query --schema results
    """  # noqa: D301 - \b keeps the examples' lines
    destination = parse_destination(format_name, output, registry_path)
    limits = Limits(memory_bytes=_parse_memory(memory), seconds=timeout)
    if schema:
        statement, bound = read_sql("schema"), {"relation": _check_relation(sql)}
    else:
        statement, bound = _read_statement(sql, sql_file), _parse_params(params)
    write_query(open_dataset(registry_path, at), statement, bound, destination, limits)


def _read_statement(sql: str | None, sql_file: Path | None) -> str:
    if (sql is None) == (sql_file is None):
        raise click.UsageError(
            "expected one statement: as an argument, as - for standard input, or with --file"
        )
    if sql_file is not None:
        data = read_bytes(sql_file, limit=_LONGEST_STATEMENT, what=_STATEMENT)
        return _decode(data, str(sql_file))
    if sql != "-":
        return str(sql)
    data = read_stream(sys.stdin.buffer, limit=_LONGEST_STATEMENT, what=_STATEMENT)
    return _decode(data, "standard input")


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


def _parse_memory(text: str | None) -> int:
    if text is None:
        return default_memory_bytes()
    from registry.units import parse_memory  # noqa: PLC0415 - only where a limit is given

    try:
        size: Any = parse_memory(text, where="--memory").value
    except UnitError as error:
        raise click.UsageError(str(error)) from None
    return int(size)
