"""The YAML (or JSON) that a training with LLaMA-Factory is started with, LlamaBoard's included.

The settings that LLaMA-Factory's LlamaBoard keeps of a run (``llamaboard_config.yaml``).

They are those of its page, by their places there (``top.…``, ``train.…``); its ``runner.py`` says
which arguments of a training they become. The model is the name in LlamaBoard's list: the path is
not kept.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.draft import Draft, state_model
from registry.importers.shared.training_arguments import (
    ATTENTION,
    OBJECTIVES,
    state_lora,
    state_quantization,
    state_training_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import ImportOptions, RunFile

#: What is trained where ``finetuning_type`` is left out.
_DEFAULT: Final = "lora"
#: Keys that LLaMA-Factory alone has together, with one of its own; ``finetuning_type`` is enough.
_KEYS: Final = frozenset({"stage", "model_name_or_path"})
_OWN: Final = frozenset({"template", "cutoff_len"})

#: Columns that a log and the configuration of its run say alike.
_TELLING: Final = ("model_id", "method", "quant_bits", "micro_batch_size", "grad_accum_steps")


def is_config(file: RunFile) -> bool:
    """Return whether a file holds the arguments of LLaMA-Factory, or LlamaBoard's settings."""
    is_own = "finetuning_type" in file.keys or (file.keys >= _KEYS and bool(file.keys & _OWN))
    return is_own or is_board(file)


def is_board(file: RunFile) -> bool:
    """Return whether a file holds the settings that LlamaBoard keeps of a training."""
    return file.keys >= KEYS


def choose_configs(files: Sequence[RunFile]) -> list[RunFile]:
    """Return the configurations among files; LlamaBoard's only where there is no other."""
    configs = [file for file in files if is_config(file)]
    return [file for file in configs if not is_board(file)] or configs


def state_config(draft: Draft, args: Mapping[str, Any], options: ImportOptions) -> None:
    """State the settings of the YAML that the run was started with."""
    args = _read_board(args) if args.keys() >= KEYS else args
    state_model(draft, [args.get("model_name_or_path")], options)
    draft.state("objective", OBJECTIVES.get(str(args.get("stage"))))
    method = str(args.get("finetuning_type", _DEFAULT))
    if method == "lora":
        state_lora(draft, args, args.get("lora_target"))
    else:
        special = [name for name in ("galore", "badam") if args.get(f"use_{name}") is True]
        draft.state("method", special[0] if special else method)
    if "finetuning_type" not in args:
        draft.inferences["method"] = "LLaMA-Factory's default"
    state_quantization(
        draft,
        method=args.get("quantization_method"),
        bits=args.get("quantization_bit"),
        kind=args.get("quantization_type"),
        double=args.get("double_quantization"),
    )
    draft.state("seq_len", args.get("cutoff_len"))
    draft.state("packing", args.get("packing"))
    draft.state("attention", ATTENTION.get(str(args.get("flash_attn"))))
    dataset = args.get("dataset")
    draft.state("dataset", dataset if isinstance(dataset, str) else None)
    state_training_arguments(draft, args)


def state_config_beside(
    draft: Draft, files: Sequence[RunFile], options: ImportOptions
) -> RunFile | None:
    """State what the only configuration beside a log adds to it; return it where it is used.

    One that contradicts the log is that of another run.
    """
    configs = choose_configs(files)
    if len(configs) != 1:
        names = ", ".join(file.name for file in configs)
        draft.missing += [f"settings of {names}: which of them is the run's?"] if configs else []
        return None
    (config,) = configs
    stated = Draft()
    state_config(stated, config.document, options)
    other = _contradiction(draft, stated)
    if other is not None:
        draft.missing.append(f"no settings of {config.name}: it is of another run, {other}")
        return None
    for column, value in stated.configuration.items():
        draft.state(column, value, stated.inferences.get(column))
    draft.observation.setdefault("model_reported", stated.observation.get("model_reported"))
    return config


def _contradiction(log: Draft, config: Draft) -> str | None:
    """Return the first column in which a configuration differs from what a log says."""
    for column in _TELLING:
        said, stated = (draft.configuration.get(column) for draft in (log, config))
        if said is not None and stated is not None and said != stated:
            return f"{column} is {stated} there and {said} in the log"
    return None


#: Keys that the settings of a training have together.
KEYS: Final = frozenset({"top.model_name", "top.finetuning_type", "train.training_stage"})

_STAGES: Final = {
    "Supervised Fine-Tuning": "sft",
    "Reward Modeling": "rm",
    "Pre-Training": "pt",
}
#: What stands for a model that the list does not have.
_OTHER_MODEL: Final = "Custom"
#: Arguments that the page has under another name.
_RENAMED: Final = {
    "per_device_train_batch_size": "train.batch_size",
    "model_name_or_path": "top.model_name",
    "finetuning_type": "top.finetuning_type",
    "template": "top.template",
}
#: Arguments that it has under their own name.
_SAME: Final = (
    *("cutoff_len", "gradient_accumulation_steps", "num_train_epochs", "use_galore", "use_badam"),
    *("lora_rank", "lora_alpha", "lora_dropout", "use_rslora", "use_dora"),
)


def _read_board(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the training that the settings of the page begin.

    >>> _read_board({"train.training_stage": "DPO", "train.batch_size": 2})["stage"]
    'dpo'
    """
    args = {name: settings.get(f"train.{name}") for name in _SAME}
    args |= {name: settings.get(place) for name, place in _RENAMED.items()}
    if args["model_name_or_path"] == _OTHER_MODEL:
        del args["model_name_or_path"]
    stage = str(settings.get("train.training_stage"))
    args["stage"] = _STAGES.get(stage, stage.lower())
    packs = [settings.get(f"train.{name}") for name in ("packing", "neat_packing")]
    args["packing"] = any(packs) if all(isinstance(pack, bool) for pack in packs) else packs[0]
    booster = settings.get("top.booster")
    args["flash_attn"] = "fa2" if booster in ("flashattn", "flashattn2") else "auto"
    args["enable_liger_kernel"] = booster == "liger_kernel"
    args["lora_target"] = settings.get("train.lora_target") or "all"
    dataset = settings.get("train.dataset")
    args["dataset"] = ",".join(map(str, dataset)) if isinstance(dataset, list) else dataset
    compute = settings.get("train.compute_type")
    args |= {name: compute == name for name in ("fp16", "bf16", "pure_bf16")}
    return args | _quantization(settings) | _deepspeed(settings) | _extra(settings)


def _quantization(settings: Mapping[str, Any]) -> dict[str, Any]:
    bits = str(settings.get("top.quantization_bit"))
    if not bits.isdecimal():
        return {}
    method = settings.get("top.quantization_method")
    said = {"quantization_method": method, "double_quantization": True}
    return {"quantization_bit": int(bits), **said}


def _deepspeed(settings: Mapping[str, Any]) -> dict[str, Any]:
    stage = settings.get("train.ds_stage")
    if stage in (None, "none", ""):
        return {}
    offload = "offload_" if settings.get("train.ds_offload") is True else ""
    return {"deepspeed": f"ds_z{stage}_{offload}config.json"}


def _extra(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that were typed in as JSON, which go before all others."""
    try:
        extra = json.loads(str(settings.get("train.extra_args") or "{}"))
    except ValueError:
        return {}
    return extra if isinstance(extra, dict) else {}
