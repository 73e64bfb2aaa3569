"""Whether a measured run asked for no more than a question does, setting by setting."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import TYPE_CHECKING, Any

from registry.predict.answer.nearest import between, settings_of
from registry.predict.calibration.fit_rows import measured_terms
from registry.predict.calibration.unstated import OFF
from registry.predict.formula.activations import LOGIT_BYTES
from registry.predict.formula.optimizers import state_bytes
from registry.predict.formula.peak_memory import memory_terms, total
from registry.predict.formula.state import scale_bytes, weight_bytes
from registry.predict.sharding import SHARDS_GRADIENTS, SHARDS_OPTIMIZER, SHARDS_WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.question import Question

#: Settings that have to be the same, since neither of two values is the leaner one.
SAME = (
    "method", "quant_bits", "quant_method", "quant_type", "trains_embeddings", "offload",
    "optimizer_in_backward", "virtual_tokens", "tensor_parallel", "pipeline_parallel",
)  # fmt: skip
#: Settings that a verdict by an OOM needs on both sides or on none.
_STATED = (
    "lora_rank",
    "lora_target_modules",
    "optimizer",
    "compute_dtype",
    "param_dtype",
    "attention",
    "loss_kernel",
    "sharding",
)


def _modes(question: Question) -> tuple[float, ...]:
    """Return what a question's settings cost, each a number that is smaller where it is leaner."""
    checkpointed = bool(question.setting("gradient_checkpointing"))
    return (
        weight_bytes(question),
        scale_bytes(question),
        state_bytes(question, weight_bytes(question)),
        not checkpointed,
        question.setting("attention") == "eager",
        LOGIT_BYTES[question.setting("loss_kernel")],
        *(1 / question.shards(kinds) for kinds in _SPREAD),
    )


_SPREAD = (SHARDS_WEIGHTS, SHARDS_GRADIENTS, SHARDS_OPTIMIZER)


def is_no_heavier(run: Question, asked: Question) -> bool:
    """Return whether a run asks for no more than a question, its defaults filled in.

    Adapters aside: their difference is the formula's (`find_floor`).
    """
    return _is_no_larger(run, asked) and _has_no_more(run, asked)


def _is_no_larger(one: Question, other: Question) -> bool:
    """Return whether no sequence of one is longer than the other's longest, nor are there more."""
    return one.longest <= other.longest and one.micro_batch_size <= other.micro_batch_size


def _has_no_more(one: Question, other: Question) -> bool:
    """Return whether one asks for no more than another, whatever their sizes."""
    return (
        one.model.shape == other.model.shape
        and all(is_alike(name, one, other) for name in SAME)
        and all(mine <= more for mine, more in zip(_modes(one), _modes(other), strict=True))
    )


def is_alike(name: str, run: Question, asked: Question) -> bool:
    """Return whether two questions have the same of one of `SAME`."""
    return bool(_value(run, name) == _value(asked, name))


def _value(question: Question, name: str) -> Any:
    value = getattr(question, name)
    if name == "quant_method" and question.quantized:
        return value or "bitsandbytes"
    return None if value in ("none", False, 1) or name == "quant_type" else value


def proves_too_much(asked: Question, failed: ObservedRun) -> bool:
    """Return whether a run that failed decides: it asked for no more, on a card that has no less.

    Everything that matters is the same or leaner, and stated: checkpointing on both sides, the
    others on both or on neither.
    """
    run = failed.question
    return failed.evidence == "measured" and _decides(run, asked) and _has_less(asked, run)


def proves_enough(asked: Question, ran: ObservedRun) -> bool:
    """Return whether a run that ended well decides: it asked for no less, on a card with no more.

    What `proves_too_much` asks of an OOM is asked of it the other way round. Where the longest
    sample is known of the question, it must be of the run.
    """
    run = ran.question
    measured = ran.outcome == "ok" and ran.evidence == "measured"
    tells = run.says_how_long or not asked.says_how_long
    return measured and tells and _decides(asked, run) and _has_less(run, asked)


def _decides(lean: Question, heavy: Question) -> bool:
    """Return whether one is no heavier than the other in all that matters, and all is stated."""
    return (
        lean.n_gpus >= heavy.n_gpus
        and None not in (lean.gradient_checkpointing, heavy.gradient_checkpointing)
        and all((getattr(lean, name) is None) == (getattr(heavy, name) is None) for name in _STATED)
        and lean.targeted == heavy.targeted
        and (lean.lora_rank or 0) <= (heavy.lora_rank or 0)
        and is_no_heavier(lean, heavy)
    )


def _has_less(one: Question, other: Question) -> bool:
    """Return whether a question's card is known and has no more memory than another's."""
    cards = (one.gpu, other.gpu)
    return None not in cards and cards[0].memory_bytes <= cards[1].memory_bytes  # type: ignore[union-attr]


