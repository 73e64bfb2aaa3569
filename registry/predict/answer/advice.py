"""How much more fits, and what would make it fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import QuestionError
from registry.predict.answer.meant import find_meant
from registry.predict.answer.prediction import (
    DOES_NOT_FIT,
    FITS,
    bounded,
    predict_memory,
    predict_samples,
    predict_unbounded,
)
from registry.predict.answer.verdict import decide
from registry.predict.calibration.fit_rows import USABLE
from registry.predict.formula.peak_memory import memory_terms, total
from registry.predict.sharding import CARDS_OF_A_HOST, SHARDS_WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from registry.predict.answer.prediction import Prediction
    from registry.predict.architecture import Accelerator
    from registry.predict.calibration.intervals import Calibration
    from registry.predict.calibration.mixture import Interval
    from registry.predict.question import Question

#: Lengths are rounded down to a multiple of this.
SEQ_STEP = 64
_LONGEST, _BIGGEST = 262_144, 4_096


#: Losses that do not keep all logits at once, in words; the leaner last.
LEAN_LOSSES = {"chunked": "chunked loss", "liger": "Liger's loss"}

#: A change in words, and the settings that it makes.
Change = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Remedy:
    """A change after which the run fits its card."""

    #: What to do, in words: ``quantize the base to 4 bits``.
    what: str
    settings: tuple[tuple[str, Any], ...]
    peak: Interval
    #: fits, or undecided where only the most likely peak is below what the card has.
    verdict: str
    #: How likely it fits, from 0 to 1.
    chance: float


@dataclass(frozen=True)
class CardVerdict:
    """The verdict on one card of the catalogue, and how fast it is."""

    gpu: Accelerator
    verdict: str
    peak: Interval
    #: How likely it fits, from 0 to 1: 1 or 0 where a run on such a card decides.
    chance: float
    #: Of all cards together; None where the card's speed is not known.
    seconds_per_sample: Interval | None = None
    #: Whether somebody timed a run of full samples on the card, which its time can be held against.
    is_timed: bool = False

    @property
    def headroom_bytes(self) -> float:
        """What the most likely peak leaves of the usable memory; negative where it is more."""
        return USABLE * self.gpu.memory_bytes - self.peak.value

    @property
    def could_hold(self) -> bool:
        """Whether it fits, or at least its most likely peak does."""
        return self.headroom_bytes >= 0 and self.verdict != DOES_NOT_FIT


def does_fit(question: Question, calibration: Calibration) -> bool:
    """Return whether the verdict on a question's card is that it fits."""
    return _predict_room(question, calibration) > 0


def _predict_room(question: Question, calibration: Calibration) -> float:
    found = predict_memory(question, calibration)
    decided = decide(question, found, calibration.runs_of(question.model))
    return room_of(question, decided.prediction.figure, decided.verdict)


def room_of(question: Question, figure: Interval, verdict: str | None) -> float:
    """Return how far the upper end is from what the card has, in bytes; below 0 unless it fits."""
    capacity = question.gpu.memory_bytes if question.gpu else 0
    apart = abs(USABLE * capacity - figure.high) or 1.0
    return apart if verdict == FITS else -apart


def find_longest_seq_len(question: Question, calibration: Calibration, room: float) -> int | None:
    """Return the longest seq_len that fits, all else as asked; None for none.

    It is a multiple of 64, or what is asked about, of which ``room`` is the `room_of`. It ends at
    the model's positions where these are known.
    """
    limit = question.model.max_positions or _LONGEST
    found = find_largest(
        lambda n: _predict_room(question.changed(seq_len=n * SEQ_STEP), calibration),
        limit // SEQ_STEP,
        (question.seq_len / SEQ_STEP, room),
    )
    asked = question.seq_len if room > 0 else 0
    return max(found * SEQ_STEP, asked) or None


def find_biggest_batch(question: Question, calibration: Calibration, room: float) -> int | None:
    """Return the biggest micro-batch that fits, all else as asked; None for none.

    ``room`` is the `room_of` what is asked about.
    """
    found = find_largest(
        lambda n: _predict_room(question.changed(micro_batch_size=n), calibration),
        _BIGGEST,
        (question.micro_batch_size, room),
    )
    return found or None


def collect_remedies(
    question: Question, calibration: Calibration, peak_bytes: float = math.inf
) -> list[Remedy]:
    """Return the single changes, and a few pairs of them, after which it fits; gentlest first.

    Of changes of one kind, such as ever more cards, those up to the first that fits count, and of
    those that only may fit, the first, where its likeliest peak is below ``peak_bytes``, that of
    the question. Where that likely fits already, no more than one host is proposed. What may fit
    comes last. Where nobody said whether checkpointing is on, that is the first change, and where
    it alone does not do, part of the others.
    """
    found = []
    if question.gradient_checkpointing is not True:
        found += _first_that_fit(question, calibration, [_CHECKPOINTING])
    together = question.gradient_checkpointing is None and not _do(found)
    base = question.changed(gradient_checkpointing=True) if together else question
    for changes in _kinds_of_changes(base):
        both = (_with_checkpointing(one) for one in changes) if together else changes
        found += _first_that_fit(question, calibration, both)
    if not _do(found):
        found += _first_that_fit(question, calibration, _all_at_once(question))
    usable = USABLE * question.gpu.memory_bytes if question.gpu else 0.0
    most = math.inf if peak_bytes > usable else max(CARDS_OF_A_HOST, question.n_gpus)
    kept = [
        one
        for one in found
        if (one.verdict == FITS or one.peak.value < peak_bytes)
        and dict(one.settings).get("n_gpus", 1) <= most
    ]
    return sorted(kept, key=lambda remedy: remedy.verdict != FITS)


