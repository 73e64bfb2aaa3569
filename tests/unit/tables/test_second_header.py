"""A row amid a table that names the columns anew begins a table of its own."""

from __future__ import annotations

import pytest

from registry.tables.document import parse_document

HEAD = "| api | GPU | plain | fancy |\n|---|---|---|---|\n"


def columns(body: str) -> list[tuple[str, ...]]:
    return [table.columns for table in parse_document(HEAD + body, "markdown")]


def test_a_second_header_begins_another_table() -> None:
    other = "| **other api** | **GPU** | **plain** | **best** |\n"
    body = f"| a | A100 | 1 | 2 |\n{other}| a | A100 | 3 | 4 |\n"
    first, second = parse_document(HEAD + body, "markdown")
    assert (first.columns[3], second.columns[3]) == ("fancy", "best")
    assert [[cell.text for cell in row.cells] for row in second.rows] == [["a", "A100", "3", "4"]]
    assert (first.index, second.index) == (1, 2)


def test_a_header_that_is_repeated_begins_another_table() -> None:
    body = "| a | A100 | 1 | 2 |\n| api | GPU | plain | fancy |\n| b | A100 | 3 | 4 |\n"
    assert columns(body) == [("api", "GPU", "plain", "fancy")] * 2


@pytest.mark.parametrize(
    "row", ["| a | GPU | 3 | 4 |", "| a | GPU | - | fancy |", "| | | **part two** | |"]
)
def test_a_row_that_repeats_little_of_the_header_is_one(row: str) -> None:
    assert len(columns(f"| a | A100 | 1 | 2 |\n{row}\n| b | A100 | 3 | 4 |\n")) == 1


def test_a_file_of_values_is_one_table() -> None:
    text = "api,GPU,plain\na,A100,1\napi,GPU,plain\n"
    assert len(parse_document(text, "csv")) == 1
