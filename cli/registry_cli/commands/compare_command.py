"""``registry compare``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from registry.store.snapshot import load_catalogue
from registry_cli import console
from registry_cli.comparison import compare_sides, format_compared
from registry_cli.group import HintedChoice
from registry_cli.options import locate, registry_option
from registry_cli.recorded import read_recorded


@click.command(name="compare")
@click.argument("a")
@click.argument("b")
@click.option(
    "--factor",
    type=click.FloatRange(min=0, min_open=True),
    default=1.05,
    show_default=True,
    help="How much slower or larger B may be than A.",
)
@click.option("--fail", is_flag=True, help="Exit 1 if B is worse than that.")
@click.option("-f", "--format", "format_name", type=HintedChoice(["text", "json"]), default="text")
@registry_option
def command(
    a: str, b: str, *, factor: float, fail: bool, format_name: str, registry_path: Path | None
) -> int:
    """Compare A with B: outcome, time and peak memory of each configuration.

    A and B are ids of observations, environments or sources (or their first digits), versions of a
    package (peft=0.21), or paths of plans that were run. What ended well in A and fails or is
    missing in B comes first. The interval is over runs: it needs two on each side, or repeats of
    other configurations. B is worse if it fails, or if the ratio exceeds --factor and the interval
    lies above 1.

    \b
    Example:
      registry compare peft-method-comparison-2025-06 peft-method-comparison
    """  # noqa: D301 - \b keeps the example's lines
    catalogue = load_catalogue(locate(registry_path))
    side_a = read_recorded(registry_path, a, catalogue)
    side_b = read_recorded(registry_path, b, catalogue)
    found = compare_sides(side_a, side_b)
    worse = [compared for compared in found if compared.exceeds(factor)]
    if format_name == "json":
        console.data([{**asdict(compared), "worse": compared in worse} for compared in found])
    else:
        for compared in found:
            console.answer(format_compared(compared))
    if worse:
        console.hint(f"{len(worse)} of {len(found)} are worse by more than a factor of {factor}")
    return 1 if worse and fail else 0
