"""Peak memory of one device by formula, term by term: pure arithmetic, no torch.

`memory_terms` returns the summands of the peak. Each has the bytes that its formula gives, the
part of the answer it belongs to, and how far the formula may be off (a relative deviation):
calibration scales the terms within that, on what was measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.predict.formula.activations import (
    activations,
    fragmentation,
    held_at_the_end,
    logits,
)
from registry.predict.formula.parallel import Stage, end_stages, kept_of
from registry.predict.formula.state import gradients, runtime, step_temporaries, trained, weights
from registry.predict.formula.term import Term, total

if TYPE_CHECKING:
    from registry.predict.question import Question

__all__ = ["GIB", "PARTS", "Term", "memory_terms", "total"]

GIB = 2**30
#: Parts of an answer, in the order in which they are shown.
PARTS = (
    "weights", "gradients", "optimizer", "adapters", "activations", "logits", "context",
    "fragmentation",
)  # fmt: skip


def memory_terms(question: Question) -> list[Term]:
    """Return the summands of the peak of one device, in bytes: the largest of its `moments`."""
    return max(moments(question), key=total)


def moments(question: Question) -> list[list[Term]]:
    """Return the summands of what one device holds, in bytes, at each moment that may be the peak.

    Beside what stays (weights, optimizer state, adapters, context; gradients too where they are
    accumulated), these are the start of the backward pass (activations and logits alive), its end
    under FSDP (`held_at_the_end`), and the optimizer's step (gradients and its temporaries alive).
    Of a split model, each of the devices that may be the fullest has them.
    """
    stages = end_stages(question) if question.is_split else (Stage(question),)
    return [terms for stage in stages for terms in _moments_of(stage)]


def _moments_of(stage: Stage) -> list[list[Term]]:
    question = stage.question
    stay = [*weights(question), *trained(question), *runtime(question)]
    made = gradients(question)
    made_logits = logits(question) if stage.has_logits else []
    backward = [*kept_of(stage, activations(question)), *made_logits, *fragmentation(question)]
    end = held_at_the_end(question)
    step = step_temporaries(question)
    if question.keeps_gradients:
        stay += made
    else:
        step = [*made, *step]
    held = [backward, end, step] if end else [backward, step]
    return [[term for term in (*stay, *alive) if term.value] for alive in held]
