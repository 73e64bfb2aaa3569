"""The largest of a size for which there is room, found in few looks: each takes a prediction."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def find_largest(room: Callable[[int], float], limit: int, known: tuple[float, float]) -> int:
    """Return the largest n of 1..limit with room above 0; 0 for none. More leaves less room.

    ``known`` is a size with its room. From there the search doubles or halves, then goes on where
    the line through the two newest sizes ends (secant method), and every third time halves.
    """
    size, left = newest = known
    fits = left > 0
    low, high = (min(int(size), limit), limit + 1) if fits else (0, min(math.ceil(size), limit + 1))
    older, number = None, 0
    while high - low > 1:
        number += 1
        guess = 2 * low if high > limit else (low + high) // 2
        if older and number % 3:
            guess = _where_it_ends(older, newest, guess)
        n = min(max(guess, low + 1), high - 1)
        older, newest = newest, (n, room(n))
        low, high = (n, high) if newest[1] > 0 else (low, n)
    return low


def _where_it_ends(one: tuple[float, float], other: tuple[float, float], otherwise: int) -> int:
    """Return the size at which a line through two sizes leaves no room, if it falls at all."""
    (size, left), (other_size, other_left) = one, other
    slope = (other_left - left) / (other_size - size) if other_size != size else 0.0
    return int(size - left / slope) if slope < 0 else otherwise
