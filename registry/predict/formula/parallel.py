"""Models that are split within layers (tensor parallel) or by layers (pipeline parallel).

Source: Narayanan et al. 2021 (Megatron-LM), sections 2.2 and 2.3; Korthikanti et al. 2022, sections
4.2 and 4.3, without sequence parallelism. A device of stage s holds what a smaller model needs: so
many of the layers, and of each a share of the heads, of the MLP and of the vocabulary; what runs
between them (norms, residuals, checkpoints) is on each device of a tensor-parallel group. Stages
work on several micro-batches at a time (1F1B): the first keeps as many as there are stages.

Checked on 15 fully stated runs of `flagperf-nvidia` (Megatron-DeepSpeed, ZeRO-1 and 2, tensor
parallel 2, pipeline parallel 1 and 4): `tests/unit/predict/test_parallel.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from registry.errors import QuestionError

if TYPE_CHECKING:
    from registry.predict.architecture import Architecture
    from registry.predict.formula.term import Term
    from registry.predict.question import Question

#: Shardings over the data-parallel ranks that Megatron-LM and Megatron-DeepSpeed combine with it.
_COMBINED = (None, "none", "ddp", "zero1", "zero2")
#: Terms that are there for each micro-batch that a stage keeps, checkpointed or not.
_KEPT = {True: ("checkpoints",), False: ("layer_activations", "attention_matrix")}


def check_split(question: Question) -> None:
    """Raise QuestionError for a split model whose memory no measured run checks."""
    if not question.is_split:
        return
    tensor, pipeline = question.tensor_parallel or 1, question.pipeline_parallel or 1
    name = "tensor_parallel" if tensor > 1 else "pipeline_parallel"
    size = tensor if tensor > 1 else pipeline
    problems = {
        f"method {question.method}": not question.full,
        "a mixture of experts": bool(question.model.n_experts),
        f"sharding {question.sharding}": question.sharding not in _COMBINED,
        f"offload {question.offload}": question.offload not in (None, "none"),
    }
    for what, holds in problems.items():
        if holds:
            raise QuestionError(
                f"{name} {size} with {what}: no measured run verifies its memory, so it is not "
                "computed; expected full training of a dense model with ZeRO-1 or 2 or DDP; ask "
                f"without --{name.replace('_', '-')}, with --sharding zero3 or fsdp"
            )
    if question.n_gpus % (tensor * pipeline):
        raise QuestionError(
            f"tensor_parallel {tensor} x pipeline_parallel {pipeline}: found {question.n_gpus} "
            f"devices; expected a multiple of {tensor * pipeline}; ask with --gpus "
            f"{tensor * pipeline}"
        )
    if pipeline > question.model.n_layers or tensor > question.model.n_heads:
        raise QuestionError(
            f"tensor_parallel {tensor} x pipeline_parallel {pipeline}: expected no more than "
            f"{question.model.n_heads} (heads) x {question.model.n_layers} (layers)"
        )


@dataclass(frozen=True)
class Stage:
    """What a device of one stage holds: a question about its share of the model."""

    question: Question
    #: Micro-batches whose activations it keeps at a time, and whether it computes the logits.
    micro_batches: int = 1
    has_logits: bool = True


def end_stages(question: Question) -> tuple[Stage, ...]:
    """Return the first and the last stage, between which all others are; one without a pipeline."""
    share, stages = _of_one_stage(question), question.pipeline_parallel or 1
    last = Stage(share)
    in_flight = min(stages, question.grad_accum_steps or stages)
    return (last,) if stages == 1 else (Stage(share, in_flight, has_logits=False), last)


def kept_of(stage: Stage, activations: list[Term]) -> list[Term]:
    """Return the activations of all micro-batches that a stage keeps."""
    kept = _KEPT[bool(stage.question.setting("gradient_checkpointing"))]
    return [
        term._replace(value=term.value * stage.micro_batches) if term.name in kept else term
        for term in activations
    ]


def _of_one_stage(question: Question) -> Question:
    """Return a question about a model as small as what one device holds.

    Megatron keeps 18 bytes a parameter (16-bit weights; gradients, masters and moments in fp32)
    whatever the weights are stated to be, in buffers of its own. Its optimizer updates in place
    (fused); so does DeepSpeed's.
    """
    tensor, stages = question.tensor_parallel or 1, question.pipeline_parallel or 1
    plain = question.optimizer in (None, "adam", "adamw", "adamw_torch", "adamw_hf")
    return question.changed(
        model=_share(question.model, tensor, stages),
        n_gpus=question.n_gpus // (tensor * stages) if question.deepspeed else 1,
        n_nodes=None,
        tensor_parallel=None,
        pipeline_parallel=None,
        param_dtype=question.param_dtype if question.deepspeed else "fp32",
        optimizer="adamw_apex_fused" if plain else question.optimizer,
    )


def _share(model: Architecture, tensor: int, stages: int) -> Architecture:
    """Return a device's share of a model: an end stage holds one of the two embeddings."""
    layers = math.ceil(model.n_layers / stages)
    tied = model.tied_embeddings or stages > 1
    embeddings = (1 if tied else 2) * model.vocab_size * model.hidden_size
    by_layer = (model.linear_params + model.layer_embedding_params) * layers / model.n_layers
    held = (by_layer + embeddings) / tensor
    return replace(
        model,
        n_params=round(held),
        layer_embedding_params=round(
            model.layer_embedding_params * layers / model.n_layers / tensor
        ),
        n_layers=layers,
        n_heads=math.ceil(model.n_heads / tensor),
        n_kv_heads=math.ceil(model.n_kv_heads / tensor),
        intermediate_size=math.ceil(model.intermediate_size / tensor),
        vocab_size=math.ceil(model.vocab_size / tensor),
        tied_embeddings=tied,
    )
