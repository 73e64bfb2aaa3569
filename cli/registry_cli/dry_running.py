"""A question as a job of the dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry.errors import QuestionError
from registry.measure.running.model_sources import resolve_model
from registry.measure.running.plan_model import parse_settings
from registry.predict.dryrun import run_in_child
from registry_cli import console

if TYPE_CHECKING:
    from registry.catalogue import Catalogue
    from registry.measure.trial_settings import Settings
    from registry.predict.question import Question

_QUANTIZATION = {None: "none", 4: "nf4", 8: "int8"}
_ATTENTION = {"flash": "flash2", "flash3": "flash2", "not_flash": "sdpa"}


def reserved_bytes(question: Question, asked: dict[str, Any], catalogue: Catalogue) -> int:
    """Return what the allocator of one device reserves at the peak, by a dry run.

    Raises DryRunError where torch is missing or the configuration cannot be executed.
    """
    if asked["params"] is not None:
        raise QuestionError("a dry run builds the model: expected --model or --config")
    if question.quant_bits not in _QUANTIZATION:
        raise QuestionError(f"a dry run of {question.quant_bits}-bit weights: expected 4 or 8 bits")
    name = str(asked["config"] or asked["model"])
    source = resolve_model(name, {}, catalogue, weights="random")
    found = run_in_child(_settings(question, name), source)
    for note in found.get("notes", ()):
        console.hint(f"dry run: {note}")
    return int(found["peak_reserved_bytes"])


def _settings(question: Question, name: str) -> Settings:
    """Return the job that a question asks about, checked as a plan's."""
    attention = question.setting("attention")
    dtype = question.setting("compute_dtype")
    stated = {
        "model": name,
        "method": question.method,
        "quantization": _QUANTIZATION[question.quant_bits],
        "seq_len": question.seq_len,
        "micro_batch_size": question.micro_batch_size,
        "gradient_checkpointing": question.setting("gradient_checkpointing"),
        "attention": _ATTENTION.get(attention, attention),
        "dtype": dtype,
        "lora_rank": question.setting("lora_rank"),
        "lora_target_modules": question.lora_target_modules or ("q_proj", "v_proj"),
        "trains_embeddings": question.trains_embeddings,
        "n_gpus": question.n_gpus,
        "sharding": question.sharding or "ddp",
        "device": "cuda",
    }
    return parse_settings(stated, "dry run")
