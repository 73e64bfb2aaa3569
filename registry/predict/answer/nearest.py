"""The measured runs that are nearest to a question, and what differs, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.predict.calibration.fit_rows import measured_terms
from registry.predict.formula.peak_memory import memory_terms, total

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.question import Question


@dataclass(frozen=True)
class Neighbour:
    """A measured run, how far it is from a question, and the peak it suggests."""

    observation: ObservedRun
    distance: float
    #: What differs from the question, in words: ``seq_len 1024, not 2048``.
    differences: tuple[str, ...]
    #: Its peak plus the formula's difference, in bytes; None for a run out of memory.
    peak_bytes: float | None


@dataclass(frozen=True)
class _Aspect:
    """One setting that runs differ in."""

    name: str
    of: Callable[[Question], Any]
    #: Distance of two values that differ; per doubling where the values are numbers.
    weight: float
    doubling: bool = False
    #: What is told of it, where that is not what is compared.
    told: Callable[[Question], Any] | None = None


def _setting(name: str) -> Callable[[Question], Any]:
    return lambda question: question.setting(name)


def _attention(question: Question) -> str:
    """Return what attention needs: eager keeps its matrix, all others do not."""
    return "eager" if question.setting("attention") == "eager" else "without its matrix"


_ASPECTS = (
    _Aspect("model", lambda q: q.model.model_id, 0.1),
    _Aspect("parameters", lambda q: q.model.n_params, 2.0, doubling=True),
    _Aspect("method", lambda q: q.label, 4.0),
    _Aspect("quant_method", lambda q: q.quant_method, 0.5),
    _Aspect("double_quant", lambda q: q.double_quant if q.has_constants else None, 0.1),
    _Aspect("seq_len", lambda q: q.seq_len, 0.5, doubling=True),
    _Aspect("longest_sample", lambda q: q.longest if q.says_how_long else None, 0.5, doubling=True),
    _Aspect("micro_batch_size", lambda q: q.micro_batch_size, 0.5, doubling=True),
    _Aspect("n_gpus", lambda q: q.n_gpus, 0.7, doubling=True),
    _Aspect(
        "sharding",
        lambda q: q.sharding if q.n_gpus > 1 else None,
        0.7,
        told=lambda q: q.sharding if q.n_gpus > 1 else "none",
    ),
    _Aspect(
        "offload",
        lambda q: None if q.offload == "none" else q.offload,
        3.0,
        told=lambda q: q.offload,
    ),
    _Aspect("gradient_checkpointing", _setting("gradient_checkpointing"), 2.0),
    _Aspect("attention", _attention, 1.0),
    _Aspect("lora_rank", lambda q: q.lora_rank, 0.1, doubling=True),
    _Aspect("lora_target_modules", lambda q: q.targeted, 0.3, told=lambda q: q.lora_target_modules),
    _Aspect("optimizer", lambda q: q.optimizer, 0.2),
    _Aspect("param_dtype", lambda q: q.param_dtype, 0.3),
    _Aspect("loss_kernel", _setting("loss_kernel"), 1.0),
    _Aspect("gpu", lambda q: q.gpu.gpu_id if q.gpu else None, 0.2),
    _Aspect("stack", lambda q: q.stack, 0.5),
)


def collect_nearest(
    question: Question, observations: Iterable[ObservedRun], count: int = 3
) -> list[Neighbour]:
    """Return the nearest runs with a measured peak, the nearest first."""
    return _nearest(question, (one for one in observations if one.measured_memory), count)


def find_nearest_oom(question: Question, observations: Iterable[ObservedRun]) -> Neighbour | None:
    """Return the nearest run that ran out of memory, or None where none is comparable.

    Comparable is the same model and method, so that they differ in sizes only.
    """
    comparable = (
        one
        for one in observations
        if one.outcome == "oom"
        and one.question.model.shape == question.model.shape
        and one.question.label == question.label
    )
    return next(iter(_nearest(question, comparable, 1)), None)


def _nearest(
    question: Question, observations: Iterable[ObservedRun], count: int
) -> list[Neighbour]:
    asked = _aspects_asked(question)
    ranked = sorted(
        (
            (between(asked, aspects_of(one.question)), one.observation_id, one)
            for one in observations
        ),
        key=lambda entry: entry[:2],
    )
    return [_neighbour(question, one, apart) for apart, _, one in ranked[:count]]


def _neighbour(question: Question, seen: ObservedRun, apart: float) -> Neighbour:
    differences = describe_differences(question, seen.question, seen.known_of_source)
    return Neighbour(seen, apart, differences, transfer(question, seen))


def aspects_of(question: Question) -> tuple[Any, ...]:
    """Return what `between` compares of a question."""
    return tuple(aspect.of(question) for aspect in _ASPECTS)


def settings_of(question: Question) -> tuple[Any, ...]:
    """Return what `between` compares of a question, its sizes aside."""
    return tuple(None if aspect.name in _SIZES else aspect.of(question) for aspect in _ASPECTS)


def _aspects_asked(question: Question) -> tuple[Any, ...]:
    """Return the aspects of a question; None for what it leaves open."""
    return tuple(
        None if aspect.name in _OPEN and getattr(question, aspect.name) is None else value
        for aspect, value in zip(_ASPECTS, aspects_of(question), strict=True)
    )


def between(left: tuple[Any, ...], right: tuple[Any, ...]) -> float:
    """Return the distance of two questions by their `aspects_of`; left is the one asked.

    0 for the same, about 1 for a near one.
    """
    pairs = zip(_ASPECTS, left, right, strict=True)
    return sum(_apart(aspect, mine, other) for aspect, mine, other in pairs if mine != other)


_SIZES = frozenset({"seq_len", "longest_sample", "micro_batch_size"})
#: What a question may leave open without being far from any run.
_OPTIONAL = frozenset(
    {
        *("gpu", "stack", "lora_rank", "lora_target_modules", "optimizer", "param_dtype"),
        *("longest_sample", "double_quant", "quant_method"),
    }
)
#: What it may leave open as well, though a default stands for it elsewhere.
_OPEN = frozenset({"gradient_checkpointing", "attention", "loss_kernel"})
_MAY_BE_OPEN = _OPTIONAL | _OPEN
#: What a run states is told of these where the question does not.
_TOLD = (
    "gradient_checkpointing", "lora_rank", "lora_target_modules", "optimizer", "param_dtype",
    "loss_kernel", "longest_sample", "quant_method", "double_quant",
)  # fmt: skip


def _apart(aspect: _Aspect, left: Any, right: Any) -> float:
    if left == right or (left is None and aspect.name in _MAY_BE_OPEN):
        return 0.0
    if None in (left, right) or not aspect.doubling:
        return aspect.weight
    return aspect.weight * abs(math.log2(right / left))


def describe_differences(
    question: Question, other: Question, known: Container[str] = ()
) -> tuple[str, ...]:
    """Return how another configuration differs from the question, one phrase a setting.

    ``known`` are settings of the other that its record does not hold.
    """
    phrases = []
    for aspect in _ASPECTS:
        left, right = aspect.of(question), aspect.of(other)
        said = aspect.name not in _TOLD or getattr(question, aspect.name) is not None
        if aspect.name != "parameters" and said and _apart(aspect, left, right):
            of = aspect.told or aspect.of
            phrases.append(_format_difference(aspect.name, of(question), of(other), known))
    left, right = question.setting("compute_dtype"), other.compute_dtype
    if right not in (None, left):  # of the figures alone it is no distance: cards differ in it
        phrases.append(_format_difference("compute_dtype", question.compute_dtype, right, known))
    return (*phrases, *_unsaid(question, other, known))


#: What is said of a setting that the formulas take for known and `registry show` does not have.
_NOT_RECORDED = " (known of its software, not recorded)"


def _unsaid(question: Question, other: Question, known: Container[str]) -> list[str]:
    """Return what a run states of what the question leaves open."""
    names = [name for name in _TOLD if getattr(question, name) is None]
    stated = {name: getattr(other, name) for name in names}
    phrases = {name: value for name, value in stated.items() if value is not None}
    return [_format_difference(name, None, value, known) for name, value in phrases.items()]


def _format_difference(name: str, asked: Any, measured: Any, known: Container[str]) -> str:
    recorded = _NOT_RECORDED if name in known else ""
    if asked is None:
        return f"{name} is {_format_value(measured)} (you did not say){recorded}"
    if measured is None:
        return f"{name} was not recorded, you asked for {_format_value(asked)}"
    return f"{name} {_format_value(measured)}, not {_format_value(asked)}{recorded}"


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def transfer(question: Question, seen: ObservedRun) -> float | None:
    """Return a run's peak plus the difference that the formula gives to the question, in bytes.

    Of the device's memory: the CUDA context is added to a peak that PyTorch counted.
    Where the formula says that most of the peak goes away, the share is taken instead, so that the
    figure stays above 0.
    """
    if seen.peak_bytes is None:
        return None
    here = total(memory_terms(question))
    there = total(measured_terms(seen.question, seen.memory_kind))
    moved = seen.peak_bytes + here - there
    return moved if moved > 0.5 * here else seen.peak_bytes * here / there
