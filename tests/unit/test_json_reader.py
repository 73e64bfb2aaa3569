"""JSON from strangers is read strictly, within limits, with the place of what is wrong."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from registry.errors import SubmissionError
from registry.json_reader import (
    DEEPEST_NESTING,
    LARGEST_DOCUMENT,
    parse_json,
    read_json_file,
    read_json_stream,
)

if TYPE_CHECKING:
    from pathlib import Path


def _error(text: str) -> str:
    with pytest.raises(SubmissionError) as caught:
        parse_json(text, origin="doc.json")
    return str(caught.value)


class Endless(io.RawIOBase):
    """A line of a gigabyte that is never held in memory: it counts what is asked for."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.n_read = 0

    def read(self, size: int = -1) -> bytes:
        n = self.left if size < 0 else min(size, self.left)
        self.left -= n
        self.n_read += n
        return b" " * n


def test_a_line_of_a_gigabyte_is_refused_after_the_limit() -> None:
    stream = Endless(2**30)
    with pytest.raises(SubmissionError) as caught:
        read_json_stream(stream, origin="-", limit=1000)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "-: longer than 1000 bytes; expected a document below that; split it, or hand in whole "
        "tables (a folder as `registry export` writes it)"
    )
    assert stream.n_read == 1001


def test_a_sparse_file_of_a_gigabyte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 2**30)
    with pytest.raises(SubmissionError, match="longer than 4096 bytes"):
        read_json_file(path, limit=4096)


def test_the_limit_leaves_room_for_large_submissions() -> None:
    assert LARGEST_DOCUMENT >= 2**28


def test_a_truncated_document_names_line_and_column() -> None:
    assert _error('{\n "source": {"source_id": "a"') == (
        "doc.json: line 2, column 29: expecting ',' delimiter; expected JSON; "
        "check that the file is complete"
    )


@pytest.mark.parametrize("n_levels", [DEEPEST_NESTING + 1, 5_000, 200_000])
def test_deep_nesting_is_refused(n_levels: int) -> None:
    assert _error("[" * n_levels + "]" * n_levels) == (
        "doc.json: nested deeper than 64 levels; expected a submission, which has five"
    )


def test_nesting_to_the_limit_is_read() -> None:
    n_levels = DEEPEST_NESTING
    assert parse_json("[" * n_levels + "]" * n_levels, origin="doc.json")


def test_a_duplicate_key_is_refused_at_any_depth() -> None:
    assert _error('{"a": [{"b": 1, "c": 2, "b": 3}]}') == (
        "doc.json: key 'b' stands twice in one object; expected once; remove one"
    )


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_a_constant_that_is_no_number_is_refused_with_its_place(constant: str) -> None:
    text = f'{{"note": "say \\"{constant}\\", {constant}",\n  "value": {constant}}}'
    assert _error(text) == (
        f"doc.json: line 2, column 12: found {constant}; expected a finite number; "
        "leave the figure out where there is none"
    )


def test_an_integer_of_thousands_of_digits_is_refused() -> None:
    message = _error('{"value": ' + "9" * 5_000 + "}")
    assert message.startswith("doc.json: Exceeds the limit (4300 digits)")
    assert message.endswith("; expected figures of this world")


def test_text_that_is_not_utf8_names_the_byte() -> None:
    with pytest.raises(SubmissionError) as caught:
        read_json_stream(io.BytesIO(b'{"a": "\xff"}'), origin="doc.json")
    assert str(caught.value) == (
        "doc.json: byte 7: not UTF-8; expected JSON in UTF-8; save it in that encoding"
    )


def test_a_byte_order_mark_is_skipped() -> None:
    assert read_json_stream(io.BytesIO(b'\xef\xbb\xbf{"a": 1}'), origin="doc.json") == {"a": 1}


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_document_is_told(text: str) -> None:
    assert _error(text) == "doc.json: found nothing; expected a JSON document"


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    with pytest.raises(SubmissionError) as caught:
        read_json_file(path)
    assert str(caught.value) == (
        f"{path}: cannot be read: No such file or directory; expected a readable file"
    )
