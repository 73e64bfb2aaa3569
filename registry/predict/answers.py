"""Answers from Python: whether a training configuration fits, and what it takes."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

from registry.api import Registry, open_registry
from registry.errors import QuestionError
from registry.predict.answer.frontier import find_frontier, parse_axes
from registry.predict.answer.plain import (
    answer_data,
    assumptions_data,
    format_chance,
    format_interval,
    format_why,
    interval_data,
    question_data,
)
from registry.predict.answer.prediction import (
    DOES_NOT_FIT,
    FITS,
    UNDECIDED,
    estimate_cost,
    predict_memory,
)
from registry.predict.answer.prices import Prices, build_prices
from registry.predict.answer.switches import explain
from registry.predict.answer.time_assumes import list_time_assumes
from registry.predict.answer.will_it_fit import answer, assumptions_of
from registry.predict.answer_html import format_estimate_html, format_fit_html
from registry.predict.architecture import peak_flops_of
from registry.predict.asked import (
    Asked,
    ask,
    build_question,
    find_cards,
    parse_count,
    warn_of_name,
    warn_of_unused,
)
from registry.predict.calibration.calibration_file import FILE_NAME, read_calibration
from registry.predict.calibration.mixture import Interval
from registry.predict.calibration.runs import resolve_stack
from registry.predict.cards import common_gpus, find_gpu
from registry.predict.dryrun.executing import execute_asked
from registry.predict.formula.step_time import has_known_speed
from registry.predict.question import Question, check_question, is_named_by_memory
from registry.store.folder import curated_dir
from registry.store.snapshot import load_catalogue
from registry.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from registry.catalogue import Catalogue
    from registry.predict.answer.advice import CardVerdict
    from registry.predict.answer.assumed import Assumption
    from registry.predict.answer.frontier import FrontierPoint
    from registry.predict.answer.prediction import Cost, Prediction
    from registry.predict.answer.prices import Stated
    from registry.predict.answer.switches import Explanation
    from registry.predict.answer.will_it_fit import Answer
    from registry.predict.calibration.intervals import Calibration


@dataclass(frozen=True)
class Spending:
    """What is paid for: samples, at a price per card and hour."""

    prices: Prices
    #: Samples in total; None if not stated: the cost is then that of 1,000.
    n_samples: float | None = None

    def of(self, card: CardVerdict, n_gpus: int) -> Interval | None:
        """Return the USD that the samples cost; None where price or speed is not known."""
        hourly, each = self.prices.of(card.gpu.gpu_id), card.seconds_per_sample
        if hourly is None or each is None:
            return None
        times = (1000.0 if self.n_samples is None else self.n_samples) * n_gpus * hourly / 3600
        return Interval(each.value * times, each.low * times, each.high * times)


@dataclass(frozen=True)
class FitResult:
    """Whether a configuration fits, on which cards, and what would make it fit."""

    asked: Asked
    answer: Answer
    #: Ids of the cards that are asked about, with the members of families.
    named: tuple[str, ...]
    spending: Spending
    #: What is odd about the question, or was said for nothing.
    warnings: tuple[str, ...] = ()
    explanation: Explanation | None = None
    #: The largest sizes that fit, by the axes of a sweep; None without a sweep.
    frontier: tuple[FrontierPoint, ...] | None = None

    @property
    def verdict(self) -> str | None:
        """``fits``, ``does not fit`` or ``undecided``; None unless one card is asked about."""
        return self.answer.verdict

    @property
    def chance(self) -> float | None:
        """How likely it fits, from 0 to 1; None unless one card is asked about."""
        return self.answer.chance

    @property
    def why(self) -> str | None:
        """The reason for the verdict."""
        return format_why(self.answer)

    @property
    def _asked(self) -> list[CardVerdict]:
        return [card for card in self.cards if card.gpu.gpu_id in self.named]

    @property
    def fits(self) -> bool:
        """Whether it fits each of the cards that are asked about, one at least."""
        asked = self._asked
        return self.verdict == FITS or (bool(asked) and all(card.verdict == FITS for card in asked))

    @property
    def verdict_line(self) -> str | None:
        """The verdict with its reason, or the cards of each verdict; None without a card.

        ``fits a100-80gb; undecided on a100-40gb``
        """
        if self.verdict == UNDECIDED and self.chance is not None:
            chance = format_chance(self.chance)
            return f"{self.verdict}: {self.why}; it fits with a chance of {chance}"
        if self.verdict is not None:
            return f"{self.verdict}: {self.why}"
        asked = self._asked
        each = {
            verdict: ", ".join(card.gpu.gpu_id for card in asked if card.verdict == verdict)
            for verdict in (FITS, UNDECIDED, DOES_NOT_FIT)
        }
        on = {UNDECIDED: "undecided on"}
        return "; ".join(f"{on.get(one, one)} {ids}" for one, ids in each.items() if ids) or None

    @property
    def peak(self) -> Interval:
        """Predicted peak memory of one device in bytes, with its 90 % interval."""
        return self.answer.prediction.figure

    @property
    def cards(self) -> tuple[CardVerdict, ...]:
        """The verdict on each card that is asked about and each common one, smallest first."""
        return self.answer.cards

    @property
    def shown(self) -> list[CardVerdict]:
        """The cards to show: those that are asked about, else the common ones that could hold it.

        If the one card asked about is not certain to fit, the common ones are shown as well.
        """
        asked = self._asked
        if self.verdict == FITS or len(self.named) > 1:
            return asked
        return [*asked, *(card for card in self.cards if card.could_hold and card not in asked)]

    @property
    def time_assumes(self) -> tuple[str, ...]:
        """What the times take for granted of what the question leaves open, in words."""
        question, cards = self.answer.question, [card.gpu for card in self.shown]
        assumed = list_time_assumes(question, self.answer.own_times, cards)
        return (*assumed, *_of_lengths(self.asked), *_packed_alone(question))

    def cost(self, card: CardVerdict) -> Interval | None:
        """Return the cost in USD of the samples (of 1,000 if their number is not stated).

        None without a price or a known speed.
        """
        return self.spending.of(card, self.answer.question.n_gpus)

    def command_with(self, settings: Iterable[tuple[str, Any]]) -> str:
        """Return the command for the same question with some settings changed."""
        return self.asked.having(dict(settings)).command()

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data: what ``registry fit -f json`` prints."""
        return {
            **answer_data(self.answer),
            "warnings": list(self.warnings),
            "command": self.asked.command(),
            "remedies": self._remedies(),
            "cards": [self._card(card) for card in self._asked_first()],
            "time_assumes": list(self.time_assumes),
            "n_samples": self.spending.n_samples,
            "explanation": self._explained(),
            "frontier": self._frontier(),
        }

    def _asked_first(self) -> list[CardVerdict]:
        return sorted(self.cards, key=lambda card: card.gpu.gpu_id not in self.named)

    def _remedies(self) -> list[dict[str, Any]]:
        return [
            {
                "what": one.what,
                "settings": dict(one.settings),
                "peak_bytes": asdict(one.peak),
                "verdict": one.verdict,
                "chance": one.chance,
                "command": self.command_with(one.settings),
            }
            for one in self.answer.remedies
        ]

    def _card(self, card: CardVerdict) -> dict[str, Any]:
        return {
            "gpu_id": card.gpu.gpu_id,
            "memory_bytes": card.gpu.memory_bytes,
            "verdict": card.verdict,
            "chance": card.chance,
            "peak_bytes": asdict(card.peak),
            "headroom_bytes": card.headroom_bytes,
            "seconds_per_sample": interval_data(card.seconds_per_sample),
            "time_measured": card.is_timed,
            "usd_per_gpu_hour": self.spending.prices.of(card.gpu.gpu_id),
            "usd": interval_data(self.cost(card)),
            "asked": card.gpu.gpu_id in self.named,
        }

    def _explained(self) -> dict[str, Any] | None:
        if self.explanation is None:
            return None
        return {
            "question": question_data(self.explanation.question),
            "switches": [
                {**asdict(one), "settings": dict(one.settings)} for one in self.explanation.switches
            ],
        }

    def _frontier(self) -> list[dict[str, Any]] | None:
        if self.frontier is None:
            return None
        return [
            {
                "settings": dict(one.settings),
                "peak_bytes": asdict(one.peak),
                "seconds_per_sample": interval_data(one.seconds_per_sample),
                "command": self.command_with(one.settings),
            }
            for one in self.frontier
        ]

    def __repr__(self) -> str:
        """Return the command that asks it, the verdict and the peak."""
        said = (self.verdict_line, format_interval(self.peak))
        return f"<{self.asked.command()}: {'; '.join(one for one in said if one)}>"

    def _repr_html_(self) -> str:
        """Return it as a small table, for notebooks."""
        return format_fit_html(self)


