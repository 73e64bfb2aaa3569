"""Answers as plain data: what JSON has of them. Bytes are those of one device."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from registry.predict.answer.assumed import narrowest, plain_value
from registry.predict.answer.prediction import DOES_NOT_FIT, FITS, UNDECIDED, judge
from registry.predict.calibration.fit_rows import USABLE
from registry.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from registry.predict.answer.assumed import Assumption
    from registry.predict.answer.nearest import Neighbour
    from registry.predict.answer.will_it_fit import Answer
    from registry.predict.calibration.mixture import Interval
    from registry.predict.question import Question


def format_interval(figure: Interval) -> str:
    """Return a memory figure with its interval."""
    low, high = format_memory(int(figure.low)), format_memory(int(figure.high))
    return f"{format_memory(int(figure.value))} (90 % interval {low} to {high})"


def format_signed(n_bytes: float) -> str:
    """Return an amount of memory that may be below 0."""
    return ("-" if n_bytes < 0 else "") + format_memory(abs(int(n_bytes)))


def _format_billions(n: float) -> str:
    """Return a number of parameters in billions, without an exponent.

    >>> _format_billions(7_721_324_544), _format_billions(1_026_879_353_328)
    ('7.72', '1,027')
    """
    billions = n / 1e9
    return f"{billions:.3g}" if billions < _MANY else f"{billions:,.0f}"


#: From here on three digits would need an exponent.
_MANY = 999.5


def format_question(question: Question) -> str:
    """Return a question in a line."""
    model = question.model
    size = f" ({_format_billions(model.n_params)} B parameters)"  # so that a wrong one is noticed
    n_gpus, n_nodes = question.n_gpus, question.n_nodes or 1
    of = f" x {question.gpu.gpu_id}" if question.gpu else " cards"
    cards = f" on {n_gpus}{of}" if question.gpu or n_gpus > 1 else ""
    cards += f" in {n_nodes} hosts" if n_nodes > 1 else ""
    return (
        f"{model.model_id}{size}, {question.label}, seq_len {question.seq_len}, "
        f"batch {question.micro_batch_size}{cards}"
    )


_SIDES = {
    FITS: "all of the 90 % interval, {range}, is below",
    DOES_NOT_FIT: "all of the 90 % interval, {range}, is above",
    UNDECIDED: "the 90 % interval, {range}, is on both sides of",
}


def format_why(found: Answer) -> str | None:
    """Return why the verdict is what it is; None without a card."""
    if found.verdict is None or found.capacity_bytes is None:
        return None
    figure = found.prediction.figure
    if judge(found.prediction, found.capacity_bytes) != found.verdict:
        return found.decided.reasons[0]  # a run that failed decides
    span = f"{format_memory(int(figure.low))} to {format_memory(int(figure.high))}"
    usable = USABLE * found.capacity_bytes
    side = _SIDES[found.verdict].format(range=span)
    room = f"the {format_memory(int(usable))} that a process can use of"
    card = format_memory(found.capacity_bytes)
    if found.verdict == UNDECIDED and figure.high <= usable:
        chance = f"{found.prediction.chance_above(usable):.0%} of what you left open"
        return f"the 90 % interval, {span}, is below {room} {card}, but {chance} would need more"
    return f"{side} {room} {card}"


def format_chance(chance: float) -> str:
    """Return how likely something is in whole percents, no more certain than it is.

    >>> [format_chance(chance) for chance in (0.0, 0.004, 0.62, 0.999, 1.0)]
    ['0 %', '<1 %', '62 %', '>99 %', '100 %']
    """
    if 0 < chance < _ONE_PERCENT / 2:
        return "<1 %"
    return ">99 %" if 1 - _ONE_PERCENT / 2 < chance < 1 else f"{100 * chance:.0f} %"


_ONE_PERCENT = 0.01


def answer_data(found: Answer) -> dict[str, Any]:
    """Return an answer as plain data, its cards and remedies aside."""
    return {
        "question": question_data(found.question),
        "verdict": found.verdict,
        "chance": found.chance,
        "why": format_why(found),
        "peak_bytes": asdict(found.prediction.figure),
        "parts_bytes": dict(found.prediction.parts),
        "predictor": found.prediction.predictor,
        "capacity_bytes": found.capacity_bytes,
        "reasons": list(found.reasons),
        "nearest": [_neighbour_data(near) for near in found.nearest],
        "nearest_oom": _neighbour_data(found.nearest_oom) if found.nearest_oom else None,
        "assumptions": assumptions_data(found.assumptions),
        "narrows_most": narrowest(found.assumptions).setting if found.assumptions else None,
        "rests_on": [{"observation_id": key, "share": share} for key, share in found.rests_on],
        "longest_seq_len": found.longest_seq_len,
        "biggest_batch": found.biggest_batch,
    }


def assumptions_data(found: Iterable[Assumption]) -> list[dict[str, Any]]:
    """Return assumptions as plain data."""
    return [
        {
            "setting": one.setting,
            "cases": [
                {"value": plain_value(case.value), "share": case.weight, "peak_bytes": case.bytes}
                for case in one.cases
            ],
        }
        for one in found
    ]


def interval_data(figure: Interval | None) -> dict[str, float] | None:
    """Return an interval as plain data."""
    return None if figure is None else asdict(figure)


def question_data(question: Question) -> dict[str, Any]:
    """Return a question as plain data, without what is not stated."""
    stated = {name: value for name, value in asdict(question).items() if value is not None}
    stated["model"] = question.model.model_id
    stated["n_params"] = question.n_params  # so that a wrong model is noticed
    if question.gpu is not None:
        stated["gpu"] = question.gpu.gpu_id
    return stated


def _neighbour_data(near: Neighbour) -> dict[str, Any]:
    seen = near.observation
    return {
        "observation_id": seen.observation_id,
        "source_id": seen.source_id,
        "outcome": seen.outcome,
        "peak_bytes": seen.peak_bytes,
        "memory_limit_bytes": seen.memory_limit_bytes,
        "differences": list(near.differences),
    }
