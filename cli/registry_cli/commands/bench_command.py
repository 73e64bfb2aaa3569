"""``registry bench``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.comparison.configurations import compare_sides
from registry.comparison.recorded import read_observations
from registry.comparison.selections import IN_TURNS_OF_COMMANDS, RunsOfSide
from registry.errors import SourceError
from registry.measure.running.bench import NAMES, Side, name_sides, order_turns, run_bench
from registry.measure.running.interpreter import probe_interpreter
from registry.measure.running.time_left import TimeLeft
from registry.measure.running.trial_run import job_command
from registry.measure.running.trials import expand_trials
from registry.measure.trial_settings import BOUNDS
from registry.store.add import add_submissions
from registry.store.folder import RUNS, ensure_writable
from registry.store.snapshot import load_catalogue
from registry.units import format_duration
from registry_cli import console
from registry_cli.command_words import find_command
from registry_cli.comparison_report import (
    factor_option,
    fail_option,
    is_failure,
    memory_factor_option,
    report_format_option,
    show_report,
    strict_option,
)
from registry_cli.options import locate, registry_option
from registry_cli.output import open_reader
from registry_cli.sweeping import (
    EXIT_INTERRUPTED,
    LABEL,
    dataset_option,
    read_asked_plan,
    timeout_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from registry.measure.running.bench import Bench, Turn
    from registry.measure.running.trial_run import TrialResult
    from registry.store.folder import Location

_N_SIDES = len(NAMES)


def _take_two(_: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> Any:
    """Refuse an option that is not given once for each side, or not at all."""
    if len(values) not in ((0, _N_SIDES) if not parameter.required else (_N_SIDES,)):
        raise click.BadParameter(f"found {len(values)}; expected two: that of A, then that of B")
    if parameter.name == "labels" and len(set(values)) < len(values):
        raise click.BadParameter(f"found {values[0]!r} twice; expected two labels that differ")
    return values


class BenchCommand(click.Command):
    """A command that says to whoever gives it a script how scripts take turns."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse a command in the place of a plan."""
        if not ctx.resilient_parsing and ("--" in args or find_command(self, args)):
            raise click.UsageError(
                "found a command; expected a plan (PLAN.toml) for registry bench; "
                f"{IN_TURNS_OF_COMMANDS}; then: registry compare label=A label=B"
            )
        return super().parse_args(ctx, args)


@click.command(cls=BenchCommand, name="bench")
@click.argument("plan", metavar="PLAN.toml", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--python",
    "pythons",
    metavar="PATH",
    multiple=True,
    required=True,
    callback=_take_two,
    help="Interpreter of A, then of B, such as old/bin/python; both have this registry installed.",
)
@click.option(
    "--label",
    "labels",
    metavar="NAME",
    type=LABEL,
    multiple=True,
    callback=_take_two,
    help="Label of A, then of B (else the versions in which they differ).",
)
@click.option(
    "--rounds",
    metavar="N",
    type=click.IntRange(1, int(BOUNDS["repeat"][1])),
    default=5,
    show_default=True,
    help="How often each side runs each trial.",
)
@timeout_option
@click.option("--dry-run", is_flag=True, help="List the runs in order; run nothing.")
@dataset_option
@factor_option
@memory_factor_option
@fail_option
@strict_option
@report_format_option
@registry_option
def command(
    plan: Path,
    *,
    pythons: tuple[str, str],
    labels: tuple[str, ...],
    rounds: int,
    timeout: float | None,
    dry_run: bool,
    dataset: Path | None,
    factor: float,
    memory_factor: float | None,
    fail: bool,
    strict: bool,
    format_name: str,
    registry_path: Path | None,
) -> int:
    """Measure a plan alternately with two Python environments, and compare.

    Each round runs every trial with A and with B. The order changes from round to round (A B, B A,
    …), so that whatever else the machine does affects both alike. All runs are recorded with a
    label. The interval is over rounds. Exit status: 0, or 1 if B is worse and --fail is given, or
    if a run could not be recorded; 2 if the plan is not valid, or cannot be run with both.

    \b
    Example:
      registry bench plans/cpu-smoke.toml --python old/bin/python --python new/bin/python \\
        --rounds 8 --fail --dry-run
    """  # noqa: D301 - \b keeps the example's lines
    location = locate(registry_path)
    catalogue = load_catalogue(location)
    try:
        read = read_asked_plan(location, plan, dataset=dataset, timeout=timeout)
        turns = order_turns(expand_trials(read, catalogue), rounds)
    except SourceError as error:  # not 1: with --fail, that says that B is worse
        raise click.UsageError(str(error)) from None
    if dry_run:
        _show_order(turns, pythons)
        return 0
    sides = _probe(pythons, labels)
    bench = _run(location, turns, sides, catalogue)
    status = 1 if bench.refused else 0
    if bench.interrupted:
        n_done = sum(map(len, bench.recorded))
        console.error(f"interrupted after {n_done} of {len(turns)} runs, which are recorded")
        return EXIT_INTERRUPTED
    read_rows = open_reader(registry_path)
    selections = [
        RunsOfSide(side.label, read_observations(read_rows, ids))
        for side, ids in zip(sides, bench.recorded, strict=True)
    ]
    if not all(selection.rows for selection in selections):
        return status
    found = compare_sides(*(list(selection.rows) for selection in selections))
    verdicts = show_report(
        found, *selections, factors=(factor, memory_factor), format_name=format_name
    )
    return 1 if is_failure(verdicts, fail=fail, strict=strict) else status


