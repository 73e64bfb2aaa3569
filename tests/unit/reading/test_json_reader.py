"""JSON from strangers is read strictly, within limits, with the place of what is wrong."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from registry.errors import SubmissionError
from registry.reading.json_reader import (
    LARGEST_DOCUMENT,
    check_values,
    parse_json,
    read_json_file,
    read_text,
)

if TYPE_CHECKING:
    from pathlib import Path


def _error(text: str) -> str:
    with pytest.raises(SubmissionError) as caught:
        parse_json(text, origin="doc.json")
    return str(caught.value)


def test_a_sparse_file_of_a_gigabyte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 2**30)
    with pytest.raises(SubmissionError, match=r"big\.json: longer than 4096 bytes"):
        read_json_file(path, limit=4096)


def test_the_limit_leaves_room_for_large_submissions() -> None:
    assert LARGEST_DOCUMENT >= 2**28


def test_values_are_counted_before_any_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.reading.json_reader.MOST_VALUES", 6)
    check_values('[[],{"a":1},2]', origin="doc.json")
    with pytest.raises(SubmissionError) as caught:
        check_values("[[],[],[],[]]", origin="doc.json")
    assert str(caught.value) == (
        "doc.json: found more than 6 values; expected fewer in one document; split it"
    )


def test_a_truncated_document_names_line_and_column() -> None:
    assert _error('{\n "source": {"source_id": "a"') == (
        "doc.json: line 2, column 29: expecting ',' delimiter; expected JSON; "
        "check that the file is complete"
    )


@pytest.mark.parametrize("bracket", ["[", '{"a":'])
def test_endless_nesting_is_refused(bracket: str) -> None:
    assert _error(bracket * 200_000) == (
        "doc.json: nested too deeply; expected a submission, which has five levels"
    )


def test_a_duplicate_key_is_refused_at_any_depth() -> None:
    assert _error('{"a": [{"b": 1, "c": 2, "b": 3}]}') == (
        "doc.json: key 'b' appears twice in one object; expected once; remove one"
    )


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_a_constant_that_is_no_number_is_refused_with_its_place(constant: str) -> None:
    text = f'{{"note": "say \\"{constant}\\", {constant}",\n  "value": {constant}}}'
    assert _error(text) == (
        f"doc.json: line 2, column 12: found {constant}; expected a finite number; "
        "leave the figure out where there is none"
    )


def test_an_integer_of_thousands_of_digits_is_refused() -> None:
    assert _error('{"value": ' + "9" * 5_000 + "}") == (
        "doc.json: found an integer of more than 4300 digits; expected a number that its column "
        "can hold"
    )


def test_text_that_is_not_utf8_names_the_byte() -> None:
    with pytest.raises(SubmissionError) as caught:
        read_text(io.BytesIO(b'{"a": "\xff"}'), origin="doc.json")
    assert str(caught.value) == (
        "doc.json: found byte 0xff at position 7, expected text in UTF-8; save it in that encoding"
    )


def test_a_byte_order_mark_is_skipped() -> None:
    assert read_text(io.BytesIO(b'\xef\xbb\xbf{"a": 1}'), origin="doc.json") == '{"a": 1}'


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_document_is_told(text: str) -> None:
    assert _error(text) == "doc.json: found nothing; expected a JSON document"
