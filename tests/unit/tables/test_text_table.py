"""Tables drawn in text: cells between bars, and columns over dashes."""

import pytest

from registry.tables.document import parse_document
from registry.tables.raw_table import RawTable

GRID = """
+----------+--------+
| model    | memory |
+==========+========+
| llama-7b | 22.3   |
+----------+--------+
| opt-13b  | 40.1   |
+----------+--------+
"""
PSQL = """
  model   | memory
----------+--------
 llama-7b |   22.3
 opt-13b  |   40.1
"""
RICH = """
┏━━━━━━━━━━┳━━━━━━━━┓
┃ model    ┃ memory ┃
┡━━━━━━━━━━╇━━━━━━━━┩
│ llama-7b │   22.3 │
│ opt-13b  │   40.1 │
└──────────┴────────┘
"""
PIPES = """
| model | memory |
|:------|-------:|
| llama-7b | 22.3 |
| opt-13b | 40.1 |
"""
SIMPLE = """
model       memory
--------  --------
llama-7b      22.3
opt-13b       40.1
"""
RULED = """
========  ======
model     memory
========  ======
llama-7b  22.3
opt-13b   40.1
========  ======
"""
MEANT = [["model", "memory"], ["llama-7b", "22.3"], ["opt-13b", "40.1"]]


def read(text: str) -> list[RawTable]:
    return parse_document(text, "markdown")


def texts(table: RawTable) -> list[list[str]]:
    return [[*table.columns], *([cell.text for cell in row.cells] for row in table.rows)]


def fenced(text: str) -> str:
    return f"# Results\n\nOn an A100:\n\n```text\n{text.strip()}\n```\n"


@pytest.mark.parametrize("drawn", [GRID, PSQL, RICH, PIPES, SIMPLE, RULED])
def test_drawings_of_programs_are_tables_in_fenced_code(drawn: str) -> None:
    (table,) = read(fenced(drawn))
    assert texts(table) == MEANT
    assert table.heading == ("Results", "On an A100")


@pytest.mark.parametrize("drawn", [GRID, PSQL, RICH, SIMPLE, RULED])
def test_and_outside_it(drawn: str) -> None:
    (table,) = read(f"Below the figures.\n{drawn}\nAbove the figures.\n")
    assert texts(table) == MEANT


def test_rows_have_the_documents_lines() -> None:
    (table,) = read(fenced(GRID))
    assert (table.line, [row.line for row in table.rows]) == (6, [9, 11])


def test_tables_in_text_count_after_all_others() -> None:
    first, second = read(fenced(PSQL) + "\n| a | b |\n| --- | --- |\n| 1 | 2 |\n")
    assert (first.columns, second.columns) == (("a", "b"), ("model", "memory"))


def test_names_and_rows_may_go_on_below() -> None:
    drawn = """
+-----------+----------+
| model     | peak     |
|           | memory   |
+-----------+----------+
| llama-7b  | 22.3 GB  |
| (chat)    |          |
+-----------+----------+
| opt-13b   | 40.1 GB  |
+-----------+----------+
"""
    (table,) = read(fenced(drawn))
    assert texts(table) == [
        ["model", "peak memory"],
        ["llama-7b (chat)", "22.3 GB"],
        ["opt-13b", "40.1 GB"],
    ]


def test_full_rows_between_the_same_rules_stay_rows() -> None:
    drawn = """
+-------+-------+--------+
| model | batch | memory |
+-------+-------+--------+
| a     | 1     | 10     |
|       | 2     | 12     |
+-------+-------+--------+
| b     | 1     | 20     |
+-------+-------+--------+
"""
    (table,) = read(fenced(drawn))
    assert texts(table)[1:] == [["a", "1", "10"], ["", "2", "12"], ["b", "1", "20"]]


def test_wide_characters_take_two_places() -> None:
    (table,) = read("模型      显存\n--------  ----\n模型 7b   22.3\n")
    assert texts(table) == [["模型", "显存"], ["模型 7b", "22.3"]]


def test_a_row_of_more_cells_is_a_problem_that_is_told() -> None:
    (table,) = read(fenced(GRID.replace("| 40.1   |", "| 40.1 | x |")))
    assert table.problem is not None
    assert "line 11" in table.problem


@pytest.mark.parametrize(
    "text",
    [
        "```python\ndef f(a: int | None) -> int | str:\n    return a | b\n```\n",
        "words here\n--- ---\nmore words\n",
        "one\n\n- - -\n\ntwo\n",
        "+------+\n| a box |\n+------+\n",
        "a | b\n",
        "+---+---+\n| a | b |\n+---+---+\n",
        "---+---\n---+---\n",
        "Title\n=====  =====\n",
        "<!--\n" + GRID + "-->\n",
    ],
)
def test_what_only_looks_like_one_is_none(text: str) -> None:
    assert read(text) == []
