"""``registry evaluate``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.api import Registry
from registry.predict.calibration.runs import read_observations
from registry.predict.evaluation.accuracy import format_evaluation
from registry.predict.evaluation.evaluate import evaluate
from registry_cli import console
from registry_cli.options import locate, registry_option


@click.command(name="evaluate")
@registry_option
def command(*, registry_path: Path | None) -> None:
    """Hold out each source, predict its rows, and print the errors and the intervals' coverage.

    This takes minutes: everything is refitted without each source. docs/accuracy.md explains the
    tables.

    \b
    Example:
      registry evaluate
    """  # noqa: D301 - \b keeps the example's lines
    found = evaluate(read_observations(Registry(locate(registry_path))))
    console.answer(format_evaluation(found).split("\n"))
