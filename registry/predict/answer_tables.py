"""What answers say in tables, as words: the same on a terminal and in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from registry.predict.answer.plain import format_chance, format_signed
from registry.units import format_duration, format_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.predict.answer.advice import CardVerdict
    from registry.predict.answers import EstimateResult, FitResult
    from registry.predict.calibration.mixture import Interval
    from registry.predict.question import Question

#: So many cards are shown of each verdict where none is asked about; the data have all.
_MOST_CARDS = 8
HEAD = ("card", "memory", "headroom", "verdict", "s/sample", "USD", "chance")


@dataclass(frozen=True)
class CardTable:
    """Cards with their verdicts, each a row of as many cells as `HEAD`."""

    #: What the columns mean, where their names do not say it.
    columns: str
    rows: Sequence[tuple[str, ...]]
    #: What the figures take for granted.
    notes: Sequence[str]
    #: How many more could hold it.
    n_hidden: int


def list_cards(result: FitResult) -> CardTable:
    """Return the cards that are asked about, then the first of each verdict that could hold it."""
    shown, n_hidden = _select(result)
    paid = result.spending.n_samples or 1000
    usd = f"; USD: for {paid:,.0f} samples" if any(result.cost(card) for card in shown) else ""
    columns = f"headroom: what the most likely peak leaves{usd}; chance: that it fits"
    rows = [_cells(result, card) for card in shown]
    return CardTable(columns, rows, _notes(result, shown), n_hidden)


def _select(result: FitResult) -> tuple[list[CardVerdict], int]:
    asked = [card for card in result.shown if card.gpu.gpu_id in result.named]
    others = [card for card in result.shown if card not in asked]
    shown, n_hidden = list(asked), 0
    for verdict in ("undecided", "fits"):
        of_it = sorted(
            (card for card in others if card.verdict == verdict),
            key=lambda card: result.cost(card) is None,  # with a price first, else as they were
        )
        shown += of_it[:_MOST_CARDS]
        n_hidden += len(of_it[_MOST_CARDS:])
    return shown, n_hidden


def _cells(result: FitResult, card: CardVerdict) -> tuple[str, ...]:
    seconds, cost = card.seconds_per_sample, result.cost(card)
    return (
        card.gpu.gpu_id + ("*" if card.gpu.verified is False else ""),
        format_memory(card.gpu.memory_bytes),
        format_signed(card.headroom_bytes),
        card.verdict,
        "" if seconds is None else f"{'' if card.is_timed else '~'}{seconds.value:.3g}",
        "" if cost is None else f"{cost.value:.3g}",
        format_chance(card.chance),
    )


def _notes(result: FitResult, shown: Sequence[CardVerdict]) -> list[str]:
    timed = [card for card in shown if card.seconds_per_sample]
    notes = []
    if timed and result.time_assumes:
        notes.append(f"s/sample: {', '.join(result.time_assumes)}")
    if any(not card.is_timed for card in timed):
        notes.append("~: no run of full samples was timed on it, to hold its time against")
    return notes


def list_costs(found: EstimateResult) -> list[tuple[str, str]]:
    """Return the times and costs that are known, each with its name."""
    cost = found.cost
    if cost is None:
        return []
    step = f"time per optimizer step{_accumulated(found.question)}"
    rows = [(step, _format_seconds(cost.seconds_per_step))]
    if cost.seconds_per_epoch is not None:
        epoch = f"time per epoch of {found.n_samples:,} samples"
        rows.append((epoch, _format_seconds(cost.seconds_per_epoch)))
    over = "" if found.n_epochs == 1 else f" for {found.n_epochs:g} epochs"
    for name, figure in (("GPU-hours", cost.gpu_hours), ("cost in USD", cost.price)):
        if figure is not None:
            span = f"{figure.low:.3g} to {figure.high:.3g}"
            rows.append((f"{name}{over}", f"{figure.value:.4g} ({span})"))
    if found.time_assumes:
        rows.append(("times assume", ", ".join(found.time_assumes)))
    if not found.question.says_mean:
        rows.append(("to narrow the times", "state --packing, --mean-tokens or --lengths"))
    return rows


def _accumulated(question: Question) -> str:
    n_accumulated = question.setting("grad_accum_steps")
    assumed = " (assumed; --accum says how many)" if question.grad_accum_steps is None else ""
    return f" of {n_accumulated} micro-batches{assumed}" if n_accumulated > 1 else ""


def _format_seconds(figure: Interval) -> str:
    interval = f"{format_duration(figure.low)} to {format_duration(figure.high)}"
    return f"{format_duration(figure.value)} (90 % interval {interval})"
