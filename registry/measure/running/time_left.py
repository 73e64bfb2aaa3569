"""How long the trials that are left will take, by those that have ended."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from registry.measure.running.trial_labels import find_varied

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from registry.measure.running.trials import Trial

#: Comparisons of trials beyond which the mean is taken: it is shown after every trial.
_MOST_COMPARISONS = 200_000


class TimeLeft:
    """An estimate: each trial takes what those took that have most settings in common with it."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._varied = find_varied(trials)
        self._known: list[tuple[tuple[object, ...], float]] = []

    def note(self, trial: Trial, seconds: float) -> None:
        """Note how long a trial took."""
        self._known.append((self._values(trial), seconds))

    def estimate(self, left: Iterable[Trial], n_at_once: int = 1) -> float | None:
        """Return the seconds until all that are left have ended; None until a trial has ended."""
        left = list(left)
        if not self._known:
            return None
        if len(left) * len(self._known) > _MOST_COMPARISONS:
            mean = statistics.fmean(seconds for _, seconds in self._known)
            return len(left) * mean / n_at_once
        return sum(map(self._nearest, left)) / n_at_once

    def _nearest(self, trial: Trial) -> float:
        wanted = self._values(trial)
        shared = [
            sum(a == b for a, b in zip(wanted, values, strict=True)) for values, _ in self._known
        ]
        near = [
            seconds
            for (_, seconds), count in zip(self._known, shared, strict=True)
            if count == max(shared)
        ]
        return statistics.fmean(near)

    def _values(self, trial: Trial) -> tuple[object, ...]:
        return tuple(getattr(trial.settings, name) for name in self._varied)
