"""Which document is read how, and what keeps one from being read."""

from pathlib import Path

import pytest

import registry.tables.document
from registry.errors import SourceError
from registry.tables.document import DocumentKind, detect_kind, format_csv, read_document

PIPE = "| a | b |\n|---|---|\n| 1 | 2 |\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (PIPE, "markdown"),
        ("# T\n<table><tr><td>a</table>", "markdown"),
        ("<!DOCTYPE html><table><tr><td>a</table>", "html"),
        ("\ufeff <html><body></body></html>", "html"),
        ("a,b\n1,2\n", "csv"),
        ("a;b\n1;2\n", "csv"),
        ("a\tb\n1\t2\n", "csv"),
        ("well, prose\nwithout a table\n", "markdown"),
    ],
)
def test_the_content_tells_the_kind(text: str, kind: DocumentKind) -> None:
    assert detect_kind(text, Path("document.txt")) == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("x.csv", "csv"),
        ("x.TSV", "tsv"),
        ("README.md", "markdown"),
        ("x.markdown", "markdown"),
        ("x.html", "html"),
        ("x.htm", "html"),
    ],
)
def test_the_suffix_tells_the_kind_before_the_content(name: str, kind: DocumentKind) -> None:
    assert detect_kind("a,b\n1,2\n", Path(name)) == kind


def test_a_path_is_read_and_a_text_is_text(tmp_path: Path) -> None:
    path = tmp_path / "t.md"
    path.write_text(PIPE, encoding="utf-8")
    assert read_document(path) == read_document(PIPE)


def test_prose_has_no_tables() -> None:
    assert read_document("well, prose\nwithout a table\n") == []


def test_a_malformed_table_does_no_harm_where_others_are_asked_for() -> None:
    text = f"{PIPE}| 1 |\n\n{PIPE}"
    assert [table.index for table in read_document(text, only=[2])] == [2]
    with pytest.raises(SourceError, match=r"^text, table 1, line 4: found 1 cells, expected 2"):
        read_document(text)


@pytest.mark.parametrize("arguments", [{"only": [1, 3]}, {"header_rows": {3: 1}}])
def test_a_table_that_is_not_there_is_an_error(arguments: dict[str, list[int]]) -> None:
    with pytest.raises(SourceError) as caught:
        read_document(f"{PIPE}\n{PIPE}", **arguments)  # type: ignore[arg-type]  # one of two shapes
    assert str(caught.value) == (
        "text: found 2 tables, expected a table 3; tables count from 1 in order of appearance"
    )


def test_a_path_given_as_text_is_an_error_and_not_an_empty_document() -> None:
    with pytest.raises(SourceError) as caught:
        read_document("results/README.md")
    assert str(caught.value) == (
        "text: found 'results/README.md' and no table, expected a document's text; "
        "pass a pathlib.Path to read a file"
    )


def test_an_unknown_kind_suggests_the_nearest() -> None:
    with pytest.raises(SourceError) as caught:
        read_document(PIPE, "markdwon")  # type: ignore[arg-type]  # the mistake under test
    assert str(caught.value) == (
        "text: found kind 'markdwon', expected one of csv, tsv, markdown, html"
        "; did you mean 'markdown'?"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "found no text, expected tables; the document is empty"),
        (b"\xef\xbb\xbf \r\n", "found no text, expected tables; the document is empty"),
        (
            b"a,b\n1,\xe9\n",
            "found byte 0xe9 at position 6, expected text in UTF-8; save it in that encoding",
        ),
        (
            b"a,b\n1,\0\n",
            "line 2: found a NUL character, expected text; save the document as UTF-8",
        ),
    ],
)
def test_what_is_no_text_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        read_document(path)
    assert str(caught.value) == f"{path}: {message}"


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "none.md"
    with pytest.raises(SourceError) as caught:
        read_document(path)
    assert str(caught.value) == (
        f"{path}: cannot be read: No such file or directory; expected a readable file"
    )


def test_a_document_over_the_limit_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.md"
    path.write_text(PIPE, encoding="utf-8")
    monkeypatch.setattr(registry.tables.document, "LARGEST_DOCUMENT", 10)
    with pytest.raises(SourceError) as caught:
        read_document(path)
    assert str(caught.value) == (
        f"{path}: longer than 10 bytes; expected a document of tables below that; split it"
    )


def test_csv_text_holds_column_names_and_cells_with_spans_expanded() -> None:
    (table,) = read_document(
        "<table><tr><th rowspan=2>m</th><th colspan=2>s</th></tr><tr><th>1</th><th>2</th></tr>"
        "<tr><td rowspan=2>7B</td><td>a, b</td><td></td></tr>"
        "<tr><td>&quot;</td><td>x<br>y</td></tr></table>"
    )
    assert format_csv(table) == 'm,s / 1,s / 2\n7B,"a, b",\n7B,"""","x\ny"\n'


def test_csv_text_reads_back_to_the_same_cells() -> None:
    (table,) = read_document('| |a;b|"c"|\n|--|--|--|\n|x, y|1;2|`p\\|q`|\n')
    (again,) = read_document(format_csv(table), "csv")
    assert again.columns == table.columns
    assert [row.cells for row in again.rows] == [row.cells for row in table.rows]
