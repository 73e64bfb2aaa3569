"""Rows of a table as reports: what is skipped, what a section says, pivots and glued runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from registry.errors import UnitError
from registry.reading.patterns import compile_pattern
from registry.tables.cell_reader import bare_text, is_absent, match_pattern, read_values, texts_of
from registry.tables.matching import pivot_labels
from registry.tables.problems import Place
from registry.tables.values import Stated
from registry.units import split_glued

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from registry.tables.column_spec import ColumnSpec
    from registry.tables.mapping import GluedRuns, Pivot, RuleSpec, SkipSpec, SourceMapping
    from registry.tables.matching import FoundTable
    from registry.tables.values import Values


@dataclass(frozen=True)
class ReportCells:
    """The cells of one report: a row, one pivoted column of it, or one of the runs glued in it."""

    found: FoundTable
    place: Place
    where: str
    cells: dict[str, str]
    columns: dict[str, ColumnSpec]
    rules: Sequence[RuleSpec]
    values: Values
    citation: dict[str, Any]

    @property
    def says_nothing(self) -> bool:
        """Whether no cell of figures holds a figure or a word, and none states an outcome."""
        return not self._states_outcome() and all(
            is_absent(self.cells[name], spec.absent)
            for name, spec in self.columns.items()
            if spec.figures and name in self.cells
        )

    def _states_outcome(self) -> bool:
        """Return whether a cell is about how the run ended; that of a pivot's row is of its places.

        A text without a meaning is about it too: the row is read, and the text told.
        """
        if self.found.spec.pivot:
            return False
        found = {n: spec for n, spec in self.columns.items() if spec.can_state_outcome}
        try:
            return any(
                "outcome" in read_values(self.cells[name], spec, spec.absent, where=self.where)
                for name, spec in found.items()
                if name in self.cells
            )
        except UnitError:
            return True


@dataclass
class TableRows:
    """Walks over the rows of a table, and counts those that are not read."""

    found: FoundTable
    mapping: SourceMapping
    origin: str
    skipped: list[int] = field(default_factory=list)
    n_empty: int = 0
    labels: dict[str, dict[str, tuple[str, Values]]] = field(default_factory=dict)

    def read_labels(self) -> Iterator[tuple[int, str, UnitError]]:
        """Read what the labels of pivoted columns mean; yield those that have no meaning.

        Each comes with the number of the pivot and the column's name.
        """
        for number, pivot in enumerate(self.found.spec.pivot):
            known = self.labels.setdefault(pivot.columns, {})
            for name, label in pivot_labels(self.found.table, pivot).items():
                try:
                    known[name] = label, read_values(label, pivot, where=self.where)
                except UnitError as error:
                    yield number, name, error

    @property
    def where(self) -> str:
        """Where the table stands, for messages."""
        return f"{self.origin}, table {self.found.number}"

    def reports(self, number: int, section: Values) -> Iterator[ReportCells]:
        """Yield the reports of a row, none where it is skipped.

        Raises:
            UnitError: a label of a pivot or a glued cell has no meaning.
        """
        if self._is_skipped(number):
            self.skipped.append(number)
            return
        for report in self._split(number, section):
            if self._skips_empty and report.says_nothing:
                self.n_empty += 1
            else:
                yield report

    def count(self, most: int) -> int:
        """Return how many reports the rows hold, at most ``most``; a row without a meaning is one.

        These rows are then not to be walked over again.
        """
        list(self.read_labels())
        n_reports = 0
        for number in range(1, len(self.found.table.rows) + 1):
            try:
                is_section = self.read_section(number) is not None
                n_reports += 0 if is_section else sum(1 for _ in self.reports(number, {}))
            except UnitError:
                n_reports += 1
            if n_reports >= most:
                return most
        return n_reports

    def read_headings(self) -> Values:
        """Return what the headings above the table say; raise UnitError where none fits."""
        patterns = self.found.spec.headings
        if not patterns:
            return {}
        headings = (*self.found.table.heading, *filter(None, [self.found.spec.title]))
        where = self.where
        for heading in reversed(headings):
            said = match_pattern(heading, patterns, where=where, anywhere=True)
            if said is not None:
                return said
        raise UnitError(
            f"{where}: found the headings {' / '.join(headings)!r}, expected one that fits a "
            "pattern of `headings`"
        )

    def read_section(self, number: int) -> Values | None:
        """Return what a row says about those below it; None where it is no section."""
        spec = self.found.spec.sections
        text = self.section_text(number)
        if spec is None or text is None:
            return None
        where = f"{self.where}, row {number}"
        return {} if spec.ignore else read_values(text, spec, where=where)

    def section_text(self, number: int) -> str | None:
        """Return the text of a row that holds one text alone, in its first cell or spanned."""
        cells = self.found.table.rows[number - 1].cells
        first = cells[0].text
        if len(cells) == 1 or not first:
            return None
        rest = cells[1:]
        is_spanned = all(cell.text == first and cell.origin for cell in rest)
        return first if is_spanned or not any(cell.text for cell in rest) else None

    @property
    def _skips(self) -> Sequence[SkipSpec]:
        return [*self.mapping.skip, *self.found.spec.skip]

    @property
    def _skips_empty(self) -> bool:
        return any(skip.empty for skip in self._skips)

    def _is_skipped(self, number: int) -> bool:
        row = self._cells(number)
        return any(number in skip.rows or _fits(skip, row) for skip in self._skips)

    def _cells(self, number: int) -> dict[str, str]:
        table = self.found.table
        cells = table.rows[number - 1].cells
        return {name: cell.text for name, cell in zip(table.columns, cells, strict=True)}

    def _split(self, number: int, section: Values) -> Iterator[ReportCells]:
        """Yield the reports of a row: one for each pivoted column and each glued run."""
        found, row = self.found, self._cells(number)
        report = ReportCells(
            found=found,
            place=Place(found.number, number),
            where=f"{self.where}, row {number}",
            cells=row,
            columns=found.columns,
            rules=[*self.mapping.rules, *found.spec.rules],
            values={**self.mapping.defaults, **found.spec.defaults, **section},
            citation=_citation(found, number, row, None),
        )
        if not found.spec.pivot:
            yield from _split_runs(report, found.spec.glued_runs)
            return
        all_pivoted = {n for pivot in found.spec.pivot for n in pivot_labels(found.table, pivot)}
        labels = {name: text for name, text in row.items() if name not in all_pivoted}
        for pivot in found.spec.pivot:
            yield from self._split_pivot(report, pivot, labels, number)

    def _split_pivot(
        self, report: ReportCells, pivot: Pivot, labels: dict[str, str], number: int
    ) -> Iterator[ReportCells]:
        found = self.found
        for name, (label, values) in self.labels[pivot.columns].items():
            where = f"{report.where}, column {label!r}"
            cells = {**labels, name: report.cells[name]}
            yield replace(
                report,
                where=where,
                cells=cells,
                columns={**found.columns, name: pivot.cell},
                values={**report.values, **values},
                citation=_citation(found, number, cells, label),
            )


def _fits(skip: SkipSpec, row: dict[str, str]) -> bool:
    return bool(skip.when) and all(
        any(compile_pattern(pattern).fullmatch(text) for text in texts_of(row.get(name, "")))
        for name, pattern in skip.when.items()
    )


def _citation(
    found: FoundTable, number: int, cells: dict[str, str], column: str | None
) -> dict[str, Any]:
    if found.spec.transposed:
        label = "" if column is None else f", row {column}"
        column = next(iter(cells.values()))
        place, row = f"table {found.number}, column {column}{label}", None
    else:
        place, row = f"table {found.number}, row {number}", number
        place += "" if column is None else f", column {column}"
    citation = {
        "locator": place,
        "table_title": found.title,
        "row": row,
        "column": column,
        "cells": cells,
    }
    return {name: value for name, value in citation.items() if value is not None}


def _is_row(runs: GluedRuns, row: dict[str, str]) -> bool:
    return all(is_one_of(row.get(name, ""), value) for name, value in runs.when.items())


def is_one_of(cell: str, expected: Any) -> bool:
    """Return whether a cell's text, with marks or without, is one of those expected."""
    options = expected if isinstance(expected, list) else [expected]
    texts = [str(option) for option in options]
    return any(text in texts for text in texts_of(cell))


def _split_runs(report: ReportCells, glued_runs: Sequence[GluedRuns]) -> Iterator[ReportCells]:
    """Yield the report of each run that is glued in a row, or the row's own."""
    row, where = report.cells, report.where
    glued = next((runs for runs in glued_runs if _is_row(runs, row)), None)
    if glued is None:
        yield report
        return
    texts = {
        name: split_glued(
            bare_text(row[name]), glued.runs, where=f"{where}, column {name!r}", pattern=pattern
        )
        for name, pattern in glued.columns.items()
    }
    for run in range(glued.runs):
        cells = {**row, **{name: parts[run] for name, parts in texts.items()}}
        because = f"{glued.runs} runs stand in one row; this is number {run + 1}"
        values = {**report.values, "run_id": Stated(str(run + 1), because)}
        yield replace(report, cells=cells, values=values)
