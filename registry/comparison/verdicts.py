"""Whether B is worse than A, is not, or cannot be told to be either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from registry.measure.ratios import format_times

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from registry.comparison.configurations import Compared
    from registry.measure.ratios import Ratio

    #: How much slower, and how much larger, B may be than A; the second is the first where None.
    Factors = tuple[float, float | None]

Verdict = Literal["worse", "not worse", "cannot be told"]


@dataclass(frozen=True)
class Judgement:
    """The verdict on one configuration.

    Attributes:
        verdict: What can be said of B.
        worse_in: What is worse: ``outcome``, ``time``, ``memory``.
        reasons: Why it cannot be told, each in a few words.
    """

    verdict: Verdict
    worse_in: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def why(self) -> tuple[str, ...]:
        """What is worse, or why it cannot be told; nothing where it is not worse."""
        return self.worse_in or self.reasons


#: Ratio of average steps from which on they contradict a median step that is no slower: below it
#: lies what warm-up and one evaluation more or less do to short runs.
_FAR = 1.25


def judge(compared: Compared, factors: Factors) -> Judgement:
    """Return the verdict on a configuration.

    Worse is what fails, and a ratio above its factor with an interval above 1. Not worse is a
    ratio whose interval ends at the factor or below. Whatever lies between, and every ratio
    without an interval, cannot be told. Nor can it where the median step is no slower and the
    average step is by far: some steps, or what lies between them, may take long.
    """
    worse_in = tuple(_list_worse(compared, factors))
    if worse_in:
        return Judgement("worse", worse_in)
    reasons = tuple(_list_reasons(compared, factors))
    return Judgement("cannot be told" if reasons else "not worse", (), reasons)


def sum_up(judged: Iterable[Judgement]) -> Verdict:
    """Return the verdict on all configurations: worse if one is, not worse only if all are not."""
    verdicts = {each.verdict for each in judged}
    order: tuple[Verdict, ...] = ("worse", "cannot be told")
    return next((verdict for verdict in order if verdict in verdicts), "not worse")


def _list_worse(compared: Compared, factors: Factors) -> Iterator[str]:
    if compared.regression:
        yield "outcome"
    for name, ratio, factor in _list_ratios(compared, factors):
        if ratio.low is not None and ratio.exceeds(factor):
            yield name


def _list_reasons(compared: Compared, factors: Factors) -> Iterator[str]:
    if not compared.b:
        yield "no run of b succeeded"
    yield from (f"no {name} in common" for name in compared.unshared)
    for name, ratio, factor in _list_ratios(compared, factors):
        if ratio.low is None or ratio.high is None:
            yield f"no interval of {name}"
        elif not ratio.stays_within(factor):
            yield f"{name} may be {format_times(ratio.low)} to {format_times(ratio.high)}"
    average = compared.mean_step
    if average is not None and average > max(factors[0], _FAR):
        yield f"the average step (train_time) takes {format_times(average)} times as long"


def _list_ratios(compared: Compared, factors: Factors) -> Iterator[tuple[str, Ratio, float]]:
    time_factor, memory_factor = factors
    for name, ratio, factor in (
        ("time", compared.time, time_factor),
        ("memory", compared.memory, memory_factor or time_factor),
    ):
        if ratio is not None:
            yield name, ratio, factor
