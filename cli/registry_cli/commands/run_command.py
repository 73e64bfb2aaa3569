"""``registry run``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from registry.measure.running.backends import BACKENDS, BackendOptions
from registry.measure.running.plan_template import format_template
from registry.measure.trial_settings import BOUNDS
from registry.store.snapshot import load_catalogue
from registry_cli import console
from registry_cli.command_words import find_command
from registry_cli.measuring import measure_command
from registry_cli.options import locate, registry_option
from registry_cli.sweeping import (
    LABEL,
    dataset_option,
    format_trials,
    read_asked_plan,
    runs_folder,
    sweep_plan,
    timeout_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMAND = "registry_cli.command"


class RunCommand(click.Command):
    """A command that leaves everything after ``--`` as it is."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what comes before ``--``; keep the rest."""
        if "--" in args:
            place = args.index("--")
            ctx.meta[_COMMAND] = args[place + 1 :]
            args = args[:place]
        elif not ctx.resilient_parsing and (forgotten := find_command(self, args)):
            raise click.UsageError(
                "found a command instead of a plan (PLAN.toml); to measure a command, write: "
                f"{forgotten}"
            )
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
    "--parallel",
    metavar="N",
    type=click.IntRange(min=1),
    help="Run at most N trials at once (else as many as fit on the GPUs, or one on CPU). On CPU "
    "each gets its share of the cores, and the records say that others ran alongside.",
)
@click.option(
    "--backend",
    type=click.Choice(list(BACKENDS)),
    default="local",
    show_default=True,
    help="Where trials run: this machine, or a cluster whose nodes see the registry's folder.",
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="Where the Ray cluster is (else RAY_ADDRESS, else the one on this machine).",
)
@click.option("--partition", metavar="NAME", help="Partition of Slurm (else its default one).")
@click.option("--array", is_flag=True, help="Submit to Slurm in job arrays.")
@click.option(
    "--sbatch",
    metavar="NAME=VALUE",
    multiple=True,
    help="Another option for Slurm's sbatch, by its long name, such as account=lab; repeatable.",
)
@click.option(
    "--cpus",
    metavar="N",
    type=click.IntRange(min=1),
    help="Processors per trial on a cluster (else the same share of the node's processors as of "
    "its GPUs; on CPU, all of them).",
)
@click.option(
    "--warmup-steps",
    metavar="N",
    type=click.IntRange(int(BOUNDS["warmup_steps"][0]), int(BOUNDS["warmup_steps"][1])),
    help="How many steps at the start the figures of a measured command leave out (else 2).",
)
@click.option(
    "--no-keep",
    is_flag=True,
    help="Do not keep the command after -- for registry rerun. (Otherwise it is kept with its "
    "arguments in a private file of yours, never in a registry.)",
)
@timeout_option
@click.option(
    "--label",
    metavar="NAME",
    type=LABEL,
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
    parallel: int | None,
    backend: str,
    address: str | None,
    partition: str | None,
    array: bool,
    sbatch: tuple[str, ...],
    cpus: int | None,
    warmup_steps: int | None,
    no_keep: bool,
    timeout: float | None,
    label: str | None,
    dataset: Path | None,
    registry_path: Path | None,
) -> int:
    """Run a plan of training jobs and record each, or measure any unmodified training script.

    A plan is a file, or the name of one in the registry (plans/cpu-smoke.toml); --template shows
    all its keys. Each trial runs in its own process: one by one on CPU, side by side on GPUs, or on
    a cluster (--backend). Trials that ended ok or out of memory are not run again; failed ones are.
    Trials need the extra [train]: pip install 'peft-registry[train]'

    After -- comes any command: its output streams through and its exit status is passed on.
    Processes that it leaves behind are terminated. Of the options, only --label, --warmup-steps,
    --no-keep and --registry apply to it; to limit its time, write -- timeout SECONDS CMD.

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
        _check_command(ctx)
        return measure_command(
            location, words, label=label, warmup_steps=warmup_steps, keeps=not no_keep
        )[0]
    if warmup_steps is not None or no_keep:
        raise click.UsageError(
            "found --warmup-steps or --no-keep; expected them only with a command after --; a plan "
            "states warmup_steps itself"
        )
    options = BackendOptions(
        parallel,
        n_cpus=cpus,
        address=address,
        partition=partition,
        array=array,
        sbatch=_parse_sbatch(sbatch),
    )
    _check_backend(backend, options)
    read = read_asked_plan(location, Path(str(plan)), dataset=dataset, timeout=timeout)
    catalogue = load_catalogue(location)
    runner = BACKENDS[backend](options)
    if dry_run:
        folder = runs_folder(location.own.path, label)
        for line in format_trials(read, catalogue, folder=folder, backend=runner):
            console.say(line)
        return 0
    return sweep_plan(location, read, catalogue, resume=not no_resume, label=label, backend=runner)[
        0
    ]


#: Options that are about a plan, and how they are written.
_OF_PLANS = (
    *("dry_run", "no_resume", "parallel", "timeout", "dataset"),
    *("backend", "address", "partition", "array", "sbatch", "cpus"),
)

#: What does for a command what an option does for a plan.
_WAYS_OUT = {"timeout": "; a command is ended by: registry run -- timeout SECONDS CMD"}


def _check_command(ctx: click.Context) -> None:
    """Raise UsageError for an option of plans beside a command, which would have no effect."""
    for name in _OF_PLANS:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            word = f" {ctx.params[name]}" if name == "backend" else ""
            raise click.UsageError(
                f"found --{name.replace('_', '-')}{word} with a command after --; expected it with "
                f"a plan{_WAYS_OUT.get(name, '')}"
            )


def _parse_sbatch(stated: Sequence[str]) -> dict[str, str]:
    """Return options of sbatch by their names."""
    for each in stated:
        if not re.fullmatch(r"[a-z][a-z-]*=[^\x00-\x1f]+", each):
            raise click.UsageError(
                f"--sbatch: found {each!r}; expected NAME=VALUE with a long name of sbatch, such "
                "as account=lab"
            )
    return dict(each.split("=", 1) for each in stated)


def _check_backend(backend: str, options: BackendOptions) -> None:
    """Raise UsageError for an option that the backend has no use for."""
    for name, is_given, owners in (
        ("--address", options.address is not None, ("ray",)),
        ("--partition", options.partition is not None, ("slurm",)),
        ("--array", options.array, ("slurm",)),
        ("--sbatch", bool(options.sbatch), ("slurm",)),
        ("--cpus", options.n_cpus is not None, ("ray", "slurm")),
    ):
        if is_given and backend not in owners:
            raise click.UsageError(
                f"found {name} with --backend {backend}; expected it with --backend "
                f"{' or '.join(owners)}"
            )