@dataclass(frozen=True)
class EstimateResult:
    """What a configuration takes: memory by part and, with a card, time and cost."""

    question: Question
    memory: Prediction
    #: None where no card is asked about.
    cost: Cost | None
    warnings: tuple[str, ...] = ()
    #: What the question leaves open, and how far each moves the peak.
    assumptions: tuple[Assumption, ...] = ()
    #: Samples per epoch, if given.
    n_samples: int | None = None
    #: Epochs that the GPU-hours and their price are of.
    n_epochs: float = 1.0
    #: What times take for granted of what the question leaves open, in words.
    time_assumes: tuple[str, ...] = ()

    @property
    def peak(self) -> Interval:
        """Predicted peak memory of one device in bytes, with its 90 % interval."""
        return self.memory.figure

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data: what ``registry estimate -f json`` prints."""
        return {
            "question": question_data(self.question),
            "peak_bytes": asdict(self.peak),
            "parts_bytes": dict(self.memory.parts),
            "predictor": self.memory.predictor,
            "warnings": list(self.warnings),
            "assumptions": assumptions_data(self.assumptions),
            "n_samples": self.n_samples,
            "n_epochs": self.n_epochs,
            "cost": None if self.cost is None else asdict(self.cost),
            "time_assumes": list(self.time_assumes),
        }

    def __repr__(self) -> str:
        """Return the model and the peak."""
        return f"<estimate of {self.question.model.model_id}: {format_interval(self.peak)}>"

    def _repr_html_(self) -> str:
        """Return it as a small table, for notebooks."""
        return format_estimate_html(self)


@dataclass(frozen=True)
class Knowledge:
    """What answers rest on."""

    catalogue: Catalogue
    calibration: Calibration

    def question(self, asked: Asked) -> Question:
        """Return the question that is asked, with the source that its stack stands for."""
        question = build_question(asked, self.catalogue)
        if question.stack is None:
            return question
        return replace(question, stack=resolve_stack(question.stack, self.calibration.observations))


def read_knowledge(registry: Registry) -> Knowledge:
    """Return the catalogue and the calibration of a registry; raise QuestionError, StoreError."""
    return Knowledge(
        load_catalogue(registry.location), _read_calibration(registry, _stamp(registry))
    )


def _stamp(registry: Registry) -> tuple[tuple[str, int, int], ...]:
    """Return what tells one state of the calibration's file and of the registry from another."""
    files = [folder / FILE_NAME for folder in (registry.path, curated_dir())]
    folders = [registry.path / name for name in ("journal", "tables")]
    states = [(path, path.stat()) for path in (*files, *folders) if path.exists()]
    return tuple((str(path), state.st_mtime_ns, state.st_size) for path, state in states)


