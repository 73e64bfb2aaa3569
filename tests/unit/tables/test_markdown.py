"""Pipe tables, and HTML tables among them."""

import pytest

from registry.tables.document import parse_document
from registry.tables.markdown import split_cells
from registry.tables.raw_table import RawTable

TABLE = "| a | b |\n| --- | --- |\n| 1 | 2 |\n"


def read(text: str) -> list[RawTable]:
    return parse_document(text, "markdown")


def texts(table: RawTable) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in table.rows]


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ("| a | b |", ["a", "b"]),
        ("a | b", ["a", "b"]),
        ("| a | b", ["a", "b"]),
        ("a | b |", ["a", "b"]),
        ("|a||b|", ["a", "", "b"]),
        ("| | |", ["", ""]),
        (r"| a \| b | c |", ["a | b", "c"]),
        ("| `a | b` | c |", ["`a", "b`", "c"]),
        (r"| `a \| b` | c |", ["`a | b`", "c"]),
        ("| `open | b |", ["`open", "b"]),
        (r"| \`a | b` |", [r"\`a", "b`"]),
        (r"| 8\*64GB | **A800** |", [r"8\*64GB", "**A800**"]),
        ("| &#x2714; | a &lt b &amp; c |", ["✔", "a &lt b & c"]),
        ("| &nbsp;1 |", ["1"]),
    ],
)
def test_a_line_splits_at_the_pipes_that_end_cells(line: str, cells: list[str]) -> None:
    assert split_cells(line) == cells


def test_lines_count_from_the_documents_first() -> None:
    (table,) = read("intro\n\n" + TABLE + "| 3 | 4 |\n")
    assert (table.line, [row.line for row in table.rows]) == (3, [5, 6])


def test_alignment_and_missing_outer_pipes_make_no_difference() -> None:
    (table,) = read("a | b\n:-- | :-:\n1 | 2\n")
    assert table.columns == ("a", "b")
    assert texts(table) == [["1", "2"]]


def test_crlf_and_a_byte_order_mark_make_no_difference() -> None:
    (table,) = read("\ufeff" + TABLE.replace("\n", "\r\n"))
    assert texts(table) == [["1", "2"]]


def test_block_quotes_hold_tables_too() -> None:
    (table,) = read("".join(f"> {line}\n" for line in TABLE.splitlines()))
    assert texts(table) == [["1", "2"]]


@pytest.mark.parametrize(
    ("row", "cells", "note"),
    [
        ("| 3 |", ["3", ""], "line 4: 1 cells missing at the end, taken as empty"),
        ("prose", ["prose", ""], "line 4: 1 cells missing at the end, taken as empty"),
        ("| 3 | 4 | 5 |", ["3", "4"], "line 4: cells beyond the header left out: ['5']"),
    ],
)
def test_a_ragged_row_is_read_as_github_shows_it_and_that_is_noted(
    row: str, cells: list[str], note: str
) -> None:
    (table,) = read(f"{TABLE}{row}\n")
    assert texts(table) == [["1", "2"], cells]
    assert table.notes == (note,)


def test_empty_cells_beyond_the_header_are_not_worth_a_note() -> None:
    (table,) = read(f"{TABLE}| 3 | 4 | |\n")
    assert (texts(table)[1], table.notes) == (["3", "4"], ())


def test_a_delimiter_row_of_another_width_makes_no_table_and_says_why() -> None:
    (table,) = read("| a | b |\n|---|---|---|\n| 1 | 2 |\n")
    assert table.problem == (
        "line 2: found 3 cells, expected 2 as in the header; write one cell for each column, an "
        "empty one too, and a blank line after the table"
    )


def test_markup_is_no_part_of_a_columns_name() -> None:
    (table,) = read("| **Model** | [Peak](https://example.org) `GB` |\n|---|---|\n| 1 | 2 |\n")
    assert table.columns == ("Model", "Peak GB")
    assert table.header[0][0] == "**Model**"


def test_blank_separator_rows_are_skipped() -> None:
    (table,) = read(TABLE + "| | |\n| 3 | 4 |\n")
    assert texts(table) == [["1", "2"], ["3", "4"]]


