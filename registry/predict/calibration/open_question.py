"""The peak of a question that leaves things open: a mixture over what it may mean.

It may mean each of the plausible settings (`unstated`), and any of the stacks that have measured
the same model and kind of training, or one that has not been measured.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.predict.calibration.fit_rows import memory_row
from registry.predict.calibration.mixture import Component, Mixture
from registry.predict.calibration.unstated import complete, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from registry.predict.calibration.gaussian_process import Fit
    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.calibration.unstated import Plausible, Usual
    from registry.predict.question import Question

#: Weight of a stack that has not been measured, where others have measured the same model.
_NEW = 0.5

Kin = tuple[Any, ...]


def kin_of(question: Question) -> Kin:
    """Return what a question shares with runs whose stack it may mean: model, kind, bits."""
    return question.model.shape, kind_of(question), question.quant_bits


def collect_kin(observations: Iterable[ObservedRun]) -> dict[Kin, tuple[str, ...]]:
    """Return the stacks that have measured a model and kind of training."""
    found: dict[Kin, dict[str, None]] = defaultdict(dict)
    for seen in observations:
        if seen.measured_memory and seen.question.stack:
            found[kin_of(seen.question)][seen.question.stack] = None
    return {kin: tuple(sorted(stacks)) for kin, stacks in found.items()}


@dataclass(frozen=True)
class OpenMixture:
    """What a question may mean, with the answer to each."""

    plausible: tuple[Plausible, ...]
    components: tuple[Component, ...]

    @property
    def mixture(self) -> Mixture:
        """All answers together."""
        return Mixture(self.components)

    def scaled(self, factor: float) -> OpenMixture:
        """Return it with each answer times a factor."""
        found = tuple(Component(c.weight, c.median * factor, c.deviation) for c in self.components)
        return OpenMixture(self.plausible, found)

    def given(self, wanted: Iterable[Plausible]) -> Mixture:
        """Return the answers to some of what it may mean, their weights made 1 again."""
        chosen = {id(one) for one in wanted}
        kept = [
            component
            for one, component in zip(self.plausible, self.components, strict=True)
            if id(one) in chosen
        ]
        whole = sum(one.weight for one in kept)
        return Mixture([Component(c.weight / whole, c.median, c.deviation) for c in kept])


def mix(
    question: Question, fit: Fit, usual: Usual, kin: Mapping[Kin, tuple[str, ...]]
) -> OpenMixture:
    """Return the answers to all that a question may mean."""
    plausible = [
        type(one)(one.weight * share, one.question.changed(stack=stack))
        for one in complete(question, usual)
        for stack, share in _stacks(one.question, kin)
    ]
    rows = [memory_row(one.question) for one in plausible]
    means, deviations = fit.predict_many(rows)
    components = tuple(
        Component(one.weight, float(mean), math.log1p(float(deviation / mean)))
        for one, mean, deviation in zip(plausible, means, deviations, strict=True)
    )
    return OpenMixture(tuple(plausible), components)


def _stacks(
    question: Question, kin: Mapping[Kin, tuple[str, ...]]
) -> list[tuple[str | None, float]]:
    if question.stack is not None:
        return [(question.stack, 1.0)]
    known = kin.get(kin_of(question), ())
    if not known:
        return [(None, 1.0)]
    return [(None, _NEW), *((stack, (1 - _NEW) / len(known)) for stack in known)]
