"""Read what was trained and how from the live objects of a job, never from what the user says."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from typing import Any

from registry.measure.recording.loaded import cuda, loaded
from registry.measure.recording.own_lora import read_own_lora
from registry.measure.recording.parameters import Parameters, is_packed
from registry.measure.trial_settings import PEFT_TEXTS
from registry.measure.words import ATTENTION, BITS, OPTIMIZER_CLASSES, OPTIMIZERS, dtype_word

Row = dict[str, Any]

#: Columns of ``configurations`` that hold settings of a LoRA configuration.
_LORA_COLUMNS = {
    "r": "lora_rank",
    "lora_alpha": "lora_alpha",
    "lora_dropout": "lora_dropout",
    "use_rslora": "use_rslora",
}


def read_configuration(trainer: Any, model: Any, parameters: Parameters) -> Row:
    """Return a row of ``configurations`` without model, GPU and sequence length."""
    args = trainer.args
    mixed = "bf16" if args.bf16 else "fp16" if args.fp16 else None
    row = {
        **read_model(model, parameters, mixed),
        **read_batch(trainer),
        **read_devices(trainer, model),
        "optimizer": read_optimizer(trainer)[0],
        "packing": getattr(args, "packing", None),
        "padding_free": getattr(args, "padding_free", None),
        "torch_compile": bool(getattr(args, "torch_compile", False)) or is_compiled(model),
        "kernels": ["liger"] if getattr(args, "use_liger_kernel", False) else None,
        "objective": read_objective(trainer),
    }
    return {name: value for name, value in row.items() if value is not None}


def find_adapters(model: Any) -> Any:
    """Return the module that carries PEFT's configurations, the model itself or one in it."""
    if getattr(model, "peft_config", None):
        return model
    modules = model.modules() if hasattr(model, "modules") else ()
    return next((module for module in modules if getattr(module, "peft_config", None)), None)


def read_method(model: Any, parameters: Parameters) -> Row:
    """Return the method, by PEFT's own word for it where it is PEFT's, and its settings."""
    carrying = find_adapters(model)
    settings = getattr(carrying, "peft_config", None)
    if not settings:
        return read_own_lora(model) or {"method": "full" if parameters.is_all_trained else "freeze"}
    model = carrying
    name = getattr(model, "active_adapter", None)
    config = settings.get(name) if isinstance(name, str) else None
    return _read_peft(config or next(iter(settings.values())), model)


def _read_peft(config: Any, model: Any) -> Row:
    kind = str(getattr(config.peft_type, "value", config.peft_type)).lower()
    row: Row = {"method": "dora" if getattr(config, "use_dora", False) else kind}
    if kind == "lora":
        row |= {column: getattr(config, name, None) for name, column in _LORA_COLUMNS.items()}
        row["lora_alpha"] = float(row["lora_alpha"])
        row["lora_dropout"] = float(row["lora_dropout"])
    targets = getattr(config, "target_modules", None)
    if targets:
        row["lora_target_modules"] = format_targets(targets, model)
    row["peft_config"] = _further_settings(config, is_lora=kind == "lora")
    return row


def format_targets(targets: Any, model: Any) -> list[str]:
    """Return the modules that carry adapters by their last names, where these say it all.

    PEFT writes ``all-linear`` out as the full name of every layer.
    """
    if isinstance(targets, str):
        return [targets]
    leaves = {name.rsplit(".", 1)[-1] for name in targets}
    carrying = {name for name, module in model.named_modules() if hasattr(module, "base_layer")}
    alike = {
        name
        for name, module in model.named_modules()
        if name.rsplit(".", 1)[-1] in leaves and hasattr(module, "weight")
    }
    return sorted(leaves) if carrying and alike == carrying else sorted(targets)


def _further_settings(config: Any, *, is_lora: bool) -> Row:
    """Return the settings that differ from the class's defaults and fit in no column."""
    known = {"target_modules", "use_dora", "peft_type", "base_model_name_or_path"}
    known |= set(_LORA_COLUMNS) if is_lora else set()  # other methods' ranks have no column
    ignored = known | {"task_type", "inference_mode", "revision", "auto_mapping", "peft_version"}
    try:
        stated, defaults = config.to_dict(), type(config)().to_dict()
    except Exception:  # noqa: BLE001 - a class without defaults: nothing can be said
        return {}
    differing = {
        name: value
        for name, value in stated.items()
        if name not in ignored and value != defaults.get(name)
    }
    return _jsonable(differing)


