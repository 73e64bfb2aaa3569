"""The settings that LLaMA-Factory's LlamaBoard keeps of a run (``llamaboard_config.yaml``).

They are those of its page, by their places there (``top.…``, ``train.…``); its ``runner.py`` says
which arguments of a training they become. The model is the name in LlamaBoard's list: the path is
not kept.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def read_board(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the training that the settings of the page begin.

    >>> read_board({"train.training_stage": "DPO", "train.batch_size": 2})["stage"]
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
