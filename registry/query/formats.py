"""Results in the formats that a query can ask for, written in batches."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from registry.errors import QueryError
from registry.query.cells import format_for_people, format_json, format_plain
from registry.query.model import GUARDED_FORMATS
from registry.query.output import Output
from registry.query.table import is_figure_column, write_table

if TYPE_CHECKING:
    from registry.query.model import Query

Row = Sequence[Any]
Batches = Iterator[Sequence[Row]]
RowWriter = Callable[[Sequence[str], Batches, Output], None]
ArrowWriter = Callable[[Any, Iterator[Any], Output], None]


_CSV_KINDS = {int, float, str, type(None)}  # what the csv module writes as `format_plain` does


def _format_csv_column(column: Row) -> Iterable[Any]:
    return column if set(map(type, column)) <= _CSV_KINDS else map(format_plain, column)


def _format_json_column(column: Row) -> Iterable[str]:
    kinds = set(map(type, column))
    return map(str if kinds == {int} else format_json, column)


def _convert_columns(
    rows: Sequence[Row], convert: Callable[[Row], Iterable[Any]]
) -> Iterator[tuple[Any, ...]]:
    """Convert a batch a column at a time: one look at a column's types serves all its cells."""
    return zip(*map(convert, zip(*rows, strict=True)), strict=True)


#: What begins a text that a spreadsheet runs as a formula, or may once it has trimmed the cell.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def guard_formula(value: Any) -> Any:
    """Return a cell that no spreadsheet runs: such a text gets an apostrophe; figures stay.

    >>> guard_formula("=HYPERLINK(1)"), guard_formula(-1.5), guard_formula("lora")
    ("'=HYPERLINK(1)", -1.5, 'lora')
    """
    runs = isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA_STARTS)
    return f"'{value}" if runs else value


def _guard(rows: Iterable[Sequence[Row]]) -> Batches:
    return ([[guard_formula(value) for value in row] for row in batch] for batch in rows)


def write_csv(columns: Sequence[str], batches: Batches, output: Output) -> None:
    """Write RFC 4180 CSV with a header line; null is an empty cell."""
    for rows in chain([[columns]], batches):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows(_convert_columns(rows, _format_csv_column))
        output.write_text(text.getvalue())


_TSV_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def write_tsv(columns: Sequence[str], batches: Batches, output: Output) -> None:
    r"""Write tab-separated lines; tab, newline and backslash in a cell become ``\t \n \\``."""
    for rows in chain([[columns]], batches):
        lines = ("\t".join(format_plain(v).translate(_TSV_ESCAPES) for v in row) for row in rows)
        output.write_text("".join(f"{line}\n" for line in lines))


def unique_names(columns: Sequence[str]) -> list[str]:
    """Return names that can be keys: repeated ones get ``_1``, ``_2``, ….

    >>> unique_names(["a", "a", "a_1"])
    ['a', 'a_2', 'a_1']
    """
    taken = set(columns)
    seen: set[str] = set()
    names = []
    for column in columns:
        name, number = column, 0
        while name in seen or (number and name in taken):
            number += 1
            name = f"{column}_{number}"
        seen.add(name)
        names.append(name)
    return names