def _show_order(turns: Sequence[Turn], pythons: tuple[str, str]) -> None:
    for number, turn in enumerate(turns, start=1):
        python = pythons[turn.side]
        console.say(f"{number:>4}  round {turn.round}  {NAMES[turn.side]}  {turn.trial.label}")
        if turn.round == 1:
            console.say(f"      command  {' '.join(job_command(turn.trial, Path(), python))}")


def _probe(pythons: tuple[str, str], labels: tuple[str, ...]) -> tuple[Side, Side]:
    try:
        a, b = (probe_interpreter(python) for python in pythons)
    except SourceError as error:
        raise click.UsageError(str(error)) from None
    names = labels or name_sides(a.environment, b.environment)
    for name, label, each in zip(NAMES, names, (a, b), strict=True):
        console.hint(f"{name} ({label}): {each.python}")
    return Side(names[0], a), Side(names[1], b)


def _run(
    location: Location, turns: Sequence[Turn], sides: tuple[Side, Side], catalogue: Any
) -> Bench:
    def add(document: dict[str, Any]) -> Sequence[str]:
        (added,) = add_submissions(location, [("the trial's record", document)])
        return added.observation_ids

    folder = ensure_writable(location).path / RUNS
    show = _follow(turns, sides)
    bench = run_bench(turns, sides, folder, add=add, catalogue=catalogue, progress=show)
    for message in bench.refused:
        console.error(f"a run's result was not recorded: {message}")
    return bench


def _follow(
    turns: Sequence[Turn], sides: tuple[Side, Side]
) -> Callable[[Turn, TrialResult | None], object]:
    """Return what shows each run when it has ended, with an estimate of the time left."""
    time_left = TimeLeft([turn.trial for turn in turns])
    left = [turn.trial for turn in turns]

    def show(turn: Turn, result: TrialResult | None) -> None:
        if result is None:
            return
        time_left.note(left.pop(0), result.seconds)
        seconds = time_left.estimate(left)
        more = f", about {format_duration(seconds)} to go" if seconds else ""
        detail = f": {result.detail}" if result.detail else ""
        console.hint(
            f"[{len(turns) - len(left)}/{len(turns)}] round {turn.round} {NAMES[turn.side]} "
            f"({sides[turn.side].label}) {turn.trial.label}: {result.outcome} in "
            f"{format_duration(result.seconds)}{detail}{more}"
        )

    return show
