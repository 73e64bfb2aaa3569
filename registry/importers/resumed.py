"""Find out that a Trainer's run was resumed: its clock began at the restart, its steps did not.

Until version 5 transformers divides the steps and samples of the whole run by the time since the
restart, and the loss summed since then by all steps; since then it counts the steps of the session.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.shapes import count_of, number_of
from registry.importers.shared.totals import is_total, rate_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Share of the steps or of the loss below which something is missing, beyond rounding.
_WHOLE: Final = 0.97
#: Fewest entries of the log from which a sum of losses can tell.
_FEW: Final = 4


def find_session_steps(
    n_steps: int | None, metrics: Mapping[str, Any], history: Sequence[Mapping[str, Any]]
) -> int | None:
    """Return the steps since the restart of a run that was resumed, or None for a whole run."""
    if n_steps is None:
        return None
    return _steps_of_rate(n_steps, metrics) or _steps_of_loss(n_steps, metrics, history)


def _steps_of_rate(n_steps: int, metrics: Mapping[str, Any]) -> int | None:
    seconds, rate = (
        number_of(metrics.get("train_runtime")),
        rate_of(metrics.get("train_steps_per_second")),
    )
    if not seconds or rate is None:
        return None
    most = (rate.value + rate.half) * seconds
    return round(rate.value * seconds) or None if most < _WHOLE * n_steps else None


def _steps_of_loss(
    n_steps: int, metrics: Mapping[str, Any], history: Sequence[Mapping[str, Any]]
) -> int | None:
    """Return the steps at the end whose losses add up to what the mean loss was made of."""
    mean = number_of(metrics.get("train_loss"))
    losses = list(_losses(history))
    if not mean or mean < 0 or len(losses) < _FEW:
        return None
    total, added = mean * n_steps, 0.0
    if total >= _WHOLE * sum(loss * steps for _, steps, loss in losses):
        return None
    for before, steps, loss in reversed(losses):
        if added + loss * steps / 2 >= total:
            return n_steps - before - steps or None
        added += loss * steps
    return None


def find_mean_loss(n_steps: int, history: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the mean of the losses that a log has of all steps; None where some are missing."""
    losses = list(_losses(history))
    if sum(steps for _, steps, _ in losses) != n_steps:
        return None
    return sum(loss * steps for _, steps, loss in losses) / n_steps


def _losses(history: Iterable[Mapping[str, Any]]) -> Iterable[tuple[int, int, float]]:
    """Yield the entries of the log: the step before, the steps since, and their mean loss."""
    entries = [(0, 0.0)]
    for entry in history:
        step, loss = count_of(entry.get("step")), number_of(entry.get("loss"))
        if step and loss is not None and not is_total(entry) and step > entries[-1][0]:
            entries.append((step, float(loss)))
    for (before, _), (step, loss) in pairwise(entries):
        yield before, step - before, loss
