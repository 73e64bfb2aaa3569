"""What the cells of a notebook state of its run, and what Unsloth's banner prints of it."""

from __future__ import annotations

import ast
import operator
import re
from typing import TYPE_CHECKING, Any, Final

from registry.importers.llama_factory_settings import state_config
from registry.importers.shared.draft import state_model
from registry.importers.shared.training_arguments import (
    ATTENTION,
    state_bitsandbytes,
    state_lora_sizes,
    state_training_arguments,
)
from registry.text import format_slug

if TYPE_CHECKING:
    from registry.importers.base import ImportOptions
    from registry.importers.shared.draft import Draft

_MODEL: Final = re.compile(
    r"""(?:model_name(?:_or_path)?\s*=\s*|(?<!hub_)model_id\s*=\s*|from_pretrained\(\s*)["'](?P<name>[^"']+)["']"""
)
#: The load of what is trained: other models of a notebook, as of a reward, have other names.
_LOAD: Final = re.compile(
    r"""^[ \t]*model\s*(?:,\s*\w+\s*)?=\s*(?!\w{0,60}Peft)"""
    r"""\w{0,60}Model\w{0,60}\.from_pretrained\(\s*"""
    r"""(?:\w{0,30}model_name\w{0,30}\s*=\s*)?(?:["'](?P<name>[^"'\n]+)["']|(?P<of>\w+)\s*[,)])""",
    re.MULTILINE,
)
_TRAINS: Final = ".train("
#: So many loads before the training are looked at, the last ones.
_MOST_LOADS: Final = 100
#: A repository of the hub, not a folder of a machine or a checkpoint in one.
_HUB_NAME: Final = re.compile(r"[\w-][\w.-]*/(?!checkpoint-\d+$)[\w.-]+")
#: What runs a script that the cells do not show.
_LAUNCHES: Final = re.compile(
    r"(?m)^[ \t]*!.*(?:\b(?:accelerate launch|torchrun|deepspeed|axolotl|swift|tune run|"
    r"python3? (?!-m pip))|\w-cli)"
)
#: Versions of 2025 and later name the card without "GPU", beside the picture of the banner.
_CARD: Final = re.compile(
    r"(?:GPU[ =:]+|/\| +)(?P<name>[^.,=|\n]{1,80}?)\. (?:Num GPUs = \d+\. )?Max memory[ =:]"
)
#: A card as cells print it behind a label, and as nvidia-smi does in its table or its list. What
#: a label recommends or needs is another card.
_PRINTED_CARDS: Final = (
    re.compile(
        r"(?im)^(?![^:=|\n]{0,80}(?:recommend|requir|minimum|suggest|support|target|need))"
        r"[^:=|\n]{0,40}\b(?:gpu|device|card)\b[^:=|\n]{0,30}[:=] *(?P<name>[^\n(,]+)"
    ),
    re.compile(r"(?m)^\| {1,4}\d{1,3} {2,4}(?P<name>[^|]{3,60}?) +(?:On|Off) +\|"),
)
_DEFAULT_LENGTH: Final = re.compile(
    r"pass a `max_seq_length` argument to the SFTTrainer, this will default to (?P<n>\d+)"
)
_EXAMPLES: Final = re.compile(r"Num examples = (?P<n>[\d,]+)")
_BATCH: Final = re.compile(
    r"Batch size per device = (?P<n>\d+) \| Gradient [Aa]ccumulation steps = (?P<accum>\d+)"
)
STEPS: Final = re.compile(r"Total steps = (?P<n>[\d,]+)")
#: Cards that a process sees, those its model lies on, and the processes. Parts of a model that are
#: kept on the host count as on one more.
_SEEN: Final = re.compile(r"Num GPUs = (?P<n>\d+)")
_USED: Final = re.compile(r"Num GPUs used = (?P<n>\d+)")
_PROCESSES: Final = re.compile(r"Data Parallel GPUs = (?P<n>\d+)")
#: Arguments of calls that the cells state as plain values, or as sums and products of numbers.
_ARGUMENT: Final = re.compile(
    r"""\b(?P<key>[a-z_0-9]+)\s*=\s*(?:(?P<value>True|False|-?\d[\d_.]*(?:e-?\d+)?"""
    r"""(?P<more>(?:[ \t]*(?:\*|\+|-|//)[ \t]*\d[\d_]*){1,9})?(?![\w.]|[ \t]*[*+/-])"""
    r"""|"[^"\n]*"|'[^'\n]*'|\[[^\]]*\])"""
    r"""|(?P<name>[a-z_]\w*)\s*[,)\n])"""
)
_OPERATORS: Final = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
#: Calls that write text with the model: how long it may get says nothing of the training.
_GENERATES: Final = re.compile(
    r"\b(?:generate|pipeline|pipe|generator|GenerationConfig)\("
    r"[^()]{0,2000}(?:\([^()]{0,500}\)[^()]{0,500}){0,20}\)"
)
_ENABLES: Final = re.compile(r"(?m)^[ \t]*\w{1,60}\.gradient_checkpointing_enable\(")
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
#: Why a training is said to be of all parameters.
NO_ADAPTER: Final = "no adapter is made"
_TRAINERS: Final = (
    ("GRPOTrainer", "grpo"),
    ("DPOTrainer", "dpo"),
    ("ORPOTrainer", "orpo"),
    ("KTOTrainer", "kto"),
    ("RewardTrainer", "reward"),
    ("SFTTrainer", "sft"),
)


