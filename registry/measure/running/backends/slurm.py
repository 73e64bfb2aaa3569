"""Trials as jobs of Slurm, submitted through submitit, from a machine that has its commands."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import shutil
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.errors import MissingExtraError, SourceError
from registry.measure.failure import shorten
from registry.measure.running.backends.attempt import Order, run_attempt
from registry.measure.running.backends.cluster import MOST_AT_ONCE, Fate, Shape
from registry.measure.running.trial_run import Team

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.measure.running.backends.cluster import ClusterJob

#: Seconds between two questions to the scheduler, which has others to serve.
_ASK_SECONDS = 5.0

#: Seconds that a command of Slurm may take.
_PATIENCE_SECONDS = 120.0

#: Seconds before a job's time limit at which Slurm says so.
_WARNING_SECONDS = 60

#: Seconds that a job has beside its trial's own time limit: to start, and to be warned.
_SPARE_SECONDS = 240

#: States of jobs that have ended (squeue(1)), and whether the trial is worth another submission.
_ENDED = {
    "BOOT_FAIL": True,
    "CANCELLED": False,
    "COMPLETED": True,
    "DEADLINE": False,
    "FAILED": True,
    "NODE_FAIL": True,
    "OUT_OF_MEMORY": False,
    "PREEMPTED": True,
    "REVOKED": True,
    "SPECIAL_EXIT": False,
    "TIMEOUT": False,
}

#: States of jobs whose script has ended by itself.
_RAN = ("COMPLETED", "FAILED")

#: Ports at which the processes of trials on several nodes meet: that of the job's number.
_FIRST_PORT, _N_PORTS = 20_000, 10_000

#: How many GPUs a node's generic resources name, such as ``gpu:h100:4(S:0-1)``.
_GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)")

#: Its jobs' files, among the folders of trials.
_FOLDER = "slurm"


@dataclass
class Slurm:
    """The jobs of one user.

    Attributes:
        partition: Partition of the jobs; the cluster's default one where None.
        array: Whether trials that ask for the same are one job array.
        options: Further options of sbatch by their long names, such as ``account``.
    """

    partition: str | None = None
    array: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    name: str = "slurm"
    spans_nodes: bool = True
    _states: dict[str, tuple[str, int]] = field(default_factory=dict)
    _asked_at: float = -math.inf

    def describe(self) -> dict[str, Any]:
        """Return what of its options decides a result."""
        return {"partition": self.partition, "options": dict(self.options)}

    def list_shapes(self) -> list[Shape]:
        """Return what each node of the partition has that is up."""
        asked = [] if self.partition is None else ["--partition", self.partition]
        lines = _ask("sinfo", "--noheader", "--Node", "--format=%c|%G|%P|%t", *asked)
        default = self.partition is None
        shapes = [
            Shape(int(cpus), sum(map(int, _GPUS.findall(gres))))
            for cpus, gres, partition, state in (line.split("|") for line in lines)
            if (not default or partition.endswith("*")) and not state.startswith(("down", "inval"))
        ]
        if not shapes:
            there = ", ".join(_ask("sinfo", "--noheader", "--format=%P (%a, %D nodes)"))
            raise SourceError(
                f"slurm: no node is up in partition {self.partition or '(the default one)'}; "
                f"expected one of {there or 'none: this cluster has no partition'}; name it with "
                "--partition"
            )
        return shapes

    def launch(self, orders: Sequence[Order], n_gpus: int) -> list[str]:
        """Submit orders that ask for the same; return their job ids."""
        executor = self._executor(orders[0], n_gpus)
        ids: list[str] = []
        try:
            if self.array:
                ids += [str(job.job_id) for job in executor.map_array(run_in_slurm, orders)]
            else:
                for order in orders:
                    ids.append(str(executor.submit(run_in_slurm, order).job_id))
        except BaseException as error:
            with suppress(SourceError):
                self.cancel(ids)
            if not isinstance(error, RuntimeError | OSError):
                raise
            raise SourceError(
                f"slurm: sbatch refused the job: {shorten(str(error).strip())}; fix the plan, or "
                "give --partition, --cpus or --sbatch NAME=VALUE as the cluster wants them"
            ) from None
        self._states |= dict.fromkeys(ids, ("PENDING", 0))
        return ids

    def _executor(self, order: Order, n_gpus: int) -> Any:
        submitit = import_module("submitit")
        folder = Path(order.place).parent / _FOLDER
        executor = submitit.SlurmExecutor(folder=folder / "%j")
        seconds = order.spec["settings"]["timeout_seconds"] + _SPARE_SECONDS
        executor.update_parameters(
            job_name="registry",
            time=math.ceil(seconds / 60),
            nodes=order.spec["settings"]["n_nodes"],
            ntasks_per_node=1,
            cpus_per_task=order.n_cpus,
            signal_delay_s=_WARNING_SECONDS,
            array_parallelism=MOST_AT_ONCE,
            # a step does not inherit the processors of its job since 22.05
            srun_args=[f"--cpus-per-task={order.n_cpus}"],
            additional_parameters={"requeue": True, **self.options},
            **({} if self.partition is None else {"partition": self.partition}),
            **({"gres": f"gpu:{n_gpus}"} if n_gpus else {}),
        )
        return executor

    def find(self, claim: Mapping[str, Any]) -> str | None:
        """Return the id of a job of an earlier call; None where it has ended or is not known."""
        job_id = claim.get("job_id")
        self._ask_states()
        state, _ = self._states.get(str(job_id), ("COMPLETED", 0))
        return None if state in _ENDED else str(job_id)

    def find_fates(self, jobs: Sequence[ClusterJob]) -> dict[str, Fate]:
        """Return what came of the jobs that are not under way, by their tickets."""
        if jobs:
            self._ask_states()
        return {
            job.ticket: _locate_output(job, fate)
            for job in jobs
            if (fate := _judge(self._states.get(str(job.handle)), job.restart)) is not None
        }

    def _ask_states(self) -> None:
        """Ask for state and restarts of all jobs of this user, at most every few seconds."""
        if time.monotonic() - self._asked_at < _ASK_SECONDS:
            return
        try:
            lines = _ask(
                "squeue",
                "--noheader",
                "--array",
                "--states=all",
                f"--user={os.getuid()}",
                "--Format=JobArrayID:|,State:|,RestartCnt:|",
            )
        except SourceError:
            if not self._states:
                raise
            return  # the controller is away for a while; its jobs go on
        finally:
            self._asked_at = time.monotonic()
        rows = (line.split("|") for line in lines)
        self._states = {job_id: (state, int(restarts)) for job_id, state, restarts, *_ in rows}

    def cancel(self, handles: Sequence[str | None]) -> None:
        """End jobs."""
        known = [handle for handle in handles if handle is not None]
        for first in range(0, len(known), 100):
            _ask("scancel", "--quiet", *known[first : first + 100])

    def close(self) -> None:
        """Nothing is held."""


def require_submitit() -> None:
    """Raise MissingExtraError without submitit, SourceError without Slurm's commands."""
    if importlib.util.find_spec("submitit") is None:
        raise MissingExtraError(
            "the backend slurm needs submitit, which this Python does not have; install with: "
            "pip install 'peft-registry[slurm]'"
        )
    missing = [name for name in ("sbatch", "srun", "squeue", "sinfo") if not shutil.which(name)]
    if missing:
        raise SourceError(
            f"slurm: found no {', '.join(missing)} on PATH; expected the commands of a Slurm "
            "cluster; run this on a machine that submits jobs, such as its login node"
        )


