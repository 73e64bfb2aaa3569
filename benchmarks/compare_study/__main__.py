"""How often a comparison is wrong: of equal sides that seem to differ, of slower ones missed.

    python -m benchmarks.compare_study [--only simulated|real] [--pairs 100] [--runs 4]

First simulated pairs, then pairs of real training runs on this machine as busy as it is (needs
``[train]``; about half an hour). The exit status is 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.compare_study.simulated import (
    METHODS,
    N_PAIRS,
    NOISES,
    SHAPES,
    SIZES,
    compare_in_turns,
    excludes_one,
    simulate,
)
from benchmarks.timing import format_load
from registry.measure.environment import collect_host
from registry.measure.ratios import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.compare_study.real import Run
    from registry.measure.ratios import Ratio

#: Largest share of equal pairs that may seem to differ: simulated, and real.
_MOST_SIMULATED, _MOST_REAL = 0.06, 0.10

#: Least share of slower sides to find, with how many runs a side, and the factor of the verdict.
_LEAST_FOUND, _POWER_RUNS, _SLOWER, _FACTOR = 0.80, 8, 1.10, 1.05

#: Noises at which the power is asked for; the others show where it ends.
_STATED = ("log-normal, 3 %", "log-normal, 5 %")

#: Words for whether a bar is held.
_HELD = {True: "held", False: "MISSED"}


def study_simulated() -> bool:
    """Print the shares of simulated pairs; return whether the bars are held."""
    print(f"{N_PAIRS} simulated pairs each; share of 95 % intervals of equal sides that exclude 1")
    print(f"  {'noise between runs':<33}{'method':<9}" + "".join(f"{n:>4} runs" for n in SIZES))
    worst = 0.0
    for name in SHAPES:
        for method in METHODS:
            shares = [_share(simulate(NOISES[name], n, method), excludes_one) for n in SIZES]
            worst = max(worst, *shares)
            print(f"  {name:<33}{method:<9}" + "".join(f"{share:>9.1%}" for share in shares))
    is_held = worst <= _MOST_SIMULATED
    print(f"  asked: at most {_MOST_SIMULATED:.0%}; the worst is {worst:.1%}: {_HELD[is_held]}")
    return is_held & _study_power()


def _study_power() -> bool:
    print(f"a slowdown by a factor of {_SLOWER} with {_POWER_RUNS} runs a side is found, that is,")
    print(f"the ratio exceeds {_FACTOR} and the interval lies above 1, in")
    is_held = True
    for name, draw in NOISES.items():
        for method in METHODS:
            ratios = simulate(draw, _POWER_RUNS, method, slower=_SLOWER)
            found = _share(ratios, lambda ratio: ratio.exceeds(_FACTOR))
            is_held &= found >= _LEAST_FOUND or name not in _STATED
            print(f"  {name:<33}{method:<9}{found:>9.1%}")
    print(f"  asked: at least {_LEAST_FOUND:.0%} at a noise of 3 and of 5 %: {_HELD[is_held]}")
    return is_held


def _share(ratios: Sequence[Ratio], holds: Callable[[Ratio], bool]) -> float:
    return sum(map(holds, ratios)) / len(ratios)


def study_real(n_pairs: int, n_runs: int, keep: Path | None) -> bool:
    """Print the shares of real pairs; return whether the bar is held."""
    from benchmarks.compare_study.real import measure_runs  # noqa: PLC0415 - needs [train]

    host = collect_host()
    print(f"{n_pairs} real pairs of {n_runs} runs a side; {host['cpu']}, {format_load()} before")
    runs = []
    for run in measure_runs(n_pairs * 2 * n_runs):
        runs.append(run)
        if keep is not None:
            with keep.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(run)) + "\n")
    return report_real(runs, n_runs)


def report_real(runs: Sequence[Run], n_runs: int) -> bool:
    """Print what runs that followed each other say of the methods."""
    print(f"  {_format_runs(runs)}")
    blocks = list(split_blocks([run.step_seconds for run in runs], n_runs))
    turns = [take_turns(block) for block in blocks]
    halves = [(block[:n_runs], block[n_runs:]) for block in blocks]
    print("  intervals that exclude 1, and their median half width:")
    in_turns = _report("in turns (A B, B A, …), by rounds: registry bench", turns, compare_in_turns)
    _report("in turns, as if the runs were independent", turns, compare)
    _report("the same runs, the first half called A: no turns", halves, compare)
    is_held = in_turns <= _MOST_REAL
    print(f"  asked: at most {_MOST_REAL:.0%} of those in turns: {_HELD[is_held]}")
    return is_held


def _report(
    name: str,
    pairs: Sequence[tuple[list[float], list[float]]],
    method: Callable[[Sequence[float], Sequence[float]], Ratio],
) -> float:
    ratios = [method(a, b) for a, b in pairs]
    n_excluding = sum(map(excludes_one, ratios))
    reach = statistics.median(math.sqrt((r.high or 1) / (r.low or 1)) - 1 for r in ratios)
    print(f"    {name:<52}{n_excluding:>4} of {len(pairs)}   ± {reach:.0%}")
    return n_excluding / len(pairs)


def split_blocks(seconds: list[float], n_runs: int) -> Iterator[list[float]]:
    """Yield the runs of one pair of sides after the other."""
    for begin in range(0, len(seconds) - 2 * n_runs + 1, 2 * n_runs):
        yield seconds[begin : begin + 2 * n_runs]


def take_turns(block: list[float]) -> tuple[list[float], list[float]]:
    """Return the sides of runs that took turns, the order changing from round to round."""
    rounds = [block[place : place + 2] for place in range(0, len(block), 2)]
    ordered = [pair[::-1] if number % 2 else pair for number, pair in enumerate(rounds)]
    return [pair[0] for pair in ordered], [pair[1] for pair in ordered]


def _format_runs(runs: Sequence[Run]) -> str:
    logs = [math.log(run.step_seconds) for run in runs]
    middle = statistics.fmean(logs)
    together = sum((x - middle) * (y - middle) for x, y in pairwise(logs))
    alike = together / sum((x - middle) ** 2 for x in logs)
    loads = sorted(run.load for run in runs)
    return (
        f"{len(runs)} runs of {statistics.median(run.seconds for run in runs):.1f} s, "
        f"{1000 * math.exp(middle):.0f} ms a step; noise {statistics.stdev(logs):.0%} from run to "
        f"run, autocorrelation {alike:.2f}; load {loads[0]:.1f} to {loads[-1]:.1f}"
    )


def main() -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["simulated", "real"])
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="append each run to a JSONL file")
    options = parser.parse_args()
    is_held = options.only == "real" or study_simulated()
    if options.only != "simulated":
        is_held &= study_real(options.pairs, options.runs, options.keep)
    return 0 if is_held else 1


if __name__ == "__main__":
    sys.exit(main())