@dataclass(frozen=True)
class Bound:
    """A measured run that asked for no more than a question does, or for no less."""

    run: ObservedRun
    #: What it says that the question takes at least, or at most.
    bytes: float


Run = tuple["Question", "ObservedRun"]


def list_as_stated(asked: Question, measured: Iterable[ObservedRun]) -> list[Run]:
    """Return runs that may bound a question that leaves nothing open, as their records state them.

    They are on the stack that is named. Without one, they state as much as the question: a run that
    leaves open what is asked for may have been the heavier one.
    """
    return [
        (one.question, one)
        for one in measured
        if (asked.stack is not None and one.question.stack == asked.stack)
        or (asked.stack is None and _states_as_much(one.question, asked))
    ]


def list_as_learned(asked: Question, measured: Iterable[ObservedRun]) -> list[Run]:
    """Return runs that may bound a question, with what they leave open as their peaks say.

    They are on the stack that is named, if one is.
    """
    return [
        (one.learned, one)
        for one in measured
        if asked.stack is None or one.question.stack == asked.stack
    ]


def agrees_with_peak(run: ObservedRun) -> bool:
    """Return whether a run took about what its settings call for, as they are taken to be, or more.

    Else something that it does not state was leaner, such as its loss, and it bounds nothing from
    above that is not asked of its stack.
    """
    return run.formula_bytes <= _peak(run) * exp(OFF)


def find_floor(asked: Question, runs: Sequence[Run], above: float = 0.0) -> Bound | None:
    """Return the run that bounds a question from below, None where none took more than ``above``.

    ``runs`` have a peak. Of those that had no more than is asked for, whatever their sizes, those
    whose settings are nearest count, and the largest peak of no more tokens bounds: more tokens
    never need less than fewer did.
    """

    def bounds(run: Question, seen: ObservedRun) -> bool:
        # a length that its peak makes likely may have been exceeded: the one it states was not
        return _is_no_larger(seen.question, asked) and _has_no_more(run, asked)

    if not any(_peak(one) > above and bounds(q, one) for q, one in runs):
        return None
    nearest = _nearest(asked, [(q, one) for q, one in runs if _has_no_more(q, asked)])
    floors = [Bound(one, floor_of(asked, one, q)) for q, one in nearest if bounds(q, one)]
    return max(floors, key=lambda floor: floor.bytes, default=None)


def find_ceiling(asked: Question, runs: Sequence[Run], below: float) -> Bound | None:
    """Return the run that bounds a question from above, None where none took less than ``below``.

    As `find_floor`, the other way round, of runs whose samples were as long as they say.
    """

    def bounds(run: Question) -> bool:
        return run.says_how_long and _is_no_larger(asked, run) and _has_no_more(asked, run)

    if not any(_peak(one) < below and bounds(q) for q, one in runs):
        return None
    nearest = _nearest(asked, [(q, one) for q, one in runs if _has_no_more(asked, q)])
    ceilings = [Bound(one, ceiling_of(asked, one, q)) for q, one in nearest if bounds(q)]
    return min(ceilings, key=lambda ceiling: ceiling.bytes, default=None)


def _nearest(asked: Question, runs: Sequence[Run]) -> list[Run]:
    """Return those of some runs whose settings are nearest; sizes aside."""
    mine = settings_of(asked)
    apart = [between(mine, settings_of(q)) for q, _ in runs]
    nearest = min(apart, default=0.0)
    return [run for run, far in zip(runs, apart, strict=True) if far <= nearest]


def _peak(run: ObservedRun) -> float:
    return run.peak_bytes or 0.0


def _states_as_much(run: Question, asked: Question) -> bool:
    names = (*_STATED, "gradient_checkpointing")
    return all(getattr(asked, name) is None or getattr(run, name) is not None for name in names)


def floor_of(asked: Question, run: ObservedRun, ran: Question) -> float:
    """Return the bytes that a run says a question takes at least: its peak.

    Less what larger adapters than those asked for took of it. ``ran`` are its settings.
    """
    return _peak(run) - max(_more_in_adapters(ran, asked), 0.0)


def ceiling_of(asked: Question, run: ObservedRun, ran: Question) -> float:
    """Return the bytes that a run says a question takes at most: its peak.

    With what PyTorch does not count, where it counted, and what larger adapters than the run's
    take. ``ran`` are its settings.
    """
    uncounted = total(memory_terms(ran)) - total(measured_terms(ran, run.memory_kind))
    return _peak(run) + uncounted + max(-_more_in_adapters(ran, asked), 0.0)


def _more_in_adapters(ran: Question, asked: Question) -> float:
    """Return the bytes that a run's adapters take more than those asked for."""
    adapters = {
        name: getattr(asked, name)
        for name in ("lora_rank", "lora_target_modules", "trainable_params")
    }
    return total(memory_terms(ran)) - total(memory_terms(ran.changed(**adapters)))
