"""Compare two sets of runs of the same thing, with the noise between runs.

The unit of noise is the run: the steps of one run share its placement, its clock and its
neighbours, so that their scatter says nothing of how another run would have come out. Runs that
follow each other share the machine's load as well; where the sides took turns, the round is the
unit.
"""

from __future__ import annotations

import math
import statistics
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from registry.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Figure = Callable[[Mapping[str, Any]], float | None]

#: Confidence of all intervals.
CONFIDENCE = 0.95

#: Metrics that say how long a step of the same configuration takes, the finest first, and whether
#: a larger figure is worse.
_METRICS = (
    ("step_time", True),
    ("train_time", True),
    ("total_time", True),
    ("samples_per_second", False),
    ("tokens_per_second", False),
)

_KINDS = ("allocated", "reserved", "device", "unknown", "host_rss")

#: Statistics that a run's figure may be, the one that is taken first in front.
_STATISTICS = ("value", "median", "mean", "max")

#: Statistics that can be held against each other: those of one name.
_ALIKE = tuple((name,) for name in _STATISTICS)

#: For a peak, a single figure as well: it is a maximum, and only some say so, as the recorder does.
_ALIKE_IN_PEAKS = (*_ALIKE, ("value", "max"))

#: Largest logarithm of a ratio, either way: beyond, it might be no number.
_REACH = 700.0

#: Ratios from here on are written in powers of ten.
_LONG = 1e6

#: Cells by which the density of Student's t is integrated, and the step, in parts of its width,
#: at which its quantile is found: quantiles to six digits and more.
_CELLS = 64
_EXACT = 1e-10

#: Runs of which no deviation can be told.
_TOO_FEW = 2


@dataclass(frozen=True)
class Noise:
    """Deviation of the logarithm of a run's figure from run to run, and its degrees of freedom."""

    deviation: float
    degrees: int


