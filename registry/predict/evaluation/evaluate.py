"""How good the predictions are, on every measured row of the curated sources."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from registry.predict.answer.nearest import aspects_of, between, transfer
from registry.predict.answer.prediction import DOES_NOT_FIT, FITS, judge
from registry.predict.calibration.fit_rows import MEMORY, TIME, memory_rows, time_rows
from registry.predict.calibration.gaussian_process import fit
from registry.predict.calibration.intervals import (
    NEARNESS,
    HeldOut,
    Interval,
    hold_out,
    interval,
    score_quantile,
)
from registry.predict.formula.peak_memory import GIB, memory_terms, total
from registry.predict.formula.published import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from registry.predict.calibration.fit_rows import FitRow, Prior
    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.question import Question

#: The sources whose rows are judged; those of all sources are learned from.
JUDGED = (
    "qwen-finetune-profile",
    "llama2-lora-3090",
    "swift-benchmark",
    "llm-train-throughput",
)
#: Memory of cards that there are, in GiB.
LADDER = (8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 141)


@dataclass(frozen=True)
class Verdicts:
    """How many verdicts say fits though it does not, are decided, are left open."""

    false_fits: int
    decided: int
    undecided: int

    @property
    def false_share(self) -> float:
        """Share of the decided verdicts that say fits and are wrong."""
        return self.false_fits / self.decided if self.decided else 0.0


@dataclass(frozen=True)
class Score:
    """Errors of one way to predict one figure, with one kind of rows held out."""

    figure: str
    predictor: str
    split: str
    n_rows: int
    median_error: float
    p90_error: float
    #: Share of the 90 % intervals that hold the figure, and half their width; None without any.
    coverage: float | None = None
    half_width: float | None = None
    #: Verdicts over the ladder of cards; None for a time.
    verdicts: Verdicts | None = None


def evaluate(observations: Iterable[ObservedRun]) -> list[Score]:
    """Return the scores of all predictors on the judged rows. Takes seconds."""
    seen = list(observations)
    memory, time = memory_rows(seen), time_rows(seen)
    return [
        *(_calibrated("memory", memory, MEMORY, split) for split in NEARNESS),
        *(
            _score_points("memory", "nearest alone", split, _by_nearest(seen, split))
            for split in NEARNESS
        ),
        *_fixed(seen),
        *(_calibrated("time", time, TIME, split) for split in NEARNESS),
    ]


def _fixed(seen: Sequence[ObservedRun]) -> list[Score]:
    """Return the scores of what is not calibrated: nothing needs to be held out."""
    judged = _judged(seen)

    def pairs(of: Callable[[Question], float]) -> list[tuple[float, float]]:
        return [(of(one.question), one.peak_bytes or 0.0) for one in judged]

    formulas = {"formula alone": lambda question: total(memory_terms(question)), **PUBLISHED}
    return [_score_points("memory", name, "none", pairs(of)) for name, of in formulas.items()]


def _judged(seen: Sequence[ObservedRun]) -> list[ObservedRun]:
    return [one for one in seen if one.source_id in JUDGED and one.measured_memory]


def _calibrated(figure: str, rows: Sequence[FitRow], prior: Prior, split: str) -> Score:
    held = hold_out(fit(rows, prior), split)
    judged = [one for one in held if one.row.groups["stack"] in JUDGED]
    intervals = [_interval(one, held) for one in judged]
    pairs = [(one.mean, one.row.value) for one in judged]
    inside = [at.low <= one.row.value <= at.high for at, one in zip(intervals, judged, strict=True)]
    verdicts = (
        _verdicts(intervals, [one.row.value for one in judged]) if figure == "memory" else None
    )
    points = _score_points(figure, "calibrated", split, pairs, ladder=False)
    widths = [at.high / at.value - 1 for at in intervals]
    return replace(
        points,
        coverage=sum(inside) / len(inside),
        half_width=float(np.median(widths)),
        verdicts=verdicts,
    )


def _interval(one: HeldOut, held: Sequence[HeldOut]) -> Interval:
    """Return the interval of a row, from the scores of all folds but its own (cross-conformal)."""

    def others(other: HeldOut) -> bool:
        return other.fold != one.fold

    reach = score_quantile(held, one.nearness, one.row.groups["stack"], others)
    return interval(one.mean, one.deviation, reach)


def _verdicts(intervals: Sequence[Interval], measured: Sequence[float]) -> Verdicts:
    decided = false = undecided = 0
    for at, value in zip(intervals, measured, strict=True):
        for size in LADDER:
            verdict = judge(at, size * GIB)
            decided += verdict in (FITS, DOES_NOT_FIT)
            undecided += verdict not in (FITS, DOES_NOT_FIT)
            false += verdict == FITS and value > size * GIB
    return Verdicts(false, decided, undecided)


def _score_points(
    figure: str,
    predictor: str,
    split: str,
    pairs: Sequence[tuple[float, float]],
    *,
    ladder: bool = True,
) -> Score:
    """Return the errors of (predicted, measured) pairs; a point decides every card it is asked."""
    errors = [abs(predicted / measured - 1) for predicted, measured in pairs]
    points = [Interval(predicted, predicted, predicted) for predicted, _ in pairs]
    verdicts = _verdicts(points, [measured for _, measured in pairs]) if ladder else None
    median, p90 = map(float, np.quantile(errors, [0.5, 0.9]))
    return Score(figure, predictor, split, len(pairs), median, p90, verdicts=verdicts)


def _by_nearest(seen: Sequence[ObservedRun], split: str) -> list[tuple[float, float]]:
    """Return (nearest measured peak plus the formula's difference, measured) of the judged rows."""
    measured = [(one, aspects_of(one.question)) for one in seen if one.measured_memory]
    fold = _FOLDS[split]
    pairs = []
    for one in _judged(seen):
        asked, own = aspects_of(one.question), fold(one)
        others = (
            (between(asked, known), i)
            for i, (other, known) in enumerate(measured)
            if fold(other) != own
        )
        nearest = measured[min(others)[1]][0]
        pairs.append((transfer(one.question, nearest) or 0.0, one.peak_bytes or 0.0))
    return pairs


_FOLDS: dict[str, Callable[[ObservedRun], object]] = {
    "row": lambda one: one.observation_id,
    "model": lambda one: one.question.model.shape,
    "source": lambda one: one.source_id,
}
