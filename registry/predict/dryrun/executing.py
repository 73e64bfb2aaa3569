"""A question's dry run, with what it adapted told to whoever asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry.errors import QuestionError
from registry.measure.running.model_sources import resolve_model
from registry.measure.running.plan_model import parse_settings
from registry.predict.asked import find_config
from registry.predict.dryrun.child import run_in_child
from registry.predict.dryrun.correction import correct, likeliest
from registry.predict.dryrun.result import Recipe
from registry.predict.formula.adapters import DEFAULT_TARGETS
from registry.predict.formula.methods import METHODS, virtual_tokens
from registry.predict.formula.state import weight_bytes
from registry.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.catalogue import Catalogue
    from registry.predict.answers import Knowledge
    from registry.predict.asked import Asked
    from registry.predict.calibration.intervals import Calibration
    from registry.predict.question import Question

    Tell = Callable[[str], object]
    from registry.measure.trial_settings import Settings


def execute_asked(question: Question, asked: Asked, known: Knowledge, tell: Tell) -> Calibration:
    """Return the calibration, corrected by a dry run of a question.

    ``tell`` gets what is worth knowing of the run, a sentence at a time. Raises DryRunError where
    torch is missing or the configuration cannot be executed, QuestionError where no model is named.
    """
    meant = likeliest(question, known.calibration)
    reserved = _reserved_bytes(meant, asked, known.catalogue, tell)
    return correct(question, meant, known.calibration, reserved)


def _reserved_bytes(question: Question, asked: Asked, catalogue: Catalogue, tell: Tell) -> int:
    if asked.params is not None:
        raise QuestionError("a dry run builds the model: expected --model or --config")
    path = None if asked.config is None else find_config(asked.config)
    name = str(path or asked.config or asked.model)
    settings, recipe = job_of(question, name)
    source = resolve_model(name, {}, catalogue, weights="random")
    found = run_in_child(settings, source, recipe=recipe)
    for note in found.get("notes", ()):
        tell(f"dry run: {note}")
    allocated, reserved = (
        format_memory(found[f"peak_{kind}_bytes"]) for kind in ("allocated", "reserved")
    )
    tell(
        f"dry run: a job of transformers' Trainer has {allocated} of tensors at its peak, for "
        f"which the allocator holds {reserved}"
    )
    return int(found["peak_reserved_bytes"])


# A question as a job of the dry run: its settings and its recipe; what it cannot be asked.

#: Words of a question in those of a trial. What is not here is the same word, or refused.
_QUANTIZATION = {None: "none", 4: "nf4", 8: "int8"}
_ATTENTION = {"eager": "eager", "sdpa": "sdpa", "not_flash": "sdpa"}
_OPTIMIZERS = {  # they keep the same
    "adam": "adamw_torch",
    "adam_8bit": "adamw_8bit",
    "adamw": "adamw_torch",
    "adamw_hf": "adamw_torch",
}
_NOT_RUN = frozenset({"adamw_apex_fused", "lion", "paged_lion_32bit"})
_DTYPES = {"bf16": "bf16", "fp16": "fp16", "fp32": "fp32", "tf32": "fp32"}
_OF_PROMPTS = frozenset({"prompt_tuning", "p_tuning", "prefix_tuning"})


def job_of(question: Question, name: str) -> tuple[Settings, Recipe]:
    """Return what a dry run of a question executes: Trainer, PEFT and bitsandbytes.

    Defaults are filled in. Raises QuestionError for what the dry run does not execute.
    """
    problems = _check_job(question)
    if problems:
        state = f"state {_INSTEAD[problems[0]]}, or " if problems[0] in _INSTEAD else ""
        raise QuestionError(
            f"dry run: {problems[0]} is not executed; {state}ask without it to use the formula"
        )
    wide = not question.quantized and weight_bytes(question) == _FP32_BYTES
    recipe = Recipe(
        weights_fp32=wide,
        frozen_fp32=question.keeps_fp32_embeddings,
        family_targets=question.lora_target_modules in (None, tuple(DEFAULT_TARGETS)),
    )
    return parse_settings(_settings(question, name), "dry run"), recipe


_FP32_BYTES = 4


def _settings(question: Question, name: str) -> dict[str, Any]:
    optimizer = question.setting("optimizer")
    return {
        "model": name,
        "method": question.method,
        "quantization": _QUANTIZATION[question.quant_bits],
        "double_quant": question.doubles,
        "seq_len": question.longest,
        "micro_batch_size": question.micro_batch_size,
        "grad_accum_steps": question.setting("grad_accum_steps"),
        "gradient_checkpointing": bool(question.setting("gradient_checkpointing")),
        "attention": _ATTENTION.get(question.setting("attention"), "flash2"),
        "optimizer": _OPTIMIZERS.get(optimizer, optimizer),
        "dtype": _DTYPES[question.setting("compute_dtype")],
        "lora_rank": question.setting("lora_rank"),
        "lora_target_modules": list(_targets(question)),
        "trains_embeddings": question.trains_embeddings,
        "peft": _peft(question),
        "n_gpus": question.n_gpus,
        "sharding": "none" if question.n_gpus == 1 else question.sharding or "ddp",
        "device": "cuda",
    }


def _targets(question: Question) -> tuple[str, ...]:
    if question.lora_target_modules:
        return question.lora_target_modules
    of_method = None if question.full else METHODS[question.method].targets
    return of_method or DEFAULT_TARGETS


def _peft(question: Question) -> dict[str, Any]:
    """Return further fields of the method's PEFT configuration, under PEFT's names."""
    rank = question.lora_rank
    if question.method in _OF_PROMPTS:
        return {"num_virtual_tokens": virtual_tokens(question)}
    if question.method == "adaption_prompt":
        layers = question.model.n_layers
        return {"adapter_len": virtual_tokens(question), "adapter_layers": layers}
    if question.method == "ia3":
        targets = _targets(question)
        return {"feedforward_modules": [name for name in targets if name == "down_proj"]}
    return {_RANKS[question.method]: rank} if rank and question.method in _RANKS else {}


#: What PEFT calls the rank of a method, where it is not LoRA's.
_RANKS = {"loha": "r", "lokr": "r", "vera": "r", "miss": "r", "oft": "r"}


def _check_job(question: Question) -> list[str]:
    """Return one problem for each setting that a dry run does not execute."""
    found = {
        f"offload {question.offload}": question.offload not in (None, "none"),
        f"loss_kernel {question.loss_kernel}": question.setting("loss_kernel") != "whole",
        "optimizer_in_backward": bool(question.optimizer_in_backward),
        f"quant_bits {question.quant_bits}": question.quant_bits not in _QUANTIZATION,
        f"quant_method {question.quant_method}": question.quantized and not question.bitsandbytes,
        f"optimizer {question.optimizer}": question.setting("optimizer") in _NOT_RUN,
        f"compute_dtype {question.compute_dtype}": (
            question.setting("compute_dtype") not in _DTYPES
        ),
        f"method {question.method}": question.method in _UNLIKE,
        _QUANTIZED_EXPERTS: (
            question.quantized
            and bool(question.model.n_experts)
            and question.quantized_experts is not False
        ),
        f"sharding {question.sharding}": (
            question.n_gpus > 1 and question.sharding not in (None, "none", "ddp")
        ),
    }
    return [what for what, holds in found.items() if holds]


_QUANTIZED_EXPERTS = "a mixture with quantized experts"
#: What can be stated instead: transformers 5 fuses experts, and bitsandbytes leaves them.
_INSTEAD = {_QUANTIZED_EXPERTS: "--no-quantized-experts"}


#: Methods that PEFT does not have under these names.
_UNLIKE = frozenset({"lorafa"})