@dataclass(frozen=True)
class Ratio:
    """How many times ``b`` is ``a``.

    Attributes:
        value: Ratio b / a of the geometric means of the runs.
        low: Lower end of the confidence interval; None where no noise is known.
        high: Upper end of it.
        confidence: Confidence of the interval, such as 0.95.
        n_a: Runs of a.
        n_b: Runs of b.
        metric: What was compared.
        note: Where the noise is from, or why there is no interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    n_a: int = 0
    n_b: int = 0
    metric: str | None = None
    note: str | None = None

    def exceeds(self, factor: float) -> bool:
        """Return whether b is worse than a by more than ``factor``, and not by noise.

        With an interval, that must lie above 1 as well.
        """
        return self.value > factor and (self.low is None or self.low > 1)

    def stays_within(self, factor: float) -> bool:
        """Return whether even the upper end of the interval is no more than ``factor``."""
        return self.high is not None and self.high <= factor


def format_times(ratio: float) -> str:
    """Return a ratio, or an end of its interval, as people read it.

    >>> format_times(1.23456), format_times(1e300)
    ('1.235', '1e+300')
    """
    return f"{ratio:.3f}" if ratio < _LONG else f"{ratio:.3g}"


def compare(
    a: Sequence[float], b: Sequence[float], *, floor: Noise | None = None, metric: str | None = None
) -> Ratio:
    """Return the ratio b / a of the runs' figures with its confidence interval.

    Welch's t interval on the logarithms (Welch 1947, Biometrika 34), where each side has two runs
    at least; else with the noise ``floor``, if there is one. Raises SourceError where a side has
    no figure, or one that is not positive.
    """
    logs_a, logs_b = _logarithms(a, "a"), _logarithms(b, "b")
    difference = statistics.fmean(logs_b) - statistics.fmean(logs_a)
    n_a, n_b = len(logs_a), len(logs_b)
    named = {"n_a": n_a, "n_b": n_b, "metric": metric}
    if min(n_a, n_b) >= _TOO_FEW:
        error, degrees = _welch(logs_a, logs_b)
        note = None
    elif floor is not None:
        error, degrees = floor.deviation * math.sqrt(1 / n_a + 1 / n_b), float(floor.degrees)
        note = "one run on a side: the noise is taken from repeats of other runs"
    else:
        note = "one run on a side: no interval; repeat the runs to get one"
        return Ratio(_exponential(difference), note=note, **named)  # type: ignore[arg-type] # fields of Ratio
    ends = _interval(difference, error, degrees)
    return Ratio(_exponential(difference), *ends, CONFIDENCE, note=note, **named)  # type: ignore[arg-type] # fields of Ratio


def compare_rounds(
    rounds: Sequence[tuple[Sequence[float], Sequence[float]]], *, metric: str | None = None
) -> Ratio:
    """Return the ratio b / a of sides that took turns, with its confidence interval.

    ``rounds`` has the figures of a and of b, round by round. A round is one observation: whatever
    the machine did then, both sides met. Student's t interval on the logarithms of the rounds'
    ratios, from two rounds on. Raises SourceError as ``compare`` does.
    """
    logs = [
        statistics.fmean(_logarithms(b, "b")) - statistics.fmean(_logarithms(a, "a"))
        for a, b in rounds
    ]
    difference, n_rounds = statistics.fmean(logs), len(logs)
    n_a, n_b = (sum(len(each[side]) for each in rounds) for side in (0, 1))
    if n_rounds < _TOO_FEW:
        note = "one round: no interval; run more rounds to get one"
        return Ratio(_exponential(difference), n_a=n_a, n_b=n_b, metric=metric, note=note)
    error = statistics.stdev(logs) / math.sqrt(n_rounds)
    ends = _interval(difference, error, n_rounds - 1)
    note = f"{n_rounds} alternating rounds"
    return Ratio(
        _exponential(difference), *ends, CONFIDENCE, n_a=n_a, n_b=n_b, metric=metric, note=note
    )


def _interval(difference: float, error: float, degrees: float) -> tuple[float, float]:
    """Return the ends of the interval of a ratio from the difference of logarithms."""
    reach = t_quantile(0.5 + CONFIDENCE / 2, degrees) * error if error else 0.0
    return _exponential(difference - reach), _exponential(difference + reach)


def _exponential(difference: float) -> float:
    """Return the ratio of a difference of logarithms: always a positive, finite number."""
    return math.exp(max(-_REACH, min(_REACH, difference)))


def _logarithms(figures: Sequence[float], name: str) -> list[float]:
    if not len(figures) or not all(figure > 0 for figure in figures):
        raise SourceError(f"runs of {name}: found {len(figures)}; expected positive figures")
    return [math.log(figure) for figure in figures]


def _welch(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Return the standard error of a difference of means and Welch's degrees of freedom."""
    parts = [(statistics.variance(side) / len(side), len(side) - 1) for side in (a, b)]
    squared = sum(part for part, _ in parts)
    if not squared:
        return 0.0, 1.0
    return math.sqrt(squared), squared**2 / sum(part**2 / n for part, n in parts)


def t_quantile(share: float, degrees: float) -> float:
    """Return a quantile of Student's t distribution, by Newton's method.

    With x = sqrt(n) tan(u) the density is cos(u) ** (n - 1) over an angle. Its integral from 0 is
    concave, so that no step goes too far.

    >>> round(t_quantile(0.975, 14), 3)
    2.145
    """
    whole = math.sqrt(math.pi) * math.exp(math.lgamma(degrees / 2) - math.lgamma(degrees / 2 + 0.5))
    wanted = abs(share - 0.5) * whole
    angle, step = 0.0, math.inf
    while step > _EXACT / math.sqrt(degrees):
        step = (wanted - _integral(angle, degrees)) / math.cos(angle) ** (degrees - 1)
        angle += step
    return math.copysign(math.sqrt(degrees) * math.tan(angle), share - 0.5)


