"""Records, notebooks, reStructuredText and workbooks are read as tables."""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING

import pytest

from registry.errors import SourceError
from registry.tables.document import parse_document, read_document

if TYPE_CHECKING:
    from pathlib import Path

    from registry.tables.document import DocumentKind
    from registry.tables.raw_table import RawTable

openpyxl = pytest.importorskip("openpyxl")


def texts(table: RawTable) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in table.rows]


def only(text: str, kind: DocumentKind) -> RawTable:
    (table,) = parse_document(text, kind)
    return table


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('[{"a": 1, "b": {"c": 2.50}}, {"a": 3, "d": null}]', "json"),
        ('{"a": 1, "b": {"c": 2.5}}\n\n{"a": 3, "d": null}\n', "jsonl"),
        ("- {a: 1, b: {c: 2.5}}\n- {a: 3, d: null}\n", "yaml"),
    ],
)
def test_records_are_rows_and_nested_keys_are_paths(text: str, kind: DocumentKind) -> None:
    table = only(text, kind)
    assert table.columns == ("a", "b.c", "d")
    assert texts(table) == [["1", "2.5", ""], ["3", "", ""]]


def test_each_list_of_objects_is_a_table_under_its_path() -> None:
    first, second = parse_document('{"x": {"runs": [{"a": 1}]}, "y": [{"b": true}]}', "json")
    assert (first.heading, first.columns) == (("x", "runs"), ("a",))
    assert (second.heading, texts(second)) == (("y",), [["true"]])


def test_objects_by_name_are_rows_with_their_names() -> None:
    table = only("bert: {observations: [{t: 1}, {t: 2}]}\nt5: {observations: [{t: 3}]}\n", "yaml")
    assert table.columns == ("name", "t")
    assert texts(table) == [["bert", "1"], ["bert", "2"], ["t5", "3"]]


def test_one_object_is_one_row() -> None:
    assert texts(only('{"a": "x", "b": [1, 2]}', "json")) == [["x", "[1, 2]"]]


def test_lines_of_json_that_are_no_objects_are_named() -> None:
    with pytest.raises(SourceError) as caught:
        parse_document('{"a": 1}\n[2]\n', "jsonl")
    assert str(caught.value) == "text: line 2: found '[2]', expected an object on each line"


def test_broken_json_is_an_error_with_its_place() -> None:
    with pytest.raises(
        SourceError, match=r"^text: line 1, column 7: expecting value; expected JSO"
    ):
        parse_document('{"a": ', "json")


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": ["# Results\n", "\n", "| a |\n", "|---|\n", "| 1 |"]},
        {
            "cell_type": "code",
            "source": "print('| no | table |')",
            "outputs": [
                {
                    "output_type": "execute_result",
                    "data": {
                        "text/plain": "   b\n0  2",
                        "text/html": [
                            "<table><tr><th></th><th>b</th></tr>",
                            "<tr><th>0</th><td>2</td></tr></table>",
                        ],
                    },
                },
                {"output_type": "stream", "text": "| c |\n|---|\n| 3 |\n"},
            ],
        },
    ],
    "nbformat": 4,
}


def test_a_notebook_has_the_tables_of_its_text_and_of_its_outputs() -> None:
    first, second = parse_document(json.dumps(NOTEBOOK), "notebook")
    assert (first.heading, texts(first)) == (("Results",), [["1"]])
    assert (second.columns, texts(second)) == (("column 1", "b"), [["0", "2"]])


@pytest.mark.parametrize("text", ["{}", "[]", '{"cells": 1}'])
def test_what_is_no_notebook_is_refused(text: str) -> None:
    with pytest.raises(SourceError, match=r"^text: found no list of cells, expected a notebook"):
        parse_document(text, "notebook")


GRID = """
Speed
=====

.. tab-set::

   .. note::

      +-------+-----------------+
      | model | memory          |
      |       +--------+--------+
      |       | 512    | 1024   |
      +=======+========+========+
      | 7B    | 20 GiB | 30 GiB |
      |       | [1]_   |        |
      +-------+--------+--------+
"""

