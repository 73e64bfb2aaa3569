"""Run a plan from the command line: progress on stderr, results into the registry, a summary."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.measure.ratios import find_figure
from registry.measure.releases import add_provenance, parse_label
from registry.measure.running.places import find_done
from registry.measure.running.plan import read_plan
from registry.measure.running.sweep import Progress, run_plan
from registry.measure.running.time_left import TimeLeft
from registry.measure.running.trial_labels import find_varied, label_trials
from registry.measure.running.trial_run import job_command
from registry.measure.running.trials import expand_trials
from registry.measure.trial_settings import BOUNDS
from registry.store.add import add_submissions
from registry.store.folder import RUNS, ensure_writable
from registry.text import escape_unprintable, format_slug
from registry.units import format_duration, format_memory
from registry_cli import console
from registry_cli.options import Parsed, Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.catalogue import Catalogue
    from registry.measure.running.backends.interface import Backend
    from registry.measure.running.plan import Plan
    from registry.measure.running.sweep import Sweep
    from registry.measure.running.trials import Trial
    from registry.store.folder import Location

_ID_DIGITS = 12
_FAILED = ("error", "interrupted")

dataset_option = click.option(
    "--dataset",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Train on this JSONL file, or folder of datasets.",
)

timeout_option = click.option(
    "--timeout",
    metavar="SECONDS",
    type=Seconds(*BOUNDS["timeout_seconds"]),
    help="Stop each trial of a plan after this long, whatever the plan says.",
)

EXIT_INTERRUPTED = 130


#: The name of a release.
LABEL = Parsed("name", parse_label)


def read_asked_plan(
    location: Location, path: Path, *, dataset: Path | None, timeout: float | None
) -> Plan:
    """Return the plan that a command names, with what its options say in place of the plan."""
    plan = read_plan(_find_plan(location, path), dataset=dataset)
    if timeout is None:
        return plan
    return replace(plan, base={**plan.base, "timeout_seconds": timeout})


def _find_plan(location: Location, path: Path) -> Path:
    """Return the plan's path: as given, or within the registry, or with the curated records."""
    folders = [folder for folder in (location.own, location.curated) if folder is not None]
    candidates = [path, *(folder.path / path for folder in folders)]
    return next((found for found in candidates if found.is_file()), path)


def format_trials(
    plan: Plan, catalogue: Catalogue, *, folder: Path, backend: Backend
) -> Iterator[str]:
    """Yield the lines that say what each trial of a plan would run, and how long that takes.

    ``folder`` is where the trials run, and results of earlier runs are.
    """
    trials = expand_trials(plan, catalogue)
    backend.check(trials)
    labels = label_trials(trials)
    for number, trial in enumerate(trials, start=1):
        yield f"{number:>4}  {trial.trial_id}  {labels[trial.trial_id]}"
        yield f"      model    {_format_model(trial)}"
        yield f"      data     {trial.settings.dataset or 'random tokens'}"
        yield f"      command  {shlex.join(job_command(trial, Path()))}"
    if len(trials) > 1:
        yield _format_outlook(trials, find_done(trials, folder, backend))


def _format_outlook(trials: list[Trial], done: dict[str, float | None]) -> str:
    """Return what varies, how many trials have a result, and how long the others may take."""
    names = (name.removesuffix("_bytes") for name in find_varied(trials))
    text = f"{len(trials)} trials, which differ in {', '.join(names)}"
    if not done:
        return text
    time_left = TimeLeft(trials)
    for trial in trials:
        if (seconds := done.get(trial.trial_id)) is not None:
            time_left.note(trial, seconds)
    left = [trial for trial in trials if trial.trial_id not in done]
    seconds = time_left.estimate(left)
    about = f", about {format_duration(round(seconds))} one by one" if seconds else ""
    return f"{text}; {len(done)} have a result, {len(left)} are left{about}"


def _format_model(trial: Trial) -> str:
    if trial.model["kind"] == "hub":
        return f"{trial.settings.weights} weights of {trial.model['hf_id']}"
    return f"random weights of {json.dumps(trial.model['config'])}"