def _jsonable(settings: Row) -> Row:
    """Return numbers, switches, and single words where PEFT has words of its own for a field."""
    plain = {}
    for name, value in settings.items():
        with suppress(TypeError, ValueError):
            item = sorted(value) if isinstance(value, set | frozenset) else value
            text = json.dumps(item, allow_nan=False)
            words = _TEXTS.findall(text)
            if not words or (name in _OF_WORDS and all(map(_WORD.fullmatch, words))):
                plain[name] = json.loads(text)
    return plain


#: Fields of a PEFT configuration that hold words of PEFT's own or names of modules.
_OF_WORDS = (*PEFT_TEXTS, "encoder_reparameterization_type", "prompt_tuning_init")

_TEXTS = re.compile(r'"((?:[^"\\]|\\.)*)"')
_WORD = re.compile(r"[\w.+-]{0,40}")


#: How the names of bitsandbytes' layers end, and of those that PEFT makes of them.
_OF_BITSANDBYTES = ("Linear4bit", "Linear8bitLt")


def read_quantization(model: Any) -> Row:
    """Return how the base weights are quantized, from the layers themselves where possible."""
    for module in model.modules():
        name = type(module).__name__
        if not name.endswith(_OF_BITSANDBYTES) or not is_packed(module.weight):
            continue
        if name.endswith("Linear8bitLt"):
            return describe_bitsandbytes("int8")
        double = bool(getattr(module.weight, "compress_statistics", False))
        return describe_bitsandbytes(str(module.weight.quant_type), double=double)
    return _quantization_of_config(
        getattr(getattr(model, "config", None), "quantization_config", None)
    )


def describe_bitsandbytes(kind: str, *, double: bool = False) -> Row:
    """Return the columns of a quantization of bitsandbytes."""
    row = {"quant_method": "bitsandbytes", "quant_bits": BITS.get(kind), "quant_type": kind}
    return row if kind == "int8" else {**row, "double_quant": double}


def _quantization_of_config(config: Any) -> Row:
    if config is None:
        return {}
    settings = config if isinstance(config, dict) else config.to_dict()
    method = str(getattr(settings.get("quant_method"), "value", settings.get("quant_method")))
    bits = settings.get("bits", settings.get("nbits", settings.get("w_bit")))
    if method not in ("gptq", "awq", "aqlm", "hqq", "eetq", "torchao", "quanto"):
        return {}
    return {"quant_method": method, **({"quant_bits": bits} if isinstance(bits, int) else {})}


def read_precision(model: Any, parameters: Parameters, mixed: str | None) -> Row:
    """Return the number formats of the computation and of the unquantized base weights.

    ``mixed`` is that of mixed precision, where there is any.
    """
    for module in () if mixed else model.modules():
        name = str(getattr(module, "compute_dtype", None))
        if name.startswith("torch."):
            return {"compute_dtype": dtype_word(name), "param_dtype": parameters.param_dtype}
    return {
        "compute_dtype": mixed or parameters.param_dtype,
        "param_dtype": parameters.param_dtype,
    }


def read_model(model: Any, parameters: Parameters, mixed: str | None) -> Row:
    """Return what a live model says of its training: method, number formats, attention."""
    return {
        **read_method(model, parameters),
        **read_quantization(model),
        **read_precision(model, parameters, mixed),
        "trainable_params": parameters.n_trainable,
        "trains_embeddings": parameters.trains_embeddings,
        "attention": read_attention(model),
        "gradient_checkpointing": read_checkpointing(model),
    }


