"""Answers as small HTML tables, for notebooks. All text is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from registry.predict.answer.plain import (
    format_chance,
    format_interval,
    format_question,
    format_signed,
)
from registry.units import format_duration, format_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from registry.predict.answers import EstimateResult, FitResult

#: So many cards are shown at most.
_MOST_CARDS = 12


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table, its text escaped."""
    lines = ["<table>", _row("th", head), *(_row("td", row) for row in rows), "</table>"]
    return "\n".join(lines)


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def format_fit_html(found: FitResult) -> str:
    """Return the question, the verdict and the cards of an answer."""
    said = found.verdict_line or "on each card:"
    shown = found.shown[:_MOST_CARDS]
    cards = format_table(
        ("card", "memory", "headroom", "verdict", "s/sample", "chance"),
        [
            (
                card.gpu.gpu_id,
                format_memory(card.gpu.memory_bytes),
                format_signed(card.headroom_bytes),
                card.verdict,
                "" if card.seconds_per_sample is None else f"{card.seconds_per_sample.value:.3g}",
                format_chance(card.chance),
            )
            for card in shown
        ],
    )
    question = escape(format_question(found.answer.question))
    return (
        f"<p><b>{question}</b><br>peak per device: {escape(format_interval(found.peak))}<br>"
        f"{escape(said)}</p>\n{cards}"
    )


def format_estimate_html(found: EstimateResult) -> str:
    """Return the parts of a peak, and time and cost where they are known."""
    rows = [(name, format_signed(value)) for name, value in found.memory.parts.items() if value]
    rows.append(("peak per device", format_interval(found.memory.figure)))
    if found.cost is not None:
        rows.append(("optimizer step", format_duration(found.cost.seconds_per_step.value)))
        if found.cost.price is not None:
            rows.append(("cost in USD", f"{found.cost.price.value:.4g}"))
    question = escape(format_question(found.question))
    return f"<p><b>{question}</b></p>\n{format_table(('part', 'bytes'), rows)}"
