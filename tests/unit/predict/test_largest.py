"""The largest size with room: right for any room that falls, and found soon on a straight line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.predict.answer.advice import find_largest

if TYPE_CHECKING:
    from collections.abc import Callable

#: Rooms that end at a size, and how they fall.
SHAPES: dict[str, Callable[[float, float], float]] = {
    "line": lambda size, end: end - size,
    "square": lambda size, end: end**2 - size**2,
    "logarithm": lambda size, end: math.log(end / size),
    "cliff": lambda size, end: 1e9 if size < end else -1.0,
    "step": lambda size, end: 1.0 if size < end else -1.0,
}


@given(
    shape=st.sampled_from(sorted(SHAPES)),
    most=st.integers(0, 5000),
    limit=st.integers(1, 4096),
    near=st.floats(0.1, 6000),
)
def test_the_largest_has_room_and_the_next_has_none(
    shape: str, most: int, limit: int, near: float
) -> None:
    asked = []

    def room(size: float) -> float:
        asked.append(size)
        return SHAPES[shape](size, most + 0.5)

    found = find_largest(room, limit, (near, SHAPES[shape](near, most + 0.5)))
    assert found == min(most, limit)
    assert all(1 <= size <= limit for size in asked)
    assert len(asked) == len(set(asked)) <= 3 * 13


@pytest.mark.parametrize("most", [5, 17, 63, 100, 333, 4000])
@pytest.mark.parametrize("near", [1, 64, 100.5])
def test_room_that_falls_evenly_takes_few_looks(most: int, near: float) -> None:
    asked: list[int] = []

    def room(size: int) -> float:
        asked.append(size)
        return most + 0.5 - size

    assert find_largest(room, 4096, (near, most + 0.5 - near)) == most
    assert len(asked) <= 4
