"""What a trial may be told: one place for names, types, defaults and allowed words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Words that a setting is limited to.
CHOICES: dict[str, tuple[str, ...]] = {
    "quantization": ("none", "nf4", "fp4", "int8"),
    "attention": ("sdpa", "eager", "flash2"),
    "dtype": ("bf16", "fp16", "fp32"),
    "sharding": ("none", "ddp", "fsdp", "fsdp_grad_op", "zero1", "zero2", "zero3"),
    "weights": ("random", "pretrained"),
    "device": ("auto", "cpu", "cuda"),
    "optimizer": (
        "adamw_torch",
        "adamw_torch_fused",
        "adamw_8bit",
        "paged_adamw_32bit",
        "paged_adamw_8bit",
        "adafactor",
        "sgd",
        "lion_8bit",
        "paged_lion_8bit",
    ),
}


@dataclass(frozen=True)
class Settings:
    """Settings of one trial; the names are those of the contract where it has one.

    Attributes:
        model: A model of the plan, of the catalogue, of the hub, or the path of a config.json.
        method: ``full`` or a PEFT type by its name, such as ``lora``, ``dora``, ``ia3``.
        quantization: How the base weights are held (bitsandbytes).
        seq_len: Tokens per sequence.
        micro_batch_size: Sequences per device in one forward pass.
        dtype: Number format of the computation and of the unquantized weights.
        lora_target_modules: Modules that carry adapters; ``all-linear`` as PEFT means it.
        peft: Further fields of the method's own PEFT configuration.
        n_gpus: Devices (processes, on CPU) on this node.
        memory_limit_bytes: Resident host memory, or device memory, that the job may use.
        dataset: A JSONL file or a folder that ``datasets`` wrote; random tokens where None.
        device: ``auto`` takes a GPU where there is one.
    """

    model: str
    method: str = "lora"
    quantization: str = "none"
    double_quant: bool = False
    seq_len: int = 512
    micro_batch_size: int = 1
    grad_accum_steps: int = 1
    gradient_checkpointing: bool = False
    attention: str = "sdpa"
    optimizer: str = "adamw_torch"
    dtype: str = "bf16"
    lora_rank: int = 8
    lora_alpha: float = 16.0
    lora_dropout: float = 0.0
    lora_target_modules: tuple[str, ...] = ("all-linear",)
    use_rslora: bool = False
    trains_embeddings: bool = False
    peft: dict[str, Any] = field(default_factory=dict)
    n_gpus: int = 1
    sharding: str = "ddp"
    device: str = "auto"
    weights: str = "random"
    dataset: str | None = None
    steps: int = 10
    warmup_steps: int = 2
    seed: int = 0
    repeat: int = 1
    timeout_seconds: float = 3600.0
    memory_limit_bytes: int | None = None
