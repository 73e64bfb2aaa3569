"""Peak memory of one device by formula, term by term: pure arithmetic, no torch.

`memory_terms` returns the summands of the peak. Each has the bytes that its formula gives, the
part of the answer it belongs to, and how far the formula may be off (a relative deviation):
calibration scales the terms within that, on what was measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.predict.formula.activations import activations, fragmentation, logits
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
    """Return the summands of the peak of one device, in bytes.

    The peak is what stays (weights, optimizer state, adapters, context; gradients too where they
    are accumulated) plus the larger of two moments: the start of the backward pass (activations and
    logits alive) and the optimizer's step (gradients and its temporaries alive). Of a split model,
    it is the fullest device's.
    """
    stages = end_stages(question) if question.is_split else (Stage(question),)
    return max((_terms(stage) for stage in stages), key=total)


def _terms(stage: Stage) -> list[Term]:
    question = stage.question
    stay = [*weights(question), *trained(question), *runtime(question)]
    made = gradients(question)
    made_logits = logits(question) if stage.has_logits else []
    backward = [*kept_of(stage, activations(question)), *made_logits, *fragmentation(question)]
    step = step_temporaries(question)
    if question.keeps_gradients:
        stay += made
    else:
        step = [*made, *step]
    moment = max((backward, step), key=total)
    return [term for term in (*stay, *moment) if term.value]
