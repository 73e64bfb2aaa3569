"""``registry rerun``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.measure.running.rerun import plan_of
from registry.store.snapshot import load_catalogue
from registry_cli import console
from registry_cli.comparison import compare_sides
from registry_cli.comparison_text import format_compared
from registry_cli.options import locate, registry_option
from registry_cli.recorded import read_one, read_recorded
from registry_cli.sweeping import dataset_option, format_trials, sweep_plan


@click.command(name="rerun")
@click.argument("observation_id", metavar="ID")
@click.option(
    "--dry-run", is_flag=True, help="Show model, data and command, and what differs here."
)
@dataset_option
@registry_option
def command(
    observation_id: str, *, dry_run: bool, dataset: Path | None, registry_path: Path | None
) -> int:
    """Run the configuration of a recorded observation again, and compare old with new.

    Differences in the environment are shown first. The ratio takes the noise of the recorded
    steps into account. A data set is read only if --dataset names it.

    \b
    Example:
      registry rerun $(registry ls --model llama-2-7b -f csv | tail -1 | cut -d, -f1) --dry-run
    """  # noqa: D301 - \b keeps the example's lines
    location = locate(registry_path)
    catalogue = load_catalogue(location)
    old = read_one(registry_path, observation_id)
    models = {old["model"]["model_id"]: old["model"]} if old.get("model") else {}
    rerun = plan_of(old, models=models, catalogue=catalogue, dataset=dataset)
    for difference in rerun.differences:
        console.hint(f"differs: {difference.name}: was {difference.recorded}, is {difference.now}")
    for column in rerun.left_out:
        console.warning(f"not repeated: {column}")
    if dry_run:
        for line in format_trials(rerun.plan, catalogue):
            console.say(line)
        return 0
    status, observation_ids = sweep_plan(location, rerun.plan, catalogue, resume=False)
    if not observation_ids:
        return status or 1
    new = read_recorded(registry_path, observation_ids[-1])
    for compared in compare_sides([old], new):
        console.answer(format_compared(compared))
    return status
