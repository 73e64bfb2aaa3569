"""What the lines of nanotron's iterations mean.

Numbers have three digits and a letter: K, M, G (B since 2025-04), T, P are powers of 1000, also of
bytes. A time is that of one iteration, a step of the optimizer with all its micro-batches;
``tokens_per_sec`` are those of all GPUs, at the full length of the sequences. The batch is in
samples where the time is named ``elapsed_time_per_iteration_ms``, in tokens since 2025-03, where it
is ``time_per_iteration_ms``. FLOPs are those of the model, without recomputation, of one GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Final

from registry.importers.shared.shapes import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LINE: Final = re.compile(
    r"\biteration: (?P<step>\d{1,15}) / (?P<all>\d{1,15}) \| (?P<figures>consumed_tokens: .*)"
)
_FIGURE: Final = re.compile(r"(?P<name>\w{1,60}): (?P<value>[\d.]{1,30}(?:e[-+]?\d{1,3})?[A-Z]?)")
_LETTERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "B": 3, "T": 4, "P": 5, "E": 6}
_SAMPLES: Final = "elapsed_time_per_iteration_ms"
_TIMES: Final = (_SAMPLES, "time_per_iteration_ms")
_DIGITS: Final = 3


@dataclass(frozen=True)
class Figure:
    """A figure as written, and what it may be: its value within half of its third digit."""

    raw: str
    value: float
    half: float

    @property
    def low(self) -> float:
        """The least that is written so."""
        return self.value - self.half

    @property
    def high(self) -> float:
        """The most that is written so."""
        return self.value + self.half


@dataclass(frozen=True)
class NanotronIteration:
    """One line: its iteration, how many there are to be, and its figures by name."""

    step: int
    all: int
    figures: Mapping[str, Figure]

    @property
    def milliseconds(self) -> Figure:
        """The time of the iteration."""
        return next(self.figures[name] for name in _TIMES if name in self.figures)

    @property
    def samples(self) -> int | None:
        """Samples of the iteration, where the batch is written in these and not in tokens."""
        batch = self.figures.get("global_batch_size") if _SAMPLES in self.figures else None
        return int(batch.value) if batch and batch.value and batch.half <= 1 else None


def read_iterations(lines: Sequence[str]) -> list[NanotronIteration]:
    """Return the lines of iterations that have a time and tokens per second."""
    return list(_iterations(lines))


def _iterations(lines: Sequence[str]) -> Iterator[NanotronIteration]:
    for line in lines:
        found = _LINE.search(line)
        figures = _parse_figures(found["figures"]) if found else {}
        times = [figures[name].value for name in _TIMES if name in figures]
        if found and times and times[0] > 0 and "tokens_per_sec" in figures:
            yield NanotronIteration(int(found["step"]), int(found["all"]), figures)


def _parse_figures(text: str) -> dict[str, Figure]:
    """Return the figures between bars; what is no number, such as ``eta``, is left out."""
    found = (_FIGURE.fullmatch(part.strip()) for part in text.split("|"))
    parsed = {match["name"]: parse_figure(match["value"]) for match in found if match}
    return {name: figure for name, figure in parsed.items() if figure is not None}


def parse_figure(text: str) -> Figure | None:
    """Return a number with its letter as three digits of it, or None.

    >>> parse_figure("11.5K")
    Figure(raw='11.5K', value=11500.0, half=50.0)
    >>> parse_figure("1.2Q"), parse_figure("1.2.3")
    (None, None)
    """
    letter = text[-1] if text[-1].isalpha() else ""
    number = number_of(text.removesuffix(letter))
    if number is None or letter not in _LETTERS:
        return None
    value = float(number) * 1000.0 ** _LETTERS[letter]
    half = 10.0 ** (floor(log10(value)) - _DIGITS + 1) / 2 if value > 0 else 0.0
    return Figure(text, value, half)


def count_gpus(steps: Sequence[NanotronIteration]) -> int | None:
    """Return the GPUs by which all rates of one are those of all, if only one number does."""
    pairs = [
        (step.figures["tokens_per_sec"], step.figures["tokens_per_sec_per_gpu"])
        for step in steps
        if "tokens_per_sec_per_gpu" in step.figures
    ]
    if not pairs or any(one.low <= 0 for _, one in pairs):
        return None
    fewest = ceil(max(whole.low / one.high for whole, one in pairs))
    most = floor(min(whole.high / one.low for whole, one in pairs))
    return fewest if fewest == most > 0 else None
