"""What each switch of a configuration costs or saves, by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import QuestionError
from registry.predict.answer.advice import LEAN_LOSSES
from registry.predict.answer.prediction import predict_memory, predict_samples
from registry.predict.calibration.fit_rows import moment_rows
from registry.predict.calibration.unstated import complete
from registry.predict.question import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.predict.calibration.intervals import Calibration
    from registry.predict.question import Question


@dataclass(frozen=True)
class Switch:
    """One setting changed, and what that does."""

    #: In words: ``checkpointing off``.
    what: str
    settings: tuple[tuple[str, Any], ...]
    #: Peak with it minus peak without it; negative where it saves memory.
    peak_change_bytes: float
    #: Seconds of a sample with it over those without; None where the card's speed is not known.
    time_ratio: float | None


@dataclass(frozen=True)
class Explanation:
    """The likeliest meaning of a question, and each of its switches turned."""

    #: The question with all that it leaves open as it likeliest is.
    question: Question
    switches: tuple[Switch, ...]


_WORDS: dict[str, dict[Any, str]] = {
    "gradient_checkpointing": {True: "checkpointing on", False: "checkpointing off"},
    "attention": {"flash2": "FlashAttention or SDPA", "eager": "eager attention"},
    "loss_kernel": {"whole": "loss over whole logits", **LEAN_LOSSES},
    "param_dtype": {"bf16": "weights held in bf16", "fp32": "weights held in fp32"},
    "optimizer": {"adamw": "AdamW", "adamw_8bit": "8-bit AdamW", "sgd": "SGD"},
    "double_quant": {True: "quantization constants quantized too", False: "constants in fp32"},
    "quant_bits": {None: "16-bit base", 8: "8-bit base", 4: "4-bit base"},
    "lora_rank": {8: "rank 8", 64: "rank 64"},
    "offload": {
        "none": "nothing in host memory",
        "optimizer": "optimizer in host memory",
        "params": "weights in host memory",
        "activations": "checkpoints in host memory",
    },
    "sharding": {"ddp": "DDP", "zero2": "ZeRO-2", "zero3": "ZeRO-3", "fsdp": "FSDP"},
    "optimizer_in_backward": {True: "optimizer in the backward pass"},
}
#: Words that mean the same here.
_SAME = {"flash": "flash2", "flash3": "flash2", "sdpa": "flash2", "bf16": "bf16", "fp16": "bf16"}


def explain(question: Question, calibration: Calibration) -> Explanation:
    """Return what each switch does to the likeliest meaning of a question.

    A setting that a switch leaves open, such as the weights' precision under FSDP after ZeRO, is as
    it likeliest is.
    """
    meanings = predict_memory(question, calibration).meanings
    likeliest = question if meanings is None else meanings.plausible[0].question
    base = likeliest.changed(stack=question.stack)
    peak = _likeliest_peak(base, calibration)
    usual = calibration.usual_on(question.stack)
    turned = [
        (what, complete(changed, usual)[0].question, settings)
        for what, changed, settings in _turned(base)
    ]
    stack = calibration.own_times.meaning(base).stack  # both sides at one speed
    asked = [one.changed(stack=stack) for one in (base, *(changed for _, changed, _ in turned))]
    sample, *each = predict_samples(asked, calibration)
    switches = []
    for (what, changed, settings), seconds in zip(turned, each, strict=True):
        ratio = seconds.value / sample.value if seconds and sample else None
        more = _likeliest_peak(changed, calibration) - peak
        switches.append(Switch(what, tuple(settings.items()), more, ratio))
    return Explanation(base, tuple(switches))


def _likeliest_peak(question: Question, calibration: Calibration) -> float:
    """Return the calibrated figure; no run bounds it, as that would bound one side of a change."""
    return calibration.memory.predict_highest(moment_rows(question))[1].value


def _turned(base: Question) -> Iterator[tuple[str, Question, dict[str, Any]]]:
    """Yield each switch in words, the question with it, and the settings that it changes."""
    for what, settings in _changes(base):
        try:
            changed = base.changed(**settings)
        except QuestionError:  # what cannot be run has no price
            continue
        yield what, changed, settings


def _changes(base: Question) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, words in _WORDS.items():
        if not _matters(base, name):
            continue
        has = _value(base, name)
        for value, what in words.items():
            if value != has:
                yield what, _settings(name, value)
    for name, word in (("micro_batch_size", "batch"), ("seq_len", "seq_len")):
        size = getattr(base, name)
        for other in (size // 2, size * 2):
            yield f"{word} {other}", {name: other}


def _value(base: Question, name: str) -> Any:
    value = getattr(base, name)
    defaults = {
        "offload": "none", "sharding": "ddp", "param_dtype": base.held_dtype,
        "double_quant": base.doubles,
    }  # fmt: skip
    if value is None:
        value = DEFAULTS.get(name, defaults.get(name))
    return _SAME.get(value, value) if isinstance(value, str) else value


def _settings(name: str, value: Any) -> dict[str, Any]:
    if name == "quant_bits":
        method = "bitsandbytes" if value else None
        kept = {} if value is None else {"param_dtype": None}
        return {"quant_bits": value, "quant_method": method, **kept}
    if name == "optimizer_in_backward":
        return {name: value, "grad_accum_steps": 1}
    return {name: None if value == "none" else value}


def _matters(base: Question, name: str) -> bool:
    """Return whether a switch does anything to a question."""
    trains_weights = base.full or base.trains_embeddings
    return {
        "param_dtype": not base.quantized and not base.deepspeed,
        "optimizer": trains_weights,
        "optimizer_in_backward": base.full and not base.deepspeed,
        "quant_bits": not base.full,
        "double_quant": base.has_constants,
        "lora_rank": base.lora_rank is not None and not base.full,
        "sharding": base.n_gpus > 1,
    }.get(name, True)
