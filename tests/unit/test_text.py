"""What others wrote cannot move the cursor, hide, or turn round on a person's terminal."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from registry.text import escape_unprintable


@given(st.text())
def test_what_is_shown_is_printable(text: str) -> None:
    assert escape_unprintable(text).isprintable()


@given(st.text(st.characters(exclude_characters='"\\')))
def test_what_is_shown_reads_back_as_json(text: str) -> None:
    assert json.loads(f'"{escape_unprintable(text)}"') == text


@given(st.text())
def test_printable_text_is_not_changed(text: str) -> None:
    printable = "".join(filter(str.isprintable, text))
    assert escape_unprintable(printable) == printable


def test_what_is_kept_stays() -> None:
    assert escape_unprintable("a\nb\tc\rd", keep="\n\t") == "a\nb\tc\\rd"


def test_control_bidi_and_invisible_characters_are_escaped() -> None:
    hostile = "\x07\x7f\x85\x9b\xa0\xad\u061c\u200b\u200f\u202e\u2066\u2028\ufeff"
    assert escape_unprintable(hostile) == (
        r"\u0007\u007f\u0085\u009b\u00a0\u00ad\u061c\u200b\u200f\u202e\u2066\u2028\ufeff"
    )
