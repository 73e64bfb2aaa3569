"""Will it fit: a verdict with its evidence, how much more would fit, and what would make it fit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from registry.predict.answer.advice import (
    CardVerdict,
    Remedy,
    collect_cards,
    collect_remedies,
    find_biggest_batch,
    find_longest_seq_len,
    room_of,
)
from registry.predict.answer.assumed import Answering, Assumption, collect_assumptions
from registry.predict.answer.meant import Meant
from registry.predict.answer.nearest import Neighbour, collect_nearest, find_nearest_oom
from registry.predict.answer.prediction import FITS, Prediction, bounded, mix_of, predict_memory
from registry.predict.answer.verdict import Decided, decide
from registry.predict.calibration.fit_rows import MOST_NEW, memory_row
from registry.predict.formula.peak_memory import memory_terms, total
from registry.predict.question import check_question
from registry.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from registry.predict.architecture import Accelerator
    from registry.predict.calibration.intervals import Calibration
    from registry.predict.calibration.open_question import OpenMixture
    from registry.predict.calibration.own_times import OwnTimes
    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.question import Question


#: Most measured runs that are shown beside an answer.
_MOST_NEAREST = 3


@dataclass(frozen=True)
class Answer:
    """The answer to one question; what goes beyond its verdict is computed when it is asked for.

    Bytes are those of one device.
    """

    question: Question
    calibration: Calibration = field(repr=False)
    decided: Decided = field(repr=False)
    #: Cards each of which gets its verdict.
    gpus: tuple[Accelerator, ...] = field(repr=False)

    @property
    def verdict(self) -> str | None:
        """``fits``, ``does not fit`` or ``undecided``; None where no card is asked about."""
        return self.decided.verdict

    @property
    def chance(self) -> float | None:
        """How likely it fits, from 0 to 1: 1 or 0 where a run decides; None without a card."""
        return self.decided.chance

    @property
    def prediction(self) -> Prediction:
        """The peak of one device."""
        return self.decided.prediction

    @property
    def capacity_bytes(self) -> int | None:
        """Memory of the card that is asked about."""
        return self.question.gpu.memory_bytes if self.question.gpu else None

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the question."""
        return tuple(check_question(self.question))

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Reasons for the verdict and for the width of the interval."""
        executed = self.calibration.executed
        return (
            *self.decided.reasons,
            *_explain_interval(self.prediction, self.nearest),
            *_explain_accumulation(self.question, self.prediction),
            *([executed.reason] if executed else []),
            *_explain_new(self.calibration),
        )

    @cached_property
    def nearest(self) -> tuple[Neighbour, ...]:
        """The measured runs that are nearest to the question, the nearest first."""
        return tuple(collect_nearest(self.question, self.calibration.observations, _MOST_NEAREST))

    @cached_property
    def nearest_oom(self) -> Neighbour | None:
        """The nearest run out of memory."""
        return find_nearest_oom(self.question, self.calibration.observations)

    @cached_property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the question leaves open, and how far each moves the answer."""
        return assumptions_of(self.question, self.prediction, self.calibration)

    @cached_property
    def rests_on(self) -> tuple[tuple[str, float], ...]:
        """The measured runs that the figure rests on, with the share of each."""
        return _rests_on(self.question, self.prediction, self.calibration)

    @property
    def _room(self) -> float:
        return room_of(self.question, self.prediction.figure, self.verdict)

    @cached_property
    def longest_seq_len(self) -> int | None:
        """The longest sequence whose entire interval fits, all else as asked; None if none does."""
        known = self.question.gpu is not None
        return find_longest_seq_len(self.question, self.calibration, self._room) if known else None

    @cached_property
    def biggest_batch(self) -> int | None:
        """The biggest micro-batch whose entire interval fits; None if none does."""
        known = self.question.gpu is not None
        return find_biggest_batch(self.question, self.calibration, self._room) if known else None

    @cached_property
    def remedies(self) -> tuple[Remedy, ...]:
        """What would make it fit, where it is not certain to; nothing if no cards are judged."""
        if not self.gpus or self.verdict in (None, FITS):
            return ()
        peak = self.prediction.figure.value
        return tuple(collect_remedies(self.question, self.calibration, peak))

    @cached_property
    def cards(self) -> tuple[CardVerdict, ...]:
        """The verdict on each card, the smallest first."""
        return tuple(collect_cards(self.question, self.calibration, self.gpus))

    @cached_property
    def own_times(self) -> OwnTimes:
        """The user's own timed runs, at whose speed times are where they say it."""
        return self.calibration.own_times

    def __getstate__(self) -> dict[str, Any]:
        """Return all that it says, without what it was computed from: that is large."""
        said = {
            name: getattr(self, name)
            for name, kind in vars(Answer).items()
            if isinstance(kind, cached_property)
        }
        return {**self.__dict__, **said, "calibration": None}


