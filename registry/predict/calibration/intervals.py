"""The formulas, corrected by the registry's own observations, with honest intervals.

Intervals are conformal: the deviation that the fit gives is scaled by the quantile of what it was
off by when the like was held out. There are three kinds of holding out, because a stack that was
measured is known better than a model that was not, and that better than a new stack: one row, one
model, one source. A question that names a stack gets the kind that its nearest observation allows;
one that names none gets the middle of a mixture (`open_question`), moved apart by how far like
questions of sources that were held out whole lay outside of theirs. Residuals are logarithms, so
an interval never reaches zero. MAPIE and crepes were weighed: both are kept well, but they wrap
scikit-learn estimators, know no nearness and no groups of unequal size, and would bring scipy and
scikit-learn for what is 30 lines here.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from registry.predict.calibration.fit_rows import (
    MEMORY,
    TIME,
    UNTOLD,
    memory_rows,
    time_row,
    time_rows,
)
from registry.predict.calibration.gaussian_process import Fit, Start, covariance, fit
from registry.predict.calibration.mixture import Interval
from registry.predict.calibration.named import hold_out_named, named_reaches
from registry.predict.calibration.open_question import (
    GROUPS,
    Learned,
    OpenMixture,
    Stacks,
    collect_stacks,
    group_of,
    mix,
)
from registry.predict.calibration.own_times import OwnTimes, collect_own_times
from registry.predict.calibration.quantiles import (
    ENOUGH,
    equal_quantile,
    quantile_of,
    source_quantile,
    weigh_by_source,
)
from registry.predict.calibration.runs import PURPOSES
from registry.predict.calibration.unstated import Usual, count_usual, settle
from registry.predict.formula.step_time import has_known_speed
from registry.tracking import track

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from registry.predict.architecture import Architecture
    from registry.predict.calibration.executed import Executed
    from registry.predict.calibration.fit_rows import FitRow, Prior
    from registry.predict.calibration.gaussian_process import Floats
    from registry.predict.calibration.runs import ObservedRun

#: How near the nearest observation is, from near to far.
NEARNESS = ("row", "model", "source")


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
    def spread(self) -> str:
        """`UNTOLD`, of a time whose question does not say how long samples are; else ""."""
        return str(self.row.groups.get("spread") or "")

    @property
    def score(self) -> float:
        """Logarithmic error over the relative deviation."""
        return abs(math.log(self.row.value / self.mean)) * self.mean / self.deviation


@dataclass(frozen=True)
class Calibrated:
    """The formula of one figure, fitted on what was measured."""

    #: Makes the fit when it is first asked for: most commands need one figure alone.
    make: Callable[[], Fit]
    #: Times the deviation that an interval reaches: by nearness, of a stack, of times of samples
    #: whose lengths are `UNTOLD`, or ("") of all others.
    reach: Mapping[str, Mapping[str, float]]

    @cached_property
    def fit(self) -> Fit:
        """The fit of the rows that were measured."""
        return self.make()

    @cached_property
    def known(self) -> dict[str, set[Any]]:
        """Groups that rows of the fit have, by level."""
        return _known(self.fit.rows)

    def predict(self, row: FitRow) -> Interval:
        """Return what to expect of a row, with its 90 % interval."""
        return self.predict_many([row])[0]

    def predict_highest(self, rows: Sequence[FitRow]) -> tuple[FitRow, Interval]:
        """Return of which row most is to be expected, and what, with its 90 % interval."""
        found = zip(rows, self.predict_many(rows), strict=True)
        return max(found, key=lambda pair: pair[1].value)

    def predict_many(self, rows: Sequence[FitRow]) -> list[Interval]:
        """Return what to expect of each row, with its 90 % interval."""
        means, deviations = self.fit.predict_many(rows)
        return [
            interval(float(mean), float(deviation), self._reach(row))
            for row, mean, deviation in zip(rows, means, deviations, strict=True)
        ]

    def _reach(self, row: FitRow) -> float:
        reach = self.reach[nearness(row, self.known)]
        groups = (str(row.groups.get(level)) for level in ("stack", "spread"))
        return next((reach[group] for group in groups if group in reach), reach[""])

    def reach_named(self, row: FitRow) -> float:
        """Return by how much an interval is moved apart of a mixture on the stack of a row."""
        reach = self.reach[f"named {nearness(row, self.known)}"]
        return reach.get(str(row.groups.get("stack")), reach[""])

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


def calibrate_rows(
    rows: Sequence[FitRow], prior: Prior, near: Sequence[str] = NEARNESS
) -> Calibrated:
    """Return the fit of rows and its intervals, by what is ``near``.

    Takes seconds for hundreds of rows.
    """
    fitted = fit(rows, prior)
    return Calibrated(
        lambda: fitted, {name: _reaches(hold_out(fitted, name), name) for name in near}
    )


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
    tracked = track(groups, f"holding out each {split}", len(groups))
    return [held for group in tracked for held in _fold(fitted, kernel, level, group)]


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
    terms = fitted.design.like(asked).terms
    means, deviations = part.predict_cross(terms, kernel[np.ix_(test, train)])
    known = _known(rows)
    return [
        HeldOut(row, float(mean), float(deviation), nearness(row, known), group)
        for row, mean, deviation in zip(asked, means, deviations, strict=True)
    ]


def score_quantile(
    held: Iterable[HeldOut],
    near: str,
    stack: object = None,
) -> float:
    """Return the 90 % quantile of the scores: those of the stack where it has enough, else of all.

    Formula: split conformal prediction, by group (Vovk 2012, Mondrian) and with weights that let
    each source count the same (Tibshirani et al. 2019): the smallest score below which the wanted
    share of weight lies, one more row of unknown score counted in.
    """
    scores = [one for one in held if one.nearness == near]
    own = [one for one in scores if one.row.groups["stack"] == stack]
    scores = own if len(own) >= ENOUGH and near != "source" else scores
    weighed = weigh_by_source([(one.score, one.row.groups["stack"]) for one in scores], ENOUGH)
    whole = sum(weight for _, weight in weighed) * (1 + 1 / max(len(weighed), 1))
    return quantile_of(weighed, whole, _GAUSSIAN)


#: The 90 % interval of a normal figure, where nothing was held out.
_GAUSSIAN = 1.645


@dataclass(frozen=True)
class Calibration:
    """Both figures, fitted: the peak in bytes of one device, the seconds of its micro-batch."""

    observations: tuple[ObservedRun, ...]
    memory: Calibrated
    time: Calibrated
    #: How often the settings occur that questions leave open.
    usual: Usual
    #: What a dry run of the question at hand says, where one was made.
    executed: Executed | None = None
    #: Ids of the user's own runs, and of those that it was not fitted on: they count as evidence.
    own_ids: frozenset[str] = frozenset()
    newer: frozenset[str] = frozenset()

    @property
    def factor(self) -> float:
        """By what a dry run of the question at hand says the formula is off; 1 without one."""
        return 1.0 if self.executed is None else self.executed.factor

    @cached_property
    def stacks(self) -> Stacks:
        """Stacks that have measured a model and kind of training."""
        return collect_stacks(self.observations, self.own_ids)

    @cached_property
    def own_times(self) -> OwnTimes:
        """The user's own timed runs, of stacks that were learned: of too many new ones none is."""
        learned = self.time.known.get("stack", ())
        seen = [one for one in self.observations if one.question.stack in learned]
        return collect_own_times(seen, self.own_ids)

    @cached_property
    def timed_cards(self) -> frozenset[str]:
        """Ids of the cards on which somebody timed a run of full samples.

        Samples that may be shorter than their limit would make a card look fast.
        """
        timed = [one.question for one in self.observations if one.measured_time]
        full = [one for one in timed if one.length_distribution == "full"]
        return frozenset(one.gpu.gpu_id for one in full if one.gpu)

    def runs_of(self, model: Architecture) -> Sequence[ObservedRun]:
        """Return the runs of models of one shape."""
        return self._by_shape.get(model.shape, ())

    def measured_of(self, model: Architecture) -> Sequence[ObservedRun]:
        """Return the runs with a measured peak of models of one shape."""
        return [one for one in self.runs_of(model) if one.measured_memory]

    @cached_property
    def _by_shape(self) -> dict[Any, list[ObservedRun]]:
        found: dict[Any, list[ObservedRun]] = {}
        for one in self.observations:
            found.setdefault(one.question.model.shape, []).append(one)
        return found

    def usual_on(self, stack: str | None) -> Usual:
        """Return how often the settings occur that are left open, on a stack if one is named."""
        if stack not in self._usual_by_stack:
            runs = [one.learned for one in self.observations if one.question.stack == stack]
            self._usual_by_stack[stack] = self.usual.on_stack(runs) if stack else self.usual
        return self._usual_by_stack[stack]

    @cached_property
    def _usual_by_stack(self) -> dict[str | None, Usual]:
        return {}