def test_a_repeated_leaf_name_gets_its_occurrence_and_a_blank_one_its_place() -> None:
    (table,) = read("| | time | time |\n|---|---|---|\n| 1 | 2 | 3 |\n")
    assert table.columns == ("column 1", "time", "time (2)")
    assert table.header == (("", "time", "time"),)


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{TABLE}```\n",
        f"~~~md\n{TABLE}```\n{TABLE}~~~\n",
        f"````\n```\n{TABLE}````\n",
        "- item\n\n  ```\n" + "".join(f"  {line}\n" for line in TABLE.splitlines()) + "  ```\n",
        "> ```\n" + "".join(f"> {line}\n" for line in TABLE.splitlines()) + "> ```\n",
        f"<div>\n<!-- was:\n\n{TABLE}-->\n</div>\n",
        f"<!-- one -->\n<!-- two\n{TABLE}-->\n",
        f"<!-- was:\n{TABLE}-->\n",
        f"---\nexample: |\n{TABLE}---\n",
        "```html\n<table><tr><td>1</td></tr></table>\n```\n",
        "use `<table>` and `</table>`\n",
        "a | b\n---\n",
        "two lines\nand a rule\n---\n",
        "a | b\n\n--- | ---\n",
    ],
)
def test_what_is_no_table_of_the_document_is_passed_over(text: str) -> None:
    assert read(f"{text}\n{TABLE}")[0].line == text.count("\n") + 2


def test_pipe_and_html_tables_are_numbered_in_order_of_appearance() -> None:
    html = "<div><table>\n<tr><td>x</td></tr>\n</table></div>\n"
    tables = read(f"{TABLE}\n{html}\n{TABLE}")
    assert [(table.index, table.columns) for table in tables] == [
        (1, ("a", "b")),
        (2, ("x",)),
        (3, ("a", "b")),
    ]


def test_an_html_table_knows_its_lines_in_the_document() -> None:
    (table,) = read("# Speed\n\n<table>\n<tr><td>x</td></tr>\n<tr><td>1</td></tr>\n</table>\n")
    assert (table.heading, table.line, table.rows[0].line) == (("Speed",), 3, 5)


def test_an_html_table_that_never_closes_ends_at_the_next_heading() -> None:
    tables = read(f"<table>\n<tr><td>x\n<tr><td>1\n\n# Next\n\n{TABLE}")
    assert [table.columns for table in tables] == [("x",), ("a", "b")]


@pytest.mark.parametrize(
    ("above", "heading"),
    [
        ("", ()),
        ("# A\n## B\n### C ###\n## D\n", ("A", "D")),
        ("# C#\n## # #\n", ("C#", "#")),
        ("# A\n##\n", ("A",)),
        ("# A\n**7B**\n\n", ("A", "7B")),
        ("# A\n**7B:**\n\ntext of a paragraph.\n\n", ("A", "7B")),
        ("# A\n**7B**\n## B\n", ("A", "B")),
        ("# A\n\nCards compared\n\n", ("A", "Cards compared")),
        ("# A\n\nOne sentence.\n\n", ("A",)),
        ("# A\n\ntwo lines\nof prose\n\n", ("A",)),
        ("# A\n\n- a list\n\n", ("A",)),
        ("# A\n\nCards\n\n```\ncode\n```\n", ("A",)),
        ("A\n===\n\nB\n---\n\n", ("A", "B")),
        ("# A\n\n```\n# no heading\n```\n\n", ("A",)),
        ("# A\n\n<!--\n# no heading\n-->\n\n", ("A",)),
        ("> # A\n\n", ("A",)),
        ("## A\n\n- ## B\n\n", ("A", "B")),
        ("## A\n\n- ## B\n\n# C\n\n", ("C",)),
        ("# A\n\nCards compared\n\n***\n\n", ("A",)),
        ('<h2 align="center">A &amp; B</h2>\n\n<b>7B</b>\n\n', ("A & B", "7B")),
        ("# A\n#notaheading and long enough to be no caption, it goes on and on.\n\n", ("A",)),
    ],
)
def test_the_heading_is_the_path_above_the_table(above: str, heading: tuple[str, ...]) -> None:
    assert read(above + TABLE)[0].heading == heading


