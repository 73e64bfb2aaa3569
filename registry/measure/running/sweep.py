"""Run all trials of a plan and hand each result over the moment it exists."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.errors import RegistryError
from registry.measure.child_process import interrupted_by_signals, no_one_left_behind
from registry.measure.environment import collect_host, find_version
from registry.measure.record_files import read_json, write_json
from registry.measure.running.pool import Pool
from registry.measure.running.slots import Slots
from registry.measure.running.time_left import TimeLeft
from registry.measure.running.trial_labels import label_trials
from registry.measure.running.trial_run import conclude, is_record, mark_neighbours
from registry.measure.running.trials import expand_trials
from registry.submission.identity import canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from registry.catalogue import Catalogue
    from registry.measure.running.plan import Plan
    from registry.measure.running.pool import RunningTrial
    from registry.measure.running.trial_run import TrialResult
    from registry.measure.running.trials import Trial

#: Distributions whose version makes an earlier result out of date.
_DECISIVE = (
    "accelerate",
    "bitsandbytes",
    "deepspeed",
    "flash-attn",
    "peft",
    "torch",
    "transformers",
    "triton",
)


#: Outcomes that stand; a trial with another one is run again.
_FINAL = ("ok", "oom")

#: Seconds between two looks at the steps of running trials.
_WATCH_SECONDS = 1.0

#: The file of a trial's folder that says that its result was recorded.
SUBMISSION_NAME = "submission.json"


@dataclass(frozen=True)
class Progress:
    """Where a sweep is, for whoever shows it. ``eta_seconds`` is None until a trial has ended.

    Events are ``started``, ``finished`` and ``skipped``; ``stepped`` comes while trials run, where
    steps are watched, with ``steps`` of each that runs: how many are done, and of how many.
    """

    event: str
    index: int
    n_trials: int
    trial: Trial
    label: str
    outcome: str | None = None
    detail: str | None = None
    seconds: float | None = None
    eta_seconds: float | None = None
    steps: tuple[tuple[int, int], ...] = ()


@dataclass
class Sweep:
    """What came of a plan.

    Attributes:
        results: Trials that were run and recorded.
        skipped: Trials that had a result already.
        left: Trials that were not run.
        refused: Why the results of the other trials could not be recorded, one message each.
        interrupted: Whether the plan was ended before its last trial.
        labels: What each trial is called, by its id.
    """

    results: list[TrialResult] = field(default_factory=list)
    skipped: list[Trial] = field(default_factory=list)
    left: list[Trial] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    interrupted: bool = False
    labels: dict[str, str] = field(default_factory=dict)

    def count(self, outcome: str) -> int:
        """Return how many trials of this call ended so."""
        return sum(result.outcome == outcome for result in self.results)

    @property
    def way_on(self) -> str | None:
        """What to do where a sweep was interrupted."""
        if not self.interrupted:
            return None
        done = len(self.results) + len(self.skipped)
        return (
            f"interrupted after {done} of {done + len(self.left)} trials; their results are kept; "
            "run the same plan again to go on with the others"
        )


def run_plan(  # noqa: PLR0913 - the options of the command, by keyword
    plan: Plan,
    folder: str | Path,
    *,
    add: Callable[[dict[str, Any]], object],
    catalogue: Catalogue | None = None,
    progress: Callable[[Progress], object] = lambda _: None,
    resume: bool = True,
    python: str | None = None,
    slots: Slots | None = None,
    watch_steps: bool = False,
) -> Sweep:
    """Run the trials of a plan.

    Args:
        plan: What to run.
        folder: Where specs, outputs and results of the trials are kept, one folder per trial.
        add: Called with the submission of each trial as soon as it exists.
        catalogue: Models that the plan may name, and ids for what was measured.
        progress: Called at the begin and end of each trial.
        resume: Whether trials that ended ok or out of memory in this environment are skipped; one
            that failed is run again.
        python: Interpreter of the jobs; the one that runs this where None.
        slots: What may run side by side; the GPUs of this machine where None.
        watch_steps: Whether ``progress`` is called about once a second while trials run.

    A trial that fails in any way is a result; the sweep goes on. On Ctrl-C the running trials are
    killed and dropped, and the sweep returns with ``interrupted``. Raises SourceError for a plan
    that names what does not exist, or asks for more GPUs than there are. A RegistryError of ``add``
    is noted in ``refused`` and the sweep goes on; whatever else it raises is passed on.
    """
    trials = expand_trials(plan, catalogue)
    slots = slots or Slots()
    slots.check(trials)
    sweep = Sweep(left=list(trials), labels=label_trials(trials))
    places = _find_places(trials, Path(folder), slots, python)
    report = _Report(trials, sweep, progress)
    waiting = []
    for trial in trials:
        if resume and is_done(places[trial.trial_id]):
            report.skip(trial, places[trial.trial_id])
        else:
            waiting.append(trial)
    pool = Pool(slots, places, python)
    take_in = partial(_take_in, sweep=sweep, add=add, catalogue=catalogue)
    try:
        with interrupted_by_signals(), no_one_left_behind(grace_seconds=0):
            _run_all(waiting, pool, report, take_in, watch_steps=watch_steps)
    except KeyboardInterrupt:
        sweep.interrupted = True
    finally:
        pool.forget()
    return sweep


def _run_all(
    waiting: list[Trial],
    pool: Pool,
    report: _Report,
    take_in: Callable[[RunningTrial], TrialResult],
    *,
    watch_steps: bool,
) -> None:
    """Run trials in their order, each as soon as there is a slot for it."""
    waiting = list(waiting)
    while waiting or pool.running:
        while waiting and pool.start(waiting[0]):
            report.start(waiting.pop(0), len(pool.running))
        ended = pool.wait(_WATCH_SECONDS if watch_steps else None)
        for job in ended:
            report.finish(take_in(job))
        if watch_steps and not ended:
            report.step(pool.running)


def _take_in(
    job: RunningTrial,
    *,
    sweep: Sweep,
    add: Callable[[dict[str, Any]], object],
    catalogue: Catalogue | None,
) -> TrialResult:
    """Return the result of a job that has ended, recorded; a refused one must not stop others."""
    ended = conclude(job.trial, job.folder, job.read_finished(), catalogue=catalogue)
    result = mark_neighbours(ended, job.most_beside)
    sweep.left.remove(job.trial)
    try:
        add(result.submission)
    except RegistryError as error:
        sweep.refused.append(f"{sweep.labels[job.trial.trial_id]}: {error}")
    else:
        write_json(job.folder / SUBMISSION_NAME, result.submission)  # only now is the trial done
        sweep.results.append(result)
    return result


class _Report:
    """Says where a sweep is, with an estimate of the time left."""

    def __init__(
        self, trials: Sequence[Trial], sweep: Sweep, progress: Callable[[Progress], object]
    ) -> None:
        self.sweep = sweep
        self._time_left = TimeLeft(trials)
        self._places = {trial.trial_id: number for number, trial in enumerate(trials, 1)}
        self._progress = progress
        self._n_at_once = 1

    def skip(self, trial: Trial, place: Path) -> None:
        self.sweep.left.remove(trial)
        self.sweep.skipped.append(trial)
        if (seconds := read_seconds(place)) is not None:
            self._time_left.note(trial, seconds)
        self._say("skipped", trial)

    def start(self, trial: Trial, n_running: int) -> None:
        self._n_at_once = max(self._n_at_once, n_running)
        self._say("started", trial, eta_seconds=self._eta())

    def step(self, running: Sequence[RunningTrial]) -> None:
        steps = tuple((job.count_steps(), job.trial.settings.steps) for job in running)
        if running:
            spent = sum(job.seconds() for job in running) / self._n_at_once
            eta = self._eta()
            left = None if eta is None else max(eta - spent, 0.0)
            self._say("stepped", running[-1].trial, eta_seconds=left, steps=steps)

    def finish(self, result: TrialResult) -> None:
        self._time_left.note(result.trial, result.seconds)
        ending = {
            "outcome": result.outcome,
            "detail": result.detail,
            "seconds": round(result.seconds, 1),
        }
        self._say("finished", result.trial, eta_seconds=self._eta(), **ending)

    def _eta(self) -> float | None:
        return self._time_left.estimate(self.sweep.left, self._n_at_once)

    def _say(self, event: str, trial: Trial, **more: Any) -> None:
        place = self._places[trial.trial_id]
        label = self.sweep.labels[trial.trial_id]
        self._progress(Progress(event, place, len(self._places), trial, label, **more))


def find_done(
    trials: Sequence[Trial], folder: Path, slots: Slots, python: str | None = None
) -> dict[str, float | None]:
    """Return the trials that have a result here, by id, with the seconds that their jobs took."""
    places = _find_places(trials, folder, slots, python)
    return {name: read_seconds(place) for name, place in places.items() if is_done(place)}


def _find_places(
    trials: Sequence[Trial], folder: Path, slots: Slots, python: str | None
) -> dict[str, Path]:
    """Return the folder of each trial by its id: another environment has another one."""

    @cache
    def key(device: str, n_cpus: int | None) -> str:
        return environment_key(device, python, n_cpus=n_cpus)

    return {
        trial.trial_id: folder / f"{trial.trial_id}-{key(trial.settings.device, n_cpus)}"
        for trial in trials
        for n_cpus in [None if slots.is_on_gpu(trial) else slots.cpu_share()]
    }


def read_seconds(place: Path) -> float | None:
    """Return how long the job of an earlier result took; None where it does not say."""
    document = read_json(place / SUBMISSION_NAME)
    if not is_record(document):
        return None
    seconds = document["observations"][0].get("provenance", {}).get("process_seconds")
    return float(seconds) if isinstance(seconds, int | float) else None


def is_done(place: Path) -> bool:
    """Return whether a trial's folder holds a recorded result that a repetition would not change.

    A trial that ended with an error or was interrupted may end otherwise the next time.
    """
    document = read_json(place / SUBMISSION_NAME)
    return is_record(document) and document["observations"][0]["outcome"] in _FINAL


def environment_key(device: str, python: str | None = None, *, n_cpus: int | None = None) -> str:
    """Return a short hash of what, beside the trial, decides its result on this machine.

    ``n_cpus`` is how many processors the trial has, where that is not all there are.
    """
    content = {
        "host": {k: v for k, v in collect_host().items() if v is not None},
        "python": python or sys.executable,
        "packages": {name: version for name in _DECISIVE if (version := find_version(name))},
        "device": device,
        **({"slot": n_cpus} if n_cpus is not None else {}),
    }
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()[:8]
