from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import UnitError
from registry.units import (
    parse_count,
    parse_duration,
    parse_memory,
    parse_outcome_word,
    parse_rate,
    split_cell,
    split_glued,
    strip_markup,
)

PLACE = "table 3, row 2, column 'GPU Memory'"


@pytest.mark.parametrize(
    ("text", "kind", "outcome"),
    [
        ("OOM", "oom", "oom"),
        ("**OOM**", "oom", "oom"),
        ("OOM ❌", "oom", "oom"),
        ("out of memory", "oom", "oom"),
        ("CUDA out of memory. Tried to allocate 2 GiB", "oom", "oom"),
        ("No OOM", "no_oom", "ok"),
        ("failed", "error", "error"),
        ("CUDA error: named symbol not found", "error", "error"),
        ("-", "absent", None),
        ("N/A", "absent", None),
        ("TBD", "absent", None),
        ("xx.xx", "absent", None),
        ("  ", "absent", None),
        ("24.1G", "other", None),
        ("24G, OOM at 4096", "other", None),
        ("x", "other", None),
    ],
)
def test_words_in_the_place_of_figures(text: str, kind: str, outcome: str | None) -> None:
    word = parse_outcome_word(text)
    assert (word.kind, word.outcome, word.raw) == (kind, outcome, text)


@pytest.mark.parametrize(
    ("raw", "text", "is_bold", "footnote"),
    [
        ("**4440***", "4440", True, "*"),
        ("**A800**", "A800", True, None),
        ("31.2*", "31.2", False, "*"),
        ("35.65GiB*2", "35.65GiB*2", False, None),
        (r"8\*64GB", r"8\*64GB", False, None),
        (" 5 ", "5", False, None),
    ],
)
def test_marks_are_taken_off_and_reported(
    raw: str, text: str, footnote: str | None, *, is_bold: bool
) -> None:
    marked = strip_markup(raw)
    assert (marked.raw, marked.text) == (raw, text)
    assert (marked.is_bold, marked.footnote) == (is_bold, footnote)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("6.7G / 1.0s/it", ("6.7G", "1.0s/it")),
        ("51.2 / 1.7s/it", ("51.2", "1.7s/it")),
        ("6.7G/1.0s", ("6.7G", "1.0s")),
        ("6.7G/1.0s/it", ("6.7G", "1.0s/it")),
        ("1.0s/it/~6.7G", ("1.0s/it", "~6.7G")),
    ],
)
def test_memory_and_speed_come_apart(text: str, parts: tuple[str, ...]) -> None:
    assert split_cell(text, 2, where=PLACE) == parts


@pytest.mark.parametrize("text", ["6.7G", "6.7G/1.0s/it/2", "/", "", "a / b / c"])
def test_a_cell_of_other_parts_is_refused(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        split_cell(text, 2, where=PLACE)
    assert str(caught.value) == f"{PLACE}: found {text!r}, expected 2 figures separated by '/'"


HOSTILE = st.one_of(
    st.text(max_size=30),
    st.text(alphabet="0123456789.,:+-*x/|eE_ ()GgMmiBsdh分", max_size=30),
)
PARSERS = [
    lambda text: parse_memory(text, where=PLACE, default_unit="GB", reason="r"),
    lambda text: parse_duration(text, where=PLACE, default_unit="s", reason="r"),
    lambda text: parse_duration(text, where=PLACE, read_as="mm.ss", reason="r"),
    lambda text: parse_rate(text, where=PLACE, default_unit="s/it", reason="r"),
    lambda text: parse_count(text, where=PLACE, read_as="M", reason="r"),
    lambda text: split_cell(text, 2, where=PLACE),
    lambda text: split_glued(text, 2, where=PLACE, pattern="decimals"),
    lambda text: split_glued(text, 2, where=PLACE, pattern="integers"),
]


@pytest.mark.parametrize("parse", PARSERS)
@given(text=HOSTILE)
def test_any_text_gives_a_figure_or_an_error_with_its_place(parse: object, text: str) -> None:
    try:
        parse(text)  # type: ignore[operator]
    except UnitError as error:
        assert str(error).startswith(PLACE)  # noqa: PT017 - success is fine as well
    assert parse_outcome_word(text).raw == text
    assert strip_markup(text).raw == text


def test_a_cell_that_is_bold_in_part_is_not_bold() -> None:
    marked = strip_markup("**4440** GB")
    assert (marked.text, marked.is_bold) == ("**4440** GB", False)


def test_a_footnote_mark_is_looked_for_in_cells_of_up_to_200_characters() -> None:
    assert strip_markup("1" * 199 + "*").footnote == "*"
    assert strip_markup("1" * 200 + "*").footnote is None
