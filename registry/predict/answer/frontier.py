"""The most of several sizes that fits a card: points with none above them in every size."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from registry.errors import QuestionError, did_you_mean
from registry.predict.answer.advice import does_fit
from registry.predict.answer.prediction import predict_memory, predict_samples
from registry.predict.formula.methods import has_rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from registry.predict.calibration.intervals import Calibration
    from registry.predict.calibration.mixture import Interval
    from registry.predict.question import Question

#: Fields of a question by what people call them in a sweep.
AXES = {"batch": "micro_batch_size", "seq-len": "seq_len", "rank": "lora_rank"}
_SHORTEST, _LONGEST = 512, 131_072
_BATCHES = tuple(2**n for n in range(11))
_RANKS = (8, 16, 32, 64, 128, 256)


@dataclass(frozen=True)
class FrontierPoint:
    """Sizes that fit together."""

    settings: tuple[tuple[str, int], ...]
    peak: Interval
    seconds_per_sample: Interval | None


def parse_axes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the fields that a sweep varies; raise QuestionError for one that it cannot.

    >>> parse_axes(["batch", "seq_len"])
    ('micro_batch_size', 'seq_len')
    """
    found = []
    for name in names:
        plain = name.strip().lower().replace("_", "-").removeprefix("lora-")
        if plain not in AXES:
            raise QuestionError(
                f"sweep: found {name!r}{did_you_mean(plain, AXES)}; expected one or more of "
                f"{', '.join(AXES)}, such as batch,seq-len"
            )
        found.append(AXES[plain])
    return tuple(dict.fromkeys(found))


def find_frontier(
    question: Question, calibration: Calibration, axes: Sequence[str]
) -> tuple[FrontierPoint, ...]:
    """Return the points of a grid whose whole interval fits and above which none does.

    Lengths and batches are doubled. Raises QuestionError without a card, and for ranks of a method
    that has none. Takes a prediction for each combination of all but the last axis, at least.
    """
    if question.gpu is None:
        raise QuestionError("sweep: found no one card; expected one: --gpu ID or --vram SIZE")
    if "lora_rank" in axes and (question.full or not has_rank(question)):
        raise QuestionError(f"sweep: method {question.method} has no rank; expected batch, seq-len")
    grid = [_values(question, axis) for axis in axes]
    points = [
        dict(zip(axes, values, strict=True)) for values in _climb(question, calibration, axes, grid)
    ]
    return tuple(_point(question.changed(**one), calibration, one) for one in _undominated(points))


def _values(question: Question, axis: str) -> tuple[int, ...]:
    if axis == "lora_rank":
        return _RANKS
    if axis == "micro_batch_size":
        return _BATCHES
    limit = question.model.max_positions or _LONGEST
    doubled = (_SHORTEST * 2**n for n in range(12))
    return tuple(length for length in doubled if length <= limit) or (question.seq_len,)


def _climb(
    question: Question, calibration: Calibration, axes: Sequence[str], grid: Sequence[Sequence[int]]
) -> Iterator[tuple[int, ...]]:
    """Yield, for each combination of all axes but the last, the most of the last that fits.

    What does not fit with less of one axis does not with more: the search starts from there.
    """
    *others, last = grid
    tops: dict[tuple[int, ...], int] = {}
    for place in product(*(range(len(values)) for values in others)):
        below = [
            tops[(*place[:i], place[i] - 1, *place[i + 1 :])] for i in range(len(place)) if place[i]
        ]
        values = [axis[i] for axis, i in zip(others, place, strict=True)]
        top = min(below) if below else _rise(question, calibration, axes, values, last)
        while below and top >= 0 and not _fits(question, calibration, axes, (*values, last[top])):
            top -= 1
        tops[place] = top
        if top >= 0:
            yield (*values, last[top])


def _rise(
    question: Question,
    calibration: Calibration,
    axes: Sequence[str],
    values: Sequence[int],
    last: Sequence[int],
) -> int:
    """Return the place of the most of the last axis that fits, from below; -1 for none."""
    for place, value in enumerate(last):
        if not _fits(question, calibration, axes, (*values, value)):
            return place - 1
    return len(last) - 1


def _fits(
    question: Question, calibration: Calibration, axes: Sequence[str], values: Sequence[int]
) -> bool:
    changed = question.changed(**dict(zip(axes, values, strict=True)))
    return does_fit(changed, calibration)


def _undominated(points: Sequence[dict[str, int]]) -> list[dict[str, int]]:
    return [
        one
        for one in points
        if not any(other != one and all(other[k] >= one[k] for k in one) for other in points)
    ]


def _point(question: Question, calibration: Calibration, sizes: dict[str, int]) -> FrontierPoint:
    figure = predict_memory(question, calibration).figure
    (seconds,) = predict_samples([question], calibration)
    return FrontierPoint(tuple(sizes.items()), figure, seconds)