def run_in_slurm(order: Order) -> None:
    """Run the trial of an order: what submitit calls in the job."""
    environment = os.environ
    array, job = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_JOB_ID")
    run_attempt(
        order,
        node=environment.get("SLURMD_NODENAME", ""),
        job_id=f"{array}_{environment['SLURM_ARRAY_TASK_ID']}" if array else job,
        restart=int(environment.get("SLURM_RESTART_COUNT", "0")),
        team=_find_team(environment),
    )


def _find_team(environment: Mapping[str, str]) -> Team | None:
    """Return where this node stands among several: srun was called on the first one."""
    if int(environment.get("SLURM_NNODES", "1")) == 1:
        return None
    return Team(
        rank=int(environment["SLURM_NODEID"]),
        address=environment["SLURM_LAUNCH_NODE_IPADDR"],
        port=_FIRST_PORT + int(environment["SLURM_JOB_ID"]) % _N_PORTS,
    )


def _judge(known: tuple[str, int] | None, restart: int) -> Fate | None:
    """Return what a job's state and number of restarts say; None where it is under way."""
    if known is None:
        return Fate("the job is gone", again=True)
    state, restarts = known
    if restarts > restart:
        return Fate("requeued", goes_on=True)
    if state not in _ENDED:
        return None
    return Fate(state, again=_ENDED[state], out_of_memory=state == "OUT_OF_MEMORY")


def _locate_output(job: ClusterJob, fate: Fate) -> Fate:
    """Return a fate with the folder of what the job wrote, where its script ended by itself."""
    if fate.said not in _RAN:
        return fate
    return replace(fate, output=str(job.place.parent / _FOLDER / str(job.handle)))


def _ask(*command: str) -> list[str]:
    """Return the lines that a command of Slurm prints. Raises SourceError where it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=True
        )
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip()
    except (OSError, subprocess.SubprocessError) as error:
        said = str(error)
    else:
        return done.stdout.splitlines()
    raise SourceError(
        f"slurm: {command[0]} failed: {shorten(said)}; expected a cluster that answers; see what "
        "sinfo says"
    )
