"""Iterations that are micro-batches: how many make an optimizer step is a setting of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from registry.importers.shared.shapes import whole_of

if TYPE_CHECKING:
    from registry.importers.base import ImportOptions
    from registry.importers.shared.draft import Draft

_COLUMN: Final = "grad_accum_steps"


def accumulation_of(draft: Draft, options: ImportOptions) -> int | None:
    """Return the micro-batches of a step that the files or the user state, or None."""
    stated = options.overrides.get(_COLUMN)
    stated = stated or draft.configuration.get(_COLUMN) or options.defaults.get(_COLUMN)
    return whole_of(str(stated))


@dataclass(frozen=True)
class Iterations:
    """Seconds of an iteration in the middle, within their rounding, and how many were done.

    ``reason`` says which were timed; without ``seconds`` there is no time.
    """

    done: int
    seconds: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""


def measure_iterations(draft: Draft, iterations: Iterations, options: ImportOptions) -> None:
    """Add the time and the count of optimizer steps from those of iterations.

    Where nothing says how many iterations are a step, neither is added, and the user is asked.
    """
    accumulated = accumulation_of(draft, options)
    if accumulated is None:
        draft.lacks[_COLUMN] = (
            "no time and no count of optimizer steps: an iteration is a micro-batch, and the files "
            "do not say how many make a step; say it"
        )
        return
    if iterations.seconds:
        _measure_time(draft, iterations, accumulated)
    if iterations.done >= accumulated:
        draft.measure("n_steps", iterations.done // accumulated)


def _measure_time(draft: Draft, iterations: Iterations, accumulated: int) -> None:
    low, seconds, high = (
        None if value is None else value * accumulated
        for value in (iterations.low, iterations.seconds, iterations.high)
    )
    columns = {"low": low, "high": high, "statistic": "median"}
    if accumulated == 1:
        draft.measure("step_time", seconds, reason=iterations.reason, **columns)
    else:
        reason = f"{iterations.reason}; x {accumulated} iterations of a step"
        draft.derive("step_time", seconds, reason, **columns)