def first_count(pattern: re.Pattern[str], text: str) -> int | None:
    """Return the first count that a pattern finds, whose thousands may have commas."""
    found = pattern.search(text)
    return int(found["n"].replace(",", "")) if found else None


def last_banner(text: str) -> str:
    """Return a text from the last of Unsloth's banners before the totals.

    What does not fit into memory is begun again with a smaller batch, below a banner of its own.
    """
    end = text.find("train_runtime")
    return text[max(text.rfind("Num examples =", 0, end if end > 0 else None), 0) :]


def state_notebook(draft: Draft, text: str, source: str, options: ImportOptions) -> None:
    """State what the cells of a notebook say of its run, and what Unsloth's banner adds.

    Arguments are those of the source: what a library prints, it may only advise.
    """
    code = re.sub(r"(?m)#.*$", "", source)
    args = _arguments(code)
    if "finetuning_type" in args:
        state_config(draft, args, options)
    _state_model(draft, _names(text, code), options)
    state_banner(draft, text, options)
    _state_quantization(draft, text, args)
    _state_method(draft, code, args)
    draft.state("seq_len", args.get("max_seq_length") or args.get("max_length"))
    state_default_length(draft, text)
    draft.state("packing", args.get("packing") if isinstance(args.get("packing"), bool) else None)
    objective = next((word for name, word in _TRAINERS if f"{name}(" in text), None)
    draft.state("objective", objective, "the trainer of the notebook")
    draft.state("attention", ATTENTION.get(str(args.get("attn_implementation"))))
    _state_checkpointing(draft, code, args)


def _state_checkpointing(draft: Draft, code: str, args: dict[str, Any]) -> None:
    """State whether activations are recomputed, and the other arguments of the training.

    What the adapters are made without, the model or the trainer may still turn on.
    """
    asked = args.get("use_gradient_checkpointing")
    draft.state("gradient_checkpointing", bool(asked) or None, "use_gradient_checkpointing")
    enabled = _ENABLES.search(code.partition(_TRAINS)[0])
    draft.state("gradient_checkpointing", bool(enabled) or None, "gradient_checkpointing_enable()")
    state_training_arguments(draft, args)
    is_off = None if asked is None else bool(asked)
    draft.state("gradient_checkpointing", is_off, "use_gradient_checkpointing")


def state_default_length(draft: Draft, text: str) -> None:
    """State the length that TRL says it cuts samples to where none is given."""
    draft.state("seq_len", first_count(_DEFAULT_LENGTH, text), "TRL's warning of its default")


