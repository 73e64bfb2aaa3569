"""CSV and TSV documents."""

import pytest

from registry.errors import SourceError
from registry.tables.csv import detect_delimiter
from registry.tables.document import parse_document
from registry.tables.raw_table import RawTable


def read_one(text: str) -> RawTable:
    (table,) = parse_document(text, "csv")
    return table


def texts(table: RawTable) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in table.rows]


def test_the_first_record_names_the_columns() -> None:
    table = read_one("method,memory\nLoRA,6.7G\n")
    assert (table.index, table.heading, table.columns) == (1, (), ("method", "memory"))
    assert texts(table) == [["LoRA", "6.7G"]]


def test_byte_order_mark_and_crlf_are_no_part_of_a_cell() -> None:
    table = read_one("\ufeffmethod,memory\r\nLoRA,6.7G\r\n")
    assert table.columns == ("method", "memory")
    assert texts(table) == [["LoRA", "6.7G"]]


def test_a_quoted_line_break_stays_and_lines_count_on() -> None:
    table = read_one('method,note\nLoRA,"two\nlines"\nfull,x\n')
    assert texts(table) == [["LoRA", "two\nlines"], ["full", "x"]]
    assert [row.line for row in table.rows] == [2, 4]


def test_entities_are_plain_text_in_csv() -> None:
    assert texts(read_one("a,b\n&lt;,\\|\n")) == [["&lt;", "\\|"]]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_the_delimiter_is_found(delimiter: str) -> None:
    table = read_one(f"a{delimiter}b\n1{delimiter}2\n")
    assert table.columns == ("a", "b")


def test_decimal_commas_do_not_hide_semicolons() -> None:
    assert detect_delimiter("loss, train;s/it\n1,5;2,5\n3;4\n") == ";"


def test_a_single_column_needs_no_delimiter() -> None:
    assert texts(read_one("memory\n6.7G\n")) == [["6.7G"]]


def test_tsv_splits_at_tabs_alone() -> None:
    (table,) = parse_document("a,b,c\td\n1\t2\n", "tsv")
    assert table.columns == ("a,b,c", "d")


def test_a_blank_record_is_skipped() -> None:
    table = read_one("a,b\n1,2\n\n3,4\n")
    assert texts(table) == [["1", "2"], ["3", "4"]]
    assert [row.line for row in table.rows] == [2, 4]


@pytest.mark.parametrize(("row", "found"), [("1", 1), ("1,2,3", 3)])
def test_a_ragged_row_names_line_found_and_expected(row: str, found: int) -> None:
    assert read_one(f"a,b\n1,2\n{row}\n").problem == (
        f"line 3: found {found} cells, expected 2 as in the header; "
        "write one cell for each column, an empty one too, and a blank line after the table"
    )


def test_a_repeated_column_name_is_an_error_in_csv() -> None:
    assert read_one("time,memory,time\n1,2,3\n").problem == (
        "line 1: found column 'time' 2 times, expected names that differ; rename the columns"
    )


def test_a_quote_that_does_not_close_names_its_record() -> None:
    with pytest.raises(SourceError) as caught:
        read_one('a,b\n1,2\n3,"4\n')
    assert str(caught.value) == (
        "text: line 3: unexpected end of data; expected fields separated by ',', "
        "quotes that close and at most 131072 characters in a field"
    )


def test_a_field_of_a_megabyte_is_an_error() -> None:
    with pytest.raises(SourceError) as caught:
        read_one("a,b\n1," + "x" * 2**20 + "\n")
    assert str(caught.value) == (
        "text: line 2: field larger than field limit (131072); expected fields separated by ',', "
        "quotes that close and at most 131072 characters in a field"
    )
