"""What an import tells of a document beside its problems: nothing is left out in silence."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from registry.errors import excerpt
from registry.tables.problems import Place, format_places

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from registry.reading.yaml_reader import Path
    from registry.tables.mapping import SourceMapping
    from registry.tables.matching import FoundTable
    from registry.tables.merge import Apart, Merged, Repeated
    from registry.tables.rows import TableRows

    Key = TypeVar("Key")
    _Places = defaultdict[Key, list[Place]]

#: Most pairs of rows, or settings, that are listed one by one.
_MOST_LISTED = 10
#: Most titles of tables that a note quotes.
_MOST_TITLES = 3

#: Most characters of a rule's condition that are shown.
_LONGEST_CONDITION = 120


@dataclass
class Notes:
    """Collects what a reader is to know."""

    _tables: list[str] = field(default_factory=list)
    #: Footnote marks that the mapping gives no meaning, by mark and column.
    marks: _Places[tuple[str, str]] = field(default_factory=lambda: defaultdict(list))
    #: Figures taken as those of all cards where nobody says how many there are, by column.
    scopes: _Places[str] = field(default_factory=lambda: defaultdict(list))
    #: Rows whose figures do not show that anything ran.
    unknown: list[Place] = field(default_factory=list)
    #: Runs not recorded as failed, as a column not read says, by column and text.
    failures: _Places[tuple[str, str]] = field(default_factory=lambda: defaultdict(list))
    #: Rows recorded as measured, although a column not read says otherwise, by column and text.
    estimates: _Places[tuple[str, str]] = field(default_factory=lambda: defaultdict(list))
    #: Rows without cards, as a cell is empty below one that names them, by column and that cell.
    blanks: _Places[tuple[str, str]] = field(default_factory=lambda: defaultdict(list))
    _rows: list[str] = field(default_factory=list)
    _runs: list[str] = field(default_factory=list)
    _rules: list[str] = field(default_factory=list)

    def add_table(self, found: FoundTable) -> None:
        """Note what was filled in or left out to read a table, and the columns not read."""
        self._tables += [f"table {found.number}, {note}" for note in found.table.notes]
        if found.ignored:
            listed = ", ".join(repr(name) for name in found.ignored)
            self._tables.append(f"table {found.number}: not read: {listed}")

    def add_labels(self, rows: TableRows) -> None:
        """Note columns of a pivot whose names are given one meaning."""
        for labels in rows.labels.values():
            alike: dict[str, list[str]] = {}
            for label, values in labels.values():
                meaning = repr(
                    sorted((name, repr(stated.value)) for name, stated in values.items())
                )
                alike.setdefault(meaning, []).append(label.strip())
            for names in alike.values():
                if len(names) > 1:
                    self._tables.append(
                        f"table {rows.found.number}: {', '.join(map(repr, names))} have the same "
                        "meaning: their runs are repeats, and one run where their figures are the "
                        "same; if they are not, state what tells them apart under `values`"
                    )

    def add_rule(self, mapping: SourceMapping, path: Path, when: Mapping[str, Any]) -> None:
        """Note a rule that matched no row: most likely its condition is misspelt."""
        line = mapping.line_of(path)
        place = mapping.origin if line is None else f"{mapping.origin}, line {line}"
        self._rules.append(f"{place}: the rule for {format_condition(when)} matched no row")

    def add_rows(self, rows: TableRows) -> None:
        """Note the rows of a table that were skipped."""
        if rows.skipped:
            places = [Place(rows.found.number, number) for number in rows.skipped]
            self._rows.append(f"skipped: {format_places(places)}")
        if rows.n_empty:
            self._rows.append(f"table {rows.found.number}: skipped {rows.n_empty} empty places")

    def add_runs(self, merged: Merged) -> None:
        """Note reports that were united, and runs that only their cells tell apart."""
        united = [group for group in merged.groups if len(group.citations) > 1]
        if united:
            first = " and ".join(citation["locator"] for _, citation in united[0].citations)
            self._runs.append(
                f"observations reported alike in several places: {len(united)} (first: {first})"
            )
        self._add_some([_format_apart(pair) for pair in merged.apart], "such pairs")
        self._add_some([_format_repeated(runs) for runs in merged.repeated], "such settings")

    def _add_some(self, lines: Sequence[str], what: str) -> None:
        self._runs += lines[:_MOST_LISTED]
        if len(lines) > _MOST_LISTED:
            self._runs.append(f"and {len(lines) - _MOST_LISTED} more {what}")

    def format(self) -> tuple[str, ...]:
        """Return all notes."""
        return tuple(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from self._tables
        for (mark, column), places in self.marks.items():
            yield (
                f"{format_places(places)}, column {column!r}: the mapping gives the footnote mark "
                f"{mark!r} no meaning; the figure is read without it; add it under `footnotes`"
            )
        for column, places in self.scopes.items():
            yield (
                f"{format_places(places)}, column {column!r}: taken as the figure of all cards; "
                "their number is not stated; state `n_gpus`, or `scope`"
            )
        for (column, text), places in self.failures.items():
            yield (
                f"{format_places(places)}: recorded as a run that did not fail, but {column!r}, "
                f"which is not read, says {excerpt(text)}; if this run failed, say so under "
                "`values` of the column (`outcome: oom`); if another one did, such as one of a "
                "larger batch, no change is needed"
            )
        for (column, above), places in self.blanks.items():
            yield (
                f"{format_places(places)}: without a card, as {column!r} is empty there; if "
                f"{excerpt(above)} above holds for it too, write it into the cell"
            )
        for (column, text), places in self.estimates.items():
            yield (
                f"{format_places(places)}: recorded as measured, but {column!r}, which is not "
                f"read, says {excerpt(text)}; if nobody measured these figures, say so under "
                "`values` of the column (`evidence: estimated`); if it is about something else, "
                "no change is needed"
            )
        if self.unknown:
            yield (
                f"{format_places(self.unknown)}: only parameters are counted, which does not show "
                "that it ran: outcome unknown"
            )
        yield from self._rules
        yield from self._rows
        yield from self._runs


def format_condition(when: Mapping[str, Any]) -> str:
    """Return what a rule asks for, cut where it is long."""
    text = " and ".join(f"{name} {value!r}" for name, value in when.items())
    return text if len(text) <= _LONGEST_CONDITION else f"{text[:_LONGEST_CONDITION]}…"


def _format_apart(pair: Apart) -> str:
    one, other = (report.citation["locator"] for report in (pair.one, pair.other))
    columns = ", ".join(repr(name) for name in pair.columns)
    return (
        f"{one} and {other} say the same but differ in {columns}: kept as two "
        "observations; if they are one run, name the column under `unite`, with the reason"
    )


def _format_repeated(repeated: Repeated) -> str:
    first, last = (repeated.runs[place].citation["locator"] for place in (0, -1))
    columns = ", ".join(repr(name) for name in repeated.columns)
    titles = ", ".join(excerpt(title) for title in repeated.titles[:_MOST_TITLES])
    ways = [
        *([f"{columns}, not read: map the column that distinguishes them"] if columns else []),
        *(
            [f"the titles of their tables ({titles}): state what each says of its rows"]
            * bool(titles)
        ),
    ]
    return (
        f"{len(repeated.runs)} observations, {first} to {last}, are recorded as runs of the same "
        f"settings; they differ in {'; and in '.join(ways)}"
    )
