"""Times and rates of a run from its totals, in the terms of Hugging Face's Trainer.

``train_runtime`` runs from the first to the last step, evaluation and checkpoints included. The
rates beside it are rounded to three decimals, and early versions wrote steps per second under the
name of samples per second: what follows from totals is computed from them, and the text as written
stays beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.shapes import number_of
from registry.units.number import rounding_half_width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.shared.draft import Draft

#: Half of the last decimal that the Trainer writes of a rate into its JSON files.
HALF_RATE: Final = 0.0005

#: Half of the last decimal that the Trainer writes of the runtime into its JSON files.
_HALF_SECONDS: Final = 0.00005

#: Below this a rate with three decimals has fewer than three significant digits.
_COARSE: Final = 0.1

#: Half of the last decimal that many versions write of an epoch.
_HALF_EPOCH: Final = 0.005

#: Below, the two decimals in which many versions write an epoch say too little.
_FEWEST_EPOCHS: Final = 0.5

#: How far a rate may lie from the totals, beyond its own rounding, before it disagrees.
_TOLERANCE: Final = 0.005


@dataclass(frozen=True)
class Evaluations:
    """Evaluations inside the run: how many, and their seconds together."""

    count: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Totals:
    """The run as a whole: seconds, optimizer steps, and samples where they are stated."""

    seconds: float
    n_steps: int | None
    n_samples: float | None


def half_width(written: Any) -> float:
    """Return half of the last decimal of a figure: that of the text, or the Trainer's own.

    >>> half_width("26.2"), half_width("1.235e+04")
    (0.05, 5.0)
    """
    return float(rounding_half_width(written)) if isinstance(written, str) else HALF_RATE


def sum_evaluations(entries: Sequence[Mapping[str, Any]]) -> Evaluations:
    """Return the evaluations among log entries that precede the entry with the totals."""
    seconds = []
    for entry in entries:
        if is_total(entry):
            break
        value = number_of(entry.get("eval_runtime"))
        if value is not None:
            seconds.append(value)
    return Evaluations(len(seconds), float(sum(seconds)))


def is_total(entry: Mapping[str, Any]) -> bool:
    """Return whether a log entry holds the totals; recent versions log a runtime at each step."""
    return "train_runtime" in entry and "train_loss" in entry


def state_epochs(draft: Draft, metrics: Mapping[str, Any]) -> None:
    """State the epochs that totals write, where neither epochs nor steps are stated."""
    epochs = number_of(metrics.get("epoch"))
    if "n_steps" not in draft.configuration and epochs and epochs >= _FEWEST_EPOCHS:
        draft.state("n_epochs", float(epochs), "epoch of the totals")


def measure_totals(
    draft: Draft, metrics: Mapping[str, Any], n_steps: int | None, evaluations: Evaluations
) -> None:
    """Add the times, rates and losses that the totals of a run give."""
    seconds = number_of(metrics.get("train_runtime"))
    if seconds:
        totals = Totals(float(seconds), n_steps, _n_samples(draft, metrics))
        _measure_seconds(draft, metrics["train_runtime"], float(seconds))
        _measure_evaluations(draft, totals, evaluations)
        _measure_step_time(draft, totals, evaluations)
        _measure_rates(draft, metrics, totals)
    if n_steps:
        draft.measure("n_steps", n_steps)
    tokens = number_of(metrics.get("num_input_tokens_seen"))
    if tokens:
        draft.measure("n_tokens", tokens)
    draft.measure("train_loss", metrics.get("train_loss"))
    draft.measure("eval_loss", metrics.get("eval_loss"))
    flops = number_of(metrics.get("total_flos"))
    if flops:
        draft.provenance["total_flos"] = flops


def _measure_seconds(draft: Draft, written: Any, seconds: float) -> None:
    half = half_width(written) if isinstance(written, str) else _HALF_SECONDS
    draft.measure(
        "total_time",
        seconds,
        low=max(0.0, seconds - half),
        high=seconds + half,
        raw=str(written),
        unit_reported="s",
    )


def _n_samples(draft: Draft, metrics: Mapping[str, Any]) -> float | None:
    samples, epochs = number_of(metrics.get("train_samples")), number_of(metrics.get("epoch"))
    if not samples:
        return None
    draft.state("n_samples", int(samples))
    if not epochs or _is_coarse(float(epochs)):
        return None
    return samples * epochs


def _is_coarse(epochs: float) -> bool:
    """Return whether an epoch of two decimals may be further off than a rate from its totals."""
    return round(epochs, 2) == epochs and _TOLERANCE * epochs < _HALF_EPOCH


def _measure_evaluations(draft: Draft, totals: Totals, evaluations: Evaluations) -> None:
    if not evaluations.count:
        return
    draft.flags.add("includes_evaluation")
    reason = f"sum of {evaluations.count} evaluations inside the run"
    if 0 < evaluations.seconds < totals.seconds:
        draft.derive("eval_time", evaluations.seconds, reason, statistic="sum")


def _measure_step_time(draft: Draft, totals: Totals, evaluations: Evaluations) -> None:
    if not totals.n_steps or draft.has("step_time"):  # which a producer's own excludes more of
        return
    training, less = totals.seconds, ""
    if 0 < evaluations.seconds < totals.seconds:
        training -= evaluations.seconds
        less = f", less {evaluations.seconds:g} s of evaluation"
    reason = f"{totals.seconds:g} s{less} / {totals.n_steps} steps; checkpoints included"
    draft.derive("step_time", training / totals.n_steps, reason, statistic="mean")


@dataclass(frozen=True)
class WrittenRate:
    """A rate as written: its value, and half of its last decimal."""

    value: float
    half: float

    def agrees(self, exact: float) -> bool:
        """Return whether a figure from totals is this rate, up to rounding and a last batch."""
        return abs(exact - self.value) <= self.half + _TOLERANCE * exact

    @property
    def bounds(self) -> dict[str, Any]:
        """The rate's text and the values that it may stand for."""
        low = max(0.0, self.value - self.half)
        return {"raw": f"{self.value:g}", "low": low, "high": self.value + self.half}


