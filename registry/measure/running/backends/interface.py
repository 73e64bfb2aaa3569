"""What a sweep asks of whatever runs its trials: submit, poll, cancel."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from registry.measure.recording.progress import SUFFIX
from registry.measure.running.trial_run import RESULT_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from registry.measure.child_process import Finished
    from registry.measure.running.trials import Trial

#: Bytes at the end of a growing record that hold its last step.
_LAST_BYTES = 4096


@dataclass(eq=False)
class TrialJob:
    """A trial that was submitted, or one attempt at it that has ended.

    Attributes:
        trial: What it runs.
        place: The trial's folder.
        folder: Where this attempt leaves its output and its records; the place itself, where there
            are no others.
        finished: How it ended; None until then, and for good where it never began.
        trouble: Why it ended without beginning.
        then: Whether that was all (``done``), the trial is to be submitted once more (``again``),
            or the engine itself runs it once more (``goes_on``).
        most_beside: How many others of this sweep ran on the same machine at the same time, at
            most.
        environment: Row of ``environments`` of the machine it ran on, where that may be another.
        provenance: Further entries of the observation's provenance.
    """

    trial: Trial
    place: Path
    folder: Path
    finished: Finished | None = None
    trouble: str | None = None
    then: Literal["done", "again", "goes_on"] = "done"
    most_beside: int = 0
    environment: dict[str, Any] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def seconds(self) -> float:
        """Return how long it has been running; 0 where it has not begun."""
        raise NotImplementedError

    def count_steps(self) -> int:
        """Return how many steps its first process has done, by the record that grows with them."""
        path = (self.folder / RESULT_NAME).with_suffix(SUFFIX)
        with suppress(OSError), path.open("rb") as file:
            file.seek(max(path.stat().st_size - _LAST_BYTES, 0))
            for line in reversed(file.read().splitlines()):
                with suppress(ValueError, LookupError, TypeError):  # cut short, or no step
                    return int(json.loads(line)["step"]["step"])
        return 0


class Backend(Protocol):
    """Runs trials somewhere. What must survive it is in the trials' folders and the registry."""

    def check(self, trials: Sequence[Trial]) -> None:
        """Raise SourceError where a trial asks for more than there is."""

    def environment_key(self, trial: Trial) -> str:
        """Return a short hash of what, beside the trial, decides its result here."""

    @property
    def running(self) -> Sequence[TrialJob]:
        """What was submitted and has not ended."""

    def submit(self, waiting: Sequence[tuple[Trial, Path]]) -> Sequence[TrialJob]:
        """Start as many of the trials, each with its place, as can be started now, in order."""

    def poll(self, seconds: float | None) -> Sequence[TrialJob]:
        """Sleep until a job ends, or for so long; return those that have ended."""

    def cancel(self) -> None:
        """End what is still running; called once, at the end of every sweep."""
