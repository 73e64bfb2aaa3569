"""Read one cell as its column's meaning says: values, outcome words, figures."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import UnitError, did_you_mean
from registry.tables.report import ReportedFigure
from registry.tables.values import Stated, parse_cell_value, target_column
from registry.units import parse_outcome_word, split_cell, split_glued, strip_markup
from registry.units.figure import TIME_OF, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Collection

    from registry.tables.mapping import ColumnSpec, FigureSpec
    from registry.tables.values import Values
    from registry.units.memory import MemoryOptions

_REFERENCE = re.compile(r"\\([0-9])")


@dataclass(frozen=True)
class Hardware:
    """What bounds a memory figure; None where it is not stated."""

    n_gpus: int | None = None
    gpu_memory_bytes: int | None = None
    allow_over_capacity: bool = False

    def capacity_bytes(self, scope: str) -> int | None:
        """Return the memory of the cards that a figure of this scope is about."""
        if self.gpu_memory_bytes is None:
            return None
        if scope != "total":
            return self.gpu_memory_bytes
        return None if self.n_gpus is None else self.n_gpus * self.gpu_memory_bytes


def bare_text(cell: str) -> str:
    """Return a cell's text without bold and footnote marks."""
    return strip_markup(cell).text


def read_values(cell: str, spec: ColumnSpec, *, where: str) -> Values:
    """Return the values that a cell of a column of values states; none for an absent one.

    Raises:
        UnitError: the mapping gives the text no meaning, or it is none of the column's type.
    """
    text = bare_text(cell)
    for known in (cell.strip(), text):
        if known in spec.values:
            return spec.value_of(known)
    for pattern in spec.patterns:
        match = re.fullmatch(pattern.pattern, text)
        if match:
            return {
                name: _expand(name, stated, match, where=where)
                for name, stated in pattern.set.items()
            }
    if is_absent(cell, spec.absent):
        return {}
    if spec.to is None or spec.values:
        raise UnitError(
            f"{where}: found {text!r}, expected a text that the mapping gives a meaning"
            f"{did_you_mean(text, spec.values)}{_listed(spec)}"
        )
    return {spec.to: parse_cell_value(spec.to, text, where=where)}


def _listed(spec: ColumnSpec) -> str:
    known = [*spec.values, *(pattern.pattern for pattern in spec.patterns)]
    return f": one of {', '.join(repr(text) for text in known)}"


def _expand(name: str, stated: Stated, match: re.Match[str], *, where: str) -> Stated:
    """Put the groups of a match into one of a pattern's values."""

    def fill(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        return _REFERENCE.sub(lambda reference: match[int(reference[1])] or "", text)

    if isinstance(stated.value, list):
        return Stated([fill(item) for item in stated.value], stated.because)
    if isinstance(stated.value, str) and _REFERENCE.search(stated.value):
        if target_column(name).type == "list<string>":
            return Stated([fill(stated.value)], stated.because)
        value = parse_cell_value(name, fill(stated.value), where=where).value
        return Stated(value, stated.because)
    return stated


def is_absent(cell: str, absent: Collection[str]) -> bool:
    """Return whether a cell says nothing: empty, or a mark that says so."""
    return bare_text(cell) in absent or parse_outcome_word(cell).kind == "absent"


def read_outcome(cell: str, spec: ColumnSpec, absent: Collection[str]) -> Values | None:
    """Return what a cell of figures says in the place of figures; None where it holds figures."""
    text = bare_text(cell)
    if text in spec.words:
        return spec.words[text]
    if is_absent(cell, (*absent, *spec.absent)):
        return {}
    word = parse_outcome_word(cell)
    return None if word.outcome is None else {"outcome": Stated(word.outcome)}


def read_figures(
    cell: str, spec: ColumnSpec, hardware: Hardware, *, where: str
) -> list[ReportedFigure]:
    """Return the figures of a cell.

    Raises:
        UnitError: the text does not say what the mapping expects of it.
    """
    text = bare_text(cell)
    if not spec.parts:
        parts: tuple[str, ...] = (text,)
    else:
        parts = split_cell(text, len(spec.parts), where=where, separator=spec.separator)
    figures: list[ReportedFigure] = []
    for part, figure in zip(parts, spec.figures, strict=True):
        figures += _read_part(part, figure, spec, hardware, where=where)
    return figures


def _read_part(
    text: str, figure: FigureSpec, spec: ColumnSpec, hardware: Hardware, *, where: str
) -> list[ReportedFigure]:
    texts = _split_cards(text, spec, hardware.n_gpus or 1, where=where)
    if texts is None:
        return [_read_figure(text, figure, figure.scope, None, hardware, where=where)]
    return [
        _read_figure(part, figure, "per_gpu", index, hardware, where=f"{where}, card {index}")
        for index, part in enumerate(texts)
    ]


def _split_cards(text: str, spec: ColumnSpec, n_gpus: int, *, where: str) -> tuple[str, ...] | None:
    """Return the text of each card; None where the cell is about one card or all together."""
    if n_gpus == 1:
        return None
    if spec.cards is not None:
        return split_glued(text, n_gpus, where=where, pattern=spec.cards)
    if spec.cards_separator is not None:
        return split_cell(text, n_gpus, where=where, separator=spec.cards_separator)
    return None


def _read_figure(  # noqa: PLR0913 - the place and the two halves of a figure's meaning
    text: str,
    figure: FigureSpec,
    scope: str,
    device_index: int | None,
    hardware: Hardware,
    *,
    where: str,
) -> ReportedFigure:
    is_bare = re.search(r"[^\W\d_]|%", text) is None
    options = _options(figure, is_bare=is_bare)
    if figure.canonical_unit == "byte":
        options["capacity_bytes"] = hardware.capacity_bytes(scope)
        options["allow_over_capacity"] = hardware.allow_over_capacity
    return ReportedFigure(
        metric=figure.metric,
        statistic=figure.statistic,
        scope=scope,
        device_index=device_index,
        kind=figure.memory_kind,
        quantity=parse_quantity(
            figure.canonical_unit,
            text,
            where=where,
            per=TIME_OF.get(figure.metric),
            per_gpu=scope != "total",
            **options,
        ),
        unit_in_header=figure.unit if is_bare else None,
        because=figure.because,
    )


def _options(figure: FigureSpec, *, is_bare: bool) -> MemoryOptions:
    """Return how a figure is read, with the reasons for what its text does not say itself."""
    default = (figure.unit or figure.default_unit) if is_bare else None
    in_header = "the column's header gives the unit" if figure.unit else None
    reasons = [
        (figure.default_reason or in_header) if default else None,
        figure.reason if figure.read_as else None,
    ]
    return {
        "default_unit": default,
        "read_as": figure.read_as,
        "reason": "; ".join(filter(None, reasons)) or None,
    }
