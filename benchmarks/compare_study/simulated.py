"""Simulated runs of two sides, whose ratio is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from registry.measure.ratios import Ratio, compare, compare_rounds

Draw = Callable[[random.Random], float]

#: Pairs of sides of which a share is taken.
N_PAIRS = 2_000

#: Runs a side.
SIZES = (2, 3, 4, 8)


def draw_log_normal(deviation: float) -> Draw:
    """Return a draw of a run's seconds that differ by a share from run to run."""
    return lambda generator: math.exp(generator.gauss(0, deviation))


def draw_with_outliers(deviation: float, share: float, factor: float) -> Draw:
    """Return such a draw in which a share of the runs takes longer by a factor."""
    draw = draw_log_normal(deviation)

    def with_outliers(generator: random.Random) -> float:
        seconds = draw(generator)
        return seconds * factor if generator.random() < share else seconds

    return with_outliers


NOISES: dict[str, Draw] = {
    "log-normal, 3 %": draw_log_normal(0.03),
    "log-normal, 5 %": draw_log_normal(0.05),
    "log-normal, 10 %": draw_log_normal(0.10),
    "3 %, one run in ten takes 1.3 x": draw_with_outliers(0.03, 0.1, 1.3),
    "3 %, one run in ten takes 3 x": draw_with_outliers(0.03, 0.1, 3.0),
}


def compare_in_turns(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """Return the comparison of runs that took turns, as ``registry bench`` makes it."""
    return compare_rounds([([x], [y]) for x, y in zip(a, b, strict=True)])


#: The two methods: of runs that are independent, and of runs in rounds.
METHODS: dict[str, Callable[[Sequence[float], Sequence[float]], Ratio]] = {
    "compare": compare,
    "bench": compare_in_turns,
}


def simulate(draw: Draw, n_runs: int, method: str, *, slower: float = 1.0) -> list[Ratio]:
    """Return the comparisons of pairs of sides, the second ``slower`` times the first."""
    generator = random.Random(n_runs)  # noqa: S311 - no secret; the figures can be had again
    return [
        METHODS[method](
            [draw(generator) for _ in range(n_runs)],
            [slower * draw(generator) for _ in range(n_runs)],
        )
        for _ in range(N_PAIRS)
    ]


#: One noise of each shape: how large a log-normal noise is does not change how often an interval
#: excludes the true ratio.
SHAPES = tuple(name for name in NOISES if not name.startswith("log-normal") or "3 %" in name)


def excludes_one(ratio: Ratio) -> bool:
    """Return whether the interval of a comparison says that the sides differ."""
    return ratio.low is not None and ratio.high is not None and not ratio.low <= 1 <= ratio.high
