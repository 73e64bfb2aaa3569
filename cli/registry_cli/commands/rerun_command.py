"""``registry rerun``."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.comparison.configurations import compare_runs
from registry.comparison.matching import find_repeats
from registry.comparison.recorded import read_observations, read_one, read_recorded
from registry.comparison.selections import RunsOfSide, check_selections, list_differences
from registry.comparison.verdicts import judge
from registry.errors import QueryError, QueryTimeoutError, SourceError
from registry.measure.environment import collect_environment
from registry.measure.running.backends.local import Local
from registry.measure.running.kept_commands import KeptCommand, forget_command, read_kept
from registry.measure.running.rerun import (
    compare_cards,
    compare_environments,
    compare_variables,
    plan_of,
)
from registry.measure.running.slots import find_gpu_names
from registry.measure.running.wrapped_command import format_command
from registry.measure.trial_settings import BOUNDS
from registry.store.renamed import list_ids
from registry.store.snapshot import load_catalogue
from registry.text import format_slug
from registry_cli import console
from registry_cli.comparison_report import (
    factor_option,
    fail_option,
    is_failure,
    memory_factor_option,
    strict_option,
)
from registry_cli.comparison_text import format_compared, format_verdict
from registry_cli.measuring import measure_command
from registry_cli.options import locate, registry_option
from registry_cli.output import open_reader
from registry_cli.sweeping import dataset_option, format_trials, runs_folder, sweep_plan

if TYPE_CHECKING:
    from registry.catalogue import Catalogue
    from registry.comparison.verdicts import Factors, Verdict
    from registry.measure.running.rerun import Difference
    from registry.query.model import Read
    from registry.store.folder import Location

Row = dict[str, Any]


@click.command(name="rerun")
@click.argument("observation_id", metavar="ID")
@click.option("--dry-run", is_flag=True, help="Show what would run, and what differs here.")
@click.option("--forget", is_flag=True, help="Erase the command kept for ID; run nothing.")
@click.option(
    "--repeats",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    help="Run it N times; a verdict needs repeats to know the noise.",
)
@factor_option
@memory_factor_option
@fail_option
@strict_option
@dataset_option
@registry_option
def command(
    observation_id: str,
    *,
    dry_run: bool,
    forget: bool,
    repeats: int,
    factor: float,
    memory_factor: float | None,
    fail: bool,
    strict: bool,
    dataset: Path | None,
    registry_path: Path | None,
) -> int:
    """Run an observation's configuration again on this machine, and compare old with new.

    A trial of a plan is run again as it was. A command that you measured on this machine is run
    again in its folder (it is kept in a private file of yours, never in a registry). Any other
    observation is replaced by a trial of the same configuration with random weights and tokens;
    a data set is read only if given with --dataset.

    Changes since then are shown: versions, cards, threads. The verdict is reached as in registry
    compare, from all recorded repeats and from the new runs; with one run on each side it cannot
    be told. Exit status: that of the command, 1 if a trial failed, or 1 if it is worse now and
    --fail or --strict is given, or cannot be told and --strict is given; 2 if there is no such
    observation.

    \b
    Example:
      registry rerun $(registry ls --model qwen-1.8b -f csv | tail -1 | cut -d, -f1) --dry-run
    """  # noqa: D301 - \b keeps the example's lines
    location = locate(registry_path)
    read = open_reader(registry_path)
    try:
        old = read_one(read, observation_id)
    except QueryTimeoutError:
        raise
    except QueryError as error:  # not 1: with --fail, that says that it is worse
        raise click.UsageError(str(error)) from None
    identities = list_ids(location, old["observation_id"])
    if forget:
        return _forget(identities)
    again = _Again(location, old, load_catalogue(location), dataset, repeats)
    kept = next(filter(None, map(read_kept, identities)), None)
    if kept is not None and dataset is not None:
        raise click.UsageError("found --dataset; expected none: the command reads its own data")
    then = _read_then(open_reader(registry_path), old, kept)
    status, ids = again.command(kept, dry_run=dry_run) if kept else again.trial(dry_run=dry_run)
    if not ids:
        return status
    now = read_observations(open_reader(registry_path), ids)
    verdict = _show_comparison(then, now, again.named, (factor, memory_factor))
    return status or (1 if is_failure({verdict}, fail=fail, strict=strict) else 0)


def _read_then(read: Read, old: Row, kept: KeptCommand | None) -> list[Row]:
    """Return the recorded repeats of an observation, itself first.

    Those of a command are of the very same one; of what nobody can tell it stands alone.
    """
    environment_id = old.get("environment", {}).get("environment_id")
    if environment_id is None or (kept is None and "spec" not in old.get("provenance", {})):
        return [old]
    repeats = find_repeats(old, read_recorded(read, environment_id))
    return [old] + [
        run
        for run in repeats
        if run["observation_id"] != old["observation_id"]
        and (kept is None or _read_kept_of(run) == kept)
    ]


def _read_kept_of(run: Row) -> KeptCommand | None:
    with suppress(SourceError):  # one that others could have written is not looked at
        return read_kept(run["observation_id"])
    return None


def _forget(identities: list[str]) -> int:
    erased = [identity for identity in identities if forget_command(identity)]
    if not erased:
        console.error(f"{identities[0][:12]}: no command is kept for it; nothing to do")
        return 1
    console.say(f"erased the command of {identities[0][:12]}")
    return 0


@dataclass
class _Again:
    """An observation that is repeated, and what was said already to differ from then."""

    location: Location
    old: Row
    catalogue: Catalogue
    dataset: Path | None
    repeats: int = 1
    named: frozenset[str] = frozenset()

    def command(self, kept: KeptCommand, *, dry_run: bool) -> tuple[int, list[str]]:
        """Run a command of this user's own; return its status and the ids of the same training.

        It is not repeated after a run that recorded no such training.
        """
        here = collect_environment(installed=True)
        then = self.old.get("environment", {})
        self._show_differences([*compare_environments(then, here), *compare_variables(then, here)])
        console.hint(f"runs again: {format_command(kept.command)} (in {kept.folder})")
        if dry_run:
            return 0, []
        folder = Path(kept.folder)
        if not folder.is_dir():
            console.error(f"{folder}: no such folder any more; expected that of the command")
            return 1, []
        first = 0
        found: list[str] = []
        for _ in range(self.repeats):
            status, ids = measure_command(
                self.location, kept.command, folder=folder, warmup_steps=_warmup_of(self.old)
            )
            first = first or status
            if len(ids) <= kept.training:
                if ids:
                    wanted = f"expected {kept.training + 1}, as before"
                    console.error(f"found {len(ids)} training runs; {wanted}")
                return first or 1, found
            found.append(ids[kept.training])
        return first, found

    def trial(self, *, dry_run: bool) -> tuple[int, list[str]]:
        """Run a trial; return the exit status and the ids of what was recorded."""
        old, catalogue = self.old, self.catalogue
        models = {old["model"]["model_id"]: old["model"]} if old.get("model") else {}
        rerun = plan_of(old, models=models, catalogue=catalogue, dataset=self.dataset)
        self._show_differences(list(rerun.differences))
        for column in rerun.left_out:
            console.warning(f"not repeated: {column}")
        if rerun.is_stand_in:
            console.warning(
                "no command is kept for it on this machine: a synthetic trial of the same "
                "configuration is used instead, with random weights and tokens"
            )
        if dry_run:
            folder = runs_folder(self.location.own.path)
            for line in format_trials(rerun.plan, catalogue, folder=folder, backend=Local()):
                console.say(line)
            return 0, []
        plan = replace(rerun.plan, repeats=self.repeats)
        status, ids = sweep_plan(self.location, plan, catalogue, resume=False)
        return (status, ids) if ids else (status or 1, [])

    def _show_differences(self, found: list[Difference]) -> None:
        names = find_gpu_names()
        gpu_ids = [self.catalogue.resolve_gpu(name) or format_slug(name) for name in names]
        found = [*found, *compare_cards(self.old, gpu_ids)]
        for each in found:
            console.hint(f"differs: {each.name}: was {each.recorded}, is {each.now}")
        self.named = frozenset(
            each.name.removeprefix("packages.").removesuffix("_version") for each in found
        )


def _warmup_of(observation: Row) -> int | None:
    """Return how many first steps the figures of an observation leave out, if it says so."""
    stated = observation.get("provenance", {}).get("warmup_steps")
    least, most = BOUNDS["warmup_steps"]
    return stated if type(stated) is int and least <= stated <= most else None


def _show_comparison(
    then: list[Row], now: list[Row], named: frozenset[str], factors: Factors
) -> Verdict:
    """Show then and now, and what differs beside what was said; return the verdict on now."""
    sides = RunsOfSide("then", then), RunsOfSide("now", now)
    for change in list_differences(*sides):
        if change.name not in named:
            console.hint(f"differs: {change}")
    console.warn_all(check_selections(*sides))
    compared = compare_runs(then, now)
    console.answer(format_compared(compared, factors))
    again = "give --repeats 4 or more: an interval needs repeats"
    console.say(format_verdict([compared], factors, for_an_interval=again))
    return judge(compared, factors).verdict