def calibrate(observations: Iterable[ObservedRun]) -> Calibration:
    """Return the calibration on these observations. Takes a minute for some thousands of them."""
    given = [one for one in observations if one.purpose == PURPOSES[0]]
    usual = count_usual(given)
    seen = tuple(settle(given, usual))
    memory = calibrate_rows(thin(memory_rows(seen)), MEMORY)
    held = hold_out_open(seen, memory.fit)
    open_reach = {group: _rounded(open_quantile(held, group)) for group in GROUPS}
    named = hold_out_named(seen, memory.fit, usual)
    named_reach = {
        f"named {near}": {stack: _rounded(by) for stack, by in named_reaches(named, near).items()}
        for near in NEARNESS[:-1]
    }
    time = calibrate_rows(thin(time_rows(seen)), TIME, NEARNESS[:-1])
    timed = hold_out_times(seen, time.fit)
    unknown = {"source": {name: _rounded(reach_of_times(timed, name)) for name in ("", UNTOLD)}}
    return Calibration(
        observations=seen,
        memory=replace(memory, reach={**memory.reach, "open": open_reach, **named_reach}),
        time=replace(time, reach={**time.reach, **unknown}),
        usual=usual,
    )


def hold_out_times(observations: Iterable[ObservedRun], fitted: Fit) -> list[HeldOut]:
    """Return what is answered to all timed runs as their sources state them, each held out.

    No source needs to be left out of the fit: what is asked of no stack learns from none. Cards
    whose speed is not known are not answered.
    """
    timed = [(one, one.asked) for one in observations if one.measured_time and one.asked]
    answered = [(one, asked) for one, asked in timed if has_known_speed(asked)]
    rows = [time_row(asked, one.observation_id) for one, asked in answered]
    means, deviations = fitted.predict_many(rows)
    return [
        HeldOut(
            replace(row, value=one.seconds or 0.0, groups={**row.groups, "stack": one.source_id}),
            float(mean), float(deviation), "source", one.source_id,
        )
        for (one, _), row, mean, deviation in zip(answered, rows, means, deviations, strict=True)
    ]  # fmt: skip


