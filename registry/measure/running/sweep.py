"""Run all trials of a plan, one after the other, and hand each result over the moment it exists."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.errors import RegistryError
from registry.measure.child_process import interrupted_by_signals
from registry.measure.environment import collect_host, find_version
from registry.measure.record_files import read_json, write_json
from registry.measure.running.trial_run import is_record, run_trial
from registry.measure.running.trials import expand_trials
from registry.submission.identity import canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.catalogue import Catalogue
    from registry.measure.running.plan import Plan
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

#: The file of a trial's folder that says that its result was recorded.
SUBMISSION_NAME = "submission.json"


@dataclass(frozen=True)
class Progress:
    """Where a sweep is, for whoever shows it. ``eta_seconds`` is None until a trial has ended."""

    event: str  # "started", "finished" or "skipped"
    index: int
    n_trials: int
    trial: Trial
    outcome: str | None = None
    detail: str | None = None
    seconds: float | None = None
    eta_seconds: float | None = None


@dataclass
class Sweep:
    """What came of a plan.

    Attributes:
        results: Trials that were run and recorded.
        skipped: Trials that had a result already.
        left: Trials that were not run.
        refused: Why the results of the other trials could not be recorded, one message each.
        interrupted: Whether the plan was ended before its last trial.
    """

    results: list[TrialResult] = field(default_factory=list)
    skipped: list[Trial] = field(default_factory=list)
    left: list[Trial] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    interrupted: bool = False

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

    A trial that fails in any way is a result; the sweep goes on. On Ctrl-C the running trial is
    killed and dropped, and the sweep returns with ``interrupted``. Raises SourceError for a plan
    that names what does not exist. A RegistryError of ``add`` is noted in ``refused`` and the
    sweep goes on; whatever else it raises is passed on.
    """
    trials = expand_trials(plan, catalogue)
    sweep = Sweep(left=list(trials))
    clock = _Clock(len(trials))
    for index, trial in enumerate(trials, 1):
        place = Path(folder) / f"{trial.trial_id}-{environment_key(trial, python)}"
        now = partial(Progress, index=index, n_trials=len(trials), trial=trial)
        if resume and is_done(place):
            sweep.skipped.append(sweep.left.pop(0))
            clock.skip()
            progress(now("skipped"))
            continue
        progress(now("started", eta_seconds=clock.eta()))
        try:
            with interrupted_by_signals():
                result = run_trial(trial, place, catalogue=catalogue, python=python)
        except KeyboardInterrupt:
            sweep.interrupted = True
            return sweep
        sweep.left.pop(0)
        _hand_over(result, place, add, sweep)
        clock.finish(result.seconds)
        progress(now("finished", **_ending(result), eta_seconds=clock.eta()))
    return sweep


def _hand_over(
    result: TrialResult, place: Path, add: Callable[[dict[str, Any]], object], sweep: Sweep
) -> None:
    """Record a result; one that is refused must not stop the other trials."""
    try:
        add(result.submission)
    except RegistryError as error:
        sweep.refused.append(f"{result.trial.label}: {error}")
    else:
        write_json(place / SUBMISSION_NAME, result.submission)
        sweep.results.append(result)


def _ending(result: TrialResult) -> dict[str, Any]:
    return {"outcome": result.outcome, "detail": result.detail, "seconds": result.seconds}


class _Clock:
    """Estimates the time left from the mean of the trials so far."""

    def __init__(self, n_trials: int) -> None:
        self._left = n_trials
        self._seconds: list[float] = []

    def skip(self) -> None:
        self._left -= 1

    def finish(self, seconds: float) -> None:
        self._left -= 1
        self._seconds.append(seconds)

    def eta(self) -> float | None:
        if not self._seconds:
            return None
        return self._left * sum(self._seconds) / len(self._seconds)


def is_done(place: Path) -> bool:
    """Return whether a trial's folder holds a recorded result that a repetition would not change.

    A trial that ended with an error or was interrupted may end otherwise the next time.
    """
    document = read_json(place / SUBMISSION_NAME)
    return is_record(document) and document["observations"][0]["outcome"] in _FINAL


def environment_key(trial: Trial, python: str | None = None) -> str:
    """Return a short hash of what, beside the trial, decides its result on this machine."""
    content = {
        "host": {k: v for k, v in collect_host().items() if v is not None},
        "python": python or sys.executable,
        "packages": {name: version for name in _DECISIVE if (version := find_version(name))},
        "device": trial.settings.device,
    }
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()[:8]
