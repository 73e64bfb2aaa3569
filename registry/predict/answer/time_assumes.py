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
    checkpointed = own.meaning(question).setting("gradient_checkpointing")
    filled = question.packing or question.longest_sample or question.mean_tokens
    assumed = {
        f"checkpointing {'on' if checkpointed else 'off'}": question.gradient_checkpointing is None,
        f"samples of {question.seq_len} tokens": not filled,
    }
    left_open = [words for words, is_open in assumed.items() if is_open]
    return (*left_open, *_own_speeds(question, own, [*cards]))


def _own_speeds(question: Question, own: OwnTimes, cards: list[Accelerator]) -> Iterator[str]:
    """Yield the cards whose times are at the speed of the user's own runs, by their source."""
    found: dict[str, list[str]] = {}
    for card in cards:
        run = own.nearest(question.changed(gpu=card))
        if run is not None:
            found.setdefault(run.source_id, []).append(card.gpu_id)
    for source, ids in found.items():
        where = "" if len(ids) == len(cards) else f"{', '.join(ids)} "
        yield f"{where}at the speed of your own runs ({source})"
