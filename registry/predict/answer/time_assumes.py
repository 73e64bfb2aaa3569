"""What an answer's times take for granted, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from registry.predict.architecture import Accelerator
    from registry.predict.calibration.own_times import OwnTimes
    from registry.predict.question import Question


def list_time_assumes(
    question: Question, own: OwnTimes, cards: Iterable[Accelerator]
) -> tuple[str, ...]:
    """Return what times on some cards take for granted of what the question leaves open."""
    asked = [question.changed(gpu=card) for card in cards] or [question]
    return (*_left_open(question, [own.meaning(one) for one in asked]), *_own_speeds(asked, own))


def _left_open(question: Question, meant: list[Question]) -> Iterator[str]:
    """Yield what stands for what is not stated; an own run has its own."""
    if question.gradient_checkpointing is None:
        on = [bool(one.setting("gradient_checkpointing")) for one in meant]
        yield from _by_card([f"checkpointing {'on' if one else 'off'}" for one in on], meant)
    if not (question.packing or question.longest_sample or question.mean_tokens):
        yield from _by_card([f"samples of {one.longest} tokens" for one in meant], meant)


def _by_card(words: list[str], asked: list[Question]) -> Iterator[str]:
    """Yield the words of most cards, then others with the cards that they are of."""
    usual = max(words, key=words.count)
    yield usual
    for other in dict.fromkeys(words):
        if other != usual:
            ids = (_card_of(one) for one, said in zip(asked, words, strict=True) if said == other)
            yield f"{', '.join(ids)} {other}"


def _own_speeds(asked: list[Question], own: OwnTimes) -> Iterator[str]:
    """Yield the cards whose times are at the speed of the user's own runs, by their source."""
    found: dict[str, list[str]] = {}
    for one in asked:
        run = own.nearest(one)
        if run is not None:
            found.setdefault(run.source_id, []).append(_card_of(one))
    for source, ids in found.items():
        where = "" if len(ids) == len(asked) else f"{', '.join(ids)} "
        yield f"{where}at the speed of your own runs ({source})"


def _card_of(question: Question) -> str:
    return question.gpu.gpu_id if question.gpu else ""
