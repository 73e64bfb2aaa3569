"""Which document is read how, and what keeps one from being read."""

from pathlib import Path

import pytest

from registry.errors import SourceError
from registry.tables.document import DocumentKind, detect_kind, parse_document, read_document

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
    assert read_document(path) == (parse_document(PIPE), PIPE.encode())


def test_prose_has_no_tables() -> None:
    assert parse_document("well, prose\nwithout a table\n") == []


def test_a_table_that_cannot_be_read_leaves_the_others_readable() -> None:
    broken, sound = parse_document(f"| a | b |\n|---|\n\n{PIPE}")
    assert (broken.problem or "").startswith("line 2: found 1 cells, expected 2")
    assert (sound.problem, len(sound.rows)) == (None, 1)


def test_a_table_that_is_not_there_is_an_error() -> None:
    with pytest.raises(SourceError) as caught:
        parse_document(f"{PIPE}\n{PIPE}", header_rows={3: 1})
    assert str(caught.value) == (
        "text: found 2 tables, expected a table 3; tables count from 1 in order of appearance"
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
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.md"
    path.write_text(PIPE, encoding="utf-8")
    with pytest.raises(SourceError) as caught:
        read_document(path, limit=10)
    assert str(caught.value) == (
        f"{path}: longer than 10 bytes; expected a document of tables below that; split it"
    )