LIST = """
.. list-table:: Cards
   :header-rows: 1

   * - **card**
     - :meth:`steps <x.y>`
   * - A100
     - 3
"""


def test_a_grid_table_keeps_its_spans_also_inside_unknown_directives() -> None:
    table = only(GRID, "rst")
    assert table.heading == ("Speed",)
    assert table.columns == ("model", "memory / 512", "memory / 1024")
    assert texts(table) == [["7B", "20 GiB\n[^1]", "30 GiB"]]


def test_a_list_table_has_its_caption_as_heading() -> None:
    table = only(LIST, "rst")
    assert (table.heading, table.columns) == (("Cards",), ("card", "steps"))
    assert texts(table) == [["A100", "3"]]


def test_a_simple_table_and_a_csv_table_are_tables() -> None:
    simple = "===  ===\na    b\n===  ===\n1    2\n===  ===\n"
    csv = ".. csv-table::\n   :header: a,b\n\n   1,2\n"
    for text in (simple, csv):
        table = only(text, "rst")
        assert (table.columns, texts(table)) == (("a", "b"), [["1", "2"]])


def test_nothing_is_included_from_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n", encoding="utf-8")
    text = f".. csv-table::\n   :file: {secret}\n\n.. include:: {secret}\n"
    assert parse_document(text, "rst") == []


def workbook(rows: list[list[object]], merged: tuple[str, ...] = ()) -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Runs"
    for row in rows:
        sheet.append(row)
    for cells in merged:
        sheet.merge_cells(cells)
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def read_workbook(tmp_path: Path, data: bytes) -> list[RawTable]:
    path = tmp_path / "runs.xlsx"
    path.write_bytes(data)
    return read_document(path)[0]


def test_blocks_of_a_sheet_are_tables_and_a_lone_cell_their_heading(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        ["On one card"],
        ["model", "GiB"],
        ["7B", 20.25],
        [],
        ["a", "b"],
        [1, 0.5],
    ]
    first, second = read_workbook(tmp_path, workbook(rows))
    assert first.heading == ("Runs", "On one card")
    assert (first.columns, texts(first)) == (("model", "GiB"), [["7B", "20.25"]])
    assert first.rows[0].line == 3
    assert (second.heading, texts(second)) == (("Runs",), [["1", "0.5"]])


def test_merged_cells_are_spans(tmp_path: Path) -> None:
    rows: list[list[object]] = [["m", "x"], ["7B", 1], [None, 2]]
    (table,) = read_workbook(tmp_path, workbook(rows, ("A2:A3",)))
    assert texts(table) == [["7B", "1"], ["7B", "2"]]


def test_a_workbook_of_a_billion_cells_is_refused(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active["XFD1048576"] = 1
    stream = io.BytesIO()
    book.save(stream)
    with pytest.raises(SourceError, match=r"found 1048576 rows of 16384 cells, expected at most"):
        read_workbook(tmp_path, stream.getvalue())


def test_an_archive_that_unpacks_to_more_than_memory_is_refused(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"\0" * 2**25)
    with pytest.raises(SourceError, match=r"found 33554432 bytes once unpacked, expected at most"):
        read_workbook(tmp_path, stream.getvalue())


def test_what_is_no_workbook_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"openpyxl cannot read \(BadZipFile\), expected an Exc"):
        read_workbook(tmp_path, b"no archive")


def test_an_empty_first_cell_of_a_simple_table_is_empty() -> None:
    """reST marks it with a backslash, which docutils keeps as a NUL character."""
    rule = "=====  ===  ===="
    rows = [rule, "Model  Len  Mem", rule, "7B     512  10GB", "\\      1k   12GB", rule]
    text = "\n".join(rows) + "\n"
    assert texts(only(text, "rst")) == [["7B", "512", "10GB"], ["", "1k", "12GB"]]
