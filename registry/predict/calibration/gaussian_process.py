"""Formulas corrected by what was measured nearby: a Gaussian process over physical terms.

A figure (a peak, a time) is the sum of a formula's terms. Each term may be off by a factor, of
which all stacks share a part and the rest is a stack's own; on top, a stack, a stack's method, a
model and a series of one stack and model may be off together. All of it is Gaussian, so what the
measured rows say about a new one is linear algebra (kriging; Rasmussen and Williams 2006,
chapter 2): next to a measured row the answer is that row plus the formula's difference, far from
all it is the formula, and in between it is both, weighed.

Figures that are far off are believed less (a Student-like weight), and runs out of memory enter as
figures above what the card has (censored data).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from registry.predict.calibration.fit_rows import FitRow, Prior

    Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Terms:
    """What the formulas say of rows, as arrays: whatever groups these are in."""

    rows: tuple[FitRow, ...]
    #: Column of each term's name.
    places: Mapping[str, int]

    @cached_property
    def doubts(self) -> Floats:
        """Deviation of each term: rows x names. Terms that nothing was learned of are left out."""
        found = np.zeros((len(self.rows), len(self.places)))
        for i, row in enumerate(self.rows):
            for term in row.terms:
                if term.name in self.places:
                    found[i, self.places[term.name]] += term.value * term.doubt
        return found

    @cached_property
    def variances(self) -> Floats:
        """Variance of the sum of the terms, each off by itself."""
        return np.array([sum((t.value * t.doubt) ** 2 for t in row.terms) for row in self.rows])

    @cached_property
    def stays(self) -> Floats:
        """Sum of the terms that do not grow with the tokens."""
        return self.formula - self.grows

    @cached_property
    def grows(self) -> Floats:
        """Sum of the terms that grow with the tokens."""
        return np.array([sum(t.value for t in row.terms if t.transient) for row in self.rows])

    @cached_property
    def formula(self) -> Floats:
        """What the formula says."""
        return np.array([row.formula for row in self.rows])

    @cached_property
    def log_sizes(self) -> Floats:
        """Logarithms of the tokens."""
        return np.log([row.size for row in self.rows])


@dataclass(frozen=True)
class Design:
    """Rows as arrays: their terms, and their groups as numbers."""

    terms: Terms
    #: What each row shares with others, by level.
    groups: tuple[Mapping[str, Hashable], ...]
    #: Number of each group, by level.
    codes: Mapping[str, Mapping[Hashable, int]]

    @classmethod
    def of(cls, rows: Sequence[FitRow]) -> Design:
        """Return the design of rows to learn from."""
        names = dict.fromkeys(term.name for row in rows for term in row.terms)
        codes: dict[str, dict[Hashable, int]] = {}
        for row in rows:
            for level, group in row.groups.items():
                known = codes.setdefault(level, {})
                known.setdefault(group, len(known))
        places = {name: i for i, name in enumerate(names)}
        return cls(Terms(tuple(rows), places), tuple(row.groups for row in rows), codes)

    def like(self, rows: Sequence[FitRow]) -> Design:
        """Return the design of other rows with the same columns and numbers."""
        terms = Terms(tuple(rows), self.terms.places)
        return Design(terms, tuple(row.groups for row in rows), self.codes)

    def in_groups(self, groups: Sequence[Mapping[str, Hashable]]) -> Design:
        """Return the design of the same rows in other groups."""
        return Design(self.terms, tuple(groups), self.codes)

    @property
    def rows(self) -> tuple[FitRow, ...]:
        """The rows, with the groups that they had at first."""
        return self.terms.rows

    @cached_property
    def numbers(self) -> dict[str, Floats]:
        """Each row's group as a number, by level; -1 for none or one never met."""
        found = {}
        for level, known in self.codes.items():
            groups = [row.get(level) for row in self.groups]
            numbers = [-1 if group is None else known.get(group, -1) for group in groups]
            found[level] = np.array(numbers, dtype=float)
        return found


