"""Compare two measurements of the same thing, with the noise of their samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from registry.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Bootstrap resamples: the ends of a 95 % interval then move by well under 1 % of its width.
_RESAMPLES = 9_999

#: Samples of each side below which an interval would be made of air.
_FEWEST_SAMPLES = 3

#: Metrics that say how long a step of the same configuration takes, the finest first, and whether
#: a larger figure is worse.
_METRICS = (
    ("step_time", True),
    ("train_time", True),
    ("total_time", True),
    ("samples_per_second", False),
    ("tokens_per_second", False),
)


@dataclass(frozen=True)
class Ratio:
    """How many times ``b`` is ``a``.

    Attributes:
        value: Ratio b / a of the medians (or of the two figures).
        low: Lower end of the confidence interval; None where there are no samples.
        high: Upper end of it.
        confidence: Confidence of the interval, such as 0.95.
        n_a: Samples of a.
        n_b: Samples of b.
        metric: What was compared.
        note: Why there is no interval, where there is none.
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
        """Return whether b is worse than a by more than ``factor``, noise taken into account.

        With an interval, its lower end must lie above the factor; without one, the ratio itself.
        """
        return (self.value if self.low is None else self.low) > factor


def compare(
    samples_a: Sequence[float],
    samples_b: Sequence[float],
    *,
    confidence: float = 0.95,
    seed: int = 0,
) -> Ratio:
    """Return the ratio of the medians b / a with a bootstrap confidence interval.

    Percentile bootstrap with independent resampling of both sides (Efron and Tibshirani, An
    Introduction to the Bootstrap, 1993, chapter 13). The samples are steps of one run each: the
    interval holds the noise between steps, not the noise between runs.

    Raises SourceError where a side has no sample, or one that is not positive.
    """
    import numpy as np  # noqa: PLC0415 - heavy, and only needed here

    _check_samples(samples_a, "a")
    _check_samples(samples_b, "b")
    a, b = np.asarray(samples_a, dtype=float), np.asarray(samples_b, dtype=float)
    value = float(np.median(b) / np.median(a))
    n_a, n_b = len(a), len(b)
    if min(n_a, n_b) < _FEWEST_SAMPLES:
        note = f"fewer than {_FEWEST_SAMPLES} samples on a side: no interval"
        return Ratio(value, n_a=n_a, n_b=n_b, note=note)
    generator = np.random.default_rng(seed)
    ratios = _medians(generator, b) / _medians(generator, a)
    tail = (1 - confidence) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail])
    return Ratio(value, float(low), float(high), confidence, n_a, n_b)


def _medians(generator: Any, samples: Any) -> Any:
    """Return the medians of resamples, some at a time so that memory stays small."""
    import numpy as np  # noqa: PLC0415 - heavy, and only needed here

    at_once = max(1_000_000 // len(samples), 1)
    medians = []
    for start in range(0, _RESAMPLES, at_once):
        shape = (min(at_once, _RESAMPLES - start), len(samples))
        medians.append(np.median(samples[generator.integers(0, len(samples), shape)], axis=1))
    return np.concatenate(medians)


def _check_samples(samples: Sequence[float], name: str) -> None:
    if not len(samples) or not all(sample > 0 for sample in samples):
        raise SourceError(f"samples of {name}: found {len(samples)}; expected positive seconds")


def compare_observations(
    a: Mapping[str, Any], b: Mapping[str, Any], *, confidence: float = 0.95
) -> Ratio:
    """Return how many times slower ``b`` is than ``a`` (two observations of submissions).

    From the steps' seconds where both have samples outside the warm-up; else from the finest figure
    that both have, without an interval. Raises SourceError where they share no figure.
    """
    seconds_a, seconds_b = measured_seconds(a), measured_seconds(b)
    if seconds_a and seconds_b:
        ratio = compare(seconds_a, seconds_b, confidence=confidence)
        return replace(ratio, metric="step_time")
    for metric, more_is_slower in _METRICS:
        figure_a, figure_b = find_figure(a, metric), find_figure(b, metric)
        if figure_a and figure_b:
            value = figure_b / figure_a if more_is_slower else figure_a / figure_b
            note = "only totals are recorded: no interval"
            return Ratio(value, metric=metric, note=note)
    raise SourceError(
        "the two observations share no time and no rate; expected one of "
        + ", ".join(metric for metric, _ in _METRICS)
    )


def compare_memory(a: Mapping[str, Any], b: Mapping[str, Any]) -> Ratio | None:
    """Return how many times the peak memory of ``a`` that of ``b`` is; None where kinds differ."""
    for kind in ("allocated", "reserved", "device", "unknown", "host_rss"):
        figure_a = find_figure(a, "peak_memory", kind=kind)
        figure_b = find_figure(b, "peak_memory", kind=kind)
        if figure_a and figure_b:
            return Ratio(
                figure_b / figure_a, metric=f"peak_memory ({kind})", note="one figure each"
            )
    return None


def measured_seconds(observation: Mapping[str, Any]) -> list[float]:
    """Return the seconds of an observation's steps, the warm-up left out."""
    return [
        row["seconds"]
        for row in observation.get("samples", ())
        if not row.get("warmup") and row.get("seconds")
    ]


def find_figure(
    observation: Mapping[str, Any], metric: str, *, kind: str | None = None
) -> float | None:
    """Return an observation's total figure of a metric: the single one, the median, or the mean."""
    figures = {
        row.get("statistic", "value"): row["value"]
        for row in observation.get("measurements", ())
        if row["metric"] == metric
        and row.get("scope", "total") == "total"
        and row.get("kind") == kind
    }
    wanted: Iterable[str] = ("value", "median", "mean", "max")
    return next((float(figures[name]) for name in wanted if name in figures), None)