def test_a_caption_belongs_to_the_table_right_below_it_only() -> None:
    tables = read(f"Cards compared\n\n{TABLE}\n{TABLE}")
    assert [table.heading for table in tables] == [("Cards compared",), ()]


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        ("{0}\nTable 1: 7B\n\n{0}\nTable 2: 13B\n", ["Table 1: 7B", "Table 2: 13B"]),
        ("{0}\n*On one A100*\n\n{0}\n*On an H100.*\n\n# B\n", ["On one A100", "On an H100."]),
        ("{0}\nOn A100\n\n{0}\nOn H100\n", ["On A100", "On H100"]),
        ("{0}\n**Table 1**\n\n{0}\n**Table 2**\n\nAll of it.\n", ["Table 1", "Table 2"]),
        ("Two cards:\n\n{0}\nTable 1. 7B\n\n{0}", ["Two cards", None]),
        ("Table 1: 7B\n\n{0}\nTable 2: 13B\n\n{0}", ["Table 1: 7B", "Table 2: 13B"]),
        ("On A100\n\n{0}\nOn H100\n\n{0}\nSee below\n", ["On A100", "On H100"]),
        ("{0}\nOn H100\n\n{0}", [None, "On H100"]),
        ("{0}\nSee the other page\n", [None]),
        ("{0}\nOn A100:\n\n{0}\nOn H100:\n\n{0}\nNotes\n", [None, "On A100", "On H100"]),
        ("{0}\nA sentence.\n\nOn H100\n\n{0}\nMore.\n", [None, "On H100"]),
    ],
)
def test_a_caption_is_of_the_table_above_it_where_captions_stand_below(
    text: str, headings: list[str | None]
) -> None:
    tables = read(f"# A\n\n{text.format(TABLE)}")
    found = [table.heading[1:2] for table in tables]
    assert found == [(heading,) if heading else () for heading in headings]


def test_the_prose_above_a_table_lacks_the_caption_of_the_table_before() -> None:
    tables = read(f"{TABLE}\nTable 1: 7B\n\n{TABLE}\nTable 2: 13B\n")
    assert [table.prose for table in tables] == [(), ()]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (
            "<details>\n<summary>On A100</summary>\n\n## Inference\n\n{0}\n</details>\n\n{0}",
            [("A", "On A100", "Inference"), ("A",)],
        ),
        ("<details><summary><b>7B</b></summary>\n\n{0}</details>\n\n{0}", [("A", "7B"), ("A",)]),
        ("<details>\n\n**7B**\n\n{0}\n</details>\n\n{0}", [("A", "7B"), ("A",)]),
        (
            "<details>\n <summary>\n  7B\n </summary>\n\n{0}\n</details>\n\n## B\n\n{0}",
            [("A", "7B"), ("A", "B")],
        ),
        ("<details>\n\n## B\n\n{0}\n# C\n\n{0}", [("A", "B"), ("C",)]),
    ],
)
def test_what_is_folded_away_has_headings_of_its_own(
    text: str, paths: list[tuple[str, ...]]
) -> None:
    tables = read(f"# A\n\n{text.format(TABLE)}")
    assert [(table.heading, table.prose) for table in tables] == [(path, ()) for path in paths]


def test_a_fold_on_the_line_of_an_html_table_ends_behind_it() -> None:
    tables = read(f"<details><summary>7B</summary><table><tr><td>a</table></details>\n\n{TABLE}")
    assert [table.heading for table in tables] == [("7B",), ()]


def test_a_long_caption_is_its_first_sentence() -> None:
    caption = "**Table 1: Comparison of Methods.** $M$ is the size in billions, and more is said."
    (table,) = read(f"{TABLE}\n{caption}\n")
    assert table.heading == ("Table 1: Comparison of Methods",)