def _names(text: str, code: str) -> list[str]:
    """Return the name of the model that is trained, as it is loaded last before the training.

    The first name of the notebook stands for it where it is loaded otherwise, or from a folder.
    """
    before = code.partition(_TRAINS)[0]
    loads = reversed([*_LOAD.finditer(before)][-_MOST_LOADS:])
    loaded = next((name for load in loads if (name := _loaded(load, before))), "")
    trained = text.partition(_TRAINS)[0]
    first = [name for name in _MODEL.findall(trained) if name not in ("lora_model", "outputs")][:1]
    is_told = bool(_HUB_NAME.fullmatch(loaded))
    return [loaded] if is_told else [*filter(None, [loaded]), *first]


def _loaded(load: re.Match[str], code: str) -> str | None:
    """Return the name that a model is loaded by, or that its variable was given last before."""
    if load["name"]:
        return load["name"]
    given = rf"""(?m)^[ \t]*{load["of"]}\s*=\s*["']([^"'\n]+)["']"""
    found = re.findall(given, code[: load.start()])
    return found[-1] if found else None


def _state_quantization(draft: Draft, text: str, args: dict[str, Any]) -> None:
    """State how the weights are loaded; only Unsloth's are of one type unless it is said."""
    state_bitsandbytes(draft, args, "nf4" if "unsloth" in text.lower() else None)


def _state_method(draft: Draft, code: str, args: dict[str, Any]) -> None:
    """State the method, not of an adapter of no known class or of quantized weights alone."""
    adapts = _ADAPTS.search(code)
    if adapts is None:
        is_hidden = _TRAINS not in code and _LAUNCHES.search(code)
        is_open = is_hidden or "quant_bits" in draft.configuration
        draft.state("method", None if is_open else "full", NO_ADAPTER)
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
    _state_cards(draft, text, options)
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


def state_printed_card(draft: Draft, printed: str, options: ImportOptions) -> None:
    """State the card that cells print, where it is a known one and the only one."""
    names = [found["name"] for cards in _PRINTED_CARDS for found in cards.finditer(printed)]
    known = {card for name in names if (card := options.catalogue.resolve_gpu(name.strip()))}
    draft.state("gpu_id", known.pop() if len(known) == 1 else None, "the card that a cell prints")


def _state_cards(draft: Draft, text: str, options: ImportOptions) -> None:
    """State the card and how many of them train; none where the sessions of a text had others."""
    found = [card["name"] for card in _CARD.finditer(text)]
    names = dict.fromkeys(options.catalogue.resolve_gpu(name) or name for name in found)
    if len(names) > 1:
        draft.flags.add("figures_disagree")
        draft.missing.append(f"no card: it names {', '.join(names)}, of several sessions")
        return
    draft.state("gpu_id", next(iter(names), None))
    seen, used = first_count(_SEEN, text), first_count(_USED, text)
    held = used if used is None or seen is None else min(seen, used)
    processes = first_count(_PROCESSES, text) or 1
    draft.state("n_gpus", seen if held is None else held * processes)


def _state_model(draft: Draft, names: list[str], options: ImportOptions) -> None:
    """State the model; one that the catalogue does not have is described by its name alone."""
    state_model(draft, names, options)
    hub = next(filter(_HUB_NAME.fullmatch, names), None)
    if hub and "model_id" not in draft.configuration:
        slug = format_slug(hub.rpartition("/")[2], otherwise="")
        named = {"model_id": slug, "hf_id": hub, "source": "named by a notebook; no figures"}
        draft.models = [named]
        draft.state("model_id", slug, "the name that the notebook loads it by")


def _arguments(code: str) -> dict[str, Any]:
    """Return the first plain value of each argument in the cells, or of the name given for it."""
    args: dict[str, Any] = {}
    for found in _ARGUMENT.finditer(_GENERATES.sub("", code)):
        try:
            args.setdefault(found["key"], _value_of(found, args))
        except (KeyError, ValueError, ArithmeticError, SyntaxError, MemoryError, RecursionError):
            continue
    return args


def _value_of(found: re.Match[str], args: dict[str, Any]) -> Any:
    if found["name"]:
        return args[found["name"]]
    if found["more"]:
        return _compute(ast.parse(found["value"], mode="eval").body)
    return ast.literal_eval(found["value"])


def _compute(node: ast.expr) -> Any:
    """Return what a sum or a product of numbers comes to; raise KeyError for anything else."""
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_compute(node.left), _compute(node.right))
    return ast.literal_eval(node)