def covariance(left: Design, right: Design, prior: Prior) -> Floats:
    """Return how the errors of the formula move together, row by row."""
    one, other = left.terms, right.terms
    found: Floats = one.doubts @ other.doubts.T
    same = {level: _same(left, right, level) for level in {"stack", "series", *prior.levels}}
    found *= prior.shared + (1 - prior.shared) * same["stack"]
    stays = np.outer(one.stays, other.stays)
    grows = np.outer(one.grows, other.grows)
    for level, spread in prior.levels.items():
        found += same[level] * (spread.stays**2 * stays + spread.grows**2 * grows)
    apart = np.subtract.outer(one.log_sizes, other.log_sizes) / math.log(prior.reach)
    near = same["series"] * np.exp(-0.5 * apart**2)
    return found + near * (prior.local.stays**2 * stays + prior.local.grows**2 * grows)


def _same(left: Design, right: Design, level: str) -> Floats:
    """Return 1 where two rows share a group of this level."""
    if level not in right.codes:
        return np.zeros((len(left.rows), len(right.rows)))
    a, b = left.numbers[level][:, None], right.numbers[level][None, :]
    found: Floats = (a == b) & (a >= 0)
    return found


def variances(terms: Terms, prior: Prior) -> Floats:
    """Return the variance of each row for itself: the diagonal of `covariance`, and noise."""
    found = terms.variances + prior.noise**2 * terms.formula**2
    for spread in (*prior.levels.values(), prior.local):
        found += (spread.stays * terms.stays) ** 2 + (spread.grows * terms.grows) ** 2
    return found


@dataclass(frozen=True)
class Fit:
    """A fit of rows: enough to predict any other row."""

    design: Design
    prior: Prior
    #: Measured figures; for runs out of memory, what they are expected to have needed.
    values: Floats
    #: Inverse of the Cholesky factor of the covariance: makes correlated errors independent.
    whitening: Floats
    #: The inverse covariance times what the formula was off by.
    weights: Floats
    #: What the noise of each row is multiplied by, because it is far off or censored.
    noise_factors: Floats

    @property
    def rows(self) -> tuple[FitRow, ...]:
        """The rows that it learned from."""
        return self.design.rows

    def predict(self, row: FitRow) -> tuple[float, float]:
        """Return what to expect of a row and its standard deviation, in the rows' unit."""
        means, deviations = self.predict_many([row])
        return float(means[0]), float(deviations[0])

    def predict_many(self, rows: Sequence[FitRow]) -> tuple[Floats, Floats]:
        """Return what to expect of rows and the standard deviations, in the rows' unit."""
        means, deviations = np.zeros((2, len(rows)))
        for stack, places in _list_islands(rows, self.prior).items():
            asked = self.design.like([rows[i] for i in places])
            means[places], deviations[places] = self._predict_island(stack, asked)
        return means, deviations

    def predict_on(self, stack: str | None, asked: Design) -> tuple[Floats, Floats]:
        """Return what to expect of rows that are all on one stack, and the standard deviations."""
        return self._predict_island(stack if self.prior.parts_stacks else _ONE_ISLAND, asked)

    def _predict_island(self, stack: Hashable, asked: Design) -> tuple[Floats, Floats]:
        known = self._islands.get(stack) or self._part([])  # nobody measured it: no rows
        return known.predict_cross(asked.terms, covariance(asked, known.design, self.prior))

    @cached_property
    def _islands(self) -> dict[Hashable, Fit]:
        """The fit of the rows that know of each other alone: what they say is what all say."""
        islands = _list_islands(self.rows, self.prior)
        return {stack: self._part(places) for stack, places in islands.items()}

    def _part(self, places: list[int]) -> Fit:
        """Return the fit of some of the rows, which know nothing of the others."""
        design = self.design.like([self.rows[i] for i in places])
        of = np.array(places, dtype=np.intp)
        judged = self.values[of], self.whitening[np.ix_(of, of)], self.weights[of]
        return Fit(design, self.prior, *judged, self.noise_factors[of])

    def predict_cross(self, terms: Terms, cross: Floats) -> tuple[Floats, Floats]:
        """Return means and deviations, given the rows' covariances with those of the fit."""
        explained = np.sum((cross @ self.whitening.T) ** 2, axis=1)
        least = (self.prior.noise * terms.formula) ** 2
        deviation = np.sqrt(np.maximum(variances(terms, self.prior) - explained, least))
        return np.maximum(terms.formula + cross @ self.weights, 0.05 * terms.formula), deviation

    def shares(self, row: FitRow) -> list[tuple[str, float]]:
        """Return the rows the answer rests on, and the share of each, the largest first."""
        cross = covariance(self.design.like([row]), self.design, self.prior)
        pull = (cross @ self.whitening.T @ self.whitening)[0]
        return [(self.rows[i].key, float(pull[i])) for i in np.argsort(-np.abs(pull))]

    def left_out(self) -> tuple[Floats, Floats]:
        """Return what each row would be expected to be from all others, and the deviation.

        Formula: Rasmussen and Williams 2006, equation 5.12. The deviation is that of a plain row:
        the factor on the noise of a far-off row is taken out again.
        """
        diagonal = _inverse_diagonal(self.whitening)
        noise = (self.prior.noise * self.design.terms.formula) ** 2
        variance = 1 / diagonal - noise * (self.noise_factors - 1)
        return self.values - self.weights / diagonal, np.sqrt(np.maximum(variance, noise))


