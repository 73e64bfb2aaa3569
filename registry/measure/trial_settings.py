"""What a trial and a recording may be told: names, types, defaults, allowed words and bounds."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, get_type_hints

from registry.errors import SourceError, did_you_mean, excerpt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

#: Environment variable that names the folder in which a measured child leaves its records.
RECORD_FOLDER = "REGISTRY_RECORD_FOLDER"

#: Version of what the recorder measures; raised when the meaning of a figure changes.
RECORDER_VERSION = 1

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

#: Least and most of a number: no machine and no model has more, and 2 ** 32 - 1 is numpy's largest
#: seed; a trial of two weeks is a mistake.
BOUNDS: dict[str, tuple[float, float]] = {
    "seq_len": (1, 2**24),
    "micro_batch_size": (1, 2**20),
    "grad_accum_steps": (1, 2**20),
    "lora_rank": (1, 2**16),
    "lora_alpha": (1e-9, 1e6),
    "lora_dropout": (0, 1),
    "n_gpus": (1, 1024),
    "steps": (1, 10**7),
    "warmup_steps": (0, 10**7),
    "seed": (0, 2**32 - 1),
    "repeat": (1, 10**4),
    "timeout_seconds": (1e-3, 14 * 86_400.0),
    "memory_limit_bytes": (1, 2**50),
}

#: Settings that may be absent, which None says.
OPTIONAL = ("dataset", "memory_limit_bytes")

#: Settings whose one value is a list already.
LISTS = ("lora_target_modules",)

#: Forms of texts; any other text is a name of something, of characters that can be shown.
_FORMS = {"method": re.compile(r"[a-z][a-z0-9_]{0,39}")}
_LONGEST_TEXT = 4096

#: Fields of a PEFT configuration that may hold text. PEFT imports modules that others name
#: (``megatron_core``, ``auto_mapping``) or loads what they point to (``tokenizer_kwargs``).
_PEFT_TEXTS = (
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


@dataclass(frozen=True)
class Options:
    """Options of a recording.

    Attributes:
        warmup_steps: First steps that the figures leave out; at least one step always remains.
        out: File to write the submission to.
        on_record: Called with the submission, such as a registry's ``add``.
        add: Add the submission to the registry in use, found as everywhere.
        memory_from: ``start``: peaks cover the whole process; ``train``: they begin with the
            training, which resets the process's own peak counters.
        device_sample_seconds: Time between two samples of the device's memory in use.
        model_reported: Name by which the user calls the model.
        weights: ``random`` where the weights are; the recorder cannot see that by itself.
        provenance: Further entries of the observation's provenance.
    """

    warmup_steps: int = 2
    out: str | Path | None = None
    on_record: Callable[[dict[str, Any]], object] | None = None
    add: bool = False
    memory_from: str = "start"
    device_sample_seconds: float = 0.1
    model_reported: str | None = None
    weights: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)


_TYPES = get_type_hints(Settings)
NAMES = tuple(item.name for item in fields(Settings))


def check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Raise SourceError for the first key of a table that is not known."""
    known = tuple(known)
    for name in table:
        if name not in known:
            raise SourceError(
                f"{where}: unknown key {excerpt(name)}{did_you_mean(str(name), known)}; "
                f"expected one of {', '.join(sorted(known))}"
            )


def parse_settings(table: Any, where: str) -> Settings:
    """Return the settings in plain data; raise SourceError where it is not of their form."""
    if not isinstance(table, dict):
        raise SourceError(f"{where}: found {excerpt(table)}; expected a table of settings")
    check_keys(table, NAMES, where)
    if "model" not in table:
        raise SourceError(f"{where}: no model; expected 'model' among the settings")
    return Settings(**{name: parse_setting(name, value, where) for name, value in table.items()})


def parse_setting(name: str, value: Any, where: str) -> Any:
    """Return a setting's value; raise SourceError where its type, word or size is another one."""
    place = f"{where}: {name}: found"
    if value is None and name in OPTIONAL:
        return None
    if name in LISTS:
        return _parse_list(value, place)
    if name == "peft":
        return _parse_peft(value, f"{where}: {name}")
    expected = _TYPES[name]
    kind = (tuple(getattr(expected, "__args__", ())) or (expected,))[0]
    if name in CHOICES:
        return _parse_word(value, CHOICES[name], place)
    if kind is str:
        return _parse_text(value, place, _FORMS.get(name))
    return _parse_number(value, kind, BOUNDS.get(name), place)


def _parse_word(value: Any, known: tuple[str, ...], place: str) -> str:
    if not isinstance(value, str) or value not in known:
        hint = did_you_mean(str(value), known) if isinstance(value, str) else ""
        raise SourceError(f"{place} {excerpt(value)}{hint}; expected one of {', '.join(known)}")
    return value


def _parse_text(value: Any, place: str, form: re.Pattern[str] | None) -> str:
    if not isinstance(value, str):
        raise SourceError(f"{place} {excerpt(value)}; expected text")
    if not (value.isprintable() and 0 < len(value) <= _LONGEST_TEXT):
        raise SourceError(f"{place} {excerpt(value)}; expected a name without control characters")
    if form is not None and form.fullmatch(value) is None:
        raise SourceError(f"{place} {excerpt(value)}; expected a name in lower case, as 'lora'")
    return value


def _parse_number(value: Any, kind: type, bounds: tuple[float, float] | None, place: str) -> Any:
    name = {int: "an integer", float: "a number", bool: "true or false"}[kind]
    if kind is float and type(value) is int and abs(value) < 2**53:
        value = float(value)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise SourceError(f"{place} {excerpt(value)}; expected {name}")
    number: Any = value
    if bounds is not None and not bounds[0] <= number <= bounds[1]:
        raise SourceError(
            f"{place} {excerpt(value)}; expected {name} from {bounds[0]} to {bounds[1]}"
        )
    return number


def _parse_list(value: Any, place: str) -> tuple[str, ...]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(
        isinstance(item, str) and item.isprintable() for item in items
    ):
        raise SourceError(f"{place} {excerpt(value)}; expected a list of texts")
    return tuple(sorted(items))


def _parse_peft(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SourceError(f"{where}: found {excerpt(value)}; expected a table")
    for name, item in value.items():
        if not (_is_plain(item) or (name in _PEFT_TEXTS and _is_text(item))):
            raise SourceError(
                f"{where}.{name}: found {excerpt(item)}; expected a number, true or false, or a "
                f"list of numbers; texts only for {', '.join(_PEFT_TEXTS)}, because the others "
                "name code or files that PEFT would load"
            )
    return value


def _is_plain(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return all(item is None or type(item) in (bool, int, float) for item in items)


def _is_text(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return all(isinstance(item, str) and item.isprintable() for item in items)