@lru_cache(maxsize=4)
def _read_calibration(registry: Registry, _stamp: object) -> Calibration:
    return read_calibration(registry)


@dataclass(frozen=True)
class Wanted:
    """What is wanted of an answer besides the verdict."""

    price: Stated | None = None
    price_file: Path | str | None = None
    n_samples: int | None = None
    n_epochs: float = 1.0
    explain: bool = False
    #: Axes of the frontier: batch, seq-len, rank.
    sweep: tuple[str, ...] = ()
    #: Whether the question is also executed on fake tensors.
    exact: bool = False
    #: Gets what is worth knowing of that, a sentence at a time.
    tell: Callable[[str], object] = logging.getLogger(__name__).info

    def corrected(self, question: Question, asked: Asked, known: Knowledge) -> Knowledge:
        """Return what is known with the question executed, where that is wanted."""
        if not self.exact:
            return known
        return replace(known, calibration=execute_asked(question, asked, known, self.tell))

    def spending(
        self, catalogue: Catalogue, named: Iterable[str], warn: Callable[[str], object]
    ) -> Spending:
        """Return what is paid for; a price without a card is that of the ``named`` cards."""
        samples = None if self.n_samples is None else self.n_samples * self.n_epochs
        prices = build_prices(self.price, self.price_file, catalogue, warn)
        return Spending(prices.meant_for(named), samples)

    @property
    def is_priced(self) -> bool:
        """Whether something was said of prices."""
        return self.price is not None or self.price_file is not None


