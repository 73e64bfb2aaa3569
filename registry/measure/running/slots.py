"""Which trials may run side by side: each GPU belongs to one trial, on CPU each group of cores."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from registry.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.measure.running.trials import Trial

#: Says which GPUs a process may see.
VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Slot:
    """What a trial has to itself; empty where it has all there is."""

    gpus: tuple[str, ...] = ()
    cpus: tuple[int, ...] = ()


def find_gpus(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the GPUs that a job started here would see, as CUDA_VISIBLE_DEVICES names them."""
    stated = (os.environ if environment is None else environment).get(VISIBLE)
    if stated is not None:
        names = [name.strip() for name in stated.split(",")]
        return tuple(name for name in names if name and name not in ("-1", "NoDevFiles"))
    return tuple(str(index) for index in range(len(find_gpu_names())))


def find_gpu_names() -> list[str]:
    """Return the names of this machine's GPUs, as the driver tells them; none without a driver."""
    with suppress(Exception):  # no NVML, whatever the reason
        nvml = import_module("pynvml")
        nvml.nvmlInit()
        handles = map(nvml.nvmlDeviceGetHandleByIndex, range(nvml.nvmlDeviceGetCount()))
        names = [nvml.nvmlDeviceGetName(handle) for handle in handles]
        return [name.decode() if isinstance(name, bytes) else str(name) for name in names]
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],  # noqa: S607 - where it is
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
    return done.stdout.split("\n")[:-1]


#: Processes that a trial may have on fewer processors: a host's cards, to try a plan without them.
_MOST_PROCESSES = 8


@dataclass
class Slots:
    """The slots of this machine, taken by trials and given back.

    Trials on GPUs run side by side as long as there are free GPUs, at most ``parallel`` of them.
    On CPU neighbours disturb each other's timing, so that trials share the machine only where
    ``parallel`` asks for it; each then has its own share of the cores.
    """

    parallel: int | None = None
    gpus: tuple[str, ...] = field(default_factory=find_gpus)
    cpus: tuple[int, ...] = field(default_factory=lambda: tuple(sorted(os.sched_getaffinity(0))))
    _taken: list[Slot] = field(default_factory=list)

    def check(self, trials: Sequence[Trial]) -> None:
        """Raise SourceError where a trial or the wanted number asks for more than there is."""
        on_cpu = any(not self.is_on_gpu(trial) for trial in trials)
        if self.parallel and self.parallel > len(self.cpus) and on_cpu:
            raise SourceError(
                f"parallel: found {self.parallel} trials at once on {len(self.cpus)} processors; "
                "expected at most one for each processor"
            )
        if (n_nodes := max((t.settings.n_nodes for t in trials), default=1)) > 1:
            raise SourceError(
                f"n_nodes: found {n_nodes}; expected 1 on this machine; run the plan with "
                "--backend slurm"
            )
        processes = max((t.settings.n_gpus for t in trials if not self.is_on_gpu(t)), default=0)
        if processes > (allowed := max(_MOST_PROCESSES, len(self.cpus))):
            raise SourceError(
                f"n_gpus: found {processes}, which without GPUs are as many processes; expected at "
                f"most {allowed} on the {len(self.cpus)} processors of this machine"
            )
        most = max((t.settings.n_gpus for t in trials if self.is_on_gpu(t)), default=0)
        if most > len(self.gpus):
            raise SourceError(
                f"n_gpus: found {most}; expected at most the {len(self.gpus)} GPUs of this machine"
            )

    def is_on_gpu(self, trial: Trial) -> bool:
        """Return whether a trial will run on GPUs here."""
        return bool(self.gpus) and trial.settings.device != "cpu"

    def cpu_share(self) -> int | None:
        """Return the cores that a trial on CPU has to itself; None for all."""
        several = self.parallel is not None and self.parallel > 1
        return len(self.cpus) // self.parallel if several and self.parallel else None

    def take(self, trial: Trial) -> Slot | None:
        """Return a slot for a trial, which is then taken; None where it has to wait."""
        if self.parallel is not None and len(self._taken) >= self.parallel:
            return None
        slot = self._gpu_slot(trial) if self.is_on_gpu(trial) else self._cpu_slot()
        if slot is not None:
            self._taken.append(slot)
        return slot

    def give_back(self, slot: Slot) -> None:
        """Have the next trial use what one had."""
        self._taken.remove(slot)

    def _gpu_slot(self, trial: Trial) -> Slot | None:
        wanted = trial.settings.n_gpus
        if any(not slot.gpus for slot in self._taken):
            return None  # a trial on CPU is alone, or one has all GPUs
        free = [gpu for gpu in self.gpus if all(gpu not in slot.gpus for slot in self._taken)]
        return Slot(gpus=tuple(free[:wanted])) if len(free) >= wanted else None

    def _cpu_slot(self) -> Slot | None:
        share = self.cpu_share()
        if share is None:
            return None if self._taken else Slot()
        free = [cpu for cpu in self.cpus if all(cpu not in slot.cpus for slot in self._taken)]
        return Slot(cpus=tuple(free[:share])) if len(free) >= share else None
