"""Whether a measured run asked for no more than a question does, setting by setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.predict.formula.activations import LOGIT_BYTES
from registry.predict.formula.optimizers import state_bytes
from registry.predict.formula.peak_memory import memory_terms, total
from registry.predict.formula.state import weight_bytes
from registry.predict.sharding import SHARDS_GRADIENTS, SHARDS_OPTIMIZER, SHARDS_WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def _sizes(question: Question) -> tuple[int, int]:
    return question.seq_len, question.micro_batch_size


def _modes(question: Question) -> tuple[float, ...]:
    """Return what a question's settings cost, each a number that is smaller where it is leaner."""
    checkpointed = bool(question.setting("gradient_checkpointing"))
    return (
        weight_bytes(question),
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
    return (
        run.model.shape == asked.model.shape
        and all(is_alike(name, run, asked) for name in SAME)
        and all(mine <= other for mine, other in zip(_sizes(run), _sizes(asked), strict=True))
        and all(mine <= other for mine, other in zip(_modes(run), _modes(asked), strict=True))
        and (asked.stack is None or run.stack == asked.stack)
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

    What `proves_too_much` asks of an OOM is asked of it the other way round.
    """
    run = ran.question
    measured = ran.outcome == "ok" and ran.evidence == "measured"
    return measured and _decides(asked, run) and _has_less(run, asked)


def _decides(lean: Question, heavy: Question) -> bool:
    """Return whether one is no heavier than the other in all that matters, and all is stated."""
    return (
        lean.n_gpus >= heavy.n_gpus
        and None not in (lean.gradient_checkpointing, heavy.gradient_checkpointing)
        and all((getattr(lean, name) is None) == (getattr(heavy, name) is None) for name in _STATED)
        and lean.targeted == heavy.targeted
        and (lean.lora_rank or 0) <= (heavy.lora_rank or 0)
        and is_no_heavier(lean, heavy.changed(stack=None))
    )


def _has_less(one: Question, other: Question) -> bool:
    """Return whether a question's card is known and has no more memory than another's."""
    cards = (one.gpu, other.gpu)
    return None not in cards and cards[0].memory_bytes <= cards[1].memory_bytes  # type: ignore[union-attr]


Distance = Callable[["Question", "Question"], float]


@dataclass(frozen=True)
class Floor:
    """A measured run that asked for no more than a question does."""

    run: ObservedRun
    #: The settings that it is taken to have had.
    ran: Question
    #: What it says that the question takes at least.
    bytes: float


def find_floor(
    asked: Question, measured: Iterable[ObservedRun], distance: Distance
) -> Floor | None:
    """Return the run that bounds a question from below, None where none was measured.

    ``measured`` are runs with a peak. Of those that asked for no more, those of the source whose
    settings are nearest count, and the largest of their peaks bounds: more tokens never need less
    than fewer did. A run that leaves open what the question states is none of them: it may have
    been the heavier one.
    """
    return _highest(
        asked,
        [
            (one.question, one)
            for one in measured
            if is_no_heavier(one.question, asked)
            and (asked.stack is not None or _states_as_much(one.question, asked))
        ],
        distance,
    )


def find_likely_floor(
    likeliest: Question, measured: Iterable[ObservedRun], distance: Distance
) -> Floor | None:
    """Return the run that bounds what an open question likeliest means, None where none does.

    What a run leaves open is taken as its peak makes it likeliest.
    """
    alike = [(one.learned, one) for one in measured if is_no_heavier(one.learned, likeliest)]
    return _highest(likeliest, alike, distance)


def _highest(
    asked: Question, runs: Iterable[tuple[Question, ObservedRun]], distance: Distance
) -> Floor | None:
    """Return the run that bounds most of those whose settings are nearest; sizes aside."""
    apart = [
        (distance(asked.changed(seq_len=q.seq_len, micro_batch_size=q.micro_batch_size), q), q, one)
        for q, one in runs
    ]
    nearest = min((far for far, _, _ in apart), default=0.0)
    floors = [Floor(one, q, floor_of(asked, one, q)) for far, q, one in apart if far <= nearest]
    return max(floors, key=lambda floor: floor.bytes, default=None)


def _states_as_much(run: Question, asked: Question) -> bool:
    names = (*_STATED, "gradient_checkpointing")
    return all(getattr(asked, name) is None or getattr(run, name) is not None for name in names)


def floor_of(asked: Question, run: ObservedRun, ran: Question) -> float:
    """Return the bytes that a run says a question takes at least: its peak.

    Less what larger adapters than those asked for took of it. ``ran`` are its settings.
    """
    adapters = {
        name: getattr(asked, name)
        for name in ("lora_rank", "lora_target_modules", "trainable_params")
    }
    larger = total(memory_terms(ran)) - total(memory_terms(ran.changed(**adapters)))
    return (run.peak_bytes or 0.0) - max(larger, 0.0)
