"""Options that say which training configuration is asked about, and the question they make."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.contract import vocabulary
from registry.errors import QuestionError, UnitError
from registry.predict.architecture import (
    Accelerator,
    Architecture,
    architecture_from_config,
    architecture_from_figures,
    architecture_of,
    gpu_of,
)
from registry.predict.calibration.runs import resolve_stack
from registry.predict.question import Question
from registry.store.snapshot import load_catalogue
from registry.units import parse_memory
from registry_cli.completing import complete_gpu, complete_model
from registry_cli.group import HintedChoice
from registry_cli.options import locate

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.catalogue import Catalogue
    from registry.predict.calibration.intervals import Calibration

#: Customary names of methods on a quantized base.
QUANTIZED = {"qlora": ("lora", 4), "qdora": ("dora", 4)}


class Count(click.ParamType[int]):
    """A whole number as people write it: 4096, 4k, 1e4; k is 1,024."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; fail for what is none or not whole."""
        match = re.fullmatch(
            r"\s*([0-9]+(?:\.[0-9]+)?(?:e\+?[0-9]+)?)\s*(k?)\s*", str(value).lower()
        )
        number = float(match[1]) * (1024 if match[2] else 1) if match else 0.5
        if number < 1 or number != int(number):
            self.fail(
                f"found {value!r}; expected a whole number such as 4096, 4k or 1e4", param, ctx
            )
        return int(number)


COUNT = Count()

_SCALES = {"": 1, "k": 1e3, "m": 1e6, "b": 1e9}


def _one_or_several(
    _context: click.Context, _option: click.Parameter, names: tuple[str, ...]
) -> str | tuple[str, ...] | None:
    """Return the one card that is named, several as a tuple, None for none."""
    return names if len(names) > 1 else names[0] if names else None


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
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        help="config.json of a model that is not in the catalogue.",
    ),
    click.option("--params", metavar="N", help="Parameters of such a model, such as 8e9 or 8B."),
    click.option("--layers", type=click.IntRange(min=1), help="Its layers (with --params)."),
    click.option("--hidden", type=click.IntRange(min=1), help="Its width (with --params)."),
    click.option("--vocab", type=click.IntRange(min=1), help="Its vocabulary (with --params)."),
    click.option(
        "--gpu",
        metavar="ID",
        shell_complete=complete_gpu,
        multiple=True,
        callback=_one_or_several,
        help="Accelerator in the catalogue (id or alias); fit takes several.",
    ),
    click.option("--vram", metavar="SIZE", help="Memory of a card by size, such as 15GiB."),
    click.option("--gpus", "n_gpus", type=int, default=1, show_default=True, help="How many."),
    click.option("--nodes", "n_nodes", type=int, help="Hosts that they are spread over."),
    click.option(
        "--method",
        type=HintedChoice([*QUANTIZED, *vocabulary("method")]),
        metavar="METHOD",
        default="lora",
        show_default=True,
        help="lora, qlora, full, dora, …",
    ),
    click.option("--quant-bits", type=int, help="Bits of the base weights, such as 8."),
    click.option(
        "--quant-method", type=HintedChoice(list(vocabulary("quant_method"))), metavar="NAME"
    ),
    click.option(
        "--quantized-experts/--no-quantized-experts",
        default=None,
        help="Whether a quantized mixture's experts are quantized.",
    ),
    click.option(
        "--seq-len",
        type=COUNT,
        default="2048",
        show_default=True,
        help="Tokens per sample, such as 4096 or 4k (4,096).",
    ),
    click.option(
        "--batch", "micro_batch_size", type=int, default=1, show_default=True, help="Per device."
    ),
    click.option("--accum", "grad_accum_steps", type=int, help="Micro-batches per step."),
    click.option("--lora-rank", type=int, help="Rank of the adapters (8 if not given)."),
    click.option(
        "--targets",
        metavar="A,B",
        help="Modules with adapters, such as q_proj,v_proj or all-linear.",
    ),
    click.option("--train-embeddings", "trains_embeddings", is_flag=True),
    click.option(
        "--checkpointing/--no-checkpointing",
        "gradient_checkpointing",
        default=None,
        help="Gradient checkpointing (on if not given).",
    ),
    click.option("--attention", type=HintedChoice(list(vocabulary("attention"))), metavar="NAME"),
    click.option("--dtype", "compute_dtype", type=HintedChoice(list(vocabulary("dtype")))),
    click.option(
        "--param-dtype",
        type=HintedChoice(list(vocabulary("dtype"))),
        metavar="NAME",
        help="Dtype in which weights are held, such as fp32 under autocast.",
    ),
    click.option(
        "--loss-kernel",
        type=HintedChoice(["whole", "chunked", "liger", "unsloth"]),
        metavar="NAME",
        help="How the loss is computed: whole logits, chunked, liger, unsloth.",
    ),
    click.option("--optimizer", type=HintedChoice(list(vocabulary("optimizer"))), metavar="NAME"),
    click.option(
        "--optimizer-in-backward/--no-optimizer-in-backward",
        default=None,
        help="Whether each weight is updated as soon as its gradient is there.",
    ),
    click.option("--virtual-tokens", type=int, help="Tokens of a trained prompt or prefix."),
    click.option(
        "--packing/--no-packing", default=None, help="Whether samples fill sequences together."
    ),
    click.option("--mean-tokens", type=float, help="Tokens of a sample on average (for times)."),
    click.option(
        "--tensor-parallel", type=int, help="Devices that share each layer (full training)."
    ),
    click.option("--pipeline-parallel", type=int, help="Stages of layers (full)."),
    click.option("--sharding", type=HintedChoice(list(vocabulary("sharding"))), metavar="NAME"),
    click.option("--offload", type=HintedChoice(list(vocabulary("offload"))), metavar="NAME"),
    click.option("--stack", metavar="NAME", help="Assume the stack of this source or framework."),
)


