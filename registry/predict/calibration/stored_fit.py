"""A fit as JSON: its rows with the terms that the formulas gave, so that reading computes none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from registry.predict.calibration.fit_rows import (
    MEMORY,
    TIME,
    FitRow,
    groups_of,
    memory_rows,
    time_groups_of,
    time_rows,
)
from registry.predict.calibration.gaussian_process import Start, fit
from registry.predict.calibration.intervals import Calibrated, thin
from registry.predict.formula.term import Term

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from registry.predict.calibration.fit_rows import Prior
    from registry.predict.calibration.gaussian_process import Fit
    from registry.predict.calibration.runs import ObservedRun


def pack_fit(calibrated: Calibrated) -> dict[str, Any]:
    """Return a fit as plain data, figures rounded to what their noise leaves of them."""
    inner = calibrated.fit
    judged = zip(inner.rows, inner.noise_factors, inner.values, strict=True)
    return {
        "reach": calibrated.reach,
        "rows": [
            [
                *(row.key, row.size, _rounded(row.value), row.censored),
                *(float(f"{times:.6g}"), _rounded(expected)),
                [[t.name, _rounded(t.value), t.doubt, t.transient] for t in row.terms],
            ]
            for row, times, expected in judged
        ],
    }


def _rounded(value: float) -> float:
    return float(f"{value:.8g}")


@dataclass(frozen=True)
class Kind:
    """What is learned of a figure: its rows, what they share with others, and its prior."""

    read_rows: Callable[[Sequence[ObservedRun]], list[FitRow]]
    groups_of: Callable[[ObservedRun], Mapping[str, Hashable]]
    prior: Prior


PEAK = Kind(memory_rows, lambda run: groups_of(run.learned), MEMORY)
STEP = Kind(time_rows, lambda run: time_groups_of(run.question), TIME)


def unpack_fit(
    packed: dict[str, Any],
    kind: Kind,
    known: Sequence[ObservedRun],
    new: Sequence[ObservedRun],
    *,
    is_current: bool,
) -> Calibrated:
    """Return the fit of the stored rows of ``known`` runs and of new ones, made when asked for.

    Unless it ``is_current``, the formulas may have changed since, and the terms are computed anew.
    """

    def make() -> Fit:
        runs = {run.observation_id: run for run in known}
        computed = {} if is_current else {row.key: row for row in kind.read_rows(known)}
        rows, factors, values = [], [], []
        for key, size, value, censored, times, expected, terms in packed["rows"]:
            if key in runs:  # else its method is one that the formulas no longer compute
                named = tuple(Term(name, "", *rest) for name, *rest in terms)
                row = FitRow(key, named, kind.groups_of(runs[key]), size, value, censored)
                rows.append(computed.get(key, row))
                factors.append(times)
                values.append(expected)
        added = thin(kind.read_rows(new))
        start = Start(
            np.array([*factors, *(1.0 for _ in added)]),
            np.array([*values, *(row.value for row in added)]),
        )
        return fit([*rows, *added], kind.prior, start=start, rounds=0)

    return Calibrated(make, packed["reach"])