def _integral(end: float, degrees: float) -> float:
    """Return the integral of the density from 0 to an angle, by Simpson's rule."""
    values = [math.pow(math.cos(end * i / _CELLS), degrees - 1) for i in range(_CELLS + 1)]
    weighed = 4 * sum(values[1::2]) + 2 * sum(values[2:-1:2]) + values[0] + values[-1]
    return end / _CELLS / 3 * weighed


def pool_noise(groups: Iterable[Sequence[float]]) -> Noise | None:
    """Return the noise between repeats, pooled over groups of them; None without any repeat."""
    squares, degrees = 0.0, 0
    for figures in groups:
        if len(figures) >= _TOO_FEW:
            logs = [math.log(figure) for figure in figures]
            squares += statistics.variance(logs) * (len(logs) - 1)
            degrees += len(logs) - 1
    return Noise(math.sqrt(squares / degrees), degrees) if degrees else None


def choose_time(runs: Iterable[Mapping[str, Any]]) -> tuple[str, Figure] | None:
    """Return the finest metric of time that all runs have, and how to read seconds of it.

    All have the same statistic of it. Where they have not, a rate that was computed from it in all
    of them does not count either.
    """
    runs = list(runs)
    if all(measured_seconds(run) for run in runs):
        return "step_time", lambda run: statistics.median(measured_seconds(run))
    is_mixed = False
    for metric, more_is_slower in _METRICS:
        read = choose_reader(runs, metric)
        if read and not (is_mixed and all(_is_derived(run, metric) for run in runs)):
            return metric, read if more_is_slower else _invert(read)
        is_mixed = is_mixed or all(find_figure(run, metric) for run in runs)
    return None


def _is_derived(run: Mapping[str, Any], metric: str) -> bool:
    return all(
        row.get("origin") == "derived"
        for row in run.get("measurements", ())
        if row["metric"] == metric and row.get("scope", "total") == "total"
    )


def _invert(read: Figure) -> Figure:
    def invert(run: Mapping[str, Any]) -> float | None:
        rate = read(run)
        return min(1 / rate, sys.float_info.max) if rate else rate

    return invert


def choose_memory(runs: Iterable[Mapping[str, Any]]) -> tuple[str, Figure] | None:
    """Return the kind of peak memory that all runs have, and how to read it.

    All have the same statistic of it; a single figure of a peak is a maximum.
    """
    runs = list(runs)
    for kind in _KINDS:
        read = choose_reader(runs, "peak_memory", kind=kind, alike=_ALIKE_IN_PEAKS)
        if read:
            return f"peak_memory ({kind})", read
    return None


def choose_reader(
    runs: Sequence[Mapping[str, Any]],
    metric: str,
    *,
    kind: str | None = None,
    alike: Iterable[tuple[str, ...]] = _ALIKE,
) -> Figure | None:
    """Return how to read figures of a metric that are of one statistic; None where runs have none.

    Those of ``alike`` are of one: the first of which all runs have a figure other than 0 are taken.
    """
    for names in alike:
        read = partial(find_figure, metric=metric, kind=kind, wanted=names)
        if all(map(read, runs)):
            return read
    return None


def measured_seconds(observation: Mapping[str, Any]) -> list[float]:
    """Return the seconds of an observation's steps, the warm-up left out."""
    return [
        row["seconds"]
        for row in observation.get("samples", ())
        if not row.get("warmup") and row.get("seconds")
    ]


def find_figure(
    observation: Mapping[str, Any],
    metric: str,
    *,
    kind: str | None = None,
    wanted: Iterable[str] = _STATISTICS,
) -> float | None:
    """Return an observation's total figure of a metric: of the first statistic that it has.

    These are the single figure, the median, the mean and the largest, unless others are wanted.
    """
    figures = {
        row.get("statistic", "value"): row["value"]
        for row in observation.get("measurements", ())
        if row["metric"] == metric
        and row.get("scope", "total") == "total"
        and row.get("kind") == kind
    }
    return next((float(figures[name]) for name in wanted if name in figures), None)
