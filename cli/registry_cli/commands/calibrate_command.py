"""``registry calibrate``."""

from __future__ import annotations

from pathlib import Path

import click

from registry.api import Registry
from registry.predict.calibration.calibration_file import recalibrate
from registry_cli import console
from registry_cli.options import locate, registry_option


@click.command(name="calibrate")
@registry_option
def command(*, registry_path: Path | None) -> None:
    """Refit the predictions on the registry's own measurements (about half a minute).

    The fitted state is written to the registry's folder as data; `registry fit` and
    `registry estimate` read it from there.

    \b
    Example:
      registry calibrate
    """  # noqa: D301 - \b keeps the example's lines
    path, calibration = recalibrate(Registry(locate(registry_path)))
    seen = calibration.observations
    memory = sum(one.measured_memory for one in seen)
    times = sum(one.measured_time for one in seen)
    console.answer([f"calibrated on {memory} measured peaks and {times} measured times: {path}"])
