"""``registry utilization``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.api import Registry
from registry.errors import QuestionError
from registry.predict.architecture import peak_flops_of
from registry.predict.asked import Asked, build_question, choices, parse_number
from registry.predict.cards import find_gpu_row
from registry.predict.formula.rules_of_thumb import (
    flops_utilization,
    throughput_utilization,
    tokens_per_second_per_gpu,
)
from registry.predict.profiles import read_flops_profile, read_tensor_core_share
from registry.predict.utilization import Utilization, read_utilization, utilize
from registry.store.snapshot import load_catalogue
from registry_cli import console
from registry_cli.asking import COUNT, format_option, json_option
from registry_cli.group import HintedChoice
from registry_cli.options import POSITIVE, locate, registry_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.catalogue import Catalogue

#: Where the operations of a token are counted as here.
FORMULA = "PaLM (Chowdhery et al. 2022), appendix B; Korthikanti et al. 2022, section 6"

_DTYPES = ("bf16", "fp16", "fp32", "tf32")
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(name="utilization")
@click.argument("observation_id", metavar="[ID]", required=False)
@click.option("--flops-profile", type=_FILE, help="Text of DeepSpeed's flops profiler.")
@click.option("--trace", type=_FILE, help="Trace of PyTorch's profiler (JSON).")
@click.option("--flops", metavar="N", help="Measured FLOP/s of one card, such as 100e12.")
@click.option("--gpu", metavar="ID", help="Card whose dense peak the FLOP/s are compared with.")
@click.option(
    "--dtype",
    type=HintedChoice(_DTYPES),
    default="bf16",
    show_default=True,
    help="Number format of the peak.",
)
@click.option("--model", metavar="ID", help="Model whose operations are counted, for a rate.")
@click.option("--config", metavar="FILE", help="config.json of the model, or the folder of one.")
@click.option(
    "--method",
    type=HintedChoice(choices("method")),
    metavar="METHOD",
    help="full, lora, …  [default: lora, with a note]",
)
@click.option("--lora-rank", type=click.IntRange(min=1), help="Rank of the adapters.")
@click.option("--targets", metavar="A,B", help="Modules with adapters.")
@click.option(
    "--checkpointing/--no-checkpointing",
    default=None,
    help="Gradient checkpointing, for the utilization of the hardware.",
)
@click.option("--samples-per-second", type=POSITIVE, help="Measured rate of all cards together.")
@click.option("--tokens-per-second", type=POSITIVE, help="The same in tokens.")
@click.option("--seq-len", type=COUNT, help="Tokens per sample, such as 4k; the mean if they vary.")
@click.option(
    "--gpus",
    "n_gpus",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of cards.",
)
@click.option("--reference", type=POSITIVE, help="Tokens/s of one card that count as full use.")
@format_option
@json_option
@registry_option
def command(observation_id: str | None, *, format_name: str, as_json: bool, **asked: Any) -> None:
    """Show how much of a card's peak performance a run used.

    The run is given as an observation (model-FLOP/s utilization from the architecture), a profile,
    measured FLOP/s, a rate and its reference, or a rate, a model and a card. The view utilization
    covers all observations.

    \b
    Examples:
      registry utilization --flops 100e12 --gpu a100-sxm4-80gb
      registry utilization --samples-per-second 3 --seq-len 2048 --gpus 4 --reference 3300
      registry utilization --model llama-2-7b --gpu a100-80gb --samples-per-second 2 --seq-len 2k
    """  # noqa: D301 - \b keeps the examples' lines
    figures = _figures(observation_id, asked)
    if as_json or format_name == "json":
        console.data({**figures, "formula": FORMULA} if _is_counted(figures) else figures)
        return
    for name, value in figures.items():
        click.echo(f"{name}: {_format(name, value)}")
    if _is_counted(figures):
        click.echo(f"formula: {FORMULA}")


def _format(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.3%}" if name.endswith(("utilization", "share")) else f"{value:.6g}"


def _is_counted(figures: dict[str, Any]) -> bool:
    """Return whether operations of a token were counted."""
    return "flops_per_token_forward" in figures


def _figures(observation_id: str | None, asked: dict[str, Any]) -> dict[str, Any]:
    if observation_id is not None:
        return _of_observation(asked["registry_path"], observation_id)
    figures: dict[str, Any] = {}
    if asked["trace"] is not None:
        figures["tensor_core_share"] = read_tensor_core_share(asked["trace"])
    measured = _measured_flops(asked)
    if measured is not None:
        figures |= _of_flops(measured, asked)
    if asked["samples_per_second"] is not None and asked["tokens_per_second"] is not None:
        raise click.UsageError("found --samples-per-second and --tokens-per-second; expected one")
    if asked["samples_per_second"] is not None or asked["tokens_per_second"] is not None:
        figures |= _of_rate(asked)
    if not figures:
        raise click.UsageError(
            "expected an observation's id, --flops-profile, --flops, --trace, or "
            "--samples-per-second with --seq-len (and --model, --gpu for its share of the peak)"
        )
    return figures


def _of_observation(registry_path: Path | None, observation_id: str) -> dict[str, Any]:
    row = read_utilization(Registry(locate(registry_path)), observation_id)
    if row is None:
        raise QuestionError(
            f"{observation_id}: its figures give no utilization; expected tokens per second "
            "(or full sequences), a known model and a card whose peak is known"
        )
    if row["full_length_assumed"]:
        console.hint(
            "every sample is assumed to be as long as seq_len, which the source does not confirm; "
            "if samples were shorter, the true utilization is lower"
        )
    if row["dtype_assumed"]:
        console.hint(
            "the dtype of the computation is not stated, so that the 16-bit peak is taken; if it "
            "was fp8, the true utilization is about half"
        )
    if "suspect" in (row["flags"] or ()):
        console.warning("the observation is flagged suspect: a figure of it is hard to believe")
    return {name: row[column] for name, column in _COLUMNS.items() if row[column] is not None}


#: What is shown of an observation, by the column of the view ``utilization``.
_COLUMNS = {
    "tokens_per_second_per_gpu": "tokens_per_second_per_gpu",
    "peak_flops": "peak_flops_per_second",
    "model_flops_utilization": "model_flops_utilization",
    "flops_per_token_forward": "forward_flops_per_token",
    "flops_per_token_backward": "backward_flops_per_token",
    "flops_per_token_recompute": "recompute_flops_per_token",
    "hardware_flops_utilization": "hardware_flops_utilization",
    "full_length_assumed": "full_length_assumed",
    "dtype_assumed": "dtype_assumed",
}


def _figures_of(found: Utilization) -> dict[str, Any]:
    figures = {
        "tokens_per_second_per_gpu": found.tokens_per_second_per_gpu,
        "peak_flops": found.peak_flops,
        "model_flops_utilization": found.model,
        "flops_per_token_forward": found.flops.forward,
        "flops_per_token_backward": found.flops.backward,
    }
    if found.hardware is not None:
        figures["flops_per_token_recompute"] = found.flops.recompute
        figures["hardware_flops_utilization"] = found.hardware
    return figures


def _measured_flops(asked: dict[str, Any]) -> float | None:
    if asked["flops_profile"] is not None:
        return read_flops_profile(asked["flops_profile"]).flops_per_second
    return None if asked["flops"] is None else parse_number(asked["flops"], "flops")


def _of_flops(measured: float, asked: dict[str, Any]) -> dict[str, float]:
    if asked["gpu"] is None:
        raise click.UsageError("FLOP/s are compared with a card's peak: give --gpu")
    peak = _find_peak(asked)
    share = flops_utilization(measured, peak)
    if share > 1:
        console.warning(
            f"{share:.0%} of the peak of {asked['gpu']}: no card exceeds its peak; check --dtype, "
            "and whether the FLOP/s are those of several cards"
        )
    return {"flops_per_second": measured, "peak_flops": peak, "flops_utilization": share}


def _find_peak(asked: dict[str, Any]) -> float:
    """Return the dense peak of the card that is asked about; warn where nobody read it."""
    catalogue = load_catalogue(locate(asked["registry_path"]))
    row = find_gpu_row(asked["gpu"], catalogue)
    peak = peak_flops_of(row, asked["dtype"])
    if peak is None:
        raise QuestionError(
            f"{row['gpu_id']}: its dense peak in {asked['dtype']} is not known"
            f"{_ways_out(row, catalogue, asked['dtype'])}"
        )
    if row.get("verified") is False:
        console.warning(
            f"the peak of {row['gpu_id']} was not checked against a source (verified = false)"
        )
    return peak


def _ways_out(row: Mapping[str, Any], catalogue: Catalogue, dtype: str) -> str:
    """Return the kinds of a family of cards, or the formats, whose peak is known."""
    kinds = [
        kind
        for kind in catalogue.kinds_of(row["gpu_id"])
        if peak_flops_of(catalogue.gpus[kind], dtype) is not None
    ]
    if kinds:
        return f", as its kinds differ; expected one of {', '.join(sorted(kinds))}"
    known = [name for name in _DTYPES if peak_flops_of(row, name) is not None]
    return f"; expected --dtype {' or '.join(known)}" if known else ""


def _of_rate(asked: dict[str, Any]) -> dict[str, float]:
    if asked["seq_len"] is None:
        raise click.UsageError("a rate needs --seq-len")
    rate = _rate(asked)
    figures = {"tokens_per_second_per_gpu": rate}
    if asked["reference"] is not None:
        figures["throughput_utilization"] = throughput_utilization(rate, asked["reference"])
    if asked["model"] is not None or asked["config"] is not None:
        figures |= _of_model(rate, asked)
    return figures


def _rate(asked: dict[str, Any]) -> float:
    """Return the tokens per second of one card."""
    if asked["tokens_per_second"] is not None:
        return float(asked["tokens_per_second"]) / int(asked["n_gpus"])
    return tokens_per_second_per_gpu(asked["samples_per_second"], asked["seq_len"], asked["n_gpus"])


_OF_QUESTION = (
    "model", "config", "method", "lora_rank", "targets", "checkpointing", "seq_len",
)  # fmt: skip


def _of_model(rate: float, asked: dict[str, Any]) -> dict[str, float]:
    if asked["gpu"] is None:
        raise click.UsageError("a rate is compared with a card's peak: give --gpu")
    catalogue = load_catalogue(locate(asked["registry_path"]))
    named = {name: asked[name] for name in _OF_QUESTION if asked[name] is not None}
    question = build_question(Asked(**named), catalogue)
    if asked["method"] is None:
        console.hint(
            f"--method is not stated: {question.method} is assumed; full training computes about "
            "half as much again for each token"
        )
    found = utilize(question, tokens=question.seq_len, rate=rate, peak_flops=_find_peak(asked))
    if found.model > 1:
        console.warning(
            f"{found.model:.0%} of the peak of {asked['gpu']}: no card exceeds its peak; "
            "samples were shorter than --seq-len (give their mean length), or --method, --gpus or "
            "--dtype differ"
        )
    return _figures_of(found)
