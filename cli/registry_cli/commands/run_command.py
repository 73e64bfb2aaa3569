"""``registry run``."""

from __future__ import annotations

import secrets
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.errors import RegistryError
from registry.measure.matching import match_to_catalogue
from registry.measure.record_files import write_json
from registry.measure.releases import add_provenance
from registry.measure.running.plan import read_plan
from registry.measure.running.plan_template import format_template
from registry.measure.running.wrapped_command import CommandError, run_command
from registry.measure.trial_settings import BOUNDS
from registry.store.add import add_submissions
from registry.store.snapshot import load_catalogue
from registry_cli import console
from registry_cli.options import Label, find_plan, locate, registry_option
from registry_cli.sweeping import dataset_option, format_trials, sweep_plan

if TYPE_CHECKING:
    from registry.store.folder import Location

_COMMAND = "registry_cli.command"


class RunCommand(click.Command):
    """A command that leaves everything after ``--`` as it is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what comes before ``--``; keep the rest."""
        if "--" in args:
            place = args.index("--")
            ctx.meta[_COMMAND] = args[place + 1 :]
            args = args[:place]
        return super().parse_args(ctx, args)


@click.command(cls=RunCommand, name="run")
@click.argument(
    "plan",
    metavar="PLAN.toml | -- CMD…",
    required=False,
    type=click.Path(path_type=Path, dir_okay=False),
)
@click.option("--template", is_flag=True, help="Print a commented plan that runs as it is.")
@click.option("--dry-run", is_flag=True, help="List the trials: model, data and command of each.")
@click.option("--no-resume", is_flag=True, help="Run all trials, even those that have a result.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=click.FloatRange(*BOUNDS["timeout_seconds"]),
    help="End a trial after this long, whatever the plan says.",
)
@click.option(
    "--label",
    metavar="NAME",
    type=Label(),
    help="Name the release that is measured, for registry compare label=NAME.",
)
@dataset_option
@registry_option
@click.pass_context
def command(
    ctx: click.Context,
    plan: Path | None,
    *,
    template: bool,
    dry_run: bool,
    no_resume: bool,
    timeout: float | None,
    label: str | None,
    dataset: Path | None,
    registry_path: Path | None,
) -> int:
    """Run a plan of training jobs and record each, or measure any unmodified training script.

    A plan is a file, or the name of one in the registry (plans/cpu-smoke.toml); --template
    shows all keys of one. Its trials
    run one by one, each in its own process. Those that ended ok or out of memory are not run again;
    failed ones are. After -- comes any command: its output streams through and its exit status is
    passed on. Processes that it leaves behind are ended.

    \b
    Examples:
      registry run --template
      registry run plans/cpu-smoke.toml --dry-run
      registry run --label my-branch -- python examples/sft.py
    """  # noqa: D301 - \b keeps the examples' lines
    words: list[str] | None = ctx.meta.get(_COMMAND)
    if [plan is not None, bool(words), template].count(True) != 1:
        raise click.UsageError(
            "expected a plan (PLAN.toml), or -- and the command to measure, or --template"
        )
    if template:
        click.echo(format_template(), nl=False)
        return 0
    location = locate(registry_path)
    if words:
        return _measure(location, words, label)
    read = read_plan(find_plan(location, Path(str(plan))), dataset=dataset)
    if timeout is not None:
        read = replace(read, base={**read.base, "timeout_seconds": timeout})
    catalogue = load_catalogue(location)
    if dry_run:
        for line in format_trials(read, catalogue):
            console.say(line)
        return 0
    return sweep_plan(location, read, catalogue, resume=not no_resume, label=label)[0]


def _measure(location: Location, words: list[str], label: str | None) -> int:
    catalogue = load_catalogue(location)
    try:
        found = run_command(words)
    except CommandError as error:
        console.error(str(error))
        return error.status
    if found.submission is None:
        console.hint("nothing was recorded: no training began in a Python process of the command")
        return found.returncode
    recorded = add_provenance(found.submission, label=label) if label else found.submission
    try:
        submission = match_to_catalogue(recorded, catalogue)
        (added,) = add_submissions(location, [("the measured run", submission)])
    except (RegistryError, LookupError, TypeError, AttributeError) as error:
        console.error(f"{error}\n{_keep(recorded)}")
        return found.returncode
    for identity, observation in zip(
        added.observation_ids, submission["observations"], strict=True
    ):
        console.hint(
            f"recorded observation {identity[:12]} ({observation['outcome']}); see it with: "
            f"registry show {identity[:12]}"
        )
        for text in observation.get("provenance", {}).get("contradictions", ()):
            console.warning(f"{identity[:12]}: flagged figures_disagree: {text}")
    return found.returncode


def _keep(submission: dict[str, Any]) -> str:
    """Write a record that could not be added to a file; return where it is and the way on."""
    name = f"registry-{secrets.token_hex(4)}.json"
    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        with suppress(OSError):
            write_json(folder / name, submission)
            return (
                f"the record was not added, and is kept in {folder / name}; when what is wrong is "
                f"mended, add it with: registry add {folder / name}"
            )
    return "the record was not added and could not be kept: no folder to write to"
