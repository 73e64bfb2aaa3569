from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import UnitError
from registry.units import (
    find_failure,
    parse_count,
    parse_duration,
    parse_memory,
    parse_outcome_word,
    parse_rate,
    split_card_list,
    split_cell,
    split_glued,
    split_remark,
    strip_markup,
    ways_to_split,
)

PLACE = "table 3, row 2, column 'GPU Memory'"


@pytest.mark.parametrize(
    ("text", "kind", "outcome"),
    [
        ("OOM", "oom", "oom"),
        ("**OOM**", "oom", "oom"),
        ("OOM ❌", "oom", "oom"),
        ("🔴 OOM", "oom", "oom"),
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
        ("не хватает памяти", "oom", "oom"),
        ("nicht genug Speicher", "oom", "oom"),
        ("显存爆了", "oom", "oom"),
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


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        ("61.34+73.00", ("61.34", "73.00")),
        ("61.34 + 73.00 + 5", ("61.34", "73.00", "5")),
        ("9G | 6G", ("9G", "6G")),
        ("9G; 6G", ("9G", "6G")),
        ("9G\uff0c6G", ("9G", "6G")),
        ("9G,6G", ("9G", "6G")),
        ("1,024MB", ("1,024MB",)),
        ("35.65GiB*2", ("35.65GiB", "35.65GiB")),
        ("3 x 74G", ("74G", "74G", "74G")),
        ("2*9G + 6G", ("9G", "9G", "6G")),
        ("9G", ("9G",)),
    ],
)
def test_the_figures_of_cards_come_apart(text: str, cards: tuple[str, ...]) -> None:
    assert split_card_list(text, where=PLACE) == cards


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8 * 74", "a unit that tells the figure from the number of cards"),
        ("2 * 9G * 3", "figures of cards such as '8 * 74G', '61.3+73.0' or '9G | 6G'"),
        ("9G*G", "figures of cards such as '8 * 74G', '61.3+73.0' or '9G | 6G'"),
        ("9G+", "figures of cards such as '8 * 74G', '61.3+73.0' or '9G | 6G'"),
        ("10001*9G", "at most 10000 cards"),
        ("6000*9G + 4001*9G", "at most 10000 cards"),
        ("9+" * 100 + "9", "figures of cards of at most 200 characters"),
    ],
)
def test_figures_of_cards_that_cannot_be_told_are_refused(text: str, expected: str) -> None:
    with pytest.raises(UnitError) as caught:
        split_card_list(text, where=PLACE)
    assert str(caught.value).startswith(f"{PLACE}: found ")
    assert str(caught.value).endswith(f"expected {expected}")


def test_as_many_cards_as_are_counted_come_apart() -> None:
    assert len(split_card_list("10000*9G", where=PLACE)) == 10_000


@pytest.mark.parametrize(
    ("text", "figure", "remark"),
    [
        ("22G (Each GPU, Need 1 GPU)", "22G", "Each GPU, Need 1 GPU"),
        ("22G\uff08单卡\uff09", "22G", "单卡"),
        ("22G ( peak )", "22G", "peak"),
        ("22G", "22G", None),
        ("(peak)", "(peak)", None),
        ("2" * 200 + "(peak)", "2" * 200 + "(peak)", None),
    ],
)
def test_a_remark_is_split_from_its_figure(text: str, figure: str, remark: str | None) -> None:
    assert split_remark(text) == (figure, remark)


def test_a_separator_is_looked_for_between_spaces_then_anywhere_then_before_figures() -> None:
    assert list(ways_to_split("6.7G/1.0s/it")) == [
        ("6.7G/1.0s/it",), ("6.7G", "1.0s", "it"), ("6.7G", "1.0s/it"),
    ]  # fmt: skip
    assert list(ways_to_split("6 | 7", "|")) == [("6", "7")] * 3


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("OOM at step 3", "OOM"),
        ("run failed", "failed"),
        ("fits, without any OOM", None),
        ("no OOM", None),
        ("rooms", None),
        ("24.1G", None),
    ],
)
def test_words_of_a_failure_are_found_unless_denied(text: str, failure: str | None) -> None:
    assert find_failure(text) == failure
