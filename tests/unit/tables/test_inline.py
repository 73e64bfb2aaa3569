"""The plain text of cells."""

from __future__ import annotations

import pytest

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
