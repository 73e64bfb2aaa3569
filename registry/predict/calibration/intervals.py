"""The formulas, corrected by the registry's own observations, with honest intervals.

Intervals are conformal: the deviation that the fit gives is scaled by the quantile of what it was
off by when the like was held out. There are three kinds of holding out, because a stack that was
measured is known better than a model that was not, and that better than a new stack: one row, one
model, one source. A question gets the kind that its nearest observation allows. Residuals are
logarithms, so an interval never reaches zero. MAPIE and crepes were weighed: both are kept well,
but they wrap scikit-learn estimators, know no nearness and no groups of unequal size, and would
bring scipy and scikit-learn for what is 30 lines here.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from registry.predict.calibration.fit_rows import MEMORY, TIME, memory_rows, time_rows
from registry.predict.calibration.gaussian_process import Fit, Start, covariance, fit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from registry.predict.calibration.fit_rows import FitRow, Prior
    from registry.predict.calibration.gaussian_process import Floats
    from registry.predict.calibration.runs import ObservedRun

#: How near the nearest observation is, from near to far.
NEARNESS = ("row", "model", "source")
#: Share of intervals that should hold the figure.
COVERAGE = 0.90
#: Rows of a stack from which on its own scores say how far its intervals reach.
ENOUGH = 20


@dataclass(frozen=True)
class HeldOut:
    """What was predicted of one row by a fit that had not seen it."""

    row: FitRow
    mean: float
    deviation: float
    #: How near the nearest row of that fit was.
    nearness: str
    #: What was held out together with it.
    fold: object

    @property
    def score(self) -> float:
        """Logarithmic error over the relative deviation."""
        return abs(math.log(self.row.value / self.mean)) * self.mean / self.deviation


@dataclass(frozen=True)
class Interval:
    """A figure, and where it lies nine times in ten."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Calibrated:
    """The formula of one figure, fitted on what was measured."""

    fit: Fit
    #: Times the deviation that an interval reaches: by nearness, of a stack or ("") of all.
    reach: Mapping[str, Mapping[str, float]]

    @cached_property
    def known(self) -> dict[str, set[Any]]:
        """Groups that rows of the fit have, by level."""
        return _known(self.fit.rows)

    def predict(self, row: FitRow) -> Interval:
        """Return what to expect of a row, with its 90 % interval."""
        mean, deviation = self.fit.predict(row)
        reach = self.reach[nearness(row, self.known)]
        return interval(mean, deviation, reach.get(str(row.groups.get("stack")), reach[""]))

    def nearness(self, row: FitRow) -> str:
        """Return how near the nearest row is: row, model or source."""
        return nearness(row, self.known)


def interval(mean: float, deviation: float, reach: float) -> Interval:
    """Return the interval of so many relative deviations around a mean, logarithmically."""
    factor = math.exp(reach * deviation / mean)
    return Interval(mean, mean / factor, mean * factor)


def nearness(row: FitRow, known: Mapping[str, set[Any]]) -> str:
    """Return row where the row's series was measured, model where its stack was, else source."""
    for level, name in (("series", "row"), ("stack", "model")):
        group = row.groups.get(level)
        if group is not None and group in known.get(level, ()):
            return name
    return "source"


def _known(rows: Iterable[FitRow]) -> dict[str, set[Any]]:
    known: dict[str, set[Any]] = {}
    for row in rows:
        if not row.censored:
            for level, group in row.groups.items():
                known.setdefault(level, set()).add(group)
    return known


def calibrate_rows(rows: Sequence[FitRow], prior: Prior) -> Calibrated:
    """Return the fit of rows and its intervals. Takes seconds for hundreds of rows."""
    fitted = fit(rows, prior)
    return Calibrated(fitted, {name: _reaches(hold_out(fitted, name), name) for name in NEARNESS})


def _reaches(held: Sequence[HeldOut], near: str) -> dict[str, float]:
    stacks = Counter(str(one.row.groups["stack"]) for one in held if one.nearness == near)
    known = [stack for stack, count in stacks.items() if count >= ENOUGH and near != "source"]
    return {stack: _rounded(score_quantile(held, near, stack)) for stack in ("", *known)}