_SEVERAL = 2


def answer_fit(asked: Asked, registry: Registry, wanted: Wanted | None = None) -> FitResult:
    """Return the answer of ``registry fit``; raise QuestionError for what cannot be asked."""
    wanted = wanted or Wanted()
    known = read_knowledge(registry)
    question, axes = known.question(asked), parse_axes(wanted.sweep)
    known = wanted.corrected(question, asked, known)
    named = find_cards(asked, known.catalogue)
    unpriced: list[str] = []
    spending = wanted.spending(known.catalogue, (gpu.gpu_id for gpu in named), unpriced.append)
    others = common_gpus(known.catalogue) if len(named) < _SEVERAL else []
    cards = {gpu.gpu_id: gpu for gpu in (*named, *others)}
    if wanted.price is not None and all(spending.prices.of(gpu_id) is None for gpu_id in cards):
        raise QuestionError(_no_price(wanted.price, [gpu.gpu_id for gpu in named] or list(cards)))
    frontier = find_frontier(question, known.calibration, axes) if axes else None
    result = FitResult(
        asked=asked,
        answer=answer(question, known.calibration, cards.values()),
        named=tuple(gpu.gpu_id for gpu in named),
        spending=spending,
        explanation=explain(question, known.calibration) if wanted.explain else None,
        frontier=frontier,
    )
    more = (
        *warn_of_name(asked, question),
        *warn_of_unused(question),
        *unpriced,
        *_idle_spending(result, wanted, known.catalogue),
        *_idle_epochs(wanted),
    )
    return replace(result, warnings=(*result.answer.warnings, *more))


def _idle_spending(result: FitResult, wanted: Wanted, catalogue: Catalogue) -> list[str]:
    """Return why no cost is shown where something was said of it."""
    if not wanted.is_priced and wanted.n_samples is None:
        return []
    if result.answer.question.is_split:  # `check_question` says that its time is not computed
        return []
    if any(result.cost(card) is not None for card in result.shown):
        return []
    meant = [card for card in result.shown if card.gpu.gpu_id in result.named] or result.shown
    timed = [card.gpu.gpu_id for card in meant if card.seconds_per_sample is not None]
    if not timed:
        cards = [card.gpu.gpu_id for card in meant]
        return [f"no cost is shown: {_describe_unknown_speed(cards, catalogue)}"]
    if wanted.is_priced:
        return [f"no cost is shown: the price of {_format_some(timed)} is not known"]
    return ["no cost of the samples is shown: give --price or --price-file"]


def _describe_unknown_speed(gpu_ids: Sequence[str], catalogue: Catalogue) -> str:
    """Return that the speed of cards is not known, and which of their kinds have one."""
    kinds = sorted(
        kind
        for gpu_id in gpu_ids
        for kind in (catalogue.kinds_of(gpu_id) if gpu_id in catalogue.gpus else ())
        if kind != gpu_id and peak_flops_of(catalogue.gpus[kind], None)
    )
    more = f", as its kinds differ; name one of {', '.join(kinds)}" if kinds else ""
    return f"the speed of {_format_some(gpu_ids)} is not known{more}"


