"""Time commands and calls side by side: all sides take turns in one run."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def time_in_turns(
    sides: Mapping[str, Callable[[], object]], repeats: int, *, warm_up: int = 1
) -> dict[str, float]:
    """Return the median seconds of each side; they take turns ``repeats`` times."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(warm_up + repeats):
        for name, side in sides.items():
            begin = time.perf_counter()
            side()
            if number >= warm_up:
                seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(values) for name, values in seconds.items()}


def command(*arguments: object) -> Callable[[], object]:
    """Return a call that runs a command to its end, its output dropped."""
    return lambda: subprocess.run(
        list(map(str, arguments)), check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )


def format_load() -> str:
    """Return the machine's load, which says how far a figure can be trusted."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def print_ratios(title: str, medians: Mapping[str, float], base: str) -> None:
    """Print each side's median in milliseconds, and how many times the base it took."""
    print(f"{title} ({format_load()})")
    for name, seconds in medians.items():
        print(f"  {name:<52} {1000 * seconds:9.2f} ms   {seconds / medians[base]:5.2f} x")