def _do(found: Iterable[Remedy]) -> bool:
    return any(one.verdict == FITS for one in found)


_CHECKPOINTING: Change = ("gradient checkpointing on", {"gradient_checkpointing": True})


def _with_checkpointing(change: Change) -> Change:
    what, settings = change
    return f"{what}, checkpointing on", {**settings, "gradient_checkpointing": True}


def _first_that_fit(
    question: Question, calibration: Calibration, changes: Iterable[Change]
) -> list[Remedy]:
    found: dict[str, Remedy] = {}
    highest = math.inf
    for what, settings in changes:
        remedy = _try(question, calibration, what, settings)
        if remedy is None:
            continue
        found.setdefault(remedy.verdict, remedy)
        if remedy.verdict == FITS or remedy.peak.high > _NO_GAIN * highest:
            break
        highest = remedy.peak.high
    return list(found.values())


#: Share of the upper end that a stronger form leaves where going on does not help.
_NO_GAIN = 0.95


def _try(
    question: Question, calibration: Calibration, what: str, settings: dict[str, Any]
) -> Remedy | None:
    """Return the remedy that a change is; None where it is none, or cannot be run."""
    try:
        changed = question.changed(**settings)
    except QuestionError:
        return None
    usable = USABLE * question.gpu.memory_bytes if question.gpu else 0.0
    if total(memory_terms(changed)) > _FAR * usable:
        return None
    found = predict_memory(changed, calibration)
    decided = decide(changed, found, calibration.runs_of(changed.model))
    figure = decided.prediction.figure
    if decided.verdict is None or decided.chance is None:
        return None
    if decided.verdict == DOES_NOT_FIT or figure.value > usable:
        return None
    return Remedy(what, tuple(settings.items()), figure, decided.verdict, decided.chance)


#: Times the card from which on the formula alone, with the leanest defaults, rules a change out.
_FAR = 1.3


def _kinds_of_changes(question: Question) -> Iterator[Iterable[Change]]:
    """Yield changes, those of which one is a stronger form of the other together."""
    if question.attention == "eager":
        yield [("use FlashAttention or SDPA", {"attention": "flash2"})]
    if question.loss_kernel in (None, "whole"):
        yield [(words, {"loss_kernel": kernel}) for kernel, words in LEAN_LOSSES.items()]
    if question.micro_batch_size > 1:
        yield [("micro-batches of 1, accumulated", {"micro_batch_size": 1})]
    yield _shorter(question)
    if question.full:
        yield _lean_optimizers(question)
        yield [("train LoRA adapters instead of all weights", _LORA)]
    if question.quant_bits is None:
        yield [("quantize the base to 8 bits (LoRA)", _quantized(question, 8))]
    if question.quant_bits in (None, 8):
        yield [("quantize the base to 4 bits (QLoRA)", _quantized(question, 4))]
    for sharding in _SHARDINGS if question.sharding not in _SHARDINGS else (question.sharding,):
        yield _more_cards(question, sharding)
    yield _sharded_qlora(question)
    yield _offloaded_qlora(question)


_LORA: dict[str, Any] = {"method": "lora", "trains_embeddings": False, "trainable_params": None}


def _quantized(question: Question, bits: int) -> dict[str, Any]:
    lora = _LORA if question.full else {}
    return {**lora, "quant_bits": bits, "quant_method": "bitsandbytes", "param_dtype": None}


def _lean_optimizers(question: Question) -> Iterator[Change]:
    if question.setting("optimizer") == "adamw":
        yield "8-bit AdamW", {"optimizer": "adamw_8bit"}
    if not question.offloaded:
        yield "AdamW with its states in host memory", {"offload": "optimizer"}
    if question.grad_accum_steps in (None, 1) and question.n_gpus == 1:
        lean = {"optimizer": "paged_adamw_8bit", "optimizer_in_backward": True}
        yield "paged 8-bit AdamW that updates in the backward pass (no accumulation)", lean


def _all_at_once(question: Question) -> Iterator[Change]:
    """Yield what people do where no single change helps: all of the usual ones."""
    base = _quantized(question, _QLORA_BITS)
    lean = {**base, "gradient_checkpointing": True, "micro_batch_size": 1}
    if question.quant_bits != _QLORA_BITS:
        yield "QLoRA, micro-batches of 1, checkpointing on", lean
        for what, shorter in _shorter(question):
            yield f"QLoRA, micro-batches of 1, checkpointing on, {what}", {**lean, **shorter}


