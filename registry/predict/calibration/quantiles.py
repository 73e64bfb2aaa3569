"""How far scores reach of which a share should lie inside, each source counting the same."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from registry.predict.calibration.mixture import COVERAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Rows of a stack from which on its own scores say how far its intervals reach.
ENOUGH = 20


def source_quantile(scores: Iterable[tuple[float, object]]) -> float:
    """Return the score below which nine sources of ten have three quarters of their rows.

    Sources with few rows are left out; one more source of unknown scores is counted in. 0 where
    there are none.

    Formula: split conformal prediction with a source as the unit, since the rows of one source
    are not exchangeable with those of another (Dunn, Wasserman, Ramdas 2023, arXiv:1809.07441).
    """
    by_source: dict[object, list[float]] = {}
    for score, source in scores:
        by_source.setdefault(source, []).append(score)
    each = sorted(
        float(np.quantile(rows, _INSIDE, method="inverted_cdf"))
        for rows in by_source.values()
        if len(rows) >= _FEW
    )
    return each[min(math.ceil(COVERAGE * (len(each) + 1)), len(each)) - 1] if each else 0.0


def equal_quantile(scores: Sequence[tuple[float, object]]) -> float:
    """Return the 90 % quantile of scores, each source (the second of a pair) counting the same.

    One more source of unknown scores is counted in. 0 where there are none.
    """
    weighed = weigh_by_source(scores, _FEW)
    n_sources = len({source for _, source in scores})
    whole = sum(weight for _, weight in weighed) + 1 / max(n_sources, 1)
    return quantile_of(weighed, whole, otherwise=0.0)


#: Rows from which on a source counts in full.
_FEW = 5
#: Share of the rows of a source that should lie inside, whatever source it is.
_INSIDE = 0.75


def weigh_by_source(
    scores: Sequence[tuple[float, object]], enough: int
) -> list[tuple[float, float]]:
    """Return scores, sorted, with weights by which each source of ``enough`` rows counts one."""
    sizes = Counter(source for _, source in scores)
    return sorted((score, 1 / max(sizes[source], enough)) for score, source in scores)


def quantile_of(weighed: Sequence[tuple[float, float]], whole: float, otherwise: float) -> float:
    """Return the smallest score up to which the wanted share of the whole weight lies."""
    reached = 0.0
    for score, weight in weighed:
        reached += weight
        if reached >= COVERAGE * whole:
            return score
    return weighed[-1][0] if weighed else otherwise
