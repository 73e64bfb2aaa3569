"""The plain text of cells."""

from __future__ import annotations

import pytest

from registry.tables.cell_reader import bare_text, footnote_of
from registry.tables.inline import plain_text


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("A100\u00a080GB", "A100 80GB"),
        ("**A100\u202f80GB**", "A100 80GB"),
        ("2\u00a0h\u00a020", "2 h 20"),
        ("1\u202f024,5\u00a0Go", "1\u202f024,5 Go"),
    ],
)
def test_a_space_without_a_break_is_a_space_but_within_a_number(cell: str, text: str) -> None:
    assert plain_text(cell) == text


@pytest.mark.parametrize(
    ("cell", "mark"),
    [
        ("18.3<sup>*</sup>", "*"),
        ("18.3<sup>1</sup>", "[^1]"),
        ("18.3<sup>a,b</sup>", "[^a,b]"),
        ("18.3<sup>**</sup>", "**"),
        ("18.3$^a$", "[^a]"),
        ("18.3$^{*}$", "*"),
        ("18.3†", "†"),
    ],
)
def test_marks_of_footnotes_are_taken_off(cell: str, mark: str) -> None:
    assert (bare_text(cell), footnote_of(cell)) == ("18.3", mark)
