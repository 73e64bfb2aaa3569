"""Will it fit: a verdict with its evidence, how much more would fit, and what would make it fit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from registry.predict.answer.verdict import decide
from registry.predict.calibration.fit_rows import memory_row
from registry.predict.formula.peak_memory import memory_terms, total
from registry.predict.question import check_question
from registry.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from registry.predict.architecture import Accelerator
    from registry.predict.calibration.intervals import Calibration
    from registry.predict.calibration.open_question import OpenMixture
    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.question import Question


@dataclass(frozen=True)
class Answer:
    """The answer to one question. Bytes are those of one device."""

    question: Question
    warnings: tuple[str, ...]
    prediction: Prediction
    #: fits, does not fit or undecided; None where no card is asked about.
    verdict: str | None
    #: How likely it fits that card, from 0 to 1: 1 or 0 where a run decides; None without a card.
    chance: float | None
    capacity_bytes: int | None
    #: Reasons for the verdict and for the width of the interval.
    reasons: tuple[str, ...]
    nearest: tuple[Neighbour, ...]
    nearest_oom: Neighbour | None
    #: What the question leaves open, and how far each moves the answer.
    assumptions: tuple[Assumption, ...]
    #: The measured runs that the figure rests on, with the share of each.
    rests_on: tuple[tuple[str, float], ...]
    #: The largest whose entire interval fits, all else as asked; None if none does.
    longest_seq_len: int | None = None
    biggest_batch: int | None = None
    remedies: tuple[Remedy, ...] = ()
    cards: tuple[CardVerdict, ...] = ()


def answer(
    question: Question,
    calibration: Calibration,
    gpus: Iterable[Accelerator] = (),
    *,
    nearest: int = 3,
) -> Answer:
    """Return the answer to a question.

    ``gpus`` are cards each of which gets its verdict.
    """
    found = predict_memory(question, calibration)
    decided = decide(question, found, calibration.runs_of(question.model))
    prediction, verdict = decided.prediction, decided.verdict
    seen = collect_nearest(question, calibration.observations, nearest)
    failed = find_nearest_oom(question, calibration.observations)
    cards = tuple(collect_cards(question, calibration, gpus))
    advised = bool(cards) and verdict not in (None, FITS)
    known = question.gpu is not None
    room = room_of(question, prediction.figure, verdict)
    return Answer(
        question=question,
        warnings=tuple(check_question(question)),
        prediction=prediction,
        verdict=verdict,
        chance=decided.chance,
        capacity_bytes=question.gpu.memory_bytes if question.gpu else None,
        reasons=(
            *decided.reasons,
            *_explain_interval(prediction, seen),
            *_explain_accumulation(question, prediction),
            *([calibration.executed.reason] if calibration.executed else []),
            *_explain_new(calibration),
        ),
        nearest=tuple(seen),
        nearest_oom=failed,
        assumptions=assumptions_of(question, prediction, calibration),
        rests_on=_rests_on(question, prediction, calibration),
        longest_seq_len=find_longest_seq_len(question, calibration, room) if known else None,
        biggest_batch=find_biggest_batch(question, calibration, room) if known else None,
        remedies=tuple(collect_remedies(question, calibration, prediction.figure.value))
        if advised
        else (),
        cards=cards,
    )


def _explain_interval(prediction: Prediction, seen: list[Neighbour]) -> list[str]:
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
            "naming the software (--stack) would narrow it"
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
    return [f"evidence newer than the calibration: {runs} of yours"] if count else []


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
    return tuple((key, pull / whole) for key, pull in strongest)


#: So many of the likeliest meanings on stacks that were measured say what an answer rests on.
_MOST_LIKELY = 4
