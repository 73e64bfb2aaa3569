"""How much more fits, and what would make it fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import QuestionError
from registry.predict.answer.prediction import FITS, judge, predict_memory
from registry.predict.calibration.fit_rows import USABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from registry.predict.architecture import Accelerator
    from registry.predict.calibration.intervals import Calibration
    from registry.predict.calibration.mixture import Interval
    from registry.predict.question import Question

#: Lengths are rounded down to a multiple of this.
SEQ_STEP = 64
_LONGEST, _BIGGEST = 262_144, 4_096


@dataclass(frozen=True)
class Remedy:
    """A change after which the run fits its card."""

    #: What to do, in words: ``quantize the base to 4 bits``.
    what: str
    settings: tuple[tuple[str, Any], ...]
    peak: Interval
    #: fits, or undecided where only the likeliest peak is below what the card has.
    verdict: str = FITS


@dataclass(frozen=True)
class CardVerdict:
    """The verdict on one card of the catalogue."""

    gpu: Accelerator
    verdict: str
    peak: Interval


def _fits(question: Question, calibration: Calibration) -> bool:
    gpu = question.gpu
    figure = predict_memory(question, calibration).figure
    return gpu is not None and judge(figure, gpu.memory_bytes) == FITS


def find_longest_seq_len(question: Question, calibration: Calibration) -> int | None:
    """Return the longest seq_len that fits, in multiples of 64, all else as asked; None for none.

    It ends at the model's positions where these are known.
    """
    limit = question.model.max_positions or _LONGEST
    found = _bisect(
        lambda n: _fits(question.changed(seq_len=n * SEQ_STEP), calibration), limit // SEQ_STEP
    )
    return found and found * SEQ_STEP


def find_biggest_batch(question: Question, calibration: Calibration) -> int | None:
    """Return the biggest micro-batch that fits, all else as asked; None for none."""
    return _bisect(lambda n: _fits(question.changed(micro_batch_size=n), calibration), _BIGGEST)


def _bisect(holds: Callable[[int], bool], limit: int) -> int | None:
    """Return the largest n of 1..limit for which ``holds``, which holds up to some n only."""
    if limit < 1 or not holds(1):
        return None
    low, high = 1, 2
    while high <= limit and holds(high):
        low, high = high, 2 * high
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def collect_remedies(question: Question, calibration: Calibration) -> list[Remedy]:
    """Return the single changes, and a few pairs of them, after which it fits; gentlest first.

    Those after which it may fit come last.
    """
    found = []
    for what, settings in _changes(question):
        try:
            changed = question.changed(**settings)
        except QuestionError:
            continue
        figure = predict_memory(changed, calibration).figure
        if question.gpu and figure.value <= USABLE * question.gpu.memory_bytes:
            verdict = judge(figure, question.gpu.memory_bytes)
            found.append(Remedy(what, tuple(settings.items()), figure, verdict))
    return sorted(found, key=lambda remedy: remedy.verdict != FITS)


def _changes(question: Question) -> Iterator[tuple[str, dict[str, Any]]]:
    if question.gradient_checkpointing is False:
        yield "turn gradient checkpointing on", {"gradient_checkpointing": True}
    if question.attention == "eager":
        yield "use FlashAttention or SDPA", {"attention": "flash2"}
    if question.micro_batch_size > 1:
        yield (
            "micro-batches of 1, accumulated",
            {"micro_batch_size": 1},
        )
    yield from _shorter(question)
    if question.full:
        yield "train LoRA adapters instead of all weights", _LORA
    if question.quant_bits is None:
        lora = _LORA if question.full else {}
        yield "quantize the base to 8 bits (LoRA)", {**lora, **_quantized(8)}
    if question.quant_bits in (None, 8):
        lora = _LORA if question.full else {}
        yield "quantize the base to 4 bits (QLoRA)", {**lora, **_quantized(4)}
    yield from _more_cards(question)


_LORA: dict[str, Any] = {"method": "lora", "trains_embeddings": False, "trainable_params": None}


def _quantized(bits: int) -> dict[str, Any]:
    return {"quant_bits": bits, "quant_method": "bitsandbytes", "param_dtype": None}


def _shorter(question: Question) -> Iterator[tuple[str, dict[str, Any]]]:
    length = question.seq_len // 2
    while length >= 256:  # noqa: PLR2004 - shorter sequences are no remedy
        yield f"sequences of {length} tokens", {"seq_len": length}
        length //= 2


def _more_cards(question: Question) -> Iterator[tuple[str, dict[str, Any]]]:
    """Shard over more cards, unless the base is quantized: DeepSpeed does not shard that."""
    if question.quantized:
        return
    for count in (2, 4, 8):
        if count > question.n_gpus or question.sharding not in ("zero3", "fsdp"):
            sharded = {"n_gpus": max(count, question.n_gpus), "sharding": "zero3"}
            yield f"{sharded['n_gpus']} cards with ZeRO-3", sharded


def collect_cards(
    question: Question, calibration: Calibration, gpus: Iterable[Accelerator]
) -> list[CardVerdict]:
    """Return the verdict on each card, the smallest first."""
    figure = predict_memory(question.changed(gpu=None), calibration).figure
    cards = sorted(gpus, key=lambda gpu: (gpu.memory_bytes, gpu.gpu_id))
    return [CardVerdict(gpu, judge(figure, gpu.memory_bytes), figure) for gpu in cards]