def sweep_plan(  # noqa: PLR0913 - the options of the command, by keyword
    location: Location,
    plan: Plan,
    catalogue: Catalogue,
    *,
    resume: bool,
    label: str | None = None,
    backend: Backend | None = None,
) -> tuple[int, list[str]]:
    """Run the trials of a plan and record each, with the label; show progress and a summary.

    Return the exit status, and the ids of what was recorded.
    """
    folder = ensure_writable(location)
    ids: list[str] = []

    def add(document: dict[str, Any]) -> None:
        labelled = add_provenance(document, label=label) if label else document
        (added,) = add_submissions(location, [("the trial's record", labelled)])
        ids.extend(added.observation_ids)

    sweep = run_plan(
        plan,
        runs_folder(folder.path, label),
        add=add,
        catalogue=catalogue,
        progress=_show_progress,
        resume=resume,
        backend=backend,
        watch_steps=sys.stderr.isatty(),
    )
    for line in _summary(sweep, ids):
        console.say(line)
    if ids and (sweep.count("ok") or sweep.count("oom")):
        console.hint(f"share them with everybody: registry share --plan {format_slug(plan.name)}")
    for message in sweep.refused:
        console.error(f"a trial's result was not recorded: {message}")
    for message in sweep.not_begun:
        console.error(f"a trial was not run: {message}")
    return _status(sweep), ids


def runs_folder(registry: Path, label: str | None = None) -> Path:
    """Return the folder of a release's trials: what another one did is not done for this one."""
    name = f"label-{hashlib.sha256(label.encode()).hexdigest()[:8]}" if label else ""
    return registry / RUNS / name


def _status(sweep: Sweep) -> int:
    if sweep.interrupted:
        console.error(sweep.way_on or "interrupted")
        return EXIT_INTERRUPTED
    unmet = sweep.refused or sweep.not_begun
    return 1 if unmet or any(sweep.count(outcome) for outcome in _FAILED) else 0


def _show_progress(progress: Progress) -> None:
    """Show where a sweep is: lines, and on a terminal a last line that changes."""
    left = round(progress.eta_seconds or 0)
    eta = f", about {format_duration(left)} to go" if left else ""
    place = f"[{progress.index}/{progress.n_trials}]"
    on_terminal = sys.stderr.isatty()
    if progress.event == "stepped":
        steps = ", ".join(
            f"{done}/{wanted}" if done else "loads" for done, wanted in progress.steps
        )
        several = len(progress.steps) > 1
        what = f"{len(progress.steps)} at once" if several else progress.label
        _show_line(f"{place} step {steps}{eta}: {what}", ends=False)
    elif progress.event == "started":
        _show_line(f"{place} {progress.label}{eta}", ends=not on_terminal)
    else:
        outcome = progress.outcome or "skipped: it has a result (repeat it with --no-resume)"
        seconds = f" in {format_duration(progress.seconds)}" if progress.seconds else ""
        detail = f": {progress.detail}" if progress.detail else ""
        after = "" if on_terminal or progress.outcome is None else eta
        _show_line(f"{place} {progress.label}: {outcome}{seconds}{detail}{after}", ends=True)


def _show_line(text: str, *, ends: bool) -> None:
    """Show a line on stderr; on a terminal over the one that had no end, and no longer than it."""
    text = escape_unprintable(text)  # what failed may have said it in colours
    if sys.stderr.isatty():
        columns = shutil.get_terminal_size().columns
        text = "\r\x1b[K" + (text if ends or len(text) < columns else f"{text[: columns - 2]}…")
    click.echo(text, err=True, nl=ends)


def _summary(sweep: Sweep, ids: list[str]) -> Iterator[str]:
    if sweep.results:
        yield f"{'observation':<14}{'outcome':<13}{'s/step':>10}  {'peak memory':>12}  trial"
    for result, observation_id in zip(sweep.results, ids, strict=False):
        (observation, *_) = result.submission["observations"]
        yield (
            f"{observation_id[:_ID_DIGITS]:<14}{result.outcome:<13}"
            f"{_figure(observation, 'step_time'):>10}  {_figure(observation, 'peak_memory'):>12}"
            f"  {sweep.labels[result.trial.trial_id]}"
        )
    counts = {outcome: sweep.count(outcome) for outcome in ("ok", "oom", *_FAILED)}
    parts = [f"{n} {outcome}" for outcome, n in counts.items() if n]
    skipped = [f"{len(sweep.skipped)} skipped"] if sweep.skipped else []
    left = [f"{len(sweep.left)} not run"] if sweep.left else []
    refused = [f"{len(sweep.refused)} not recorded"] if sweep.refused else []
    yield ", ".join([*parts, *skipped, *refused, *left]) or "no trial"


def _figure(observation: dict[str, Any], metric: str) -> str:
    if metric == "step_time":
        value = find_figure(observation, metric)
        return "-" if value is None else f"{value:.4g}"
    kinds = ("reserved", "allocated", "device", "unknown", "host_rss")
    values = (find_figure(observation, metric, kind=kind) for kind in kinds)
    peak = next((value for value in values if value), None)
    return "-" if peak is None else format_memory(int(peak))
