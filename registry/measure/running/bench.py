"""Run the trials of a plan with two Python environments in turns: A B, then B A.

What the machine does meanwhile, both sides meet: a slow hour, a neighbour, a hot processor. The
order changes from round to round, so that neither side is always the first.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from registry.errors import RegistryError
from registry.measure.child_process import interrupted_by_signals
from registry.measure.releases import DECISIVE, add_provenance, find_telling, list_versions
from registry.measure.running.trial_run import run_trial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from registry.catalogue import Catalogue
    from registry.measure.running.interpreter import Interpreter
    from registry.measure.running.trial_run import TrialResult
    from registry.measure.running.trials import Trial

Row = dict[str, Any]

#: The sides, in the order of the first round.
NAMES = ("A", "B")


@dataclass(frozen=True)
class Side:
    """One of the two releases."""

    label: str
    interpreter: Interpreter


@dataclass(frozen=True)
class Turn:
    """One run: in which round, of which trial, and by which side (0 or 1)."""

    round: int
    trial: Trial
    side: int

    @property
    def folder(self) -> str:
        """Name of the run's folder."""
        return f"{self.round}-{NAMES[self.side]}-{self.trial.trial_id}"


@dataclass
class Bench:
    """What came of it.

    Attributes:
        identity: What its runs have in common, as ``provenance.bench``.
        recorded: Ids of the observations of each side.
        refused: Why other runs could not be recorded, one message each.
        interrupted: Whether it was ended before its last run.
    """

    identity: str
    recorded: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    refused: list[str] = field(default_factory=list)
    interrupted: bool = False


def order_turns(trials: Sequence[Trial], n_rounds: int) -> list[Turn]:
    """Return the runs in order; the sides swap places from round to round."""
    return [
        Turn(number, trial, side)
        for number in range(1, n_rounds + 1)
        for trial in trials
        for side in ((0, 1) if number % 2 else (1, 0))
    ]


def name_sides(a: Row, b: Row) -> tuple[str, str]:
    """Return a label for each of two environments: the versions that differ, else A and B.

    >>> name_sides({"peft_version": "0.20.0"}, {"peft_version": "0.21.0"})
    ('peft 0.20.0', 'peft 0.21.0')
    """
    versions = list_versions(a), list_versions(b)
    shared = [name for name in find_telling(versions) if all(name in each for each in versions)]
    telling = [name for name in DECISIVE if name in shared] or shared
    if not telling:
        return NAMES
    first, second = (", ".join(f"{name} {each[name]}" for name in telling) for each in versions)
    return first, second


def run_bench(  # noqa: PLR0913 - by keyword
    turns: Sequence[Turn],
    sides: tuple[Side, Side],
    folder: Path,
    *,
    add: Callable[[Row], Sequence[str]],
    catalogue: Catalogue | None = None,
    progress: Callable[[Turn, TrialResult | None], object] = lambda *_: None,
) -> Bench:
    """Run the trials in turns and hand each result over the moment it exists.

    Args:
        turns: What to run, in order.
        sides: The two releases.
        folder: Where a folder for the runs is made.
        add: Called with each submission; returns the ids of what it recorded.
        catalogue: Ids for what was measured.
        progress: Called with each turn before it, with None, and after it, with its result.

    A trial that fails is a result; on Ctrl-C the running trial is killed and dropped.
    """
    bench = Bench(secrets.token_hex(6))
    for turn in turns:
        progress(turn, None)
        side = sides[turn.side]
        try:
            with interrupted_by_signals():
                result = run_trial(
                    turn.trial,
                    folder / f"bench-{bench.identity}" / turn.folder,
                    catalogue=catalogue,
                    python=side.interpreter.python,
                    environment=side.interpreter.environment,
                )
        except KeyboardInterrupt:
            bench.interrupted = True
            return bench
        _hand_over(result, turn, side, bench, add)
        progress(turn, result)
    return bench


def _hand_over(
    result: TrialResult,
    turn: Turn,
    side: Side,
    bench: Bench,
    add: Callable[[Row], Sequence[str]],
) -> None:
    document = add_provenance(
        result.submission, label=side.label, bench=bench.identity, round=turn.round
    )
    try:
        bench.recorded[turn.side].extend(add(document))
    except RegistryError as error:
        bench.refused.append(f"{turn.folder}: {error}")