def reach_of_times(held: Sequence[HeldOut], spread: str, besides: object = None) -> float:
    """Return how many deviations the interval of a time reaches that is asked of no stack.

    ``spread`` is `UNTOLD` where nothing says how long samples are, else "". So many that 90 % of
    all rows lie inside, each source counting the same; ``besides`` as in `open_quantile`, whose
    second condition would make times say nothing: one source in ten is off by ten times.
    """
    others = [one for one in held if one.fold != besides]
    alike = [one for one in others if one.spread == spread]
    enough = len({one.fold for one in alike}) >= _SOURCES
    return equal_quantile([(one.score, one.fold) for one in (alike if enough else others)])


@dataclass(frozen=True)
class HeldOpen:
    """What was answered to a question as a source states it, by a fit without that source."""

    seen: ObservedRun
    meanings: OpenMixture
    group: str

    @property
    def plain(self) -> Interval:
        """The answer, before it is widened."""
        return self.meanings.plain

    @property
    def score(self) -> float:
        """How far the figure lies outside of the plain interval, in logarithms; below 0 inside."""
        return self.plain.beyond(self.seen.peak_bytes or math.inf)


def hold_out_open(
    observations: Sequence[ObservedRun], fitted: Fit, sources: Iterable[str] | None = None
) -> list[HeldOpen]:
    """Return the answers to all measured runs as their sources state them, each source held out.

    Nothing is known of the source then: not its settings, not what it calls usual. ``sources``
    names those that are wanted; all, if left out.
    """
    measured = dict.fromkeys(one.source_id for one in observations if one.measured_memory)
    wanted = list(sources or measured)
    found = []
    for source in track(wanted, "holding out each source", len(wanted)):
        others = [one for one in observations if one.source_id != source]
        # its rows stay in the fit: they say nothing of other stacks, and no other one is asked
        learned = Learned(fitted, count_usual(others), collect_stacks(others))
        for one in observations:
            if one.source_id == source and one.measured_memory and one.asked is not None:
                mixed = mix(one.asked, learned, one.memory_kind)
                found.append(HeldOpen(one, mixed, group_of(one.asked)))
    return found


def open_quantile(held: Sequence[HeldOpen], group: str, besides: str | None = None) -> float:
    """Return by how much the intervals of a group's questions are moved apart.

    By so much that 90 % of all rows lie inside, each source counting the same, and farther by what
    it takes that at least three quarters of the rows do in nine sources of ten, all groups
    together: of one group alone there are too few sources. Never nearer than the middle of the
    mixture: that the few rows of a calibration of one's own lie inside of that says little.
    ``besides`` is a source whose own scores do not count: it is judged by the others'. Where few
    sources have the group, all scores count.
    """
    others = [one for one in held if one.seen.source_id != besides]
    inside = {name: _group_quantile(others, name) for name in GROUPS}
    beyond = [(one.score - inside[one.group], one.seen.source_id) for one in others]
    return max(inside[group] + max(source_quantile(beyond), 0.0), 0.0)


#: Sources from which on a group is judged alone.
_SOURCES = 4


def _group_quantile(held: Sequence[HeldOpen], group: str) -> float:
    alike = [one for one in held if one.group == group]
    enough = len({one.seen.source_id for one in alike}) >= _SOURCES
    return equal_quantile([(one.score, one.seen.source_id) for one in (alike if enough else held)])


#: Rows of one series and nearly one size are one row to learn from: sizes and formulas this near.
_NEAR_SIZE, _NEAR_FORMULA = 0.2, 0.03


def thin(rows: Sequence[FitRow]) -> list[FitRow]:
    """Return rows to learn from, of those that are nearly alike only the one in the middle.

    Repeats and near repeats of one series say little new, and a fit costs the cube of its rows.
    """
    alike: dict[tuple[Any, ...], list[FitRow]] = {}
    for row in rows:
        size = round(math.log(row.size) / _NEAR_SIZE)
        formula = round(math.log(row.formula) / _NEAR_FORMULA)
        groups = tuple(sorted((level, repr(group)) for level, group in row.groups.items()))
        alike.setdefault((groups, size, formula, row.censored), []).append(row)
    middle = (sorted(near, key=lambda row: row.value) for near in alike.values())
    return [near[len(near) // 2] for near in middle]