#: Standardized residual from which on a figure is believed less.
OUTLYING = 2.5


@dataclass(frozen=True)
class Start:
    """What another fit of the same rows gave, to start from."""

    noise_factors: Floats
    #: Figures in place of the rows' own, for runs out of memory.
    values: Floats | None = None


def fit(
    rows: Sequence[FitRow],
    prior: Prior,
    *,
    kernel: Floats | None = None,
    start: Start | None = None,
    rounds: int = 6,
) -> Fit:
    """Return the fit of rows. It costs the cube of the number that may know of each other.

    ``kernel`` is their `covariance`, if it is known already. With no rounds, what ``start`` says of
    far-off and censored rows stays.
    """
    design = Design.of(rows)
    islands = [*_list_islands(rows, prior).values()]
    if kernel is None:
        kernel = np.zeros((len(rows), len(rows)))
        for places in islands:
            part = design.like([rows[i] for i in places])
            kernel[np.ix_(places, places)] = covariance(part, part, prior)
    figures = _WeighedFigures.of(design, prior, start)
    for _ in range(rounds):
        figures = figures.revised(_whitening(kernel, figures, islands))
    whitening = _whitening(kernel, figures, islands)
    weights: Floats = whitening.T @ (whitening @ (figures.values - design.terms.formula))
    return Fit(design, prior, figures.values, whitening, weights, figures.noise_factors)


#: In place of a stack, where rows of all stacks may know of each other.
_ONE_ISLAND = ""


def _list_islands(rows: Sequence[FitRow], prior: Prior) -> dict[Hashable, list[int]]:
    """Return the places of rows that may know of each other: those of a stack, or all."""
    if not prior.parts_stacks:
        return {_ONE_ISLAND: [*range(len(rows))]}
    found: dict[Hashable, list[int]] = {}
    for i, row in enumerate(rows):
        found.setdefault(row.groups["stack"], []).append(i)
    return found


def _whitening(
    kernel: Floats, figures: _WeighedFigures, islands: Iterable[Sequence[int]]
) -> Floats:
    """Return the inverse of the Cholesky factor of the covariance of the figures.

    The covariance is positive definite, as every figure has noise of its own (Rasmussen and
    Williams 2006, algorithm 2.1).
    """
    found = np.zeros_like(kernel)
    noise = figures.noise * figures.noise_factors
    for places in islands:
        block = np.ix_(places, places)
        factor = np.linalg.cholesky(kernel[block] + np.diag(noise[places]))
        found[block] = _inverse_of_lower(np.asarray(factor, dtype=np.float64))
    return found


