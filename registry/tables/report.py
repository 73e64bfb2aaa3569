"""What a row of a table says, before rows of the same experiment are folded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from registry.units.figure import format_figure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.tables.values import Values
    from registry.units.figure import AnyQuantity

FigureKey = tuple[str, str, str, int | None, str | None]


@dataclass(frozen=True)
class ReportedFigure:
    """One figure of a cell: what it measures, and the quantity with its text.

    ``written`` is the text as it stands in the document where it was read as another.
    """

    metric: str
    statistic: str
    scope: str
    device_index: int | None
    kind: str | None
    quantity: AnyQuantity
    unit_in_header: str | None = None
    because: str | None = None
    written: str | None = None

    @property
    def raw(self) -> str:
        """The text as it stands in the document."""
        return self.written or self.quantity.raw

    @property
    def key(self) -> FigureKey:
        """What distinguishes this figure from the others of an observation."""
        return (self.metric, self.statistic, self.scope, self.device_index, self.kind)

    def measurement(self) -> dict[str, Any]:
        """Return the figure as a measurement of a submission."""
        columns = format_figure(self.quantity)
        names = ("metric", "statistic", "scope", "device_index", "kind")
        identity = {name: getattr(self, name) for name in names}
        reasons = [self.because, columns.get("reason")]
        columns["reason"] = "; ".join(dict.fromkeys(filter(None, reasons))) or None
        columns.setdefault("unit_reported", self.unit_in_header)
        filled = {**identity, **columns, "value": float(columns["value"]), "raw": self.raw}
        return {name: value for name, value in filled.items() if value is not None}


@dataclass(frozen=True)
class Report:
    """One reported place: the values it states, its figures and its citation.

    ``unread`` are the texts of the columns that the mapping does not read, ``named`` those to which
    it gives a meaning of its own: rows that differ in them need not be one run. ``table`` is the
    number of the table, None for prose, and ``title`` the heading above it.
    """

    values: Values
    figures: tuple[ReportedFigure, ...]
    citation: dict[str, Any]
    table: int | None = None
    unread: Mapping[str, str] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    title: str | None = None

    def differing(self, other: Report, *, named: bool = True) -> list[str]:
        """Return the columns that tell two reports of equal values apart.

        Within one table these are all columns but those of plain values and figures; two tables may
        write the same thing differently, and only what the mapping does not read counts, as it does
        where ``named`` is false.
        """
        names = self.unread.keys() & other.unread.keys()
        differ = [name for name in names if self.unread[name] != other.unread[name]]
        if named and self.table is not None and self.table == other.table:
            names = self.named.keys() & other.named.keys()
            differ += [name for name in names if self.named[name] != other.named[name]]
        return sorted(differ)
