"""Answers of ``registry fit`` and ``registry estimate`` as text for people, and as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from registry.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.predict.answer.advice import CardVerdict
    from registry.predict.answer.assumed import Assumption
    from registry.predict.answer.nearest import Neighbour
    from registry.predict.answer.will_it_fit import Answer
    from registry.predict.calibration.mixture import Interval
    from registry.predict.question import Question

_ID_DIGITS = 12


def format_interval(figure: Interval) -> str:
    """Return a memory figure with its interval."""
    low, high = format_memory(int(figure.low)), format_memory(int(figure.high))
    return f"{format_memory(int(figure.value))} (90 % interval {low} to {high})"


def format_question(question: Question) -> str:
    """Return a question in a line."""
    cards = f" on {question.n_gpus} x {question.gpu.gpu_id}" if question.gpu else ""
    return (
        f"{question.model.model_id}, {question.label}, seq_len {question.seq_len}, "
        f"batch {question.micro_batch_size}{cards}"
    )


def format_answer(found: Answer) -> Iterator[str]:
    """Yield the lines of an answer."""
    yield format_question(found.question)
    if found.verdict is not None:
        yield f"verdict: {found.verdict}"
    of = f" of {format_memory(found.capacity_bytes)}" if found.capacity_bytes else ""
    yield f"predicted peak per device: {format_interval(found.prediction.figure)}{of}"
    yield from (f"  {reason}" for reason in found.reasons)
    yield from _assumed(found)
    yield from _room(found)
    yield from ("", "nearest measured runs:")
    yield from _neighbours(found.nearest)
    if found.nearest_oom is not None:
        yield "nearest run that ran out of memory:"
        yield from _neighbours((found.nearest_oom,))
    if found.rests_on:
        shares = ", ".join(f"{key[:_ID_DIGITS]} ({share:.0%})" for key, share in found.rests_on)
        yield f"the figure rests most on: {shares}"
    for verdict, title in (("fits", "what would fit:"), ("undecided", "what may fit:")):
        remedies = [remedy for remedy in found.remedies if remedy.verdict == verdict]
        if remedies:
            yield from ("", title)
        for remedy in remedies:
            yield f"  {remedy.what}: {format_interval(remedy.peak)}"
    yield from _cards(found.cards)


#: How settings are called in answers, and the option that states each.
_SETTINGS = {
    "gradient_checkpointing": ("checkpointing", "--checkpointing or --no-checkpointing"),
    "attention": ("attention", "--attention"),
    "optimizer": ("optimizer", "--optimizer"),
    "param_dtype": ("precision of the weights", "--param-dtype"),
    "loss_kernel": ("loss", "--loss-kernel"),
    "adapters": ("adapters", "--lora-rank and --targets"),
}


def _assumed(found: Answer) -> Iterator[str]:
    """Yield what nobody stated, with the answer under each of its values."""
    if found.assumptions:
        yield "  not stated, so the answer covers:"
    for one in found.assumptions:
        cases = ", ".join(
            f"{_format_setting(case.value)} ({case.weight:.0%}): {format_memory(int(case.bytes))}"
            for case in one.cases
        )
        yield f"    {_SETTINGS[one.setting][0]}: {cases}"
    if found.assumptions:
        yield f"  to narrow it most, state {_SETTINGS[narrowest(found).setting][1]}"


def narrowest(found: Answer) -> Assumption:
    """Return the open setting that narrows the interval most where it is stated."""
    return min(found.assumptions, key=lambda one: one.width)


def _format_setting(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        rank, targets = value
        return f"rank {rank} on {' '.join(targets)}"
    return str(value)


def _room(found: Answer) -> Iterator[str]:
    if found.longest_seq_len is not None:
        yield f"  longest seq_len that fits: {found.longest_seq_len}"
    if found.biggest_batch is not None:
        yield f"  biggest batch that fits: {found.biggest_batch}"


def _neighbours(neighbours: tuple[Neighbour, ...]) -> Iterator[str]:
    for near in neighbours:
        seen = near.observation
        peak = f", {format_memory(int(seen.peak_bytes))} measured" if seen.peak_bytes else ""
        differs = "; ".join(near.differences) or "the same configuration"
        name = f"{seen.observation_id[:_ID_DIGITS]} {seen.source_id}"
        yield f"  {name}, {seen.outcome}{peak}: {differs}"
    if not neighbours:
        yield "  none"


#: So many cards are named of each verdict; `--json` has all.
_MOST_NAMED = 12

#: Cards of a family: few enough to name also those that do not do.
_FEW_CARDS = 12


def _card_name(card: CardVerdict) -> str:
    return card.gpu.gpu_id + (" (memory not verified)" if card.gpu.verified is False else "")


def _cards(cards: tuple[CardVerdict, ...]) -> Iterator[str]:
    verdicts = ("fits", "undecided", *(["does not fit"] if len(cards) <= _FEW_CARDS else []))
    for verdict in verdicts:
        names = [_card_name(card) for card in cards if card.verdict == verdict]
        if names:
            more = len(names) - _MOST_NAMED
            named = ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
            yield f"cards of the catalogue, {verdict} (smallest first): {named}"


def answer_data(found: Answer) -> dict[str, Any]:
    """Return an answer as plain data; bytes are those of one device."""
    return {
        "question": question_data(found.question),
        "verdict": found.verdict,
        "peak_bytes": asdict(found.prediction.figure),
        "parts_bytes": dict(found.prediction.parts),
        "predictor": found.prediction.predictor,
        "capacity_bytes": found.capacity_bytes,
        "reasons": found.reasons,
        "warnings": found.warnings,
        "nearest": [_neighbour_data(near) for near in found.nearest],
        "nearest_oom": _neighbour_data(found.nearest_oom) if found.nearest_oom else None,
        "assumptions": [
            {
                "setting": one.setting,
                "cases": [
                    {"value": case.value, "share": case.weight, "peak_bytes": case.bytes}
                    for case in one.cases
                ],
            }
            for one in found.assumptions
        ],
        "narrows_most": narrowest(found).setting if found.assumptions else None,
        "rests_on": [{"observation_id": key, "share": share} for key, share in found.rests_on],
        "longest_seq_len": found.longest_seq_len,
        "biggest_batch": found.biggest_batch,
        "remedies": [
            {
                "what": r.what,
                "settings": dict(r.settings),
                "peak_bytes": asdict(r.peak),
                "verdict": r.verdict,
            }
            for r in found.remedies
        ],
        "cards": [
            {"gpu_id": card.gpu.gpu_id, "verdict": card.verdict, "peak_bytes": asdict(card.peak)}
            for card in found.cards
        ],
    }


def question_data(question: Question) -> dict[str, Any]:
    """Return a question as plain data, without what is not stated."""
    stated = {name: value for name, value in asdict(question).items() if value is not None}
    stated["model"] = question.model.model_id
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
        "differences": near.differences,
    }
