"""The clock of a training job: steps, and what interrupts them. Plain Python, no torch."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: Seconds that differences of readings of the clock may leave.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Step:
    """One optimizer step of one process. ``seconds`` leaves evaluation and checkpoints out."""

    step: int
    seconds: float
    tokens: int | None = None
    samples: int | None = None
    warmup: bool = False
    memory_allocated_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_device_bytes: int | None = None
    host_rss_bytes: int | None = None
    loss: float | None = None

    def as_sample(self) -> dict[str, Any]:
        """Return the step as a row of ``samples``."""
        row = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: value for name, value in row if value is not None}


@dataclass
class Recording:
    """Steps of one call of ``Trainer.train``, timed from border to border.

    A step reaches from the end of the one before it (or from the begin of the training) to its own
    end, so fetching its data counts, and time spent in :meth:`apart` does not.
    """

    clock: Callable[[], float] = time.perf_counter
    steps: list[Step] = field(default_factory=list)
    seconds_apart: dict[str, float] = field(default_factory=dict)
    train_began: float | None = None
    first_step_began: float | None = None
    train_ended: float | None = None
    step_begun: int = 0
    tokens: int | None = None
    samples: int | None = None
    _border: float = 0.0
    _apart_in_step: float = 0.0
    _depth: int = 0

    def begin_train(self) -> None:
        """Start the clock; a second start (after a retry) forgets the first."""
        self.steps.clear()
        self.seconds_apart.clear()
        self.train_began = self._border = self.clock()
        self._apart_in_step = 0.0
        self.tokens = self.samples = None

    def begin_step(self, step: int) -> None:
        """Note that a step's forward pass begins."""
        self.step_begun = step
        if self.first_step_began is None:
            self.first_step_began = self.clock()

    def count_batch(self, tokens: int | None, samples: int | None) -> None:
        """Add a micro-batch to the current step."""
        self.tokens = _plus(self.tokens, tokens)
        self.samples = _plus(self.samples, samples)

    def end_step(self, step: int, memory: dict[str, int | None] | None = None) -> Step:
        """Close a step at this moment (the caller has waited for the device) and return it."""
        now = self.clock()
        seconds = max(now - self._border - self._apart_in_step, 0.0)
        done = Step(step, seconds, self.tokens, self.samples, **(memory or {}))  # type: ignore[arg-type] # fields of Step
        self.steps.append(done)
        self._border, self._apart_in_step = now, 0.0
        self.tokens = self.samples = None
        return done

    def end_train(self, *, with_last_step: bool = False) -> None:
        """Stop the clock, or have it stopped when the last step ended."""
        self.train_ended = self._border if with_last_step else self.clock()

    def note_loss(self, step: int, loss: float) -> None:
        """Attach a logged loss to the step it was logged after."""
        if self.steps and self.steps[-1].step == step:
            self.steps[-1] = replace(self.steps[-1], loss=loss)

    @contextmanager
    def apart(self, kind: str) -> Iterator[None]:
        """Time what is no training (``eval``, ``save``); nested parts count with the outer one."""
        began = self.clock()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.note_apart(kind, self.clock() - began)

    def note_apart(self, kind: str, seconds: float) -> None:
        """Add time that was no training."""
        self.seconds_apart[kind] = self.seconds_apart.get(kind, 0.0) + seconds
        self._apart_in_step += seconds

    def count_in(self, kind: str, seconds: Sequence[float]) -> None:
        """Make time apart, of each of the last steps, a part of those steps after all."""
        for place, more in enumerate(seconds, start=len(self.steps) - len(seconds)):
            self.steps[place] = replace(self.steps[place], seconds=self.steps[place].seconds + more)
            self.seconds_apart[kind] -= more
        if self.seconds_apart[kind] < _ROUNDING:
            del self.seconds_apart[kind]

    @property
    def is_in_step(self) -> bool:
        """Whether a step has begun that has not ended."""
        return self.step_begun > (self.steps[-1].step if self.steps else 0)

    def total_seconds(self) -> float | None:
        """Return the seconds from the begin of the training to its end, or to now."""
        if self.train_began is None:
            return None
        return self._now() - self.train_began

    def train_seconds(self, *, failed: bool = False) -> float | None:
        """Return the seconds of training alone: those of the steps, and of one that failed.

        What follows the last step is not training: a last evaluation, saving, whatever else the
        process does. None where no step was seen.
        """
        if self.train_began is None or not (self.steps or failed):
            return None
        seconds = sum(step.seconds for step in self.steps)
        if failed and (not self.steps or self.is_in_step):
            seconds += max(self._now() - self._border - self._apart_in_step, 0.0)
        return seconds

    def _now(self) -> float:
        return self.train_ended if self.train_ended is not None else self.clock()


def count_warmup(n_steps: int, warmup_steps: int) -> int:
    """Return how many of the first steps are warm-up; the last one never is."""
    return min(warmup_steps, max(n_steps - 1, 0))


def mark_warmup(steps: list[Step], warmup_steps: int) -> list[Step]:
    """Return the steps with the first ones marked as warm-up; the last one never is."""
    n_warmup = count_warmup(len(steps), warmup_steps)
    return [replace(step, warmup=index < n_warmup) for index, step in enumerate(steps)]


def _plus(total: int | None, more: int | None) -> int | None:
    return total if more is None else (total or 0) + more
