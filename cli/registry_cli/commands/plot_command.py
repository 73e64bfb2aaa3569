"""``registry plot``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from registry.api import Registry
from registry.charts import KINDS, require_altair
from registry.charts.kinds import FORMATS
from registry.charts.style import THEMES
from registry_cli.filters import observation_filters
from registry_cli.group import HintedChoice
from registry_cli.options import locate, registry_option
from registry_cli.output import at_option
from registry_cli.output_file import open_output, validate_output

_KINDS = "\n".join(f"  {name:<10}{meaning}" for name, meaning in KINDS.items())
_HELP = f"""Draw a chart of the records: PNG, SVG, PDF, HTML (works offline) or Vega-Lite JSON.

\b
KIND is one of:
{_KINDS}

SIDES, for compare only, are two selections as in `registry compare`. Each pair of a model and a
card gets its own panel. Needs the extra [plot]: pip install 'peft-registry[plot]'

\b
Examples:
  registry plot pareto --model llama-3.1-8b -o pareto.png
  registry plot fits --model llama-2-7b --gpu rtx-3090 --theme dark -o fits.html
  registry plot compare peft-method-comparison-2025-06 peft-method-comparison -o compare.svg
"""


@click.command(name="plot", help=_HELP)
@click.argument("kind", metavar="KIND", type=HintedChoice(list(KINDS)))
@click.argument("sides", nargs=-1)
@observation_filters()
@click.option("--x", "x", metavar="COLUMN", help="seq_len, micro_batch_size or n_gpus.")
@click.option(
    "--y",
    "y",
    metavar="COLUMN",
    help="tokens_per_second, samples_per_second or seconds_per_step; for history also "
    "peak_memory_bytes_per_gpu.",
)
@click.option("--theme", type=HintedChoice(list(THEMES)), default="light", show_default=True)
@click.option(
    "--width",
    type=click.IntRange(200, 10_000),
    default=900,
    show_default=True,
    help="Width of the chart in pixels.",
)
@click.option("--title", metavar="TEXT", help="Heading (else one that says what is shown).")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to FILE; its extension implies the format.",
)
@click.option(
    "-f",
    "--format",
    "format_name",
    type=HintedChoice(FORMATS),
    metavar="FORMAT",
    help=f"One of {', '.join(FORMATS)}.",
)
@at_option
@registry_option
def command(
    kind: str,
    sides: tuple[str, ...],
    *,
    x: str | None,
    y: str | None,
    theme: str,
    width: int,
    title: str | None,
    output: Path | None,
    format_name: str | None,
    at: int | None,
    registry_path: Path | None,
    **filters: Any,
) -> None:  # fmt: skip
    """Draw a picture; its help is above."""
    format_name = _choose_format(format_name, output)
    if output is not None:
        validate_output(output, locate(registry_path))
    require_altair()
    options = {"x": x, "y": y, "theme": theme, "width": width, "title": title}
    chart = Registry(locate(registry_path), at).plot(kind, *sides, **filters, **options)
    _write(chart, format_name, width, output)


def _choose_format(name: str | None, output: Path | None) -> str:
    if name is not None:
        if output is None and sys.stdout.isatty():
            raise click.UsageError(f"{name} is not for a terminal; name a file with -o")
        return name
    if output is None:
        raise click.UsageError("expected a file for the chart: -o FILE, such as -o chart.png")
    suffix = output.suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        raise click.UsageError(
            f"{output}: its extension implies no format; expected one of "
            f"{', '.join(f'.{known}' for known in FORMATS)}, or a format with -f"
        )
    return suffix


def _write(chart: Any, format_name: str, width: int, output: Path | None) -> None:
    from registry.charts.picture import format_picture  # noqa: PLC0415 - loads what draws

    data = format_picture(chart, format_name, width)
    if output is None:
        sys.stdout.buffer.write(data)
        return
    with open_output(output) as file:
        file.write(data)
