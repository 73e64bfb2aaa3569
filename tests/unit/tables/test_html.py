"""HTML tables: spans, headers, sloppiness."""

from html.parser import HTMLParser

import pytest

from registry.errors import SourceError
from registry.tables.document import parse_document
from registry.tables.raw_table import Cell, RawTable


def read(text: str) -> RawTable:
    (table,) = parse_document(text, "html")
    return table


def texts(table: RawTable) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in table.rows]


def test_a_rowspan_repeats_its_cell_and_says_where_it_was_written() -> None:
    table = read(
        "<table><tr><td>model</td><td>s</td></tr>"
        "<tr><td rowspan='2'>7B</td><td>1</td></tr><tr><td>2</td></tr></table>"
    )
    assert [row.cells for row in table.rows] == [
        (Cell("7B"), Cell("1")),
        (Cell("7B", origin=(2, 1)), Cell("2")),
    ]


def test_a_colspan_repeats_its_cell_to_the_right() -> None:
    table = read(
        "<table><tr><td>a</td><td>b</td><td>c</td></tr><tr><td>1</td><td colspan=2>OOM</td></tr>"
    )
    assert table.rows[0].cells == (Cell("1"), Cell("OOM"), Cell("OOM", origin=(2, 2)))


def test_header_rows_of_th_join_to_paths_and_a_row_header_does_not() -> None:
    table = read(
        "<table><tr><th rowspan=2>Model</th><th colspan=2>Sequence Length</th></tr>"
        "<tr><th>256</th><th>512</th></tr>"
        "<tr><th>7B</th><td>1</td><td>2</td></tr></table>"
    )
    assert table.columns == ("Model", "Sequence Length / 256", "Sequence Length / 512")
    assert table.header == (
        ("Model", "Sequence Length", "Sequence Length"),
        ("Model", "256", "512"),
    )
    assert texts(table) == [["7B", "1", "2"]]


def test_a_header_cell_over_two_rows_and_two_columns_counts_once_in_both() -> None:
    table = read(
        "<table><tr><th rowspan=2 colspan=2>Model</th><th>A</th></tr><tr><th>B</th></tr>"
        "<tr><td>1</td><td>2</td><td>3</td></tr></table>"
    )
    assert table.columns == ("Model", "Model (2)", "A / B")


def test_equal_names_written_twice_in_a_path_both_count() -> None:
    table = read("<table><tr><th>A</th></tr><tr><th>A</th></tr><tr><td>1</td></tr></table>")
    assert table.columns == ("A / A",)


def test_thead_tells_the_header_even_in_td() -> None:
    table = read(
        "<table><thead><tr><td>a</td></tr><tr><td>b</td></tr></thead>"
        "<tbody><tr><td>1</td></tr></tbody></table>"
    )
    assert table.columns == ("a / b",)
    assert texts(table) == [["1"]]


def test_without_th_the_first_row_is_the_header() -> None:
    assert read("<table><tr><td>a</td></tr><tr><td>1</td></tr></table>").columns == ("a",)


def test_a_table_of_th_alone_has_one_header_row() -> None:
    assert texts(read("<table><tr><th>a</th></tr><tr><th>1</th></tr></table>")) == [["1"]]


def test_the_caller_can_tell_the_number_of_header_rows() -> None:
    text = (
        "<table><tr><td rowspan=2>m</td><td colspan=2>s</td></tr><tr><td>1</td><td>2</td></tr>"
        "<tr><td>7B</td><td>x</td><td>y</td></tr></table>"
    )
    (table,) = parse_document(text, "html", header_rows={1: 2})
    assert table.columns == ("m", "s / 1", "s / 2")
    assert texts(table) == [["7B", "x", "y"]]


@pytest.mark.parametrize("count", [0, 3])
def test_header_rows_that_are_not_there_are_an_error(count: int) -> None:
    (table,) = parse_document("<table><tr><td>a<tr><td>1</table>", "html", header_rows={1: count})
    assert table.problem == (
        f"line 1: found 2 rows with text, expected {count} header rows; "
        "give at least one header row and no more than the table has"
    )


def test_tags_that_are_not_closed_are_closed_by_what_follows() -> None:
    table = read("<table><tr><td>a<td>b<tr><td>1<td>2")
    assert (table.columns, texts(table)) == (("a", "b"), [["1", "2"]])


def test_cells_without_a_row_make_one() -> None:
    assert texts(read("<table><tr><td>a</tr><td>1</table>")) == [["1"]]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("&#x2714;", "✔"),
        ("&lt;1&nbsp;", "<1"),
        ("<b>1.0</b><sup>*</sup>", "1.0[^*]"),
        ("9.5<sup>1</sup>", "9.5[^1]"),
        ("100<sup><a href=#2>2</a></sup> s", "100[^2] s"),
        ("1.5 x 10<sup>3</sup>", "1.5 x 10^3"),
        ("110<sup>3</sup>", "110[^3]"),
        ("<s>18</s>19.5", "~~18~~19.5"),
        ("<del>18</del> 19.5", "~~18~~ 19.5"),
        ("m<sub>2</sub>", "m2"),
        ("6.7G<br/>1.0s/it", "6.7G\n1.0s/it"),
        ("<p>6.7G</p>\n<p>1.0s/it</p>", "6.7G\n1.0s/it"),
        ("\n   12\n   GB  \n", "12 GB"),
        ("a  b", "a  b"),
        ("**bold**", "**bold**"),
        ("<!-- no -->1<script>2</script><style>3</style>", "1"),
        ("< 5", "< 5"),
    ],
)
def test_a_cell_is_its_text(cell: str, text: str) -> None:
    assert texts(read(f"<table><tr><td>h</td></tr><tr><td>{cell}</td></tr></table>")) == [[text]]


