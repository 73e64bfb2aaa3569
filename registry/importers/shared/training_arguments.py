"""Settings as Hugging Face's training arguments and PEFT's configurations write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from registry.contract import vocabulary
from registry.importers.shared.shapes import bool_of, count_of, number_of, path_of
from registry.predict.sharding import ANY_FSDP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.importers.shared.draft import Draft

#: ``optim`` of Hugging Face's training arguments, where it is not the contract's word.
_OPTIMIZERS: Final = {
    "adamw_bnb_8bit": "adamw_8bit",
    "paged_adamw": "paged_adamw_32bit",
    "lion_32bit": "lion",
    "paged_lion": "paged_lion_32bit",
}

#: What frameworks call the stage of a training, and the contract's word.
OBJECTIVES: Final = {"pt": "pretrain", "rm": "reward"} | {
    word: word for word in ("sft", "ppo", "dpo", "kto", "orpo", "grpo")
}

DTYPES: Final = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "fp16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "fp32": "fp32",
    "float": "fp32",
}

ATTENTION: Final = {
    "flash_attention_2": "flash2",
    "fa2": "flash2",
    "flash_attn": "flash",
    "flash2": "flash2",
    "flash_attention_3": "flash3",
    "sdpa": "sdpa",
    "eager": "eager",
    "flex_attention": "flex",
}

_BITS_OF_INT8: Final = 8

#: Settings of a PEFT configuration that other columns hold, or that say nothing of the method.
_ELSEWHERE: Final = frozenset(
    {
        *("r", "lora_alpha", "lora_dropout", "target_modules", "use_rslora", "peft_type"),
        *("base_model_name_or_path", "auto_mapping", "inference_mode", "peft_version", "revision"),
        *("task_type", "use_dora", "megatron_core"),
    }
)


def state_training_arguments(draft: Draft, args: Mapping[str, Any]) -> None:
    """State what Hugging Face's training arguments say; frameworks that extend them alike."""
    draft.state("micro_batch_size", count_of(args.get("per_device_train_batch_size")))
    draft.state("grad_accum_steps", count_of(args.get("gradient_accumulation_steps")))
    draft.state("gradient_checkpointing", bool_of(args.get("gradient_checkpointing")))
    steps = count_of(args.get("max_steps"))
    if steps:
        draft.state("n_steps", steps)
    else:
        draft.state("n_epochs", number_of(args.get("num_train_epochs")))
    draft.state("torch_compile", bool_of(args.get("torch_compile")))
    state_optimizer(draft, args.get("optim"))
    if args.get("bf16") is True or args.get("fp16") is True:
        draft.state("compute_dtype", "bf16" if args.get("bf16") is True else "fp16")
    if args.get("use_liger_kernel") or args.get("enable_liger_kernel"):
        draft.state("kernels", ["liger"])
    if args.get("use_cpu") is True or args.get("no_cuda") is True:
        draft.state("gpu_id", "cpu", "use_cpu in the training arguments")
        draft.state("n_gpus", 1, "use_cpu in the training arguments")
    _state_sharding(draft, args)
    state_upcast_weights(draft)


def state_optimizer(draft: Draft, name: Any) -> None:
    """State the optimizer; one outside the vocabulary is ``other`` and stands in provenance."""
    if not isinstance(name, str) or not name:
        return
    word = name.lower().removeprefix("optimizernames.")
    word = _OPTIMIZERS.get(word, word)
    if word not in vocabulary("optimizer"):
        draft.provenance["optimizer"] = name
        word = "other"
    draft.state("optimizer", word)


def _state_sharding(draft: Draft, args: Mapping[str, Any]) -> None:
    deepspeed = args.get("deepspeed")
    if isinstance(deepspeed, dict):
        stage = deepspeed.get("zero_optimization", {}).get("stage")
        draft.state("sharding", f"zero{stage}" if stage in (1, 2, 3) else None)
    elif isinstance(deepspeed, str):
        name = path_of(deepspeed).name
        found = re.search(r"z(?:ero)?[_-]?([123])", name.lower())
        if found:
            draft.state("sharding", f"zero{found[1]}", f"name of the DeepSpeed file {name}")
    elif args.get("fsdp"):
        grads = "shard_grad_op" in str(args["fsdp"]).lower()
        draft.state("sharding", "fsdp_grad_op" if grads else "fsdp")


