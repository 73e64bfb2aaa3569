"""Tables for people keep to the width of the terminal, and cut nothing in mid-word."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.query.cells import text_width
from registry.query.model import Layout
from registry.query.table import write_table


class Written:
    """An output that keeps what is written."""

    def __init__(self) -> None:
        self.text = ""

    def write_text(self, text: str) -> None:
        self.text += text


def lay_out(
    columns: list[str], rows: list[tuple[Any, ...]], layout: Layout, batch: int = 100
) -> str:
    output = Written()
    batches = (rows[start : start + batch] for start in range(0, len(rows), batch))
    write_table(columns, batches, output, layout)  # type: ignore[arg-type]
    return output.text


COLUMNS = ["id", "name", "n", "note"]
ROWS: list[tuple[Any, ...]] = [("a" * 12, "a name of some length", 12345, "x" * 30)]


def test_without_a_width_all_columns_are_shown() -> None:
    assert lay_out(COLUMNS, ROWS, Layout()).splitlines()[2] == "  ".join(map(str, ROWS[0]))


def test_a_table_that_fits_is_the_same_with_and_without_a_width() -> None:
    assert lay_out(COLUMNS, ROWS, Layout(80)) == lay_out(COLUMNS, ROWS, Layout())


def test_what_does_not_fit_is_counted() -> None:
    lines = lay_out(COLUMNS, ROWS, Layout(40)).splitlines()
    assert lines == [
        "id            name                     n",
        "────────────  ───────────────────  ─────",
        "aaaaaaaaaaaa  a name of some len…  12345",
        "… 1 more column (-f csv for all)",
    ]


def test_columns_that_matter_are_shown_first_in_the_order_of_the_query() -> None:
    layout = Layout(20, first=("n", "id"))
    assert lay_out(COLUMNS[:3], [ROW[:3] for ROW in ROWS], layout).splitlines()[0].split() == [
        "id",
        "n",
    ]


def test_a_column_without_a_value_gives_way() -> None:
    rows = [(None, "a name", 1, "x" * 40)]
    assert lay_out(COLUMNS, rows, Layout(27)).splitlines()[0].split() == ["name", "n", "note"]


def test_what_was_named_keeps_its_order_whatever_matters_elsewhere() -> None:
    layout = Layout(20, first=("note", "other"))
    assert lay_out(COLUMNS, ROWS, layout).splitlines()[0].split()[0] == "id"


def test_prose_continues_on_the_next_line_at_a_space() -> None:
    rows = [("seq_len", "token", "Longest sequence: the length that samples are cut to.")]
    text = lay_out(["column", "unit", "meaning"], rows, Layout(44, prose=("meaning",)))
    lines = [line[16:] for line in text.splitlines()[2:]]
    assert lines == ["Longest sequence: the length", "that samples are cut to."]


def test_a_key_is_not_cut() -> None:
    rows = [("a-model-with-a-long-name-3b", "a family with a long name", 1)]
    text = lay_out(["model_id", "family", "n"], rows, Layout(44, key="model_id"))
    assert "a-model-with-a-long-name-3b" in text


def test_a_first_column_that_is_wider_than_the_terminal_is_cut() -> None:
    text = lay_out(["a_name_that_is_long"], [("x" * 50,)], Layout(10))
    assert text == "a_name_th…\n──────────\nxxxxxxxxx…\n"


CELLS = st.one_of(
    st.none(), st.integers(), st.floats(), st.text(max_size=60), st.booleans(), st.just("小时" * 9)
)


@given(
    st.integers(1, 9).flatmap(
        lambda n: st.lists(st.tuples(*[CELLS] * n), min_size=0, max_size=5).map(
            lambda rows: (n, rows)
        )
    ),
    st.sampled_from([20, 60, 80, 200]),
    st.integers(1, 3),
)
def test_no_line_is_wider_than_the_terminal(
    found: tuple[int, list[tuple[Any, ...]]], width: int, batch: int
) -> None:
    n_columns, rows = found
    columns = [f"c{place}" for place in range(n_columns)]
    lines = lay_out(columns, rows, Layout(width), batch).splitlines()[:-1]
    assert all(text_width(line) <= max(width, 33) for line in lines)
    assert len(lines) >= len(rows)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_later_rows_keep_to_the_widths_of_the_first(width: int) -> None:
    rows: list[tuple[Any, ...]] = [("a", 1), ("b" * 300, 2)]
    text = lay_out(["name", "n"], rows, Layout(width), batch=1)
    assert all(text_width(line) <= width for line in text.splitlines())
