"""Observations as rows of a fit: formula's terms, groups, measured figure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from registry.predict.formula.peak_memory import memory_terms, moments, total
from registry.predict.formula.step_time import has_known_speed, time_terms

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.formula.peak_memory import Term
    from registry.predict.question import Question


@dataclass(frozen=True)
class FitRow:
    """One figure to learn from, or to predict."""

    key: str
    terms: tuple[Term, ...]
    #: What it shares with others, by level; None shares nothing.
    groups: Mapping[str, Hashable]
    #: Tokens of a micro-batch, by which neighbours of a series are near.
    size: float
    #: What was measured; for a run out of memory, what it exceeds.
    value: float = 0.0
    censored: bool = False

    @cached_property
    def formula(self) -> float:
        """What the formula says."""
        return sum(term.value for term in self.terms)


@dataclass(frozen=True)
class Spread:
    """How far a group may be off: in what stays, and in what grows with the tokens."""

    stays: float
    grows: float


@dataclass(frozen=True)
class Prior:
    """Standard deviations, relative to the formula, before anything is measured."""

    levels: Mapping[str, Spread]
    #: How far neighbours of a series may be off together, and the ratio of sizes over which that
    #: fades.
    local: Spread
    reach: float
    noise: float
    #: Share of a term's variance that all stacks have in common.
    shared: float

    @property
    def parts_stacks(self) -> bool:
        """Whether rows of one stack say nothing of another's."""
        return not self.shared and self.levels.keys() <= _OF_ONE_STACK


#: Levels whose groups lie within a stack.
_OF_ONE_STACK = frozenset({"stack", "setting", "series", "lengths"})


#: How far the formulas may be off before anything is measured: judgement, not fitted.
MEMORY = Prior(
    levels={
        "stack": Spread(0.04, 0.12),
        "setting": Spread(0.04, 0.12),
        # what stays: also how its memory was read, which differs from one series to another
        "series": Spread(0.10, 0.08),
    },
    # of what grows alone: what stays does not depend on the size, and a bump in it would make more
    # tokens need less
    local=Spread(0.0, 0.10),
    reach=2.0,
    noise=0.02,
    # what one stack is off by says nothing of another's: held out whole, sources were answered
    # best by the formula alone
    shared=0.0,
)
TIME = Prior(
    levels={
        # sources are apart by so much: a user's own machine may be twice as slow as the formula
        "stack": Spread(0.40, 0.40),
        "setting": Spread(0.15, 0.10),
        "series": Spread(0.08, 0.06),
        "lengths": Spread(0.0, 0.10),
    },
    local=Spread(0.05, 0.05),
    reach=2.0,
    noise=0.04,
    shared=0.0,
)
#: Share of a card's memory that a process can have.
USABLE = 0.98
#: More new runs than this are evidence, but not learned from: a fit costs the cube of its rows.
MOST_NEW = 300


def groups_of(question: Question) -> dict[str, Hashable]:
    """Return what a question shares with measured rows, by level."""
    return groups_on(question.stack, question)


def groups_on(stack: str | None, question: Question) -> dict[str, Hashable]:
    """Return what a question shares with measured rows if it is asked about a stack, by level."""
    setting = (
        stack, question.full, question.quant_bits, question.quant_method, question.param_dtype,
        question.sharding, question.offloaded, question.trains_embeddings,
    )  # fmt: skip
    return {
        "stack": stack,
        "setting": setting if stack else None,
        "series": (*setting, question.model.shape) if stack else None,
        "shape": question.model.shape,
    }


#: Kinds of memory that PyTorch counts itself, so that the CUDA context is not among it.
_COUNTED = frozenset({"allocated", "active", "reserved"})
#: Share of the peak below which no correction makes the peak of another moment.
_MAY_BE_PEAK = 0.7


def measured_terms(question: Question, memory_kind: str | None = None) -> list[Term]:
    """Return the terms of the peak that a kind of memory has: all, unless PyTorch counted it."""
    return _counted(memory_terms(question), memory_kind)


def _counted(terms: list[Term], memory_kind: str | None) -> list[Term]:
    counted = memory_kind in _COUNTED
    return [term for term in terms if not (counted and term.name == "context")]


def memory_row(question: Question, key: str = "", memory_kind: str | None = None) -> FitRow:
    """Return what memory a question asks for, as a row to predict: bytes of one device."""
    return _row(question, measured_terms(question, memory_kind), key)


def moment_rows(question: Question, memory_kind: str | None = None) -> list[FitRow]:
    """Return what memory a question asks for at each moment that may be the peak, as rows.

    The peak is the largest of what is predicted of them: what was measured may say that it is not
    the one at which the formula has most.
    """
    found = moments(question)
    least = _MAY_BE_PEAK * max(map(total, found))
    likely = [terms for terms in found if total(terms) >= least]
    return [_row(question, _counted(terms, memory_kind)) for terms in likely]


def _row(question: Question, terms: list[Term], key: str = "") -> FitRow:
    return FitRow(key, tuple(terms), groups_of(question), float(question.tokens))


#: Group of times whose intervals are wider: nothing says how long samples are on average.
UNTOLD = "lengths not told"


def time_groups_of(question: Question) -> dict[str, Hashable]:
    """Return what the time of a question shares with measured rows, by level."""
    groups = groups_of(question)
    varying = question.stack and question.length_distribution != "full"
    groups["lengths"] = (question.stack, question.seq_len) if varying else None
    groups["spread"] = None if question.says_mean else UNTOLD
    if groups["series"] is not None:
        groups["series"] = (groups["series"], question.gpu.gpu_id if question.gpu else None)
    return groups


def time_row(question: Question, key: str = "") -> FitRow:
    """Return what time a question asks for, as a row to predict: seconds of a micro-batch."""
    tokens = question.mean_sample_tokens * question.micro_batch_size
    return FitRow(key, tuple(time_terms(question)), time_groups_of(question), tokens)


def memory_rows(observations: Iterable[ObservedRun]) -> list[FitRow]:
    """Return the rows of measured peaks, and of runs out of memory on a known card."""
    rows = []
    for seen in observations:
        if seen.measured_memory:
            row = memory_row(seen.learned, seen.observation_id, seen.memory_kind)
            rows.append(replace(row, value=seen.peak_bytes or 0.0))
        elif seen.outcome == "oom" and seen.evidence == "measured" and seen.question.gpu:
            limit = USABLE * seen.question.gpu.memory_bytes
            row = memory_row(seen.learned, seen.observation_id)
            rows.append(replace(row, value=limit, censored=True))
    return rows


def time_rows(observations: Iterable[ObservedRun]) -> list[FitRow]:
    """Return the rows of measured times, on cards whose speed is known."""
    rows = []
    for seen in observations:
        if seen.measured_time and has_known_speed(seen.question):
            row = time_row(seen.question, seen.observation_id)
            rows.append(replace(row, value=seen.seconds or 0.0))
    return rows
