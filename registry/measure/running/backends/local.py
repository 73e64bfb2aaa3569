"""Trials on this machine, each with its keeper and its slot."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from registry.measure.child_process import wait_for_one
from registry.measure.environment import collect_host
from registry.measure.running.backends.interface import TrialJob
from registry.measure.running.keeper import read_finished, start_keeper
from registry.measure.running.places import hash_environment, list_decisive_versions
from registry.measure.running.slots import Slots
from registry.measure.running.trial_run import job_command, prepare_folder, trial_environment

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence
    from pathlib import Path

    from registry.measure.running.slots import Slot
    from registry.measure.running.trials import Trial


@dataclass(eq=False, kw_only=True)
class LocalJob(TrialJob):
    """A trial that runs here."""

    slot: Slot
    keeper: subprocess.Popen[bytes]
    began: float = field(default_factory=time.monotonic)

    def seconds(self) -> float:
        """Return how long it has been running."""
        return time.monotonic() - self.began


class Local:
    """Starts trials in free slots and waits for them.

    ``slots`` says what may run side by side, the GPUs of this machine where None; ``python`` is the
    jobs' interpreter, the one that runs this where None.
    """

    def __init__(self, slots: Slots | None = None, python: str | None = None) -> None:
        self.running: list[LocalJob] = []
        self._slots = slots or Slots()
        self._python = python
        self._key = cache(self._hash_environment)

    def check(self, trials: Sequence[Trial]) -> None:
        """Raise SourceError where a trial asks for more than this machine has."""
        self._slots.check(trials)

    def environment_key(self, trial: Trial) -> str:
        """Return a short hash of what, beside the trial, decides its result on this machine."""
        n_cpus = None if self._slots.is_on_gpu(trial) else self._slots.cpu_share()
        return self._key(trial.settings.device, n_cpus)

    def _hash_environment(self, device: str, n_cpus: int | None) -> str:
        """``n_cpus`` is how many processors the trial has, where that is not all there are."""
        return hash_environment(
            {
                "host": {k: v for k, v in collect_host().items() if v is not None},
                "python": self._python or sys.executable,
                "packages": list_decisive_versions(),
                "device": device,
                **({"slot": n_cpus} if n_cpus is not None else {}),
            }
        )

    def submit(self, waiting: Sequence[tuple[Trial, Path]]) -> list[LocalJob]:
        """Start trials in their order as long as there is a slot for the next one."""
        started = []
        for trial, place in waiting:
            slot = self._slots.take(trial)
            if slot is None:
                break
            started.append(self._start(trial, place, slot))
        return started

    def _start(self, trial: Trial, place: Path, slot: Slot) -> LocalJob:
        folder = prepare_folder(trial, place)
        keeper = start_keeper(
            job_command(trial, folder, self._python),
            environment=trial_environment(trial, slot),
            folder=folder,
            timeout_seconds=trial.settings.timeout_seconds,
            cpus=slot.cpus,
        )
        started = LocalJob(trial, folder, folder, slot=slot, keeper=keeper)
        self.running.append(started)
        for job in self.running:
            job.most_beside = max(job.most_beside, len(self.running) - 1)
        return started

    def poll(self, seconds: float | None) -> list[LocalJob]:
        """Sleep until a job ends, or for so long; return those that have ended."""
        if all(job.keeper.poll() is None for job in self.running):
            wait_for_one([job.keeper.pid for job in self.running], seconds)
        ended = [job for job in self.running if job.keeper.poll() is not None]
        for job in ended:
            job.finished = read_finished(job.folder, job.keeper, job.seconds())
            self.running.remove(job)
            self._slots.give_back(job.slot)
        return ended

    def cancel(self) -> None:
        """Have the system forget the keepers, which were ended before their jobs."""
        for job in self.running:
            job.keeper.wait()
