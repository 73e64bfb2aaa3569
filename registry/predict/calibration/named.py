"""How far an interval reaches of a question that names its software and leaves settings open.

What a stack's own runs and others make plausible is a mixture, as of a question that names none.
Its interval starts from 90 % of the mixture and is widened by how far runs of the same stack lay
outside of theirs when the like was held out: all runs of a model, or a fifth of all runs.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from registry.predict.calibration.fit_rows import groups_on
from registry.predict.calibration.gaussian_process import fit
from registry.predict.calibration.mixture import COVERAGE, Interval
from registry.predict.calibration.open_question import Learned, Stacks, mix
from registry.predict.calibration.quantiles import ENOUGH, equal_quantile
from registry.predict.calibration.unstated import open_settings
from registry.tracking import track

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from registry.predict.calibration.gaussian_process import Fit
    from registry.predict.calibration.open_question import OpenMixture
    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.calibration.unstated import Usual

#: Parts that the runs of a stack are held out in where the rest of their series stays.
_PARTS = 5


@dataclass(frozen=True)
class HeldNamed:
    """What was answered of a run whose software is named, by a fit without the like of it."""

    seen: ObservedRun
    meanings: OpenMixture
    #: How near the nearest row of that fit was: row (its series was there) or model.
    nearness: str
    #: What was held out together with it.
    fold: Hashable

    @property
    def stack(self) -> str | None:
        """The software that is named."""
        return self.seen.question.stack

    @cached_property
    def plain(self) -> Interval:
        """The answer, before it is widened."""
        return self.meanings.around(COVERAGE)

    @cached_property
    def score(self) -> float:
        """How far the figure lies outside of the plain interval, in logarithms; below 0 inside."""
        return self.plain.beyond(self.seen.peak_bytes or math.inf)


def hold_out_named(
    observations: Iterable[ObservedRun], fitted: Fit, usual: Usual
) -> list[HeldNamed]:
    """Return the answers to runs as their sources state them, their software named.

    Of runs that are nearly alike the one counts that the fit learned from. Runs that leave nothing
    open are not among them.
    """
    learned = {row.key for row in fitted.rows}
    by_stack: dict[str, list[ObservedRun]] = defaultdict(list)
    for seen in observations:
        if seen.observation_id in learned and seen.question.stack:
            by_stack[seen.question.stack].append(seen)
    tracked = track(by_stack.items(), "holding out the models of each source", len(by_stack))
    return [held for stack, runs in tracked for held in _of_stack(stack, runs, fitted, usual)]


def _of_stack(
    stack: str, runs: Sequence[ObservedRun], fitted: Fit, usual: Usual
) -> Iterator[HeldNamed]:
    for nearness, fold_of in _FOLDS.items():
        for fold in dict.fromkeys(map(fold_of, runs)):
            kept = [seen for seen in runs if fold_of(seen) != fold]
            ids = {seen.observation_id for seen in kept}
            rows = [row for row in fitted.rows if row.key in ids]
            series = {row.groups["series"] for row in rows if not row.censored}
            if not series:
                continue
            part = fit(rows, fitted.prior)
            learned = Learned(part, usual.on_stack(seen.learned for seen in kept), Stacks({}, {}))
            for seen in (one for one in runs if fold_of(one) == fold):
                is_known = groups_on(stack, seen.learned)["series"] in series
                if is_known == (nearness == "row"):
                    yield from _hold(seen, stack, learned, nearness, fold)


def _hold(
    seen: ObservedRun, stack: str, learned: Learned, nearness: str, fold: Hashable
) -> Iterator[HeldNamed]:
    if seen.asked is not None and seen.measured_memory:
        asked = seen.asked.changed(stack=stack)
        if open_settings(asked):
            yield HeldNamed(seen, mix(asked, learned, seen.memory_kind), nearness, fold)


#: What is held out together, by how near what stays is to it.
_FOLDS: Mapping[str, Callable[[ObservedRun], Hashable]] = {
    "row": lambda seen: zlib.crc32(seen.observation_id.encode()) % _PARTS,
    "model": lambda seen: seen.question.model.shape,
}


def named_quantile(
    held: Iterable[HeldNamed], nearness: str, stack: str = "", besides: Hashable = None
) -> float:
    """Return by how much the interval of a question is moved apart that names a stack.

    The 90 % quantile of the stack's own scores, one more of unknown score counted in, where it has
    enough; else of all stacks', each counting the same. ``besides`` is a fold whose own scores do
    not count.
    """
    near = [one for one in held if one.nearness == nearness]
    own = sorted(one.score for one in near if one.stack == stack and one.fold != besides)
    if len(own) >= ENOUGH:
        return own[min(math.ceil(COVERAGE * (len(own) + 1)), len(own)) - 1]
    others = equal_quantile([(one.score, one.stack) for one in near if one.stack != stack])
    return max(others, 0.0)  # that a few lie inside says little


def named_reaches(held: Sequence[HeldNamed], nearness: str) -> dict[str, float]:
    """Return by how much intervals are moved apart: of stacks with enough runs, and ("") others."""
    near = Counter(str(one.stack) for one in held if one.nearness == nearness)
    known = ["", *(stack for stack, count in near.items() if count >= ENOUGH)]
    return {stack: named_quantile(held, nearness, stack) for stack in known}
