"""What clusters have in common: attempts in a shared folder, and what to do where one is lost.

A trial's folder says which submission it belongs to (``claim.json``). A driver that is called
again finds there what an earlier one left: a job that still waits or runs is watched on, one that
has ended meanwhile is taken in, and only what is gone is submitted anew.
"""

from __future__ import annotations

import secrets
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from registry.errors import SourceError
from registry.measure.child_process import Finished
from registry.measure.record_files import read_json, write_json
from registry.measure.running.backends.attempt import (
    CLAIM_NAME,
    END_NAME,
    NODE_NAME,
    Order,
    attempt_folder,
    build_order,
    read_claim,
    read_end,
)
from registry.measure.running.backends.interface import TrialJob
from registry.measure.running.places import (
    SUBMISSION_NAME,
    hash_environment,
    list_decisive_versions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from registry.measure.running.trials import Trial

#: How often a trial is submitted in one call, where nodes are lost or others go first.
MOST_SUBMISSIONS = 3

#: Trials that are submitted at one time, at most: what an array of Slurm holds by default.
MOST_AT_ONCE = 1000

#: Seconds between two looks at the files of running attempts, and for each of them.
_LOOK_SECONDS, _LOOK_SECONDS_EACH = 0.5, 0.01

#: Seconds that the last files of a job may take to be seen over a network.
_LAG_SECONDS = 5.0


@dataclass(frozen=True)
class Shape:
    """What a node has."""

    cpus: int
    gpus: int


@dataclass(frozen=True)
class Fate:
    """What an engine says of a job that is not under way.

    Attributes:
        said: In its words.
        again: Whether it ended through no fault of the trial and nobody's wish.
        goes_on: Whether the engine itself runs it once more.
        out_of_memory: Whether its processes were killed for want of memory.
        output: The folder of what a job wrote that ended by itself; None for others.
    """

    said: str
    again: bool = False
    goes_on: bool = False
    out_of_memory: bool = False
    output: str | None = None


@dataclass(eq=False, kw_only=True)
class ClusterJob(TrialJob):
    """A trial that was submitted to a cluster; ``handle`` is what the engine knows it by."""

    ticket: str
    handle: Any
    restart: int = 0
    node: dict[str, Any] = field(default_factory=dict)
    missed_at: float | None = None

    def read_node(self) -> dict[str, Any]:
        """Return what the attempt's node said at its begin; empty before."""
        if not self.node:
            self.node = read_json(self.folder / NODE_NAME) or {}
        return self.node

    def seconds(self) -> float:
        """Return how long it has been running, by the clocks of two machines."""
        return max(time.time() - self.node["began"], 0.0) if self.node else 0.0

    def next_attempt(self) -> ClusterJob:
        """Return the job as the engine begins it anew."""
        folder = attempt_folder(self.place, self.ticket, self.restart + 1)
        return ClusterJob(
            self.trial,
            self.place,
            folder,
            ticket=self.ticket,
            handle=self.handle,
            restart=self.restart + 1,
        )


class Engine(Protocol):
    """What is particular to one kind of cluster."""

    name: str
    #: Whether a trial may take several nodes.
    spans_nodes: bool

    def list_shapes(self) -> Sequence[Shape]:
        """Return what each node that may be used has."""

    def describe(self) -> dict[str, Any]:
        """Return what of its options decides a result."""

    def launch(self, orders: Sequence[Order], n_gpus: int) -> Sequence[Any]:
        """Submit trials that ask for the same; return the handle of each. Raises SourceError."""

    def find(self, claim: Mapping[str, Any]) -> Any:
        """Return the handle of a job that an earlier call submitted; None where it is gone."""

    def find_fates(self, jobs: Sequence[ClusterJob]) -> Mapping[str, Fate]:
        """Return what came of those that are not under way, by their tickets."""

    def cancel(self, handles: Sequence[Any]) -> None:
        """End jobs."""

    def close(self) -> None:
        """Let go of the cluster."""


class Cluster:
    """Runs trials on the nodes of an engine, at most ``parallel`` at once.

    A trial on GPUs asks for as many, and for the share of a node's processors that they are of its
    GPUs; a trial on CPU for all processors of a node, because neighbours disturb the timing.
    ``n_cpus`` is asked for instead where it is given.
    """

    def __init__(
        self, engine: Engine, *, parallel: int | None = None, n_cpus: int | None = None
    ) -> None:
        self.running: list[ClusterJob] = []
        self._engine = engine
        self._parallel = parallel
        self._n_cpus = n_cpus
        self._shapes: Callable[[], Sequence[Shape]] = cache(engine.list_shapes)
        self._key = cache(self._hash_environment)
        self._submissions: Counter[str] = Counter()
        self._ended: list[ClusterJob] = []

    def check(self, trials: Sequence[Trial]) -> None:
        """Raise SourceError where there are no nodes that have what a trial asks for."""
        for n_nodes, n_gpus in sorted({(t.settings.n_nodes, self._count_gpus(t)) for t in trials}):
            self._check_nodes(n_nodes, n_gpus)

    def _check_nodes(self, n_nodes: int, n_gpus: int) -> None:
        n_cpus = self._count_cpus(n_gpus)
        if n_nodes > 1 and not self._engine.spans_nodes:
            raise SourceError(
                f"n_nodes: found {n_nodes}; expected 1 with --backend {self._engine.name}; run the "
                "plan with --backend slurm"
            )
        n_fitting = len(self._find_fitting(n_gpus))
        if n_nodes > n_fitting:
            raise SourceError(
                f"n_nodes: found {n_nodes}; expected at most the {n_fitting} nodes that have "
                f"{n_gpus} GPUs and {n_cpus} processors"
            )

    def environment_key(self, trial: Trial) -> str:
        """Return a short hash of what is known of a trial's surroundings before it is placed."""
        return self._key(trial.settings.device)

    def _hash_environment(self, device: str) -> str:
        return hash_environment(
            {
                "engine": self._engine.name,
                **self._engine.describe(),
                "python": sys.executable,
                "packages": list_decisive_versions(),
                "device": device,
                "n_cpus": self._n_cpus,
            }
        )

    def _count_gpus(self, trial: Trial) -> int:
        """Return how many GPUs a trial will have: none on a cluster without."""
        has_gpus = any(shape.gpus for shape in self._shapes())
        if trial.settings.device == "cpu" or not (has_gpus or trial.settings.device == "cuda"):
            return 0
        return trial.settings.n_gpus

    def _count_cpus(self, n_gpus: int) -> int:
        """Return how many processors a trial asks for. Raises SourceError where no node has it."""
        fitting = self._find_fitting(n_gpus)
        if self._n_cpus is not None:
            return self._n_cpus
        return min(
            max(shape.cpus * n_gpus // shape.gpus, 1) if n_gpus else shape.cpus for shape in fitting
        )

    def _find_fitting(self, n_gpus: int) -> list[Shape]:
        """Return the nodes that have what a trial asks for. Raises SourceError for none."""
        fitting = [
            shape
            for shape in self._shapes()
            if shape.gpus >= n_gpus and shape.cpus >= (self._n_cpus or 1)
        ]
        if not fitting:
            raise SourceError(
                f"found a trial that asks for {n_gpus} GPUs and {self._n_cpus or 1} processors of "
                f"one node; expected no more than a node has: {self._format_shapes()}; change "
                "n_gpus of the plan, or --cpus"
            )
        return fitting

    def _format_shapes(self) -> str:
        """Return what the cluster has, such as ``2 x (4 GPUs, 16 processors)``."""
        counted = Counter(self._shapes())
        return (
            ", ".join(
                f"{n} x ({shape.gpus} GPUs, {shape.cpus} processors)"
                for shape, n in counted.items()
            )
            or "this cluster has no node that is up"
        )

    def submit(self, waiting: Sequence[tuple[Trial, Path]]) -> list[ClusterJob]:
        """Submit trials, or take up what an earlier call has submitted."""
        room = max((self._parallel or MOST_AT_ONCE) - len(self.running), 0)
        taken = waiting[:room]
        started = [job for trial, place in taken if (job := self._take_up(trial, place))]
        self.running += started
        known = {job.trial.trial_id for job in started}
        left = [each for each in taken if each[0].trial_id not in known]
        for group in _group(left, self._count_gpus):
            launched = self._launch(group)
            self.running += launched
            started += launched
        return started

    def _take_up(self, trial: Trial, place: Path) -> ClusterJob | None:
        """Return the job of an earlier call, whose end may be there already; None for none."""
        claim = read_claim(place)
        if not claim or self._submissions[trial.trial_id]:
            return None
        restart = 0
        while (attempt_folder(place, claim["ticket"], restart) / SUBMISSION_NAME).exists():
            restart += 1
        folder = attempt_folder(place, claim["ticket"], restart)
        node = read_json(folder / NODE_NAME) or {}
        handle = self._engine.find({"job_id": node.get("job_id"), **claim})
        if handle is None and not (folder / END_NAME).exists():
            return None
        return ClusterJob(
            trial, place, folder, ticket=claim["ticket"], handle=handle, restart=restart
        )

    def _launch(self, group: Sequence[tuple[Trial, Path]]) -> list[ClusterJob]:
        """Submit trials that ask for the same. A claim is there before the job that it is for."""
        n_gpus = self._count_gpus(group[0][0])
        n_cpus = self._count_cpus(n_gpus)
        orders = []
        for trial, place in group:
            place.mkdir(parents=True, exist_ok=True)
            order = build_order(trial, place, ticket=secrets.token_hex(4), n_cpus=n_cpus)
            write_json(place / CLAIM_NAME, {"ticket": order.ticket})
            orders.append(order)
            self._submissions[trial.trial_id] += 1
        try:
            handles = self._engine.launch(orders, n_gpus)
        except BaseException:  # what was submitted all the same ends at once: it has no claim
            for _, place in group:
                (place / CLAIM_NAME).unlink(missing_ok=True)
            raise
        return [
            self._note(trial, place.resolve(), order, handle)
            for (trial, place), order, handle in zip(group, orders, handles, strict=True)
        ]

    def _note(self, trial: Trial, place: Path, order: Order, handle: Any) -> ClusterJob:
        if isinstance(handle, str):
            write_json(place / CLAIM_NAME, {"ticket": order.ticket, "job_id": handle})
        folder = attempt_folder(place, order.ticket, 0)
        return ClusterJob(trial, place, folder, ticket=order.ticket, handle=handle)

    def poll(self, seconds: float | None) -> list[ClusterJob]:
        """Sleep until a job ends, or for so long; return those that have ended."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            ended = self._look()
            if ended or not self.running or (until and time.monotonic() >= until):
                return ended
            time.sleep(_LOOK_SECONDS + _LOOK_SECONDS_EACH * len(self.running))

    def _look(self) -> list[ClusterJob]:
        fates = self._engine.find_fates(self.running)
        ended = []
        for job in list(self.running):
            job.read_node()
            if self._has_ended(job, fates.get(job.ticket)):
                self.running.remove(job)
                if job.then == "goes_on":
                    self.running.append(job.next_attempt())
                ended.append(job)
        for job in ended:
            self._describe(job)
        return ended

    def _has_ended(self, job: ClusterJob, fate: Fate | None) -> bool:
        """Return whether an attempt has ended, and note how."""
        job.finished = read_end(job.folder)
        if job.finished is not None and job.finished.stopped_by is None:
            return True
        if fate is None:
            job.missed_at = None
            return False
        if fate.goes_on and not job.read_node():
            job.restart += 1
            job.folder = attempt_folder(job.place, job.ticket, job.restart)
            return False
        if job.finished is None and not fate.goes_on:
            job.missed_at = job.missed_at or time.monotonic()
            if time.monotonic() - job.missed_at < _LAG_SECONDS:
                return False  # the end may be on its way
        self._note_loss(job, fate)
        return True

    def _note_loss(self, job: ClusterJob, fate: Fate) -> None:
        """Say of an attempt that was stopped or is gone what came of it, and what comes next."""
        said = f"{self._engine.name} ({fate.said})"
        seconds = job.finished.seconds if job.finished else job.seconds()
        if not job.read_node():
            why = f"; see what its job said in {fate.output}, and fix that" if fate.output else ""
            job.trouble = f"it never began: {said}{why}; run the same plan again to resubmit it"
        elif fate.out_of_memory:
            job.finished = Finished(-signal.SIGKILL, seconds, kernel_oom_kills=1)
        else:
            told = f"{job.finished.stopped_by} of " if job.finished else ""
            job.finished = Finished(-signal.SIGKILL, seconds, stopped_by=f"{told}{said}")
        is_last = self._submissions[job.trial.trial_id] >= MOST_SUBMISSIONS
        if fate.goes_on:
            job.then = "goes_on"
        elif fate.again and not is_last:
            job.then = "again"

    def _describe(self, job: ClusterJob) -> None:
        """Note where an ended attempt ran, and how many others of this sweep ran there too."""
        node = job.read_node()
        job.environment = node.get("environment")
        job.provenance = {"backend": self._engine.name}
        if node.get("gpus"):
            job.provenance["gpus_visible"] = node["gpus"]
        if job.finished is not None and node:
            self._ended.append(job)
            job.most_beside = count_beside(job, [*self._ended, *self.running])

    def cancel(self) -> None:
        """End what is still running; what did not begin will not, and what did is dropped."""
        for job in self.running:
            (job.place / CLAIM_NAME).unlink(missing_ok=True)
        if self.running:
            self._engine.cancel([job.handle for job in self.running])
        self._engine.close()


def _group(
    trials: Iterable[tuple[Trial, Path]], count_gpus: Callable[[Trial], int]
) -> list[list[tuple[Trial, Path]]]:
    """Return trials in groups that ask for the same nodes, GPUs and time."""
    groups: dict[tuple[int, int, float], list[tuple[Trial, Path]]] = {}
    for trial, place in trials:
        asked = trial.settings.n_nodes, count_gpus(trial), trial.settings.timeout_seconds
        groups.setdefault(asked, []).append((trial, place))
    return list(groups.values())


def count_beside(job: ClusterJob, others: Iterable[ClusterJob]) -> int:
    """Return how many others ran on a job's node at one time while it ran, at most."""
    begin, end = _span(job)
    spans = [
        _span(other)
        for other in others
        if other is not job and other.node and other.node["node"] == job.node["node"]
    ]
    spans = [each for each in spans if each[0] < end and each[1] > begin]
    moments = [max(begin, first) for first, _ in spans]
    return max((sum(a <= moment < b for a, b in spans) for moment in moments), default=0)


def _span(job: ClusterJob) -> tuple[float, float]:
    """Return when an attempt began and ended, by its node's clock."""
    began = float(job.node["began"])
    return began, began + job.finished.seconds if job.finished else float("inf")