def _shorter(question: Question) -> Iterator[Change]:
    length = question.seq_len // 2
    while length >= 256:  # noqa: PLR2004 - shorter sequences are no remedy
        yield f"sequences of {length} tokens", {"seq_len": length}
        length //= 2


#: Numbers of cards that people have.
_COUNTS = (2, 4, 8, 16, 32, 64)


def _more(
    question: Question, sharding: str, counts: Iterable[int] = _COUNTS
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ever more cards in words and as settings, first as many as are asked about."""
    for count in counts:
        if count < question.n_gpus or (
            count == question.n_gpus and question.sharding in SHARDS_WEIGHTS
        ):
            continue
        hosts = max(count // CARDS_OF_A_HOST, question.n_nodes or 1)
        words = f"{count} cards" + (f" ({hosts} hosts of {count // hosts})" if hosts > 1 else "")
        nodes = {"n_nodes": hosts} if hosts > 1 else {}
        yield words, {"n_gpus": count, **nodes, "sharding": sharding}


#: Ways to shard the weights, in words.
_SHARDINGS = {"fsdp": "FSDP", "zero3": "ZeRO-3"}


def _more_cards(question: Question, sharding: str) -> Iterator[Change]:
    """Shard over the cards, then more, unless the base is quantized: DeepSpeed shards none."""
    if question.quantized:
        return
    name = _SHARDINGS[sharding]
    if question.n_gpus > 1 and question.sharding not in SHARDS_WEIGHTS:
        yield f"{question.n_gpus} cards with {name}", {"sharding": sharding}
    for words, settings in _more(question, sharding):
        yield f"{words} with {name}", settings


def _sharded_qlora(question: Question, counts: Iterable[int] = _COUNTS) -> Iterator[Change]:
    """A base of 4 bits that FSDP shards."""
    bits = {} if question.quant_bits == _QLORA_BITS else _quantized(question, _QLORA_BITS)
    for words, settings in _more(question, "fsdp", counts):
        yield f"QLoRA over {words} with FSDP", {**bits, **settings}


def _offloaded_qlora(question: Question) -> Iterator[Change]:
    """The same with FSDP's CPU offload: the known way to 70B on two cards of 24 GB."""
    if not question.offloaded:
        for what, settings in _sharded_qlora(question.changed(sharding=None), (2, 4, 8)):
            yield f"{what}, weights in host memory", {**settings, "offload": "optimizer_and_params"}


_QLORA_BITS = 4


def collect_cards(
    question: Question, calibration: Calibration, gpus: Iterable[Accelerator]
) -> list[CardVerdict]:
    """Return the verdict on each card, the smallest first, and how fast it is."""
    found = predict_unbounded(question.changed(gpu=None), calibration)
    cards = sorted(gpus, key=lambda gpu: (gpu.memory_bytes, gpu.gpu_id))
    asked = [question.changed(gpu=gpu) for gpu in cards]
    seconds = predict_samples(asked, calibration)
    measured = calibration.measured_of(question.model)
    meant = find_meant(question, measured)
    return [
        CardVerdict(
            gpu,
            *_judge_card(one, calibration, bounded(found, one, measured, meant)),
            seconds_per_sample=each,
            is_timed=gpu.gpu_id in calibration.timed_cards,
        )
        for gpu, one, each in zip(cards, asked, seconds, strict=True)
    ]


def _judge_card(
    question: Question, calibration: Calibration, found: Prediction
) -> tuple[str, Interval, float]:
    """Return the verdict on a question's card, the peak that agrees with it, and the chance."""
    decided = decide(question, found, calibration.runs_of(question.model))
    if decided.verdict is None or decided.chance is None:
        raise QuestionError("a card's verdict: found no card; expected one")
    return decided.verdict, decided.prediction.figure, decided.chance


# The largest of a size for which there is room, found in few looks: each takes a prediction.


def find_largest(room: Callable[[int], float], limit: int, known: tuple[float, float]) -> int:
    """Return the largest n of 1..limit with room above 0; 0 for none. More leaves less room.

    ``known`` is a size with its room. From there the search doubles or halves, then goes on where
    the line through the two newest sizes ends (secant method), and every third time halves.
    """
    size, left = newest = known
    fits = left > 0
    low, high = (min(int(size), limit), limit + 1) if fits else (0, min(math.ceil(size), limit + 1))
    older, number = None, 0
    while high - low > 1:
        number += 1
        guess = 2 * low if high > limit else (low + high) // 2
        if older and number % 3:
            guess = _where_it_ends(older, newest, guess)
        n = min(max(guess, low + 1), high - 1)
        older, newest = newest, (n, room(n))
        low, high = (n, high) if newest[1] > 0 else (low, n)
    return low


def _where_it_ends(one: tuple[float, float], other: tuple[float, float], otherwise: int) -> int:
    """Return the size at which a line through two sizes leaves no room, if it falls at all."""
    (size, left), (other_size, other_left) = one, other
    slope = (other_left - left) / (other_size - size) if other_size != size else 0.0
    return int(size - left / slope) if slope < 0 else otherwise
