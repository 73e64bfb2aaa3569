"""Options that say which training configuration is asked about."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.predict.asked import choices, explain_objective, parse_count, parse_mean
from registry_cli.completing import complete_gpu, complete_model
from registry_cli.group import HintedChoice
from registry_cli.options import POSITIVE, Parsed

if TYPE_CHECKING:
    from collections.abc import Callable


def _count(thousand: int) -> Parsed:
    """Return the type of a whole number as people write it: 4096, 4k, 1e4."""
    return Parsed("number", partial(parse_count, where="number", thousand=thousand))


#: Of tokens k is 1,024, of samples 1,000.
COUNT, _SAMPLES = _count(1024), _count(1000)
#: The same with 0, which the question refuses by name.
WHOLE = Parsed("number", lambda text: 0 if str(text) == "0" else parse_count(text, "number"))
#: A mean number of tokens as people write it: 850, 850.5, 1.5k.
_MEAN = Parsed("number", partial(parse_mean, where="number"))


class MethodChoice(HintedChoice):
    """A method of fine-tuning; an objective is refused as one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the method; fail for what is none."""
        reason = explain_objective(str(value))
        if reason:
            self.fail(reason, param, ctx)
        return super().convert(value, param, ctx)


def _chosen(name: str) -> HintedChoice:
    return HintedChoice(choices(name))


_OPTIONS = (
    click.option(
        "--model",
        metavar="ID",
        shell_complete=complete_model,
        help="Model in the catalogue (id or alias).",
    ),
    click.option(
        "--config",
        metavar="FILE",
        help="A model's config.json, the folder that holds it, or a model of the catalogue.",
    ),
    click.option(
        "--params", metavar="N", help="Parameters of a model given by its size, such as 8e9 or 8B."
    ),
    click.option("--layers", type=COUNT, help="Its layers (with --params)."),
    click.option("--hidden", type=COUNT, help="Its hidden size (with --params)."),
    click.option("--vocab", type=COUNT, help="Its vocabulary size (with --params)."),
    click.option(
        "--gpu",
        metavar="ID",
        shell_complete=complete_gpu,
        multiple=True,
        help="Accelerator in the catalogue (id, alias, or family such as a100); fit takes several.",
    ),
    click.option(
        "--vram", metavar="SIZE", help="Memory of a card, such as 15GiB (instead of --gpu)."
    ),
    click.option("--gpus", type=WHOLE, default=1, show_default=True, help="Number of cards."),
    click.option("--nodes", type=WHOLE, help="Hosts that the cards are spread over."),
    click.option(
        "--method",
        type=MethodChoice(choices("method")),
        metavar="METHOD",
        default="lora",
        show_default=True,
        help="lora, qlora, full, dora, …",
    ),
    click.option("--quant-bits", metavar="N", help="Bits of the base weights, such as 8."),
    click.option(
        "--quant-method",
        type=_chosen("quant_method"),
        metavar="NAME",
        help="bitsandbytes, gptq, awq, …",
    ),
    click.option(
        "--double-quant/--no-double-quant",
        default=None,
        help="Whether the constants of 4-bit weights of bitsandbytes are quantized too.",
    ),
    click.option(
        "--quantized-experts/--no-quantized-experts",
        default=None,
        help="Whether the experts of a quantized mixture are quantized too.",
    ),
    click.option(
        "--seq-len",
        type=COUNT,
        default="2048",
        show_default=True,
        help="Tokens per sample, such as 4096 or 4k (4,096).",
    ),
    click.option("--batch", type=WHOLE, default=1, show_default=True, help="Samples per device."),
    click.option("--accum", type=WHOLE, help="Micro-batches per optimizer step."),
    click.option("--lora-rank", type=WHOLE, help="Rank of the adapters."),
    click.option(
        "--targets",
        metavar="A,B",
        help="Modules with adapters, such as q_proj,v_proj or all-linear.",
    ),
    click.option(
        "--train-embeddings", is_flag=True, help="Train embeddings and output layer in full."
    ),
    click.option(
        "--checkpointing/--no-checkpointing",
        default=None,
        help="Gradient checkpointing (if not given, the answer covers both).",
    ),
    click.option(
        "--attention",
        type=_chosen("attention"),
        metavar="NAME",
        help="flash2, sdpa, eager, …",
    ),
    click.option("--dtype", type=_chosen("dtype"), help="Dtype of the computation."),
    click.option(
        "--param-dtype",
        type=_chosen("dtype"),
        metavar="NAME",
        help="Dtype in which weights are stored, such as fp32 under autocast.",
    ),
    click.option(
        "--loss-kernel",
        type=_chosen("loss_kernel"),
        metavar="NAME",
        help="How the loss is computed: whole logits, chunked, liger, unsloth.",
    ),
    click.option(
        "--optimizer",
        type=_chosen("optimizer"),
        metavar="NAME",
        help="adamw_torch, adamw_8bit, …",
    ),
    click.option(
        "--optimizer-in-backward/--no-optimizer-in-backward",
        default=None,
        help="Whether each weight is updated as soon as its gradient is computed.",
    ),
    click.option("--virtual-tokens", type=WHOLE, help="Tokens of a trained prompt or prefix."),
    click.option(
        "--packing/--no-packing", default=None, help="Whether several samples share one sequence."
    ),
    click.option(
        "--longest-sample",
        type=COUNT,
        help="Tokens in the longest sample of the data, if fewer than --seq-len.",
    ),
    click.option(
        "--mean-tokens",
        type=_MEAN,
        help="Mean tokens per sample, for times; well below the longest, it adds fragmentation.",
    ),
    click.option(
        "--lengths",
        metavar="FILE",
        help="File with the tokens of each sample (text, JSON, CSV), instead of --longest-sample "
        "and --mean-tokens.",
    ),
    click.option(
        "--tensor-parallel", type=WHOLE, help="Devices that share each layer (--method full)."
    ),
    click.option("--pipeline-parallel", type=WHOLE, help="Pipeline stages (--method full)."),
    click.option(
        "--sharding", type=_chosen("sharding"), metavar="NAME", help="zero2, zero3, fsdp, fsdp2, …"
    ),
    click.option(
        "--offload",
        type=_chosen("offload"),
        metavar="NAME",
        help="What is held in host memory: optimizer, params, …",
    ),
    click.option(
        "--stack",
        metavar="NAME",
        help="Assume the software of this source or framework, such as transformers.",
    ),
)


def question_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that make up a question; the command gets them as ``**asked``."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_SPENDING = (
    click.option(
        "--price",
        metavar="[GPU=]USD",
        multiple=True,
        help="USD per card and hour: a100-80gb=1.8, or 1.8 for the cards of --gpu (else for all).",
    ),
    click.option(
        "--price-file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Prices as CSV (gpu,usd_per_hour) or YAML (gpu: usd_per_hour).",
    ),
    click.option("--samples", "n_samples", type=_SAMPLES, help="Samples per epoch, such as 1e4."),
    click.option(
        "--epochs",
        type=POSITIVE,
        default=1.0,
        show_default=True,
        help="Epochs to train (for GPU-hours and cost).",
    ),
)


def spending_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say what is paid for."""
    for option in reversed(_SPENDING):
        function = option(function)
    return function


format_option = click.option(
    "-f",
    "--format",
    "format_name",
    type=HintedChoice(["text", "json"]),
    default="text",
    show_default=True,
)
json_option = click.option("--json", "as_json", is_flag=True, help="Same as -f json.")
