"""Run all trials of a plan and hand each result over the moment it exists."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.errors import RegistryError
from registry.measure.child_process import interrupted_by_signals, no_one_left_behind
from registry.measure.record_files import read_json, write_json
from registry.measure.releases import add_provenance
from registry.measure.running.backends.local import Local
from registry.measure.running.held_trials import hold_trials
from registry.measure.running.places import SUBMISSION_NAME, find_places, is_done, read_seconds
from registry.measure.running.time_left import TimeLeft
from registry.measure.running.trial_labels import label_trials
from registry.measure.running.trial_run import TrialResult, conclude, mark_neighbours
from registry.measure.running.trials import expand_trials

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from registry.catalogue import Catalogue
    from registry.measure.running.backends.interface import Backend, TrialJob
    from registry.measure.running.held_trials import Held
    from registry.measure.running.plan import Plan
    from registry.measure.running.trials import Trial

#: The file of a trial's folder that holds a result on its way into the registry.
_READY_NAME = "ready.json"

#: Seconds between two looks at the steps of running trials.
_WATCH_SECONDS = 1.0


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
        not_begun: Why trials of ``left`` could not begin, one message each.
        interrupted: Whether the plan was ended before its last trial.
        labels: What each trial is called, by its id.
    """

    results: list[TrialResult] = field(default_factory=list)
    skipped: list[Trial] = field(default_factory=list)
    left: list[Trial] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    not_begun: list[str] = field(default_factory=list)
    interrupted: bool = False
    labels: dict[str, str] = field(default_factory=dict)

    def count(self, outcome: str) -> int:
        """Return how many trials of this call ended so, each by its last attempt."""
        last = {result.trial.trial_id: result for result in self.results}
        return sum(result.outcome == outcome for result in last.values())

    @property
    def way_on(self) -> str | None:
        """What to do where a sweep was interrupted."""
        if not self.interrupted:
            return None
        done = len(self.results) + len(self.skipped)
        return (
            f"interrupted after {done} of {done + len(self.left)} trials; their results are kept; "
            "run the same plan again to continue with the others"
        )


