"""How good the interval of a dry run is: each model held out, on trials beside a card."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from registry.predict.calibration.mixture import Interval
from registry.predict.dryrun.beside import collect_trials, reach_of
from registry.predict.evaluation.evaluate import Judged, Score, score

if TYPE_CHECKING:
    from collections.abc import Iterable

    from registry.predict.calibration.runs import ObservedRun


def judge_dry_runs(observations: Iterable[ObservedRun]) -> list[Judged]:
    """Return the trials beside dry runs, each with the interval that the other models give.

    Of what the allocator held: the CUDA context is in neither.
    """
    trials = collect_trials(observations)
    reaches = {
        name: reach_of([one for one in trials if one.model_id != name])
        for name in {one.model_id for one in trials}
    }
    factors = {name: math.exp(reach) for name, reach in reaches.items()}
    return [
        Judged(
            one.model_id,
            Interval(
                one.executed,
                one.executed / factors[one.model_id],
                one.executed * factors[one.model_id],
            ),
            one.measured,
        )
        for one in trials
    ]


def score_dry_runs(observations: Iterable[ObservedRun]) -> tuple[Score, ...]:
    """Return the scores by model, then those of all, in which each model has the same weight."""
    judged = judge_dry_runs(observations)
    names = sorted({one.source for one in judged})
    each = [score(name, [one for one in judged if one.source == name]) for name in names]
    return (*each, score("all models", judged))