#: A triangle of this many rows is inverted as if it were full: halves of it would cost more.
_SMALL_TRIANGLE = 32


def _inverse_of_lower(factor: Floats) -> Floats:
    """Return the inverse of a lower triangle, block by block.

    numpy solves with full matrices alone, at several times the cost.
    """
    half = len(factor) // 2
    if len(factor) <= _SMALL_TRIANGLE:
        return np.asarray(np.linalg.solve(factor, np.eye(len(factor))), dtype=np.float64)
    found = np.zeros_like(factor)
    found[:half, :half] = upper = _inverse_of_lower(factor[:half, :half])
    found[half:, half:] = lower = _inverse_of_lower(factor[half:, half:])
    found[half:, :half] = -lower @ factor[half:, :half] @ upper
    return found


def _inverse_diagonal(whitening: Floats) -> Floats:
    """Return the diagonal of the inverse covariance."""
    found: Floats = (whitening**2).sum(axis=0)
    return found


@dataclass(frozen=True)
class _WeighedFigures:
    """The figures of rows, with how far each is believed."""

    design: Design
    limits: Floats
    censored: Any
    noise: Floats
    values: Floats
    noise_factors: Floats

    @classmethod
    def of(cls, design: Design, prior: Prior, start: Start | None) -> _WeighedFigures:
        measured = np.array([row.value for row in design.rows])
        censored = np.array([row.censored for row in design.rows], dtype=bool)
        noise = (prior.noise * design.terms.formula) ** 2
        values = measured if start is None or start.values is None else start.values
        factors = np.ones(len(measured)) if start is None else start.noise_factors
        return cls(design, measured, censored, noise, values, factors)

    def revised(self, whitening: Floats) -> _WeighedFigures:
        """Believe far-off figures less, and put figures in the place of limits."""
        own = _inverse_diagonal(whitening)
        off_by = self.values - self.design.terms.formula
        expected = self.values - whitening.T @ (whitening @ off_by) / own
        deviation = np.sqrt(1 / own)
        off = np.abs(self.values - expected) / deviation
        lift = np.where((off > OUTLYING) & ~self.censored, (off / OUTLYING) ** 2, 1.0)
        values = self.values.copy()
        factors = np.asarray(self.noise_factors * lift, dtype=np.float64)
        for i in np.flatnonzero(self.censored):
            spread = max(deviation[i] ** 2 - self.noise[i] * self.noise_factors[i], self.noise[i])
            values[i], believed = _impute(self.limits[i], expected[i], math.sqrt(spread))
            factors[i] = max(believed / self.noise[i], 1.0)
        return replace(self, values=values, noise_factors=factors)


def _impute(limit: float, mean: float, deviation: float) -> tuple[float, float]:
    """Return the figure, and its variance, that says the same as being above a limit does.

    Formula: the mean and variance of the truncated normal, moment-matched by a normal figure
    (expectation propagation). A limit that says nothing new gives a variance so large that the
    figure says nothing either.
    """
    low = (limit - mean) / deviation
    ratio = _hazard(low)
    kept = min(max(1 + low * ratio - ratio * ratio, 1e-3), 1 - 1e-6)
    believed = deviation**2 * kept / (1 - kept)
    return mean + deviation * ratio * (1 + believed / deviation**2), believed


_TINY = 1e-12


def _hazard(low: float) -> float:
    """Return density over upper tail of the standard normal, from its expansion far out."""
    above = 0.5 * math.erfc(low / math.sqrt(2))
    if above < _TINY:
        return low + 1 / low
    return math.exp(-0.5 * low * low) / math.sqrt(2 * math.pi) / above