#: Most cards that a sentence names.
_MOST_NAMED = 4


def _format_some(gpu_ids: Sequence[str]) -> str:
    left = len(gpu_ids) - _MOST_NAMED
    more = f" and {format_count(left, 'other card')}" if left > 0 else ""
    return f"{', '.join(gpu_ids[:_MOST_NAMED]) or 'none'}{more}"


def _of_lengths(asked: Asked) -> list[str]:
    """Return of how many samples the lengths are that times rest on."""
    lengths = asked.sample_lengths
    return [] if lengths is None else [lengths.describe()]


def _packed_alone(question: Question) -> list[str]:
    """Return what times assume of packed samples, where nothing says how many fill a sequence."""
    if not question.packing or question.mean_tokens is not None:
        return []
    words = f"one sample in each packed sequence of {question.seq_len} tokens"
    return [f"{words}, as no --mean-tokens says how many"]


def answer_estimate(
    asked: Asked, registry: Registry, wanted: Wanted | None = None
) -> EstimateResult:
    """Return the answer of ``registry estimate``; raise QuestionError for what cannot be asked."""
    wanted = wanted or Wanted()
    known = read_knowledge(registry)
    question = known.question(asked)
    if len(asked.gpu) > 1:
        raise QuestionError("gpu: found several cards; expected one; `registry fit` takes several")
    if asked.gpu and question.gpu is None:
        find_gpu(asked.gpu[0], known.catalogue)  # raises: it names the kinds of a family
    known = wanted.corrected(question, asked, known)
    memory = predict_memory(question, known.calibration)
    unpriced: list[str] = []
    cost = _cost(question, known, wanted, unpriced.append)
    own, timed = known.calibration.own_times, [question.gpu] if cost and question.gpu else []
    return EstimateResult(
        question=question,
        memory=memory,
        cost=cost,
        warnings=(
            *check_question(question),
            *warn_of_name(asked, question),
            *warn_of_unused(question),
            *(f"time and cost: {words}" for words in _packed_alone(question) if wanted.n_samples),
            *unpriced,
            *_nothing_to_pay(question, wanted, known.catalogue),
            *_idle_epochs(wanted),
        ),
        assumptions=assumptions_of(question, memory, known.calibration),
        n_samples=wanted.n_samples,
        n_epochs=wanted.n_epochs,
        time_assumes=(
            (*list_time_assumes(question, own, timed), *_of_lengths(asked)) if timed else ()
        ),
    )


def _nothing_to_pay(question: Question, wanted: Wanted, catalogue: Catalogue) -> list[str]:
    """Return why an estimate shows no time or cost where something was said of them."""
    if not wanted.is_priced and wanted.n_samples is None:
        return []
    if question.gpu is not None and not question.is_split and not has_known_speed(question):
        unknown = _describe_unknown_speed([question.gpu.gpu_id], catalogue)
        return [f"no time or cost is shown: {unknown}"]
    return ["no cost is shown: give --samples"] if wanted.n_samples is None else []


def _idle_epochs(wanted: Wanted) -> list[str]:
    """Return that epochs change nothing where nobody said of how many samples they are."""
    idle = wanted.n_samples is None and wanted.n_epochs != 1
    return ["--epochs changes nothing without --samples, the samples of an epoch"] if idle else []


def _cost(
    question: Question, known: Knowledge, wanted: Wanted, warn: Callable[[str], object]
) -> Cost | None:
    prices = build_prices(wanted.price, wanted.price_file, known.catalogue, warn)
    if question.is_split:  # its time is not computed
        return None
    gpu = question.gpu
    if gpu is None or is_named_by_memory(gpu):
        if wanted.n_samples or wanted.is_priced:
            raise QuestionError(
                "time and cost depend on the card: give --gpu"
                if gpu is None
                else f"time and cost: the speed of {gpu.gpu_id} is not known; leave out "
                "--samples, --price and --price-file, or give a card of known speed with --gpu"
            )
        return None
    price = prices.of(gpu.gpu_id)
    if price is None and wanted.price is not None:
        raise QuestionError(_no_price(wanted.price, [gpu.gpu_id]))
    if not has_known_speed(question):
        return None
    return estimate_cost(
        question,
        known.calibration,
        n_samples=wanted.n_samples,
        n_epochs=wanted.n_epochs,
        price_per_gpu_hour=price,
    )


