"""Measured runs that a question may mean: they had all that it states, so its interval holds them.

What a question leaves open is weighed by how often the records have it (`unstated`). A run that
somebody measured with a rare setting is possible all the same: one that was no smaller took no less
than what is asked about would with that setting, one that was no larger took no more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from registry.predict.answer.leaner import SAME, is_alike
from registry.predict.calibration.unstated import SAME_WIDTH, meaning_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from registry.predict.answer.prediction import Prediction
    from registry.predict.architecture import Accelerator
    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.question import Question

#: Settings that a run has to have as the question states them; the method is among `SAME`.
_STATED = (
    "optimizer", "compute_dtype", "param_dtype", "attention", "loss_kernel",
    "gradient_checkpointing", "optimizer_in_backward", "lora_rank", "lora_target_modules",
    "sharding", "stack", "quant_method", "double_quant",
)  # fmt: skip
#: Settings that it has to have as the question has them, stated or not.
_ALIKE = tuple(name for name in SAME if name not in _STATED)
#: By how much the memory of cards of one kind differs at most: in what drivers report.
_AS_LARGE = 0.03


@dataclass(frozen=True)
class Meant:
    """Runs that a question may mean, of no fewer and of no more tokens."""

    no_smaller: tuple[ObservedRun, ...] = ()
    no_larger: tuple[ObservedRun, ...] = ()


def find_meant(asked: Question, measured: Iterable[ObservedRun]) -> Meant:
    """Return the runs that a question may mean; ``measured`` are of models of its shape."""
    no_smaller, no_larger = [], []
    for one in measured:
        run = one.learned
        is_smaller = run.seq_len < asked.seq_len or run.micro_batch_size < asked.micro_batch_size
        is_larger = run.seq_len > asked.seq_len or run.micro_batch_size > asked.micro_batch_size
        if (is_smaller and is_larger) or not _has_all(run, asked):
            continue
        is_open = not asked.says_how_long
        if not is_smaller and (is_open or run.longest >= asked.longest):
            no_smaller.append(one)
        if not is_larger and (is_open or run.longest <= asked.longest):
            no_larger.append(one)
    return Meant(tuple(no_smaller), tuple(no_larger))


def holding(found: Prediction, meant: Meant, card: Accelerator | None) -> Prediction:
    """Return the prediction with its interval as wide as the runs that the question may mean.

    Its lower end is no higher than what a run of no fewer tokens took. Its upper end is no lower
    than what one of no more tokens took on a card like ``card``.
    """
    figure = found.figure
    least = min(meant.no_smaller, key=_peak, default=None)
    beside = [one for one in meant.no_larger if are_one_kind(one.question.gpu, card)]
    most = max(beside, key=_peak, default=None)
    low = figure.low if least is None else min(figure.low, _peak(least))
    high = figure.high if most is None else max(figure.high, _peak(most))
    if (low, high) == (figure.low, figure.high):
        return found
    return replace(
        found,
        figure=type(figure)(figure.value, low, high),
        least=least if low < figure.low else found.least,
        most=most if high > figure.high else found.most,
    )


def _peak(run: ObservedRun) -> float:
    return run.peak_bytes or 0.0


def are_one_kind(one: Accelerator | None, other: Accelerator | None) -> bool:
    """Return whether two cards are known and one, but for its form: an A100 40GB, PCIe or SXM."""
    if one is None or other is None:
        return False
    apart = abs(one.memory_bytes / other.memory_bytes - 1)
    return apart <= _AS_LARGE and one.peak_flops(None) == other.peak_flops(None)


def _has_all(run: Question, asked: Question) -> bool:
    return (
        run.n_gpus == asked.n_gpus
        and all(is_alike(name, run, asked) for name in _ALIKE)
        and all(_is_as_stated(name, run, asked) for name in _STATED)
    )


def _is_as_stated(name: str, run: Question, asked: Question) -> bool:
    stated = getattr(asked, name)
    return stated is None or _spell(name, run) == _spell(name, asked)


def _spell(name: str, question: Question) -> Any:
    """Return what a question states of a setting, however it is spelled; None for nothing."""
    value = getattr(question, name)
    if value is None:
        return None
    match name:
        case "lora_target_modules":
            return question.targeted
        case "attention" | "optimizer":
            return meaning_of(question, name)
        case "param_dtype" | "compute_dtype":
            return SAME_WIDTH.get(value, value)
        case "sharding":
            return None if value == "none" else value
    return value