def test_a_rowspan_past_the_tables_end_ends_there() -> None:
    table = read("<table><tr><td>a<td>b<tr><td rowspan=9>x<td>1<tr><td>2</table>")
    assert texts(table) == [["x", "1"], ["x", "2"]]


def test_a_rowspan_of_zero_reaches_to_the_end_of_its_row_group() -> None:
    table = read(
        "<table><tbody><tr><td>a<td>b<tr><td rowspan=0>x<td>1<tr><td>2</tbody>"
        "<tbody><tr><td>y<td>3</tbody></table>"
    )
    assert texts(table) == [["x", "1"], ["x", "2"], ["y", "3"]]


def test_a_colspan_past_the_tables_edge_ends_there() -> None:
    table = read("<table><tr><td>a<td>b<tr><td colspan='100%'>section<tr><td>1<td>2</table>")
    assert texts(table) == [["section", "section"], ["1", "2"]]


@pytest.mark.parametrize("span", ["", "x", "-1", "1"])
def test_a_span_that_is_no_number_is_one(span: str) -> None:
    table = read(f"<table><tr><td>a<td>b<tr><td colspan='{span}'>1<td>2</table>")
    assert texts(table) == [["1", "2"]]


def test_overlapping_spans_are_an_error() -> None:
    table = read("<table>\n<tr><td>a<td>b\n<tr><td>1<td rowspan=2>x\n<tr><td colspan=2>y\n</table>")
    assert table.problem == (
        "line 4: the spans of 'x' and of 'y' overlap in column 2, "
        "expected one cell there; correct rowspan or colspan"
    )


@pytest.mark.parametrize(
    ("row", "cells", "note"),
    [
        ("<td>1", ["1", ""], "line 3: 1 cells missing at the end, taken as empty"),
        ("<td>1<td>2<td>3", ["1", "2"], "line 3: cells beyond the header left out: ['3']"),
    ],
)
def test_a_ragged_row_is_fitted_to_the_header_and_that_is_noted(
    row: str, cells: list[str], note: str
) -> None:
    table = read(f"<table>\n<tr><td>a<td>b\n<tr>{row}\n</table>")
    assert (texts(table), table.notes) == ([cells], (note,))


def test_blank_rows_are_skipped() -> None:
    table = read("<table><tr></tr><tr><td>a<td>b<tr><td colspan=2><tr><td>1<td>2</table>")
    assert texts(table) == [["1", "2"]]


def test_a_row_whose_cells_all_come_from_above_is_blank_where_none_is_written() -> None:
    table = read("<table><tr><td>a<tr><td rowspan=2>1</td></tr><tr></tr></table>")
    assert texts(table) == [["1"]]


def test_a_cell_over_the_limit_is_an_error() -> None:
    table = read(f"<table><tr><td>a<tr><td>{'x' * 131_073}</table>")
    assert table.problem == (
        "line 1: found 131073 characters in cell 1, expected at most 131072; "
        "check for a quote or tag that is not closed"
    )


def test_what_the_parser_refuses_names_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_parser: HTMLParser, _start: int) -> int:
        raise AssertionError("no declaration")

    # which declarations are refused differs between versions of Python
    monkeypatch.setattr(HTMLParser, "parse_html_declaration", refuse)
    with pytest.raises(SourceError) as caught:
        read("<table>\n<tr><td>a\n<tr><td><![<b>]\n</table>")
    assert str(caught.value) == ("text: line 3: no declaration; expected HTML, write '<' as '&lt;'")


def test_nested_tables_are_tables_of_their_own() -> None:
    outer, inner = parse_document(
        "<table><tr><td>a</td></tr><tr><td>1<table><tr><td>b<tr><td>2</table></td></tr></table>",
        "html",
    )
    assert (outer.columns, texts(outer)) == (("a",), [["1"]])
    assert (inner.columns, texts(inner)) == (("b",), [["2"]])


def test_headings_and_the_caption_stand_above_the_table() -> None:
    table = read(
        "<h1>A</h1><h2>B</h2><h2>C <i>D</i></h2>"
        "<table><caption>Speed</caption><tr><td>a</td></tr></table>"
    )
    assert table.heading == ("A", "C D", "Speed")


def test_what_details_fold_away_has_headings_of_its_own() -> None:
    table = "<table><tr><th>a</th></tr><tr><td>1</td></tr></table>"
    tables = parse_document(
        f"<h1>A</h1><details><summary>On <b>A100</b></summary><h2>B</h2>{table}</details>"
        f"{table}<h2>C</h2>{table}",
        "html",
    )
    assert [found.heading for found in tables] == [("A", "On A100", "B"), ("A",), ("A", "C")]


TABLE = "<table><tr><th>a</th></tr><tr><td>1</td></tr></table>"


def test_the_caption_of_a_figure_is_its_tables_wherever_it_stands() -> None:
    tables = parse_document(
        f"<h1>A</h1><figure>{TABLE}<figcaption>On <b>A100</b></figcaption></figure>{TABLE}"
        f"<figure><figcaption>On H100</figcaption>{TABLE}</figure>",
        "html",
    )
    assert [table.heading for table in tables] == [("A", "On A100"), ("A",), ("A",)]
    assert [table.prose for table in tables] == [(), (), ("On H100",)]


def test_the_paragraphs_right_above_a_table_are_kept() -> None:
    tables = parse_document(
        f"<p>far<h1>A</h1><p>one</p><p>two</p><p>three <i>words</i></p>{TABLE}{TABLE}<p>last",
        "html",
    )
    assert [table.prose for table in tables] == [("two", "three words"), ()]