def _rounded(score: float) -> float:
    """Return six digits: what more there are differs from one machine to the next."""
    return float(f"{score:.6g}")


def hold_out(fitted: Fit, split: str) -> list[HeldOut]:
    """Return what is predicted of each measured row with its like held out.

    ``split`` is row (closed form), model (all rows of its architecture), or source.
    """
    if split == "row":
        return _rows_held_out(fitted)
    kernel = covariance(fitted.design, fitted.design, fitted.prior)
    level = {"model": "shape", "source": "stack"}[split]
    groups = dict.fromkeys(row.groups[level] for row in fitted.rows)
    return [held for group in groups for held in _fold(fitted, kernel, level, group)]


def _rows_held_out(fitted: Fit) -> list[HeldOut]:
    means, deviations = fitted.left_out()
    counts: dict[tuple[str, Any], int] = {}
    for row in fitted.rows:
        for level in ("series", "stack"):
            key = (level, row.groups[level])
            counts[key] = counts.get(key, 0) + (not row.censored)
    found = []
    for i, row in enumerate(fitted.rows):
        if not row.censored:
            known = {
                level: {row.groups[level]} if counts[level, row.groups[level]] > 1 else set()
                for level in ("series", "stack")
            }
            mean = max(float(means[i]), 0.05 * row.formula)
            near = nearness(row, known)
            found.append(HeldOut(row, mean, float(deviations[i]), near, row.key))
    return found


def _fold(fitted: Fit, kernel: Floats, level: str, group: Any) -> list[HeldOut]:
    inside = np.array([row.groups[level] == group for row in fitted.rows])
    measured = np.array([not row.censored for row in fitted.rows])
    test, train = np.flatnonzero(inside & measured), np.flatnonzero(~inside)
    if not len(test) or not len(train):
        return []
    rows = [fitted.rows[i] for i in train]
    part = fit(
        rows,
        fitted.prior,
        kernel=kernel[np.ix_(train, train)],
        start=Start(fitted.noise_factors[train]),
        rounds=2,
    )
    asked = [fitted.rows[i] for i in test]
    design = fitted.design.like(asked)
    means, deviations = part.predict_cross(design, kernel[np.ix_(test, train)])
    known = _known(rows)
    return [
        HeldOut(row, float(mean), float(deviation), nearness(row, known), group)
        for row, mean, deviation in zip(asked, means, deviations, strict=True)
    ]


def score_quantile(
    held: Iterable[HeldOut],
    near: str,
    stack: object = None,
    wanted: Callable[[HeldOut], bool] = lambda _: True,
) -> float:
    """Return the 90 % quantile of the scores: those of the stack where it has enough, else of all.

    Formula: split conformal prediction, by group (Vovk 2012, Mondrian) and with weights that let
    each source count the same (Tibshirani et al. 2019): the smallest score below which the wanted
    share of weight lies, one more row of unknown score counted in.
    """
    scores = [one for one in held if one.nearness == near and wanted(one)]
    own = [one for one in scores if one.row.groups["stack"] == stack]
    scores = own if len(own) >= ENOUGH and near != "source" else scores
    sizes = Counter(one.row.groups["stack"] for one in scores)
    weighed = sorted((one.score, 1 / max(sizes[one.row.groups["stack"]], ENOUGH)) for one in scores)
    total = sum(weight for _, weight in weighed) * (1 + 1 / max(len(weighed), 1))
    reached = 0.0
    for score, weight in weighed:
        reached += weight
        if reached >= COVERAGE * total:
            return score
    return weighed[-1][0] if weighed else _GAUSSIAN


#: The 90 % interval of a normal figure, where nothing was held out.
_GAUSSIAN = 1.645


@dataclass(frozen=True)
class Calibration:
    """Both figures, fitted: the peak in bytes of one device, the seconds of its micro-batch."""

    observations: tuple[ObservedRun, ...]
    memory: Calibrated
    time: Calibrated


def calibrate(observations: Iterable[ObservedRun]) -> Calibration:
    """Return the calibration on these observations. Takes seconds for hundreds of them."""
    seen = tuple(observations)
    return Calibration(
        observations=seen,
        memory=calibrate_rows(memory_rows(seen), MEMORY),
        time=calibrate_rows(time_rows(seen), TIME),
    )