def question_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that make up a question; the command gets them as ``**asked``."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def open_catalogue(registry_path: Path | None) -> Catalogue:
    """Return the models and GPUs of the registry in use."""
    return load_catalogue(locate(registry_path))


def build_question(asked: dict[str, Any], catalogue: Catalogue) -> Question:
    """Return the question of the options; raise QuestionError for what cannot be asked."""
    method = asked["method"]
    method, bits = QUANTIZED.get(method, (method, None))
    targets = asked["targets"]
    names = {field.name for field in fields(Question)}
    stated = {name: value for name, value in asked.items() if name in names}
    stated |= {
        "model": build_architecture(asked, catalogue),
        "gpu": _find_card(asked, catalogue),
        "method": method,
        "quant_bits": asked["quant_bits"] or bits,
        "lora_target_modules": tuple(sorted(targets.split(","))) if targets else None,
    }
    return Question(**stated)


def _find_card(asked: dict[str, Any], catalogue: Catalogue) -> Accelerator | None:
    """Return the card that is asked about: of the catalogue, or of a size; None for none."""
    if isinstance(asked["gpu"], tuple):
        raise click.UsageError("--gpu: expected one card; `registry fit` takes several")
    if asked["vram"] is None:
        return find_gpu(asked["gpu"], catalogue) if asked["gpu"] else None
    if asked["gpu"]:
        raise click.UsageError("--gpu and --vram: expected one of them")
    try:
        memory = parse_memory(asked["vram"], where="--vram").value
    except UnitError as error:
        raise click.UsageError(str(error)) from None
    return Accelerator(gpu_id=f"a card of {asked['vram']}", memory_bytes=memory)


def find_gpus(asked: dict[str, Any], catalogue: Catalogue) -> list[Accelerator] | None:
    """Return the cards of which each gets a verdict: several or a family; None for one or none."""
    named = asked["gpu"]
    if isinstance(named, tuple):
        return [find_gpu(name, catalogue) for name in named]
    family = find_family(named, catalogue)
    return None if family is None else all_gpus(catalogue, family)


