"""What a trial and a recording may be told: names, types, defaults, allowed words and bounds.

``Settings`` is the one model of a trial. Validation, the JSON Schema of plans, their reference and
their template are all made from its fields, so that a new setting is one entry here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Environment variable that names the folder in which a measured child leaves its records.
RECORD_FOLDER = "REGISTRY_RECORD_FOLDER"

#: Environment variable that says how many first steps the figures of a measured child leave out.
WARMUP_STEPS = "REGISTRY_WARMUP_STEPS"

#: Version of what the recorder measures; raised when the meaning of a figure changes.
RECORDER_VERSION = 1

Quantization = Literal["none", "nf4", "fp4", "int8"]
Attention = Literal["sdpa", "eager", "flash2"]
Dtype = Literal["bf16", "fp16", "fp32"]
Sharding = Literal["none", "ddp", "fsdp", "fsdp_grad_op", "zero1", "zero2", "zero3"]
Weights = Literal["random", "pretrained"]
Device = Literal["auto", "cpu", "cuda"]
Optimizer = Literal[
    "adamw_torch",
    "adamw_torch_fused",
    "adamw_8bit",
    "paged_adamw_32bit",
    "paged_adamw_8bit",
    "adafactor",
    "sgd",
    "lion_8bit",
    "paged_lion_8bit",
]


#: Fields of a PEFT configuration that may hold text. PEFT imports modules that others name
#: (``megatron_core``, ``auto_mapping``) or loads what they point to (``tokenizer_kwargs``).
PEFT_TEXTS = (
    "bias",
    "exclude_modules",
    "feedforward_modules",
    "init_lora_weights",
    "init_weights",
    "layers_pattern",
    "modules_to_save",
    "target_modules",
    "target_parameters",
)


@dataclass(frozen=True)
class About:
    """What a setting means, its bounds (no machine and no model has more) and an example."""

    meaning: str
    least: float | None = None
    most: float | None = None
    example: Any = None


@dataclass(frozen=True)
class Settings:
    """Settings of one trial; the names are those of the contract where it has one."""

    model: Annotated[
        str,
        About(
            "A table [models.NAME] of the plan, a config.json (or its folder), a model of the "
            "catalogue, or a name on the hub.",
            example="tiny-llama",
        ),
    ]
    method: Annotated[
        str, About("What is trained: full, or the name of a PEFT method.", example="dora")
    ] = "lora"
    quantization: Annotated[
        Quantization, About("How bitsandbytes holds the base weights.", example="nf4")
    ] = "none"
    double_quant: Annotated[
        bool, About("Whether the quantization constants are quantized too (nf4 and fp4).")
    ] = False
    seq_len: Annotated[int, About("Tokens per sequence.", 1, 2**24)] = 512
    micro_batch_size: Annotated[
        int, About("Sequences per device in one forward pass.", 1, 2**20)
    ] = 1
    grad_accum_steps: Annotated[
        int, About("Forward passes per step of the optimizer.", 1, 2**20)
    ] = 1
    gradient_checkpointing: Annotated[
        bool, About("Whether activations are recomputed in the backward pass.")
    ] = False
    attention: Annotated[Attention, About("Attention implementation.")] = "sdpa"
    optimizer: Annotated[Optimizer, About("Optimizer, by its name in transformers.")] = (
        "adamw_torch"
    )
    dtype: Annotated[
        Dtype, About("Number format of the computation and of the unquantized weights.")
    ] = "bf16"
    lora_rank: Annotated[int, About("Rank of the adapters (lora, dora).", 1, 2**16)] = 8
    lora_alpha: Annotated[float, About("Scale of the adapters (lora, dora).", 1e-9, 1e6)] = 16.0
    lora_dropout: Annotated[float, About("Dropout in the adapters (lora, dora).", 0, 1)] = 0.0
    lora_target_modules: Annotated[
        tuple[str, ...],
        About(
            "Modules that carry adapters, for any method that takes them; all-linear as PEFT "
            "defines it.",
            example=["q_proj", "v_proj"],
        ),
    ] = ("all-linear",)
    use_rslora: Annotated[bool, About("Whether the scale is divided by the root of the rank.")] = (
        False
    )
    trains_embeddings: Annotated[
        bool, About("Whether embeddings and output layer are trained in full, with the adapters.")
    ] = False
    peft: Annotated[
        dict[str, Any],
        About(
            "Further fields of the method's own PEFT configuration: numbers, switches, and texts "
            "that do not make PEFT load anything.",
            example={"init_lora_weights": "gaussian"},
        ),
    ] = field(default_factory=dict)
    n_gpus: Annotated[int, About("Devices (processes, on CPU) of each node.", 1, 1024)] = 1
    n_nodes: Annotated[
        int, About("Nodes that a trial takes; more than one only with --backend slurm.", 1, 1024)
    ] = 1
    sharding: Annotated[Sharding, About("How state is spread over several devices.")] = "ddp"
    device: Annotated[Device, About("auto uses a GPU if there is one.", example="cpu")] = "auto"
    weights: Annotated[
        Weights, About("pretrained loads weights from the hub or a folder, safetensors only.")
    ] = "random"
    dataset: Annotated[
        str | None,
        About(
            "A JSONL file, or a folder that datasets wrote, in the plan's folder; random tokens "
            "if left out.",
            example="data.jsonl",
        ),
    ] = None
    steps: Annotated[int, About("Steps of the optimizer.", 1, 10**7)] = 10
    warmup_steps: Annotated[
        int,
        About(
            "How many steps at the start the figures leave out; the last always counts.",
            0,
            10**7,
        ),
    ] = 2
    # 2 ** 32 - 1 is numpy's largest seed
    seed: Annotated[int, About("Seed of weights and tokens.", 0, 2**32 - 1)] = 0
    repeat: Annotated[int, About("Which repetition of a trial this is.", 1, 10**4)] = 1
    # a trial of two weeks is a mistake
    timeout_seconds: Annotated[
        float, About("A trial is ended after this many seconds.", 1e-3, 14 * 86_400.0)
    ] = 3600.0
    memory_limit_bytes: Annotated[
        int | None,
        About("Resident host memory, or device memory, that the job may use.", 1, 2**50),
    ] = None

    @property
    def n_devices(self) -> int:
        """How many devices there are on all nodes."""
        return self.n_nodes * self.n_gpus


@dataclass(frozen=True)
class Options:
    """Options of a recording.

    Attributes:
        warmup_steps: Number of first steps that the figures leave out; at least one step remains.
        out: File to write the submission to.
        on_record: Called with the submission, such as a registry's ``add``.
        add: Add the submission to the registry in use.
        memory_from: ``start``: peaks cover the whole process; ``train``: they begin with the
            training, which resets the process's own peak counters.
        device_sample_seconds: Seconds between two samples of the device's memory in use.
        model_reported: The user's name for the model.
        weights: ``random`` if the weights are; the recorder cannot see that by itself.
        memory_limit_bytes: Memory that the job may use on each device, if that is less than all.
        provenance: Further entries for the observation's provenance.
        quote_errors: Keep an exception's message; otherwise only its class is kept, because the
            message of someone's own program may hold anything.
    """

    warmup_steps: int = 2
    out: str | Path | None = None
    on_record: Callable[[dict[str, Any]], object] | None = None
    add: bool = False
    memory_from: str = "start"
    device_sample_seconds: float = 0.1
    model_reported: str | None = None
    weights: str | None = None
    memory_limit_bytes: int | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    quote_errors: bool = False


#: What is known of each setting.
ABOUT: dict[str, About] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Settings, include_extras=True).items()
}
NAMES = tuple(ABOUT)

#: Types of the settings' values; None is left out of those that may be absent.
TYPES: dict[str, Any] = {
    name: get_args(kind)[0] if type(None) in get_args(kind) else kind
    for name, kind in get_type_hints(Settings).items()
}

#: Values that settings have where a plan says nothing; the model has none.
DEFAULTS: dict[str, Any] = {
    name: getattr(Settings(model=""), name) for name in NAMES if name != "model"
}

#: Words that a setting is limited to.
CHOICES: dict[str, tuple[str, ...]] = {
    name: get_args(kind) for name, kind in TYPES.items() if get_origin(kind) is Literal
}

#: Least and most of a number.
BOUNDS: dict[str, tuple[float, float]] = {
    name: (about.least, about.most)
    for name, about in ABOUT.items()
    if about.least is not None and about.most is not None
}


#: What this process was told at its start, if it is measured.
_told: dict[str, str] = {}


def keep_told() -> None:
    """Keep what this process is told of its recording; its job may change the environment."""
    _told.update({name: os.environ[name] for name in (RECORD_FOLDER, WARMUP_STEPS) if told(name)})


def told(name: str) -> str:
    """Return what one of our variables said when this process began, or says now; else nothing."""
    return _told.get(name) or os.environ.get(name, "")


def options_of_environment() -> Options:
    """Return the options of a recording that nobody in the job's own code asked for."""
    stated = told(WARMUP_STEPS)
    return Options(warmup_steps=int(stated)) if stated.isdecimal() else Options()


def settings_of(plain: dict[str, Any]) -> Settings:
    """Return the settings that a spec of ours holds as plain data; it was checked when written."""
    return Settings(**{**plain, "lora_target_modules": tuple(plain["lora_target_modules"])})
