"""A dry run as part of an answer: by what it says the formula is off, and its own interval."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from registry.predict.answer.prediction import predict_unbounded
from registry.predict.calibration.executed import Executed
from registry.predict.calibration.mixture import Interval
from registry.predict.calibration.unstated import open_settings
from registry.predict.dryrun.beside import FRAMEWORK, collect_trials, reach_of
from registry.predict.formula.peak_memory import memory_terms

if TYPE_CHECKING:
    from registry.predict.calibration.intervals import Calibration
    from registry.predict.formula.term import Term
    from registry.predict.question import Question

#: Parts that a dry run does not see: they are the formula's.
_UNSEEN = ("context", "fragmentation")
#: What a job of the Trainer has where nothing is said, and samples as long as any: the dry run has
#: the same.
_OF_THE_TRAINER = frozenset({"attention", "loss_kernel", "longest_sample"})
#: Options that state what a question may leave open.
_OPTIONS = {
    "gradient_checkpointing": "--checkpointing or --no-checkpointing",
    "optimizer": "--optimizer",
    "param_dtype": "--param-dtype",
    "adapters": "--lora-rank and --targets",
    "grad_accum_steps": "--accum",
    "double_quant": "--double-quant or --no-double-quant",
    "quantized_experts": "--quantized-experts or --no-quantized-experts",
}
#: Standard deviations to each end of a 90 % interval of a normal figure.
_GAUSSIAN = 1.645


def likeliest(question: Question, calibration: Calibration) -> Question:
    """Return the likeliest of what a question may mean: what a dry run of it executes."""
    meanings = predict_unbounded(question, calibration).meanings
    if meanings is None:
        return question
    return meanings.plausible[0].question.changed(stack=question.stack)


def correct(
    question: Question, meant: Question, calibration: Calibration, peak_reserved_bytes: int
) -> Calibration:
    """Return the calibration, corrected by a dry run of what a question likeliest means.

    The peak of one device is what the dry run's allocator reserved and what it does not see. A
    question for the Trainer that leaves nothing open has the interval of dry runs. What else it may
    mean, and its variations, are taken to be off by the same factor, with the formula's interval:
    that is as wide as other software differs.
    """
    unseen = [term for term in memory_terms(meant) if term.part in _UNSEEN]
    peak = peak_reserved_bytes + sum(term.value for term in unseen)
    factor = peak / predict_unbounded(meant, calibration).figure.value
    trials = collect_trials(calibration.observations)
    missing = _check_trainer(question, calibration)
    if missing is None and not trials:
        missing = "no recorded trial has a dry run to compare with"
    if missing is not None:
        reason = f"this is the wide interval, which covers other software: {missing}"
        return replace(calibration, executed=Executed(factor, question, reason))
    reason = (
        "this is the dry run's own interval, for transformers' Trainer alone: the errors of "
        f"{len(trials)} dry runs against a card, and the uncertainty of the CUDA context"
    )
    own = _interval(peak_reserved_bytes, unseen, reach_of(trials))
    return replace(calibration, executed=Executed(factor, question, reason, own))


def _interval(reserved: float, unseen: list[Term], reach: float) -> Interval:
    """Return the peak with its interval: both doubts are independent."""
    value = reserved + sum(term.value for term in unseen)
    doubt = _GAUSSIAN * math.hypot(*(term.doubt * term.value for term in unseen))
    below = math.hypot(reserved * (1 - math.exp(-reach)), doubt)
    above = math.hypot(reserved * (math.exp(reach) - 1), doubt)
    return Interval(value, value - below, value + above)


def _check_trainer(question: Question, calibration: Calibration) -> str | None:
    """Return why a question is not for the job that dry runs were compared of; None where it is."""
    if question.stack is None:
        return f"no software is stated; give --stack {FRAMEWORK} for the Trainer"
    seen = (one for one in calibration.observations if one.source_id == question.stack)
    if {one.framework for one in seen} != {FRAMEWORK}:
        return f"{question.stack} is not the Trainer; give --stack {FRAMEWORK} for it"
    left = [name for name in open_settings(question) if name not in _OF_THE_TRAINER]
    if (question.full or question.trains_embeddings) and question.grad_accum_steps is None:
        left.append("grad_accum_steps")
    if left:
        return f"for the dry run's own interval, state {', '.join(_OPTIONS[name] for name in left)}"
    return _check_compared(question)


def _check_compared(question: Question) -> str | None:
    """Return what of a question no trial beside a dry run has, or where dry runs were far off."""
    found = {
        "a dry run of eager attention was 24 % below a card": question.attention == "eager",
        "dry runs of several devices were not compared with cards": question.n_gpus > 1,
        "dry runs of mixtures of experts were not compared with cards": bool(
            question.model.n_experts
        ),
    }
    return next((what for what, holds in found.items() if holds), None)