def _no_price(stated: Stated, gpu_ids: Sequence[str]) -> str:
    each = [stated] if isinstance(stated, (str, int, float)) else list(stated)
    return (
        f"price: found {', '.join(map(str, each))}, none of them of {', '.join(gpu_ids)}; expected "
        f"one such as {gpu_ids[0]}=1.8"
    )


def fit(  # noqa: PLR0913 - the options that most state
    model: str | None = None,
    *,
    gpu: str | Sequence[str] | None = None,
    method: str = "lora",
    seq_len: int | str = 2048,
    batch: int | str = 1,
    samples: int | str | None = None,
    epochs: float = 1.0,
    price: Stated | None = None,
    price_file: Path | str | None = None,
    explain: bool = False,
    sweep: str | Iterable[str] = (),
    exact: bool = False,
    registry: Registry | Path | str | None = None,
    **settings: Any,
) -> FitResult:
    """Return whether a training configuration fits, with the evidence.

    Arguments are the options of ``registry fit``; ``settings`` takes the others, such as
    ``config``, ``vram``, ``checkpointing=False``, ``lora_rank``, ``sharding``, ``gpus``.
    ``registry`` is an open registry or its folder. Raises QuestionError for an invalid question,
    TypeError for an unknown argument, DryRunError for what ``exact`` cannot execute.
    """
    shared = {"gpu": gpu, "method": method, "seq_len": seq_len, "batch": batch}
    asked = ask(model=model, **shared, **settings)
    wanted = Wanted(
        price=price,
        price_file=price_file,
        n_samples=_n_samples(samples),
        n_epochs=_n_epochs(epochs),
        explain=explain,
        sweep=_axes(sweep),
        exact=exact,
    )
    return answer_fit(asked, _open(registry), wanted)


def estimate(  # noqa: PLR0913 - as above
    model: str | None = None,
    *,
    gpu: str | None = None,
    method: str = "lora",
    seq_len: int | str = 2048,
    batch: int | str = 1,
    samples: int | str | None = None,
    epochs: float = 1.0,
    price: Stated | None = None,
    price_file: Path | str | None = None,
    registry: Registry | Path | str | None = None,
    **settings: Any,
) -> EstimateResult:
    """Return what a training configuration takes: memory by part, time and cost.

    Arguments and errors are as for ``fit``; time and cost need a card.
    """
    shared = {"gpu": gpu, "method": method, "seq_len": seq_len, "batch": batch}
    asked = ask(model=model, **shared, **settings)
    wanted = Wanted(
        price=price,
        price_file=price_file,
        n_samples=_n_samples(samples),
        n_epochs=_n_epochs(epochs),
    )
    return answer_estimate(asked, _open(registry), wanted)


def _axes(sweep: str | Iterable[str]) -> tuple[str, ...]:
    named = sweep if isinstance(sweep, Iterable) and not isinstance(sweep, str) else str(sweep)
    return tuple(named.split(",") if isinstance(named, str) and named else named)


def _n_samples(samples: int | str | None) -> int | None:
    return None if samples is None else parse_count(samples, "samples", thousand=1000)


def _n_epochs(epochs: float) -> float:
    if isinstance(epochs, bool) or not isinstance(epochs, int | float) or not 0 < epochs < inf:
        raise QuestionError(f"epochs: found {epochs!r}; expected a number above 0")
    return float(epochs)


def _open(registry: Registry | Path | str | None) -> Registry:
    return registry if isinstance(registry, Registry) else open_registry(registry)