def settle_stack(question: Question, calibration: Calibration) -> Question:
    """Return the question with the source that its stack, if one is named, stands for."""
    if question.stack is None:
        return question
    return replace(question, stack=resolve_stack(question.stack, calibration.observations))


def build_architecture(asked: dict[str, Any], catalogue: Catalogue) -> Architecture:
    """Return the model that is asked about: of the catalogue, a config.json, or figures."""
    if asked["config"] is not None:
        return architecture_from_config(_read_config(asked["config"]), str(asked["config"]))
    if asked["params"] is not None:
        if asked["layers"] is None:
            raise click.UsageError("--params needs --layers; or give --config config.json")
        return architecture_from_figures(
            int(parse_number(asked["params"])),
            asked["layers"],
            hidden_size=asked["hidden"],
            vocab_size=asked["vocab"] or 32_000,
        )
    if asked["model"] is None:
        raise click.UsageError(
            "expected a model: --model ID, --config FILE, or --params and --layers"
        )
    return architecture_of(catalogue.models[find_model(asked["model"], catalogue)])


def find_model(name: str, catalogue: Catalogue) -> str:
    """Return the id of a model of the catalogue; raise QuestionError for an unknown one."""
    found = catalogue.resolve_model(name)
    if found is None:
        problem = catalogue.unknown_model(name).split("; to add")[0]
        raise QuestionError(
            f"{problem}; or describe it: --config config.json, or --params 8e9 --layers 32"
        )
    return found


def find_gpu(name: str, catalogue: Catalogue) -> Accelerator:
    """Return an accelerator of the catalogue; raise QuestionError for an unknown one.

    Also for a family of cards whose memory differs.
    """
    row = find_gpu_row(name, catalogue)
    kinds = sorted(gpu.gpu_id for gpu in all_gpus(catalogue, row["gpu_id"]))
    if not row.get("memory_bytes") and kinds:
        raise QuestionError(
            f"gpu {name!r}: a family of cards whose memory differs; expected one of "
            f"{', '.join(kinds)}"
        )
    return gpu_of(row)


def find_gpu_row(name: str, catalogue: Catalogue) -> dict[str, Any]:
    """Return the catalogue's row of an accelerator; raise QuestionError for an unknown one."""
    found = catalogue.resolve_gpu(name)
    if found is None:
        raise QuestionError(catalogue.unknown_gpu(name).split("; to add")[0])
    return catalogue.gpus[found]


def all_gpus(catalogue: Catalogue, family: str | None = None) -> list[Accelerator]:
    """Return the accelerators whose memory is known: of the catalogue, or of one family of it."""
    ids = catalogue.gpus if family is None else catalogue.kinds_of(family)
    rows = (catalogue.gpus[gpu_id] for gpu_id in ids)
    return [gpu_of(row) for row in rows if row.get("memory_bytes")]


def find_family(name: str | None, catalogue: Catalogue) -> str | None:
    """Return the id of a family of cards whose memory differs, if ``name`` is one."""
    found = catalogue.resolve_gpu(name) if name else None
    if found is None or catalogue.gpus[found].get("memory_bytes"):
        return None
    return found if len(catalogue.kinds_of(found)) > 1 else None


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise QuestionError(f"{path}: {error}; expected a config.json") from None
    if not isinstance(config, dict):
        raise QuestionError(f"{path}: found no object; expected a config.json")
    return config


def parse_number(text: str) -> float:
    """Return a number such as ``8e9``, ``8B`` or ``1.5b``; raise click's error for none."""
    match = re.fullmatch(r"\s*([0-9.]+(?:e[+]?[0-9]+)?)\s*([kmb]?)\s*", text.lower())
    try:
        return float(match[1]) * _SCALES[match[2]] if match else float(text)
    except ValueError:
        raise click.BadParameter(f"found {text!r}; expected a number such as 8e9 or 8B") from None