def run_plan(  # noqa: PLR0913 - the options of the command, by keyword
    plan: Plan,
    folder: str | Path,
    *,
    add: Callable[[dict[str, Any]], object],
    catalogue: Catalogue | None = None,
    progress: Callable[[Progress], object] = lambda _: None,
    resume: bool = True,
    backend: Backend | None = None,
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
        backend: What runs the trials; this machine where None.
        watch_steps: Whether ``progress`` is called about once a second while trials run.

    A trial that fails in any way is a result; the sweep goes on. On Ctrl-C the running trials are
    killed and dropped, and the sweep returns with ``interrupted``. Raises SourceError for a plan
    that names what does not exist, asks for more GPUs than there are, or has a trial that another
    call runs at the time. A RegistryError of ``add`` is noted in ``refused`` and the sweep goes on;
    whatever else it raises is passed on.
    """
    trials = expand_trials(plan, catalogue)
    backend = backend or Local()
    backend.check(trials)
    sweep = Sweep(left=list(trials), labels=label_trials(trials))
    places = find_places(trials, Path(folder), backend)
    report = _Report(trials, sweep, progress, _WATCH_SECONDS if watch_steps else None)
    undone = {place for place in places.values() if not (resume and is_done(place))}
    with hold_trials(Path(folder), {place.name for place in undone}, origin=plan.name) as held:
        waiting = []
        for trial in trials:
            place = places[trial.trial_id]
            ready = _take_ready(trial, place, sweep, add) if place in undone else None
            if place in undone and not (resume and is_done(place)):
                waiting.append((trial, place))
            elif ready is not None:
                sweep.left.remove(trial)
            else:  # some of the undone were done by another call just now
                report.skip(trial, place)
            if ready is not None:
                report.finish(ready)
        take_in = partial(_take_in, sweep=sweep, add=add, catalogue=catalogue)
        try:
            with interrupted_by_signals(), no_one_left_behind(grace_seconds=0):
                _run_all(waiting, backend, report, take_in, held)
        except KeyboardInterrupt:
            sweep.interrupted = True
        finally:
            if not held.lost:  # what runs is the other call's
                backend.cancel()
    return sweep


def _run_all(
    waiting: list[tuple[Trial, Path]],
    backend: Backend,
    report: _Report,
    take_in: Callable[[TrialJob], TrialResult | None],
    held: Held,
) -> None:
    """Run trials in their order, each as soon as there is a place for it."""
    while waiting or backend.running:
        started = backend.submit(waiting)
        begun = {job.trial.trial_id for job in started}
        waiting = [each for each in waiting if each[0].trial_id not in begun]
        report.note_running(backend.running)
        for job in started:
            report.start(job.trial)
        ended = backend.poll(report.watch_seconds)
        held.require()
        report.note_running([*backend.running, *ended])
        for job in ended:
            result = take_in(job)
            if result is not None:
                report.finish(result)
            if job.then == "again":
                waiting.append((job.trial, job.place))
        if report.watch_seconds and not ended:
            report.step(backend.running)


def _take_in(
    job: TrialJob,
    *,
    sweep: Sweep,
    add: Callable[[dict[str, Any]], object],
    catalogue: Catalogue | None,
) -> TrialResult | None:
    """Return the result of a job that has ended, recorded; a refused one must not stop others.

    A job that never began has none, and its trial is left.
    """
    label = sweep.labels[job.trial.trial_id]
    if job.finished is None:
        if job.then == "done":
            sweep.not_begun.append(f"{label}: {job.trouble}")
        return None
    ended = conclude(
        job.trial, job.folder, job.finished, catalogue=catalogue, environment=job.environment
    )
    marked = mark_neighbours(ended, job.most_beside)
    result = replace(marked, submission=add_provenance(marked.submission, **job.provenance))
    if job.then == "done":
        sweep.left.remove(job.trial)
    try:
        _record(result.submission, job.place, job.folder, add)
    except RegistryError as error:
        sweep.refused.append(f"{label}: {error}")
    else:
        sweep.results.append(result)
    return result


def _record(
    submission: dict[str, Any], place: Path, folder: Path, add: Callable[[dict[str, Any]], object]
) -> None:
    """Add a result of an attempt in ``folder``, so that a call killed meanwhile adds none twice."""
    ready = place / _READY_NAME
    attempt = os.path.relpath(folder.resolve(), place.resolve())  # a registry may be moved
    write_json(ready, {"submission": submission, "attempt": attempt})
    try:
        add(submission)
    except RegistryError:
        ready.unlink()
        raise
    for each in (folder, place):  # only now is the trial done
        write_json(each / SUBMISSION_NAME, submission)
    ready.unlink()


def _take_ready(
    trial: Trial, place: Path, sweep: Sweep, add: Callable[[dict[str, Any]], object]
) -> TrialResult | None:
    """Record the result that a killed call had; None for none.

    Where that call had added it, the same document is added again, which changes nothing.
    """
    ready = read_json(place / _READY_NAME)
    if ready is None:
        return None
    submission = ready["submission"]
    try:
        _record(submission, place, place / ready["attempt"], add)
    except RegistryError:  # the trial runs again
        return None
    (observation,) = submission["observations"]
    outcome, detail = observation["outcome"], observation.get("outcome_detail")
    result = TrialResult(trial, outcome, detail, read_seconds(place) or 0.0, submission)
    sweep.results.append(result)
    return result


class _Report:
    """Says where a sweep is, with an estimate of the time left.

    ``watch_seconds`` lie between two looks at the steps of running trials; None for no look.
    """

    def __init__(
        self,
        trials: Sequence[Trial],
        sweep: Sweep,
        progress: Callable[[Progress], object],
        watch_seconds: float | None,
    ) -> None:
        self.sweep = sweep
        self.watch_seconds = watch_seconds
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

    def note_running(self, jobs: Sequence[TrialJob]) -> None:
        """Note how many run at once; what waits in a cluster's queue does not."""
        self._n_at_once = max(self._n_at_once, len(_begun(jobs)))

    def start(self, trial: Trial) -> None:
        self._say("started", trial, eta_seconds=self._eta())

    def step(self, running: Sequence[TrialJob]) -> None:
        running = _begun(running)
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


def _begun(jobs: Sequence[TrialJob]) -> list[TrialJob]:
    return [job for job in jobs if job.seconds() > 0]