def answer(
    question: Question, calibration: Calibration, gpus: Iterable[Accelerator] = ()
) -> Answer:
    """Return the answer to a question.

    ``gpus`` are cards each of which gets its verdict.
    """
    found = predict_memory(question, calibration)
    decided = decide(question, found, calibration.runs_of(question.model))
    return Answer(question, calibration, decided, tuple(gpus))


def _explain_interval(prediction: Prediction, seen: Sequence[Neighbour]) -> list[str]:
    width = prediction.figure.high / prediction.figure.value - 1
    reasons = [f"90 % interval up to {width:+.0%}: {prediction.predictor}"]
    if prediction.floor is not None:
        less = prediction.figure.value < (prediction.floor.peak_bytes or 0.0)
        reasons.append(
            f"no less than {_took(prediction.floor)} with equal or smaller settings"
            + (", less what its larger adapters take" if less else "")
        )
    if prediction.ceiling is not None:
        more = prediction.figure.value > (prediction.ceiling.peak_bytes or 0.0)
        reasons.append(
            f"no more than {_took(prediction.ceiling)} with equal or larger settings"
            + (", and what it did not count or larger adapters take" if more else "")
        )
    if prediction.least is not None:
        reasons.append(f"the lower end is {_took(prediction.least)} with no fewer tokens")
    if prediction.most is not None:
        reasons.append(f"the upper end is {_took(prediction.most)} with no more tokens")
    if prediction.nearness == "source":
        reasons.append(
            "naming the software (--stack) may narrow it"
            if seen and seen[0].distance < NEAR
            else "no run near it was measured, so the interval is that of software never measured"
        )
    return reasons


def _explain_accumulation(question: Question, prediction: Prediction) -> list[str]:
    """Return what accumulating gradients costs, where nobody said whether they are."""
    meant = question if prediction.meanings is None else prediction.meanings.plausible[0].question
    if meant.grad_accum_steps is not None or not meant.keeps_gradients:
        return []
    less = total(memory_terms(meant)) - total(memory_terms(meant.changed(grad_accum_steps=1)))
    if less < _MATTERS * prediction.figure.value:
        return []
    amount = format_memory(int(less))
    return [
        f"gradients are assumed to be accumulated, so that they stay: {amount} less with --accum 1"
    ]


#: Share of a figure from which on what it takes for granted is said.
_MATTERS = 0.02


def _took(run: ObservedRun) -> str:
    """Return what a run took, as an amount that a sentence goes on with."""
    took = format_memory(int(run.peak_bytes or 0))
    return f"the {took} that observation {run.observation_id} ({run.source_id}) took"


def _explain_new(calibration: Calibration) -> list[str]:
    count = len(calibration.newer)
    runs = f"{count} runs" if count > 1 else "one run"
    unlearned = ", too many to learn from them here: run registry calibrate"
    said = f"evidence newer than the calibration: {runs} of yours"
    return [said + unlearned * (count > MOST_NEW)] if count else []


#: Distance up to which a measured run counts as near.
NEAR = 1.5


def assumptions_of(
    question: Question, prediction: Prediction, calibration: Calibration
) -> tuple[Assumption, ...]:
    """Return what a question leaves open, with the answer under each of its values."""
    if prediction.meanings is None:
        return ()
    measured = calibration.measured_of(question.model)

    def mix(restated: Question, *, cases: bool = False) -> OpenMixture:
        return mix_of(restated, calibration, cases=cases).scaled(calibration.factor)

    def figure(restated: Question, meanings: OpenMixture) -> float:
        plain = Prediction(meanings.plain, {}, prediction.nearness, meanings=meanings)
        return bounded(plain, restated, measured, Meant()).figure.value

    usual = calibration.usual_on(question.stack)
    return collect_assumptions(question, mix(question, cases=True), usual, Answering(mix, figure))


def _rests_on(
    question: Question, prediction: Prediction, calibration: Calibration
) -> tuple[tuple[str, float], ...]:
    rows: list[tuple[float, Question]] = [(1.0, question)]
    if prediction.meanings is not None:
        measured = [one for one in prediction.meanings.plausible if one.stack]
        measured.sort(key=lambda one: -one.weight)
        rows = [(o.weight, o.question.changed(stack=o.stack)) for o in measured[:_MOST_LIKELY]]
    pulls: dict[str, float] = defaultdict(float)
    for weight, asked in rows:
        for key, pull in calibration.memory.fit.shares(memory_row(asked)):
            pulls[key] += weight * abs(pull)
    whole = sum(pulls.values()) or 1.0
    strongest = sorted(pulls.items(), key=lambda item: -item[1])[:5]
    shares = ((key, pull / whole) for key, pull in strongest)
    return tuple((key, share) for key, share in shares if share >= _LEAST_SHARE)


#: Share of a figure below which it does not rest on a run: less than half a percent.
_LEAST_SHARE = 0.005


#: So many of the likeliest meanings on stacks that were measured say what an answer rests on.
_MOST_LIKELY = 4
