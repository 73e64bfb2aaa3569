"""The peak of a question that leaves things open: a mixture over what it may mean.

It may mean each of the plausible settings (`unstated`), and any of the stacks that have measured
the same model and kind of training, or one that has not been measured.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from registry.predict.calibration.fit_rows import groups_on, moment_rows
from registry.predict.calibration.mixture import Component, Interval, Mixture, plain_interval
from registry.predict.calibration.unstated import Plausible, complete, complete_like, kind_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from registry.predict.calibration.gaussian_process import Design, Fit
    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.calibration.unstated import Usual
    from registry.predict.question import Question

#: Weight of a stack that has not been measured, where others have measured the same model: what
#: one stack was off by is seldom what another is off by. The user's own stack stands in its place.
_LIKELY = 0.8
#: Share of a mixture in its middle that an interval starts from: a setting that is less likely than
#: what is beside it does not widen the interval.
_MIDDLE = 0.5
#: Groups of questions that intervals are widened by: the first leaves least to the software.
GROUPS = ("whole on each device", "sharded or offloaded")

Kin = tuple[Any, ...]


def kin_of(question: Question) -> Kin:
    """Return what a question shares with runs whose stack it may mean: model, kind, bits."""
    return question.model.shape, kind_of(question), question.quant_bits


@dataclass(frozen=True)
class Stacks:
    """Stacks that have measured a model and kind of training."""

    measured: Mapping[Kin, tuple[str, ...]]
    #: Of the user's own, what the last run was learned with.
    own: Mapping[tuple[Kin, str | None], Question]

    def likely(self, question: Question) -> list[tuple[str | None, float]]:
        """Return the stacks that a question may mean, the likeliest first, with their weights.

        Whoever has measured the like means his own stack, everybody else one of his own that has
        not been measured.
        """
        if question.stack is not None:
            return [(question.stack, 1.0)]
        kin = kin_of(question)
        known = self.measured.get(kin, ())
        first: list[str | None] = [one for one in known if (kin, one) in self.own] or [None]
        others = [stack for stack in (*known, None) if stack not in first]
        if not others:
            return [(None, 1.0)]
        shares = _LIKELY / len(first), (1 - _LIKELY) / len(others)
        return [(one, shares[0]) for one in first] + [(one, shares[1]) for one in others]

    def own_meaning(self, question: Question, stack: str | None) -> Question | None:
        """Return what a question means on the user's own stack: what was run there; else None."""
        run = self.own.get((kin_of(question), stack))
        return None if run is None else complete_like(question, run)


def collect_stacks(observations: Iterable[ObservedRun], own_ids: Container[str] = ()) -> Stacks:
    """Return the stacks that have measured; ``own_ids`` are those of the user's own runs."""
    found: dict[Kin, dict[str, None]] = defaultdict(dict)
    own: dict[tuple[Kin, str | None], Question] = {}
    for seen in observations:
        if seen.measured_memory and seen.question.stack:
            kin, stack = kin_of(seen.question), seen.question.stack
            found[kin][stack] = None
            if seen.observation_id in own_ids:
                own[kin, stack] = seen.learned
    return Stacks({kin: tuple(sorted(stacks)) for kin, stacks in found.items()}, own)


@dataclass(frozen=True)
class OpenMixture:
    """What a question may mean, with the answer to each."""

    plausible: tuple[Plausible, ...]
    components: tuple[Component, ...]

    @cached_property
    def plain(self) -> Interval:
        """The median and the middle of all answers, from which an interval starts."""
        return self.around(_MIDDLE)

    def around(self, share: float) -> Interval:
        """Return the median, and what lies beside a share of all answers in the middle.

        Samples that are shorter than asked for lower the lower end alone: who asks for a length
        wants to know whether that fits.
        """
        longest: dict[str | None, int] = {}
        for one in self.plausible:  # an own run has its own
            longest[one.stack] = max(one.question.longest, longest.get(one.stack, 0))
        filled = [one for one in self.plausible if one.question.longest == longest[one.stack]]
        full = plain_interval(self.given(filled), share)
        if len(filled) == len(self.plausible):
            return full
        low = self.mixture.quantile((1 - share) / 2)
        return Interval(full.value, min(full.low, low), full.high)

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
        return self.only(wanted).mixture

    def only(self, wanted: Iterable[Plausible]) -> OpenMixture:
        """Return some of what it may mean with the answers, their weights made 1 again."""
        chosen = {id(one) for one in wanted}
        pairs = zip(self.plausible, self.components, strict=True)
        kept = [(one, answer) for one, answer in pairs if id(one) in chosen]
        whole = sum(answer.weight for _, answer in kept)
        answers = tuple(Component(a.weight / whole, a.median, a.deviation) for _, a in kept)
        return OpenMixture(tuple(one for one, _ in kept), answers)


def group_of(question: Question) -> str:
    """Return the group whose held-out answers say how far an interval reaches.

    Under DDP, each device holds what one device alone does.
    """
    copied = question.sharding in (None, "none", "ddp") and not question.is_split
    return GROUPS[0] if copied and question.offload in (None, "none") else GROUPS[1]


@dataclass(frozen=True)
class Learned:
    """What was learned that answers an open question."""

    fit: Fit
    usual: Usual
    stacks: Stacks


def mix(
    question: Question, learned: Learned, memory_kind: str | None = None, *, cases: bool = False
) -> OpenMixture:
    """Return the answers to all that a question may mean.

    Of the device's memory, unless ``memory_kind`` names what is asked for. ``cases`` as in
    `complete`.
    """
    usually = _Meanings.of(complete(question, learned.usual, cases=cases), learned, memory_kind)
    plausible: list[Plausible] = []
    components: list[Component] = []
    for stack, share in learned.stacks.likely(question):
        own = learned.stacks.own_meaning(question, stack)
        asked = usually
        if own is not None:
            asked = _Meanings.of([Plausible(1.0, own)], learned, memory_kind)
        for one, answer in asked.answer_on(stack, learned):
            weight = one.weight * share
            plausible.append(Plausible(weight, one.question, one.given, stack))
            components.append(Component(weight, *answer))
    return OpenMixture(tuple(plausible), tuple(components))


@dataclass(frozen=True)
class _Meanings:
    """What a question may mean, with the rows that ask for its memory: no stack changes these."""

    plausible: list[Plausible]
    #: A row for each moment that may be the peak of each.
    design: Design
    #: Which of the plausible each row is about.
    owners: list[int]

    @classmethod
    def of(cls, plausible: list[Plausible], learned: Learned, memory_kind: str | None) -> _Meanings:
        rows = [
            (i, row)
            for i, one in enumerate(plausible)
            for row in moment_rows(one.question, memory_kind)
        ]
        design = learned.fit.design.like([row for _, row in rows])
        return cls(plausible, design, [i for i, _ in rows])

    def answer_on(
        self, stack: str | None, learned: Learned
    ) -> Iterator[tuple[Plausible, tuple[float, float]]]:
        """Yield each with the median of its answer on a stack and the logarithm's deviation."""
        groups = [groups_on(stack, self.plausible[i].question) for i in self.owners]
        means, deviations = learned.fit.predict_on(stack, self.design.in_groups(groups))
        highest: dict[int, int] = {}
        for place, i in enumerate(self.owners):
            if i not in highest or means[place] > means[highest[i]]:
                highest[i] = place
        for i, place in highest.items():
            median, off = float(means[place]), float(deviations[place])
            yield self.plausible[i], (median, math.log1p(off / median))
