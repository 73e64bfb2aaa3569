"""What the cells of a notebook state of its run, and what Unsloth's banner prints of it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.draft import state_model
from registry.importers.shared.training_arguments import (
    state_lora_sizes,
    state_quantization,
    state_training_arguments,
)
from registry.text import format_slug

if TYPE_CHECKING:
    from registry.importers.base import ImportOptions
    from registry.importers.shared.draft import Draft

_MODEL: Final = re.compile(
    r"""(?:model_name\s*=\s*|(?<!hub_)model_id\s*=\s*|from_pretrained\(\s*)["'](?P<name>[^"']+)["']"""
)
#: A repository of the hub, not a folder of a machine.
_HUB_NAME: Final = re.compile(r"[\w-][\w.-]*/[\w.-]+")
#: Versions of 2025 and later name the card without "GPU", beside the picture of the banner.
_CARD: Final = re.compile(
    r"(?:GPU[ =:]+|/\| +)(?P<name>[^.,=|\n]{1,80}?)\. (?:Num GPUs = \d+\. )?Max memory[ =:]"
)
_EXAMPLES: Final = re.compile(r"Num examples = (?P<n>[\d,]+)")
_BATCH: Final = re.compile(
    r"Batch size per device = (?P<n>\d+) \| Gradient [Aa]ccumulation steps = (?P<accum>\d+)"
)
STEPS: Final = re.compile(r"Total steps = (?P<n>[\d,]+)")
_N_GPUS: Final = re.compile(r"Num GPUs(?: used)? = (?P<n>\d+)")
#: Arguments of calls that the cells state as plain values.
_ARGUMENT: Final = re.compile(
    r"""\b(?P<key>[a-z_0-9]+)\s*=\s*(?:(?P<value>True|False|-?\d[\d_.]*(?:e-?\d+)?|"[^"\n]*"|'[^'\n]*'|\[[^\]]*\])|(?P<name>[a-z_]\w*)\s*[,)\n])"""
)
#: Calls that write text with the model: how long it may get says nothing of the training.
_GENERATES: Final = re.compile(
    r"\b(?:generate|pipeline|pipe|generator|GenerationConfig)\("
    r"[^()]{0,2000}(?:\([^()]{0,500}\)[^()]{0,500}){0,20}\)"
)
#: What gives a model or its trainer adapters.
_ADAPTS: Final = re.compile(r"\bget_peft_model\(|\bpeft_config\s*=\s*(?!None\b|\s)|\.add_adapter\(")
#: PEFT's classes of settings, and the methods they are.
_CLASSES: Final = {
    "LoraConfig": "lora",
    "AdaLoraConfig": "adalora",
    "IA3Config": "ia3",
    "LoHaConfig": "loha",
    "LoKrConfig": "lokr",
    "PrefixTuningConfig": "prefix_tuning",
    "PromptEncoderConfig": "p_tuning",
    "PromptTuningConfig": "prompt_tuning",
}
_VERSIONS: Final = (
    ("framework_version", re.compile(r"(?:patching release|Unsloth) (?P<v>20\d\d\.\d+(?:\.\d+)?)")),
    ("torch_version", re.compile(r"(?:Pytorch|Torch): (?P<v>\d[\w.+]*\w)")),
    ("cuda_version", re.compile(r"CUDA Toolkit[ =:]+(?P<v>\d+\.\d+)")),
    ("transformers_version", re.compile(r"Transformers[ =:]+(?P<v>\d+\.\d+[\w.]*\w)")),
)
_TRAINERS: Final = (
    ("GRPOTrainer", "grpo"),
    ("DPOTrainer", "dpo"),
    ("ORPOTrainer", "orpo"),
    ("KTOTrainer", "kto"),
    ("RewardTrainer", "reward"),
    ("SFTTrainer", "sft"),
)


def first_count(pattern: re.Pattern[str], text: str, group: str = "n") -> int | None:
    """Return the first count that a pattern finds, whose thousands may have commas."""
    found = pattern.search(text)
    return int(found[group].replace(",", "")) if found else None


def last_banner(text: str) -> str:
    """Return a text from the last of Unsloth's banners before the totals.

    What does not fit into memory is begun again with a smaller batch, below a banner of its own.
    """
    end = text.find("train_runtime")
    return text[max(text.rfind("Num examples =", 0, end if end > 0 else None), 0) :]


def state_notebook(draft: Draft, text: str, options: ImportOptions) -> None:
    """State what the cells of a notebook say of its run, and what Unsloth's banner adds."""
    code = re.sub(r"(?m)#.*$", "", text)
    args = _arguments(code)
    names = [name for name in _MODEL.findall(text) if name not in ("lora_model", "outputs")]
    _state_model(draft, names[:1], options)
    state_banner(draft, text, options)
    _state_quantization(draft, text, args)
    _state_method(draft, code, args)
    draft.state("seq_len", args.get("max_seq_length") or args.get("max_length"))
    draft.state("packing", args.get("packing") if isinstance(args.get("packing"), bool) else None)
    objective = next((word for name, word in _TRAINERS if f"{name}(" in text), None)
    draft.state("objective", objective, "the trainer of the notebook")
    if args.get("use_gradient_checkpointing"):
        draft.state("gradient_checkpointing", True, "use_gradient_checkpointing")  # noqa: FBT003
    state_training_arguments(draft, args)


def _state_quantization(draft: Draft, text: str, args: dict[str, Any]) -> None:
    """State how the weights are loaded; only Unsloth's are of one type unless it is said."""
    bits = next((bits for bits in (4, 8) if args.get(f"load_in_{bits}bit") is True), None)
    kind = args.get("bnb_4bit_quant_type") or ("nf4" if "unsloth" in text.lower() else None)
    double = args.get("bnb_4bit_use_double_quant")
    state_quantization(draft, method="bitsandbytes", bits=bits, kind=kind, double=double)


def _state_method(draft: Draft, code: str, args: dict[str, Any]) -> None:
    """State the method, not of an adapter of no known class or of quantized weights alone."""
    adapts = _ADAPTS.search(code)
    if adapts is None:
        is_quantized = "quant_bits" in draft.configuration
        draft.state("method", None if is_quantized else "full", "no adapter is made")
        return
    found = re.findall(r"\b(\w+Config)\(", code)
    methods = {_CLASSES[name] for name in found if name in _CLASSES}
    if not methods and {"r", "lora_alpha"} & args.keys():
        methods = {"lora"}
    if len(methods) != 1:
        return
    method = methods.pop()
    is_dora = method == "lora" and args.get("use_dora") is True
    draft.state("method", "dora" if is_dora else method, adapts[0].strip("(= .\n"))
    if method == "lora":
        state_lora_sizes(draft, args, args.get("r"), args.get("target_modules"))
        draft.state("use_rslora", args.get("use_rslora"))


def state_banner(draft: Draft, text: str, options: ImportOptions) -> None:
    """State what Unsloth prints before a training: cards, batch, steps, data and versions."""
    card = _CARD.search(text)
    if card:
        draft.state("gpu_id", options.catalogue.resolve_gpu(card["name"]) or card["name"])
    draft.state("n_gpus", first_count(_N_GPUS, text))
    banner = last_banner(text)
    batch = _BATCH.search(banner)
    if batch:
        draft.state("micro_batch_size", int(batch["n"]))
        draft.state("grad_accum_steps", int(batch["accum"]))
    draft.state("n_steps", first_count(STEPS, banner))
    draft.state("n_samples", first_count(_EXAMPLES, banner))
    for column, pattern in _VERSIONS:
        found = pattern.search(text)
        if found:
            draft.environment[column] = found["v"]


def _state_model(draft: Draft, names: list[str], options: ImportOptions) -> None:
    """State the model; one that the catalogue does not have is described by its name alone."""
    state_model(draft, names, options)
    if names and "model_id" not in draft.configuration and _HUB_NAME.fullmatch(names[0]):
        slug = format_slug(names[0].rpartition("/")[2], otherwise="")
        named = {"model_id": slug, "hf_id": names[0], "source": "named by a notebook; no figures"}
        draft.models = [named]
        draft.state("model_id", slug, "the name that the notebook loads it by")


def _arguments(code: str) -> dict[str, Any]:
    """Return the first plain value of each argument in the cells, or of the name given for it."""
    args: dict[str, Any] = {}
    for found in _ARGUMENT.finditer(_GENERATES.sub("", code)):
        key, name = found["key"], found["name"]
        try:
            value = args[name] if name else ast.literal_eval(found["value"])
            args.setdefault(key, value)
        except (KeyError, ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return args
