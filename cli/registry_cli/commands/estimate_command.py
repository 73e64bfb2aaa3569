"""``registry estimate``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from registry.api import Registry
from registry.predict.answer.plain import format_interval, format_question, format_signed
from registry.predict.answer_tables import list_costs
from registry.predict.answers import Wanted, answer_estimate
from registry.predict.asked import Asked, find_architecture
from registry.predict.formula.rules_of_thumb import RULES, apply_rule
from registry.store.snapshot import load_catalogue
from registry_cli import console
from registry_cli.answer_text import fold_lines, format_assumed, output_width
from registry_cli.asking import format_option, json_option, question_options, spending_options
from registry_cli.group import HintedChoice
from registry_cli.options import locate, registry_option

if TYPE_CHECKING:
    from registry.predict.answers import EstimateResult


@click.command(name="estimate")
@question_options
@spending_options
@click.option("--rule", type=HintedChoice(list(RULES)), help="Use a rule of thumb instead.")
@click.option(
    "--dry-run", is_flag=True, help="Run the training graph on fake tensors (needs torch)."
)
@format_option
@json_option
@registry_option
def command(
    *,
    price: tuple[str, ...],
    price_file: Path | None,
    n_samples: int | None,
    epochs: float,
    rule: str | None,
    dry_run: bool,
    format_name: str,
    as_json: bool,
    registry_path: Path | None,
    **options: Any,
) -> None:
    """Break down a run's memory, time and cost.

    \b
    Examples:
      registry estimate --model qwen-7b --gpu a100-sxm4-80gb --method lora --samples 10000 --price 2
      registry estimate --model llama-2-7b --rule 16n
    """  # noqa: D301 - \b keeps the examples' lines
    asked, registry = Asked(**options), Registry(locate(registry_path))
    in_json = as_json or format_name == "json"
    if rule is not None:
        console.warn_all(_idle_beside_rule())
        exact = find_architecture(asked, load_catalogue(registry.location)).n_params
        _show_rule(rule, asked, exact, as_json=in_json)
        return
    wanted = Wanted(
        price or None,
        price_file,
        n_samples=n_samples,
        n_epochs=epochs,
        exact=dry_run,
        tell=console.hint,
    )
    found = answer_estimate(asked, registry, wanted)
    console.warn_all(found.warnings)
    if in_json:
        console.data(found.to_dict())
    else:
        console.answer(fold_lines(_lines(found), output_width()))


#: What a rule of thumb takes: a model, and how it is shown.
_OF_RULES = (
    "model", "config", "params", "layers", "hidden", "vocab", "rule", "format_name", "as_json",
    "registry_path",
)  # fmt: skip


def _idle_beside_rule() -> list[str]:
    """Return that options change nothing, where some were given that a rule has no use for."""
    context = click.get_current_context()
    given = [
        option.opts[0]
        for option in context.command.params
        if option.name not in _OF_RULES
        and context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
    ]
    names = ", ".join(name for name in given if name != "--no-curated")
    return [f"a rule of thumb counts parameters alone and leaves out {names}"] if names else []


def _show_rule(rule: str, asked: Asked, exact: int, *, as_json: bool) -> None:
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


def _spoken_params(asked: Asked, exact: int) -> float:
    """Return n as the rules use it: the size in the model's name, else the exact number."""
    match = re.search(r"(\d+(?:\.\d+)?)b(?![a-z0-9])", asked.model or "", re.IGNORECASE)
    if asked.params is not None or asked.config is not None or match is None:
        return float(exact)
    return float(match[1]) * 1e9


def _lines(found: EstimateResult) -> list[str]:
    memory = found.memory
    lines = [
        format_question(found.question),
        f"peak per device: {format_interval(memory.figure)}",
    ]
    lines += [
        f"  {name:<16} {format_signed(value):>12}" for name, value in memory.parts.items() if value
    ]
    lines += [f"  predictor: {memory.predictor}", *format_assumed(found)]
    return [*lines, *(f"{name}: {figure}" for name, figure in list_costs(found))]