def rate_of(written: Any) -> WrittenRate | None:
    """Return a rate as a framework wrote it, or None."""
    value = number_of(written)
    return None if value is None else WrittenRate(float(value), half_width(written))


def _measure_rates(draft: Draft, metrics: Mapping[str, Any], totals: Totals) -> None:
    samples = rate_of(metrics.get("train_samples_per_second"))
    steps = rate_of(metrics.get("train_steps_per_second"))
    if samples is not None and steps is None and _is_step_rate(samples, totals):
        written = "written as train_samples_per_second, but equal to steps / seconds"
        _measure_rate(draft, "steps_per_second", samples, totals.n_steps, totals, note=written)
        return
    if steps is not None:
        _measure_rate(draft, "steps_per_second", steps, totals.n_steps, totals)
    if samples is not None:
        n_samples = _n_trained(draft, samples, totals)
        _measure_rate(draft, "samples_per_second", samples, n_samples, totals)
        _state_batch(draft, samples, totals)


def _n_trained(draft: Draft, rate: WrittenRate, totals: Totals) -> float | None:
    """Return the samples of a run: those of its epochs, or of its steps where its rate says so.

    The epochs of a stream are not those of the samples that it is said to have.
    """
    batch = draft.configuration.get("global_batch_size", 0)
    of_steps = batch * (totals.n_steps or 0)
    by_epochs = totals.n_samples is None or rate.agrees(totals.n_samples / totals.seconds)
    if by_epochs or not of_steps or not rate.agrees(of_steps / totals.seconds):
        return totals.n_samples
    return float(of_steps)


def _is_step_rate(samples: WrittenRate, totals: Totals) -> bool:
    """Return whether a rate of samples, alone in its file, is one of steps."""
    if not totals.n_steps:
        return False
    slack = samples.half * totals.seconds + 1e-6
    return abs(samples.value * totals.seconds - totals.n_steps) <= slack


def _measure_rate(  # noqa: PLR0913 - one figure with all that its text and its totals say
    draft: Draft,
    metric: str,
    rate: WrittenRate,
    count: float | None,
    totals: Totals,
    *,
    note: str | None = None,
) -> None:
    """Add a rate: as written within its rounding, or from the totals where these say it better."""
    if count is None:
        draft.measure(metric, rate.value, **rate.bounds, reason=note)
        return
    exact = count / totals.seconds
    agrees = rate.agrees(exact)
    if agrees and metric == "samples_per_second" and rate.value >= _COARSE:
        draft.measure(metric, rate.value, **rate.bounds, reason=note)
        return
    if not agrees:
        draft.flags.add("figures_disagree")
    reason = f"{count:g} / {totals.seconds:g} s; the file writes {rate.value:g}"
    reason = f"{note}; {reason}" if note else reason
    draft.derive(metric, exact, reason, raw=f"{rate.value:g}")


def _state_batch(draft: Draft, samples: WrittenRate, totals: Totals) -> None:
    """State the samples per step where the rounded rate allows one whole number only."""
    if not totals.n_steps:
        return
    per_step = totals.seconds / totals.n_steps
    low, high = ((samples.value + sign * samples.half) * per_step for sign in (-1, 1))
    whole = round(samples.value * per_step)
    if low <= whole <= high and high - low < 1 and whole > 0:
        reason = f"samples per second x {totals.seconds:g} s / {totals.n_steps} steps"
        draft.state("global_batch_size", whole, reason)