def micro_batch_size(trainer: Any) -> int:
    """Return the samples of one device: what the trainer found to fit, else what it was told."""
    found = getattr(trainer, "_train_batch_size", None)
    if isinstance(found, int):
        return max(found // max(int(getattr(trainer.args, "n_gpu", 1)), 1), 1)
    return int(trainer.args.per_device_train_batch_size)


def read_batch(trainer: Any) -> Row:
    """Return the batch and the length of the job."""
    args = trainer.args
    row: Row = {
        "micro_batch_size": micro_batch_size(trainer),
        "grad_accum_steps": args.gradient_accumulation_steps,
        "n_steps": args.max_steps if args.max_steps > 0 else None,
        "n_epochs": float(args.num_train_epochs) if args.max_steps <= 0 else None,
    }
    with suppress(TypeError):  # a stream has no length
        row["n_samples"] = len(trainer.train_dataset) or None
    return row


def spread_processes(world: int) -> tuple[int, int]:
    """Return the nodes of a job of so many processes, and the processes on each."""
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "0") or 0)
    per_node = min(local, world) if local else world
    return max(world // per_node, 1), per_node


def read_devices(trainer: Any, model: Any) -> Row:
    """Return how many devices there are and how the state is spread over them."""
    args = trainer.args
    sharding = read_sharding(trainer)
    n_nodes, per_node = spread_processes(int(args.world_size))
    if int(args.world_size) == 1:
        per_node, spread = _devices_of_one_process(args, model)
        sharding = spread or sharding
    return {
        "n_nodes": n_nodes,
        "gpus_per_node": per_node,
        "sharding": sharding,
        "offload": read_offload(trainer),
    }


def _devices_of_one_process(args: Any, model: Any) -> tuple[int, str | None]:
    if cuda() is None or args.device.type != "cuda":
        return 1, None
    used = {str(p.device) for p in model.parameters() if p.device.type == "cuda"}
    if len(used) > 1:
        return len(used), "device_map"
    return (int(args.n_gpu), "dp") if args.n_gpu > 1 else (1, None)


def read_sharding(trainer: Any) -> str:
    """Return how state is spread over the processes, from accelerate's state."""
    kind = str(getattr(trainer.accelerator, "distributed_type", "NO")).rsplit(".", 1)[-1]
    if kind == "DEEPSPEED":
        return f"zero{_zero(trainer).get('stage', 0)}".replace("zero0", "ddp")
    if kind == "FSDP":
        return _fsdp_kind(trainer.accelerator.state.fsdp_plugin)
    return "ddp" if kind.startswith("MULTI_") else "none"


def _fsdp_kind(plugin: Any) -> str:
    if getattr(plugin, "fsdp_version", 1) == 2:  # noqa: PLR2004 - the second version of FSDP
        return "fsdp" if plugin.reshard_after_forward else "fsdp_grad_op"
    strategy = str(getattr(plugin, "sharding_strategy", "")).rsplit(".", 1)[-1]
    names = {"SHARD_GRAD_OP": "fsdp_grad_op", "HYBRID_SHARD": "hsdp", "NO_SHARD": "ddp"}
    return names.get(strategy, "fsdp")


def _zero(trainer: Any) -> Row:
    plugin = getattr(trainer.accelerator.state, "deepspeed_plugin", None)
    settings = getattr(plugin, "deepspeed_config", None) or {}
    zero = settings.get("zero_optimization", {})
    return zero if isinstance(zero, dict) else {}


def read_offload(trainer: Any) -> str | None:
    """Return what is kept off the devices; None where the job says nothing of it."""
    plugin = getattr(trainer.accelerator.state, "fsdp_plugin", None)
    offload = getattr(plugin, "cpu_offload", None)
    if offload and getattr(offload, "offload_params", offload is True):
        return "optimizer_and_params"
    zero = _zero(trainer)
    devices = {
        part: (zero.get(f"offload_{part}") or {}).get("device", "none")
        for part in ("optimizer", "param")
    }
    if "nvme" in devices.values():
        return "nvme"
    moved = [part for part, device in devices.items() if device == "cpu"]
    return {0: "none", 1: {"param": "params"}.get("".join(moved), "optimizer")}.get(
        len(moved), "optimizer_and_params"
    )


def read_attention(model: Any) -> str | None:
    """Return the attention implementation in use."""
    name = getattr(getattr(model, "config", None), "_attn_implementation", None)
    return ATTENTION.get(name) if isinstance(name, str) else None


def read_checkpointing(model: Any) -> bool | None:
    """Return whether activations are recomputed in the backward pass.

    None where no module has a switch for it while torch's function for it is loaded: a model may
    call that by itself. Torch's own wrapper of a module, which FSDP is given, needs no switch.
    """
    if any(type(module).__name__ == "CheckpointWrapper" for module in model.modules()):
        return True
    switches = [
        getattr(module, name)
        for module in model.modules()
        for name in ("gradient_checkpointing", "activation_checkpointing")
        if hasattr(module, name)
    ]
    if not switches and loaded("torch.utils.checkpoint") is not None:
        return None
    return any(switch is True for switch in switches)


def is_compiled(model: Any) -> bool:
    """Return whether a model or a part of it is compiled, itself or its ``forward``."""
    return any(
        hasattr(module, "_orig_mod")
        or getattr(module, "_compiled_call_impl", None) is not None
        or hasattr(vars(module).get("forward"), "_torchdynamo_orig_callable")
        for module in model.modules()
    )


def read_optimizer(trainer: Any) -> tuple[str, str]:
    """Return the contract's word for a trainer's optimizer, and its name.

    The arguments name the one that the trainer makes, unless it was given another: this shows where
    one of them is torch's own.
    """
    asked = str(getattr(trainer.args.optim, "value", trainer.args.optim))
    optimizer = _unwrap_optimizer(getattr(trainer, "optimizer", None))
    maker = _maker(optimizer)
    is_given = maker == "torch" or asked.removesuffix("_fused") in _OF_TORCH
    if optimizer is None or maker in _WRAPPING or not is_given:
        return OPTIMIZERS.get(asked, "other"), asked
    word = optimizer_word(optimizer)
    return word, asked if OPTIMIZERS.get(asked) == word else type(optimizer).__name__


#: Optimizers of the training arguments that are torch's own.
_OF_TORCH = ("adamw_torch", "sgd", "rmsprop", "adagrad")

#: Packages that wrap an optimizer in one of theirs, or have their own way to make it.
_WRAPPING = ("accelerate", "deepspeed")


def _maker(optimizer: Any) -> str:
    return type(optimizer).__module__.partition(".")[0]


def _unwrap_optimizer(optimizer: Any) -> Any:
    while _maker(optimizer) in _WRAPPING and getattr(optimizer, "optimizer", None) is not None:
        optimizer = optimizer.optimizer
    return optimizer


def optimizer_word(optimizer: Any) -> str:
    """Return the contract's word for an optimizer by its class, ``other`` for an unknown one."""
    if is_sharded(optimizer):
        optimizer = optimizer.optim
    settings = getattr(optimizer, "defaults", {})
    name = type(optimizer).__name__
    groups = getattr(optimizer, "param_groups", ())
    if any("update_proj_gap" in group for group in groups) and not name.startswith("GaLore"):
        name = f"GaLore{name}"  # whose classes are called as those that they are made of
    if name == "AdamW" and type(optimizer).__module__.startswith("torch."):
        return "adamw_torch_fused" if settings.get("fused") else "adamw_torch"
    return OPTIMIZER_CLASSES.get(name, "other")


def is_sharded(optimizer: Any) -> bool:
    """Return whether an optimizer is torch's own that keeps a share of another's state."""
    return type(optimizer).__name__ == "ZeroRedundancyOptimizer"


def read_objective(trainer: Any) -> str | None:
    """Return the training objective where the trainer's class shows it."""
    classes = {base.__name__ for base in type(trainer).__mro__}
    for objective in ("sft", "dpo", "orpo", "kto", "ppo", "grpo", "reward"):
        titles = {f"{objective.upper()}Trainer", f"{objective.capitalize()}Trainer"}
        if classes & titles:
            return objective
    model = type(getattr(trainer, "model", None)).__name__
    return "classification" if "SequenceClassification" in model else None


def read_rank() -> tuple[int, int]:
    """Return the rank of this process and the number of processes."""
    distributed = loaded("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank()), int(distributed.get_world_size())
    return int(os.environ.get("RANK", "0") or 0), int(os.environ.get("WORLD_SIZE", "1") or 1)