#: Dtypes of mixed precision.
_MIXED: Final = ("bf16", "fp16")


def state_upcast_weights(draft: Draft, said: Mapping[str, str] | None = None) -> None:
    """State fp32 where accelerate holds trained weights so, whatever they were loaded in.

    To be called again where a method or a dtype is stated after the training arguments. ``said`` is
    what the user states beside the files, which seldom name the method of full training.

    Source: `Accelerator.prepare_model`, which casts what FSDP trains in mixed precision up.
    """
    stated: dict[str, Any] = {**draft.configuration, **(said or {})}
    is_mixed = stated.get("sharding") in ANY_FSDP and stated.get("compute_dtype") in _MIXED
    if is_mixed and stated.get("method") == "full":
        draft.configuration["param_dtype"] = "fp32"
        draft.inferences["param_dtype"] = "accelerate casts what FSDP trains in mixed precision up"


def state_adapter(draft: Draft, config: Mapping[str, Any]) -> None:
    """State the method and its settings from a PEFT configuration."""
    kind = str(config.get("peft_type", "")).upper().removeprefix("PEFTTYPE.")
    draft.state("method", kind.lower())
    if kind == "LORA" and config.get("use_dora"):
        draft.configuration["method"] = "dora"
    rank = count_of(config.get("r", config.get("rank")))
    state_lora_sizes(draft, config, rank, config.get("target_modules"))
    if kind == "LORA":
        draft.state("use_rslora", bool_of(config.get("use_rslora")))
        saved = target_modules(config.get("modules_to_save")) or []
        draft.state("trains_embeddings", bool({"embed_tokens", "lm_head"} & set(saved)))
    idle = set() if config.get("use_qalora") else {"qalora_group_size"}
    rest = {
        key: value
        for key, value in config.items()
        if key not in _ELSEWHERE | idle and value not in (None, {}, [], False)
    }
    draft.state("peft_config", rest or None)


def state_lora(draft: Draft, args: Mapping[str, Any], modules: Any) -> None:
    """State LoRA as frameworks write it that have their own names for PEFT's settings."""
    draft.state("method", "dora" if args.get("use_dora") is True else "lora")
    state_lora_sizes(draft, args, args.get("lora_rank"), modules)
    draft.state("use_rslora", args.get("use_rslora"))


def state_lora_sizes(draft: Draft, args: Mapping[str, Any], rank: Any, modules: Any) -> None:
    """State the rank, the scale, the dropout and the modules of adapters."""
    draft.state("lora_rank", rank)
    draft.state("lora_alpha", number_of(args.get("lora_alpha")))
    draft.state("lora_dropout", number_of(args.get("lora_dropout")))
    draft.state("lora_target_modules", target_modules(modules))


def target_modules(value: Any) -> list[str] | None:
    """Return the modules that carry adapters, sorted, from a list or a text with commas."""
    if isinstance(value, str):
        value = [part.strip() for part in value.replace(",", " ").split()]
    if not isinstance(value, list) or not value:
        return None
    return sorted({"all-linear" if item == "all" else str(item) for item in value})


def state_bitsandbytes(draft: Draft, args: Mapping[str, Any], usual: str | None = None) -> None:
    """State what arguments named as those of BitsAndBytesConfig say; else 4 bits are ``usual``."""
    bits = next((bits for bits in (4, 8) if args.get(f"load_in_{bits}bit") is True), None)
    kind = args.get("bnb_4bit_quant_type") or usual
    double = args.get("bnb_4bit_use_double_quant")
    state_quantization(draft, method="bitsandbytes", bits=bits, kind=kind, double=double)


def state_quantization(
    draft: Draft, *, method: Any, bits: Any, kind: Any = None, double: Any = None
) -> None:
    """State how the base weights are quantized; nothing where no bits are given."""
    n_bits = count_of(bits)
    if n_bits is None:
        return
    name = str(method or "bitsandbytes").lower()
    name = "bitsandbytes" if name in ("bnb", "bitsandbytes") else name
    draft.state("quant_method", name)
    draft.state("quant_bits", n_bits)
    if name == "bitsandbytes":
        draft.state("quant_type", kind if n_bits < _BITS_OF_INT8 else "int8")
        draft.state("double_quant", bool_of(double) if n_bits < _BITS_OF_INT8 else None)
