"""Jobs of trials that are under way, each with its keeper and its slot."""

from __future__ import annotations

import json
import os
import select
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from registry.measure.recording.progress import SUFFIX
from registry.measure.running.keeper import read_finished, start_keeper
from registry.measure.running.trial_run import (
    RESULT_NAME,
    job_command,
    prepare_folder,
    trial_environment,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping
    from pathlib import Path

    from registry.measure.child_process import Finished
    from registry.measure.running.slots import Slot, Slots
    from registry.measure.running.trials import Trial

#: Bytes at the end of a growing record that hold its last step.
_LAST_BYTES = 4096


@dataclass
class RunningTrial:
    """A trial that runs. ``most_beside`` is how many others ran at the same time, at most."""

    trial: Trial
    folder: Path
    slot: Slot
    keeper: subprocess.Popen[bytes]
    most_beside: int = 0
    began: float = field(default_factory=time.monotonic)

    def read_finished(self) -> Finished:
        """Return how it ended."""
        return read_finished(self.folder, self.keeper, self.seconds())

    def seconds(self) -> float:
        """Return how long it has been running."""
        return time.monotonic() - self.began

    def count_steps(self) -> int:
        """Return how many steps its first process has done, by the record that grows with them."""
        path = (self.folder / RESULT_NAME).with_suffix(SUFFIX)
        with suppress(OSError), path.open("rb") as file:
            file.seek(max(path.stat().st_size - _LAST_BYTES, 0))
            for line in reversed(file.read().splitlines()):
                with suppress(ValueError, LookupError, TypeError):  # cut short, or no step
                    return int(json.loads(line)["step"]["step"])
        return 0


class Pool:
    """Starts trials in free slots and waits for them."""

    def __init__(self, slots: Slots, places: Mapping[str, Path], python: str | None = None) -> None:
        self.running: list[RunningTrial] = []
        self._slots = slots
        self._places = places
        self._python = python

    def start(self, trial: Trial) -> bool:
        """Start a trial; return False where there is no slot for it now."""
        slot = self._slots.take(trial)
        if slot is None:
            return False
        folder = prepare_folder(trial, self._places[trial.trial_id])
        keeper = start_keeper(
            job_command(trial, folder, self._python),
            environment=trial_environment(trial, slot),
            folder=folder,
            timeout_seconds=trial.settings.timeout_seconds,
            cpus=slot.cpus,
        )
        self.running.append(RunningTrial(trial, folder, slot, keeper))
        for job in self.running:
            job.most_beside = max(job.most_beside, len(self.running) - 1)
        return True

    def wait(self, seconds: float | None) -> list[RunningTrial]:
        """Sleep until a job ends, or for so long; return those that have ended."""
        if all(job.keeper.poll() is None for job in self.running):
            _sleep_until_one_ends([job.keeper.pid for job in self.running], seconds)
        ended = [job for job in self.running if job.keeper.poll() is not None]
        for job in ended:
            self.running.remove(job)
            self._slots.give_back(job.slot)
        return ended

    def forget(self) -> None:
        """Have the system forget the keepers that were ended before their jobs."""
        for job in self.running:
            job.keeper.wait()


def _sleep_until_one_ends(pids: list[int], seconds: float | None) -> None:
    descriptors = [os.pidfd_open(pid) for pid in pids]
    try:
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        poll.poll(None if seconds is None else int(seconds * 1000))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
