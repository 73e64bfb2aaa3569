"""``registry utilization``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from registry.api import Registry
from registry.errors import QuestionError
from registry.predict.architecture import peak_flops_of
from registry.predict.formula.rules_of_thumb import (
    flops_utilization,
    throughput_utilization,
    tokens_per_second_per_gpu,
)
from registry.predict.profiles import parse_flops_profile, parse_tensor_core_share
from registry.predict.utilization import read_utilization
from registry_cli import console
from registry_cli.asking import find_gpu_row, open_catalogue, parse_number
from registry_cli.options import locate, registry_option

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(name="utilization")
@click.argument("observation_id", metavar="[ID]", required=False)
@click.option("--flops-profile", type=_FILE, help="Text of DeepSpeed's flops profiler.")
@click.option("--trace", type=_FILE, help="Trace of PyTorch's profiler (JSON).")
@click.option("--flops", metavar="N", help="Measured FLOP/s of one card, such as 100e12.")
@click.option("--gpu", metavar="ID", help="Card whose dense peak they are compared with.")
@click.option("--dtype", default="bf16", show_default=True, help="Number format of the peak.")
@click.option("--samples-per-second", type=float, help="Measured rate, all cards together.")
@click.option("--seq-len", type=click.IntRange(min=1), help="Tokens per sample.")
@click.option("--gpus", "n_gpus", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--reference", type=float, help="Tokens/s of one card that count as full use.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@registry_option
def command(observation_id: str | None, *, as_json: bool, **asked: Any) -> None:
    """Show how much of a card's peak performance a run used.

    The run is an observation (model-FLOP/s utilization from the architecture), a profile, measured
    FLOP/s, or a rate and its reference. The view utilization has all observations.

    \b
    Examples:
      registry utilization --flops 100e12 --gpu a100-sxm4-80gb
      registry utilization --samples-per-second 3 --seq-len 2048 --gpus 4 --reference 3300
    """  # noqa: D301 - \b keeps the examples' lines
    figures = _figures(observation_id, asked)
    if as_json:
        console.data(figures)
        return
    for name, value in figures.items():
        is_share = name.endswith(("utilization", "share"))
        click.echo(f"{name}: {value:.3%}" if is_share else f"{name}: {value:.6g}")


def _figures(observation_id: str | None, asked: dict[str, Any]) -> dict[str, float]:
    if observation_id is not None:
        return _of_observation(asked["registry_path"], observation_id)
    figures: dict[str, float] = {}
    if asked["trace"] is not None:
        text = asked["trace"].read_text(encoding="utf-8")
        figures["tensor_core_share"] = parse_tensor_core_share(text)
    measured = _measured_flops(asked)
    if measured is not None:
        figures |= _of_flops(measured, asked)
    if asked["samples_per_second"] is not None:
        figures |= _of_rate(asked)
    if not figures:
        raise click.UsageError(
            "expected an observation's id, --flops-profile, --flops, --trace, or "
            "--samples-per-second with --seq-len"
        )
    return figures


def _of_observation(registry_path: Path | None, observation_id: str) -> dict[str, float]:
    registry = Registry(locate(registry_path))
    found = read_utilization(registry, observation_id)
    if found is None:
        raise QuestionError(
            f"{observation_id}: its figures give no utilization; expected tokens per second "
            "(or full sequences), a known model and a card whose peak is known"
        )
    assumed = "from utilization where full_length_assumed and starts_with(observation_id, $id)"
    if len(registry.query(assumed, id=observation_id)):
        console.hint(
            "every sample is taken to be as long as seq_len, and nothing says that it was; if "
            "samples were shorter, the true utilization is lower"
        )
    figures = {
        "tokens_per_second_per_gpu": found.tokens_per_second_per_gpu,
        "peak_flops": found.peak_flops,
        "model_flops_utilization": found.model,
        **{f"flops_per_token_{k}": float(v) for k, v in asdict(found.flops).items()},
    }
    if found.hardware is not None:
        figures["hardware_flops_utilization"] = found.hardware
    return figures


def _measured_flops(asked: dict[str, Any]) -> float | None:
    if asked["flops_profile"] is not None:
        text = asked["flops_profile"].read_text(encoding="utf-8")
        return parse_flops_profile(text).flops_per_second
    return None if asked["flops"] is None else parse_number(asked["flops"])


def _of_flops(measured: float, asked: dict[str, Any]) -> dict[str, float]:
    if asked["gpu"] is None:
        raise click.UsageError("FLOP/s are compared with a card's peak: give --gpu")
    row = find_gpu_row(asked["gpu"], open_catalogue(asked["registry_path"]))
    peak = peak_flops_of(row, asked["dtype"])
    if peak is None:
        raise QuestionError(f"{row['gpu_id']}: its dense peak in {asked['dtype']} is not known")
    if row.get("verified") is False:
        console.warning(f"the peak of {row['gpu_id']} was not read in a source (verified = false)")
    return {
        "flops_per_second": measured,
        "peak_flops": peak,
        "flops_utilization": flops_utilization(measured, peak),
    }


def _of_rate(asked: dict[str, Any]) -> dict[str, float]:
    if asked["seq_len"] is None:
        raise click.UsageError("--samples-per-second needs --seq-len")
    rate = tokens_per_second_per_gpu(asked["samples_per_second"], asked["seq_len"], asked["n_gpus"])
    figures = {"tokens_per_second_per_gpu": rate}
    if asked["reference"] is not None:
        figures["throughput_utilization"] = throughput_utilization(rate, asked["reference"])
    return figures
