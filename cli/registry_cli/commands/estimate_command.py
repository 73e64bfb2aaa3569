"""``registry estimate``."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from registry.api import Registry
from registry.predict.answer.prediction import (
    Cost,
    Prediction,
    estimate_cost,
    predict_memory,
)
from registry.predict.calibration.calibration_file import read_calibration
from registry.predict.formula.rules_of_thumb import RULES, apply_rule
from registry.predict.question import Question, check_question
from registry.units import format_duration, format_memory
from registry_cli import console
from registry_cli.answer_text import format_interval, format_question, question_data
from registry_cli.asking import (
    COUNT,
    build_architecture,
    build_question,
    open_catalogue,
    question_options,
    settle_stack,
)
from registry_cli.group import HintedChoice
from registry_cli.options import locate, registry_option


@click.command(name="estimate")
@question_options
@click.option("--rule", type=HintedChoice(list(RULES)), help="Use a rule of thumb instead.")
@click.option("--samples", "n_samples", type=COUNT, help="Samples per epoch, such as 1e4.")
@click.option("--epochs", type=float, default=1.0, show_default=True)
@click.option("--price", type=float, help="Price of one GPU per hour.")
@click.option(
    "--dry-run", is_flag=True, help="Run the training graph on fake tensors (needs torch)."
)
@click.option("--json", "as_json", is_flag=True, help="Print the estimate as JSON.")
@registry_option
def command(
    *,
    rule: str | None,
    n_samples: int | None,
    epochs: float,
    price: float | None,
    dry_run: bool,
    as_json: bool,
    registry_path: Path | None,
    **asked: Any,
) -> None:
    """Break down a run's memory, time and cost.

    \b
    Examples:
      registry estimate --model qwen-7b --gpu a100-sxm4-80gb --method lora --samples 10000 --price 2
      registry estimate --model llama-2-7b --rule 16n
    """  # noqa: D301 - \b keeps the examples' lines
    catalogue = open_catalogue(registry_path)
    if rule is not None:
        _show_rule(rule, asked, build_architecture(asked, catalogue).n_params, as_json=as_json)
        return
    calibration = read_calibration(Registry(locate(registry_path)))
    question = settle_stack(build_question(asked, catalogue), calibration)
    console.warn_all(check_question(question))
    if dry_run:
        from registry_cli.dry_running import execute  # noqa: PLC0415 - only then

        calibration = execute(question, calibration, asked, catalogue)
    memory = predict_memory(question, calibration)
    cost = None
    if question.gpu is not None and not question.is_split:
        cost = estimate_cost(
            question, calibration, n_samples=n_samples, n_epochs=epochs, price_per_gpu_hour=price
        )
    elif (n_samples or price) and not question.is_split:
        raise click.UsageError("time and cost depend on the card: give --gpu")
    if as_json:
        console.data(_data(question, memory, cost))
    else:
        console.answer(_lines(question, memory, cost))


def _show_rule(rule: str, asked: dict[str, Any], exact: int, *, as_json: bool) -> None:
    n_params = _spoken_params(asked, exact)
    total = apply_rule(rule, n_params)
    total_exact = apply_rule(rule, exact)
    data = {
        "rule": rule,
        "meaning": RULES[rule].meaning,
        "n_params": n_params,
        "bytes": total,
        "n_params_exact": exact,
        "bytes_exact": total_exact,
    }
    if as_json:
        console.data(data)
        return
    click.echo(f"{rule}: {total / 1e9:g} GB for n = {n_params:g} ({RULES[rule].meaning})")
    if n_params != exact:
        click.echo(f"    {total_exact / 1e9:.4g} GB for the exact {exact} parameters")


def _spoken_params(asked: dict[str, Any], exact: int) -> float:
    """Return n as the rules use it: the size in the model's name, else the exact number."""
    match = re.search(r"(\d+(?:\.\d+)?)b(?![a-z0-9])", asked["model"] or "", re.IGNORECASE)
    if asked["params"] is not None or asked["config"] is not None or match is None:
        return float(exact)
    return float(match[1]) * 1e9


def _data(question: Question, memory: Prediction, cost: Cost | None) -> dict[str, Any]:
    return {
        "question": question_data(question),
        "peak_bytes": asdict(memory.figure),
        "parts_bytes": dict(memory.parts),
        "predictor": memory.predictor,
        "cost": None if cost is None else asdict(cost),
    }


def _lines(question: Question, memory: Prediction, cost: Cost | None) -> list[str]:
    lines = [format_question(question), f"peak per device: {format_interval(memory.figure)}"]
    lines += [f"  {name:<16} {_signed(value):>12}" for name, value in memory.parts.items() if value]
    lines.append(f"  predictor: {memory.predictor}")
    if cost is None:
        return lines
    step = cost.seconds_per_step
    lines.append(f"time per optimizer step: {_seconds(step.value, step.low, step.high)}")
    if cost.seconds_per_epoch is not None:
        epoch = cost.seconds_per_epoch
        lines.append(f"time per epoch: {_seconds(epoch.value, epoch.low, epoch.high)}")
    for name, figure in (("GPU-hours", cost.gpu_hours), ("cost", cost.price)):
        if figure is not None:
            lines.append(f"{name}: {figure.value:.4g} ({figure.low:.3g} to {figure.high:.3g})")
    return lines


def _signed(value: float) -> str:
    return ("-" if value < 0 else "") + format_memory(abs(int(value)))


def _seconds(value: float, low: float, high: float) -> str:
    interval = f"{format_duration(low)} to {format_duration(high)}"
    return f"{format_duration(value)} (90 % interval {interval})"
