"""``registry fit``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from registry.api import Registry
from registry.predict.answer.will_it_fit import answer
from registry.predict.calibration.calibration_file import read_calibration
from registry_cli import console
from registry_cli.answer_text import answer_data, format_answer
from registry_cli.asking import (
    all_gpus,
    build_question,
    find_gpus,
    open_catalogue,
    question_options,
    settle_stack,
)
from registry_cli.options import locate, registry_option


@click.command(name="fit")
@question_options
@click.option(
    "--exact", is_flag=True, help="Run the training graph on fake tensors too (needs torch)."
)
@click.option("--exit-code", is_flag=True, help="Exit 1 unless the verdict is fits.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@registry_option
def command(
    *, exact: bool, exit_code: bool, as_json: bool, registry_path: Path | None, **asked: Any
) -> int:
    """Answer whether a training configuration fits a card, with the observations behind it.

    Without --gpu, list the cards of the catalogue that it fits; with the name of a family (a100),
    its cards. The verdict is undecided unless the
    whole 90 % interval lies on one side of the card's memory.

    \b
    Examples:
      registry fit --model qwen-7b --gpu rtx-3090 --method qlora --seq-len 2048
      registry fit --model llama-2-7b --method lora --seq-len 4096 --json
    """  # noqa: D301 - \b keeps the examples' lines
    catalogue = open_catalogue(registry_path)
    calibration = read_calibration(Registry(locate(registry_path)))
    cards = find_gpus(asked, catalogue)
    if cards is not None:  # several cards: a verdict for each
        asked["gpu"] = None
    question = settle_stack(build_question(asked, catalogue), calibration)
    if exact:
        from registry_cli.dry_running import execute  # noqa: PLC0415 - only then

        calibration = execute(question, calibration, asked, catalogue)
    found = answer(question, calibration, all_gpus(catalogue) if cards is None else cards)
    console.warn_all(found.warnings)
    if as_json:
        console.data(answer_data(found))
    else:
        console.answer(format_answer(found))
    return 1 if exit_code and found.verdict != "fits" else 0
