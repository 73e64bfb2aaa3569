"""``registry fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from registry.api import Registry
from registry.predict.answers import Wanted, answer_fit
from registry.predict.asked import Asked
from registry_cli import console
from registry_cli.answer_text import fold_lines, format_answer, output_width
from registry_cli.asking import format_option, json_option, question_options, spending_options
from registry_cli.options import locate, registry_option


@click.command(name="fit")
@question_options
@spending_options
@click.option("--explain", is_flag=True, help="Show what each switch costs or saves.")
@click.option(
    "--sweep",
    metavar="A,B",
    default="",
    help="Show the largest combinations of batch, seq-len and rank that fit.",
)
@click.option(
    "--exact", is_flag=True, help="Also run the training graph on fake tensors (needs torch)."
)
@click.option("--exit-code", is_flag=True, help="Exit 1 unless it fits each card that is named.")
@format_option
@json_option
@registry_option
def command(
    *,
    price: tuple[str, ...],
    price_file: Path | None,
    n_samples: int | None,
    epochs: float,
    explain: bool,
    sweep: str,
    exact: bool,
    exit_code: bool,
    format_name: str,
    as_json: bool,
    registry_path: Path | None,
    **options: Any,
) -> int:
    """Answer whether a training configuration fits a card, with the observations behind it.

    With several --gpu, or the name of a family (a100), each card gets its own verdict; without
    --gpu, so do the common cards of the catalogue that could hold it. The verdict is undecided if
    the memory that a process can use on the card lies within the 90 % interval of the peak, or if
    more than 5 % of what the question leaves open needs more; the chance that it fits is shown
    either way. An invalid question exits with status 2.

    \b
    Examples:
      registry fit --model qwen-7b --gpu rtx-3090 --method qlora --seq-len 2048
      registry fit --model llama-2-7b --gpu rtx-4090 --gpu a100 --price a100=1.8 --samples 1e4
      registry fit --model llama-2-7b --vram 15GiB --method qlora --explain
      registry fit --model llama-2-7b --gpu a100-80gb --checkpointing --sweep batch,seq-len
    """  # noqa: D301 - \b keeps the examples' lines
    wanted = Wanted(
        price=price or None,
        price_file=price_file,
        n_samples=n_samples,
        n_epochs=epochs,
        explain=explain,
        sweep=tuple(sweep.split(",")) if sweep else (),
        exact=exact,
        tell=console.hint,
    )
    found = answer_fit(Asked(**options), Registry(locate(registry_path)), wanted)
    console.warn_all(found.warnings)
    if as_json or format_name == "json":
        console.data(found.to_dict())
    else:
        width = output_width()
        console.answer(fold_lines(format_answer(found, width), width))
    return 1 if exit_code and not found.fits else 0
