"""Results in the formats that a query can ask for, written in batches."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any

from registry.query.cells import (
    format_for_people,
    format_json,
    format_plain,
    text_width,
)
from registry.query.output import Output

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


def _pad(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - text_width(text))
    return space + text if right else text + space


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _figure_columns(columns: Sequence[str], rows: Sequence[Row]) -> list[bool]:
    if not rows:
        return [False] * len(columns)
    return [any(map(_is_figure, column)) for column in zip(*rows, strict=True)]


def write_table(columns: Sequence[str], batches: Batches, output: Output) -> None:
    """Write aligned columns for people; the first batch sets the widths."""
    first = next(batches, [])
    heads = [format_for_people(name) for name in columns]
    cells = [[format_for_people(value) for value in row] for row in first]
    widths = [max(map(text_width, column)) for column in zip(heads, *cells, strict=True)]
    right = _figure_columns(columns, first)

    def line(row: Sequence[str]) -> str:
        padded = (
            _pad(text, width, right=side)
            for text, width, side in zip(row, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip() + "\n"

    rule = "  ".join("─" * width for width in widths) + "\n"
    output.write_text(line(heads) + rule + "".join(map(line, cells)))
    for rows in batches:
        texts = ([format_for_people(value) for value in row] for row in rows)
        output.write_text("".join(map(line, texts)))


def _format_markdown_row(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", r"\|") for text in texts) + " |\n"


def write_markdown(columns: Sequence[str], batches: Batches, output: Output) -> None:
    """Write a Markdown table with pipes escaped; figures are right-aligned."""
    first = next(batches, [])
    rules = ["--:" if figure else "---" for figure in _figure_columns(columns, first)]
    head = _format_markdown_row([format_for_people(name, None) for name in columns])
    output.write_text(f"{head}| {' | '.join(rules)} |\n")
    for rows in chain([first], batches):
        lines = ([format_for_people(value, None) for value in row] for row in rows)
        output.write_text("".join(map(_format_markdown_row, lines)))


def with_metadata(schema: Any, column_metadata: Any) -> Any:
    """Return an Arrow schema whose columns say their unit and meaning, where their name tells."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, only Arrow formats need it

    return pa.schema([field.with_metadata(column_metadata.get(field.name)) for field in schema])


def write_arrow(schema: Any, batches: Iterator[Any], output: Output) -> None:
    """Write an Arrow IPC stream of record batches."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, only this format needs it

    with pa.ipc.new_stream(output, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def write_parquet(schema: Any, batches: Iterator[Any], output: Output) -> None:
    """Write one Parquet file of record batches, zstd compressed."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, only this format needs it
    from pyarrow import parquet  # noqa: PLC0415 - as above

    sink = pa.PythonFile(output, mode="w")

    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


ROW_FORMATS: dict[str, RowWriter] = {
    "table": write_table,
    "csv": write_csv,
    "tsv": write_tsv,
    "json": write_json,
    "jsonl": write_jsonl,
    "markdown": write_markdown,
}
ARROW_FORMATS: dict[str, ArrowWriter] = {"parquet": write_parquet, "arrow": write_arrow}