def _format_objects(columns: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    keys = [f"{format_json(name)}:" for name in unique_names(columns)]
    template = "{" + ",".join(key.replace("%", "%%") + "%s" for key in keys) + "}"
    for row in _convert_columns(rows, _format_json_column):
        yield template % row


def write_jsonl(columns: Sequence[str], batches: Batches, output: Output) -> None:
    """Write one JSON object per line."""
    for rows in batches:
        output.write_text("".join(f"{line}\n" for line in _format_objects(columns, rows)))


def write_json(columns: Sequence[str], batches: Batches, output: Output) -> None:
    """Write a JSON array of objects, one per line."""
    lead = "[\n"
    for rows in batches:
        objects = ",\n".join(_format_objects(columns, rows))
        output.write_text(f"{lead}{objects}" if objects else "")
        lead = ",\n" if objects else lead
    output.write_text("[]\n" if lead == "[\n" else "\n]\n")


def _format_markdown_row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", r"\|") for text in texts) + " |\n"


def write_markdown(columns: Sequence[str], batches: Batches, output: Output) -> None:
    """Write a Markdown table with pipes escaped; figures are right-aligned."""
    first = next(batches, [])
    by_column = list(zip(*first, strict=True)) or [()] * len(columns)
    rules = ["--:" if is_figure_column(values) else "---" for values in by_column]
    head = _format_markdown_row([format_for_people(name, None) for name in columns])
    output.write_text(f"{head}| {' | '.join(rules)} |\n")
    for rows in chain([first], batches):
        lines = ([format_for_people(value, None) for value in row] for row in rows)
        output.write_text("".join(map(_format_markdown_row, lines)))


def describe_schema(schema: Any, column_metadata: Any) -> Any:
    """Return an Arrow schema whose columns say their unit and meaning, where their name tells.

    Repeated names are numbered: with one name twice, no reader finds the columns of a Parquet file,
    and rows as dictionaries lose values.
    """
    import pyarrow as pa  # noqa: PLC0415 - heavy, only Arrow formats need it

    return pa.schema(
        field.with_metadata(column_metadata.get(field.name)).with_name(name)
        for field, name in zip(schema, unique_names(schema.names), strict=True)
    )


def apply_schema(schema: Any, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield Arrow batches with the names and the metadata of a schema of the same types."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, only Arrow formats need it

    return (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches)


def write_arrow(schema: Any, batches: Iterator[Any], output: Output) -> None:
    """Write Arrow IPC: the file form to a file, a stream of record batches to a pipe."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, only this format needs it

    new = pa.ipc.new_file if output.is_file else pa.ipc.new_stream
    with new(output, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def write_parquet(schema: Any, batches: Iterator[Any], output: Output) -> None:
    """Write one Parquet file of record batches, zstd compressed.

    Raises:
        QueryError: Parquet has no type for a column.
    """
    import pyarrow as pa  # noqa: PLC0415 - heavy, only this format needs it

    try:
        writer = _open_parquet(pa.PythonFile(output, mode="w"), schema)
    except pa.ArrowNotImplementedError:
        raise _explain_parquet(schema) from None
    with writer:
        for batch in batches:
            writer.write_batch(batch)


def _open_parquet(sink: Any, schema: Any) -> Any:
    from pyarrow import parquet  # noqa: PLC0415 - heavy, only this format needs it

    return parquet.ParquetWriter(sink, schema, compression="zstd")


def _explain_parquet(schema: Any) -> QueryError:
    """Return the error for the columns of a schema that Parquet has no type for."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, only this format needs it

    refused = []
    for field in schema:
        try:
            _open_parquet(pa.BufferOutputStream(), pa.schema([field])).close()
        except pa.ArrowNotImplementedError:
            refused.append(field)
    found = ", ".join(f"{field.name!r} ({field.type})" for field in refused)
    return QueryError(
        f"query: Parquet has no type for {found}; expected another, such as epoch(…), the seconds "
        "of an interval, or cast(… as varchar); csv, json and arrow take any"
    )


ROW_FORMATS: dict[str, RowWriter] = {
    "table": write_table,
    "csv": write_csv,
    "tsv": write_tsv,
    "json": write_json,
    "jsonl": write_jsonl,
    "markdown": write_markdown,
}
ARROW_FORMATS: dict[str, ArrowWriter] = {"parquet": write_parquet, "arrow": write_arrow}


def choose_writer(query: Query) -> RowWriter:
    """Return what writes the rows of a query in its format."""
    write = ROW_FORMATS[query.format]
    if query.format == "table":
        return partial(write_table, layout=query.layout)
    if query.guards_formulas and query.format in GUARDED_FORMATS:
        return lambda columns, batches, output: write(
            [guard_formula(name) for name in columns], _guard(batches), output
        )
    return write
