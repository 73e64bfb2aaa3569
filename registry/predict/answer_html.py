"""Answers as small HTML tables, for notebooks. All text is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from registry.predict.answer.plain import format_interval, format_question, format_signed
from registry.predict.answer_tables import HEAD, list_cards, list_costs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from registry.predict.answers import EstimateResult, FitResult
    from registry.predict.question import Question


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table, its text escaped."""
    lines = ["<table>", _row("th", head), *(_row("td", row) for row in rows), "</table>"]
    return "\n".join(lines)


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def format_fit_html(found: FitResult) -> str:
    """Return the question, the verdict, what is odd, and the cards of an answer."""
    said = found.verdict_line or "on each card:"
    lines = [f"peak per device: {format_interval(found.peak)}", said, *_warned(found)]
    return f"{_format_head(found.answer.question, lines)}\n{_format_cards(found)}"


def _format_head(question: Question, lines: Iterable[str]) -> str:
    told = "".join(f"<br>{escape(line)}" for line in lines)
    return f"<p><b>{escape(format_question(question))}</b>{told}</p>"


def _warned(found: FitResult | EstimateResult) -> list[str]:
    return [f"warning: {warning}" for warning in found.warnings]


def _format_cards(found: FitResult) -> str:
    cards = list_cards(found)
    if not cards.rows:
        return "<p>none of the catalogue's common cards could hold it</p>"
    kept = [i for i in range(len(HEAD)) if any(row[i] for row in cards.rows)]
    table = format_table([HEAD[i] for i in kept], [[row[i] for i in kept] for row in cards.rows])
    notes = [cards.columns, *cards.notes]
    if cards.n_hidden:
        notes.append(f"{cards.n_hidden} more common cards could hold it (to_dict() has all)")
    return f"{table}\n<p>{'<br>'.join(map(escape, notes))}</p>"


def format_estimate_html(found: EstimateResult) -> str:
    """Return the parts of a peak, and time and cost where they are known."""
    rows = [(name, format_signed(value)) for name, value in found.memory.parts.items() if value]
    rows.append(("peak per device", format_interval(found.memory.figure)))
    rows += list_costs(found)
    head = _format_head(found.question, _warned(found))
    return f"{head}\n{format_table(('part', 'amount'), rows)}"
