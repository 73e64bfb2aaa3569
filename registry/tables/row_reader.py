"""Read the rows of a table, and the claims of prose, into drafts of observations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from registry.errors import UnitError
from registry.submission.derive import fill_configuration
from registry.tables.cell_reader import (
    Hardware,
    bare_text,
    read_figures,
    read_outcome,
    read_values,
)
from registry.tables.matching import pivot_labels
from registry.tables.report import Report, ReportedFigure
from registry.tables.values import Stated, Values, parse_cell_value, split_parts, target_columns
from registry.units import split_glued

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from registry.catalogue import Catalogue
    from registry.tables.mapping import ColumnSpec, GluedRuns, RuleSpec, SourceMapping
    from registry.tables.matching import FoundTable
    from registry.tables.raw_table import RawTable

_REQUIRED = ("model_id", "method")


@dataclass(frozen=True)
class _ReportCells:
    """The cells of one report: a row, one pivoted column of it, or one of the runs glued in it."""

    where: str
    cells: dict[str, str]
    columns: dict[str, ColumnSpec]
    rules: Sequence[RuleSpec]
    values: Values
    citation: dict[str, Any]


class RowReader:
    """Reads rows into drafts and collects what cannot be read in ``problems``."""

    def __init__(self, mapping: SourceMapping, catalogue: Catalogue, origin: str) -> None:
        self.problems: list[str] = []
        self._mapping = mapping
        self._catalogue = catalogue
        self._origin = origin

    def read_table(self, found: FoundTable) -> Iterator[Report]:
        """Yield the reports of a table, in order."""
        for number in range(1, len(found.table.rows) + 1):
            try:
                reports = list(self._reports(found, number))
            except UnitError as error:
                self.problems.append(str(error))
                continue
            for report in reports:
                draft = self._read_report(report)
                if draft is not None:
                    yield draft

    def read_claims(self) -> Iterator[Report]:
        """Yield the observations that only the prose reports."""
        for claim in self._mapping.claims:
            where = f"{self._origin}, {claim.locator}"
            values = {**self._mapping.defaults, "evidence": Stated("claimed"), **claim.set}
            self._resolve(values, where)
            self._check_complete(values, where)
            if "outcome" not in values:
                self.problems.append(f"{where}: found no outcome, expected one in a claim")
                continue
            yield Report(_drop_nulls(values), (), {"locator": claim.locator})

    def _reports(self, found: FoundTable, number: int) -> Iterator[_ReportCells]:
        """Yield the reports of a row: one for each pivoted column and each glued run."""
        row = _row_cells(found.table, number)
        report = _ReportCells(
            where=f"{self._origin}, table {found.number}, row {number}",
            cells=row,
            columns=found.columns,
            rules=[*self._mapping.rules, *found.spec.rules],
            values={**self._mapping.defaults, **found.spec.defaults},
            citation=_citation(found, number, row, None),
        )
        pivoted = pivot_labels(found.table, found.spec)
        if not pivoted or found.spec.pivot is None:
            yield from _split_runs(report, found.spec.glued_runs)
            return
        labels = {name: text for name, text in row.items() if name not in pivoted}
        for name, label in pivoted.items():
            where = f"{report.where}, column {label!r}"
            to, cells = found.spec.pivot.to, {**labels, name: row[name]}
            yield replace(
                report,
                where=where,
                cells=cells,
                columns={**found.columns, name: found.spec.pivot.cell},
                values={**report.values, to: parse_cell_value(to, label, where=where)},
                citation=_citation(found, number, cells, label),
            )

    def _read_report(self, report: _ReportCells) -> Report | None:
        n_problems = len(self.problems)
        values = dict(report.values)
        figure_columns = self._read_values(report, values)
        self._resolve(values, report.where)
        _apply_rules(report, values)
        self._resolve(values, report.where)
        if len(self.problems) == n_problems:
            self._check_complete(values, report.where)
        figures = self._read_figures(report, figure_columns, self._hardware(values))
        if len(self.problems) > n_problems:
            return None
        if "outcome" not in values and not figures:
            self.problems.append(
                f"{report.where}: found neither a figure nor an outcome, expected one; say under "
                "`words` what the cells mean"
            )
            return None
        values.setdefault("outcome", Stated("ok"))
        return Report(_drop_nulls(values), tuple(figures), report.citation)

    def _read_values(self, report: _ReportCells, values: Values) -> list[str]:
        """Put what the cells state into ``values``; return the columns that hold figures."""
        figure_columns = []
        outcomes: dict[str, Values] = {}
        for name, spec in report.columns.items():
            if spec.ignore or name not in report.cells:
                continue
            cell = report.cells[name]
            if not spec.figures:
                self._read_cell_values(report, name, values)
                continue
            outcome = read_outcome(cell, spec, self._mapping.absent)
            if outcome is None:
                figure_columns.append(name)
            else:
                outcomes[name] = outcome
        self._merge_outcomes(report, outcomes, values)
        return figure_columns

    def _read_cell_values(self, report: _ReportCells, name: str, values: Values) -> None:
        cell = report.cells[name]
        try:
            stated = read_values(
                cell, report.columns[name], where=f"{report.where}, column {name!r}"
            )
        except UnitError as error:
            self.problems.append(str(error))
            return
        values.update(stated)
        if "model_id" in stated:
            values.setdefault("model_reported", Stated(bare_text(cell)))

    def _merge_outcomes(
        self, report: _ReportCells, outcomes: dict[str, Values], values: Values
    ) -> None:
        """Take the outcome that the cells of figures state; two that differ are a problem."""
        stated = {
            name: said["outcome"].value for name, said in outcomes.items() if "outcome" in said
        }
        if len(set(stated.values())) > 1:
            listed = ", ".join(f"{value} in column {name!r}" for name, value in stated.items())
            self.problems.append(f"{report.where}: found {listed}, expected one outcome")
        for said in outcomes.values():
            values.update(said)

    def _read_figures(
        self, report: _ReportCells, names: list[str], hardware: Hardware
    ) -> list[ReportedFigure]:
        figures: list[ReportedFigure] = []
        for name in names:
            where = f"{report.where}, column {name!r}"
            try:
                figures += read_figures(
                    report.cells[name], report.columns[name], hardware, where=where
                )
            except UnitError as error:
                self.problems.append(str(error))
        return figures

    def _hardware(self, values: Values) -> Hardware:
        configuration = split_parts(values)["configuration"]
        fill_configuration(configuration)
        gpu = self._catalogue.gpus.get(configuration.get("gpu_id", ""), {})
        flags = values.get("flags", Stated([])).value or []
        return Hardware(
            n_gpus=configuration.get("n_gpus"),
            gpu_memory_bytes=gpu.get("memory_bytes"),
            allow_over_capacity="peak_over_capacity" in flags,
        )

    def _resolve(self, values: Values, where: str) -> None:
        """Replace names of models and GPUs by their ids."""
        known = self._catalogue
        for column, resolve, unknown in (
            ("model_id", known.resolve_model, known.unknown_model),
            ("gpu_id", known.resolve_gpu, known.unknown_gpu),
        ):
            stated = values.get(column)
            if stated is None or stated.value is None:
                continue
            resolved = resolve(stated.value)
            if resolved is None:
                problem = f"{where}: {unknown(stated.value)}"
                if problem not in self.problems:
                    self.problems.append(problem)
            else:
                values[column] = Stated(resolved, stated.because)

    def _check_complete(self, values: Values, where: str) -> None:
        for name in _REQUIRED:
            if values.get(name, Stated(None)).value is None:
                self.problems.append(
                    f"{where}: found no {name}, expected one; map a column to it, or state it "
                    "under `defaults`"
                )


def _row_cells(table: RawTable, number: int) -> dict[str, str]:
    cells = table.rows[number - 1].cells
    return {name: cell.text for name, cell in zip(table.columns, cells, strict=True)}


def _citation(
    found: FoundTable, number: int, cells: dict[str, str], column: str | None
) -> dict[str, Any]:
    place = f"table {found.number}, row {number}"
    citation = {
        "locator": place if column is None else f"{place}, column {column}",
        "table_title": found.title,
        "row": number,
        "column": column,
        "cells": cells,
    }
    return {name: value for name, value in citation.items() if value is not None}


def _is_row(runs: GluedRuns, row: dict[str, str]) -> bool:
    return all(_is_one_of(bare_text(row.get(name, "")), value) for name, value in runs.when.items())


def _split_runs(report: _ReportCells, glued_runs: Sequence[GluedRuns]) -> Iterator[_ReportCells]:
    """Yield the report of each run that is glued in a row, or the row's own."""
    row, where = report.cells, report.where
    glued = next((runs for runs in glued_runs if _is_row(runs, row)), None)
    if glued is None:
        yield report
        return
    texts = {
        name: split_glued(row[name], glued.runs, where=f"{where}, column {name!r}", pattern=pattern)
        for name, pattern in glued.columns.items()
    }
    for run in range(glued.runs):
        cells = {**row, **{name: parts[run] for name, parts in texts.items()}}
        because = f"{glued.runs} runs stand in one row; this is number {run + 1}"
        values = {**report.values, "run_id": Stated(str(run + 1), because)}
        yield replace(report, cells=cells, values=values)


def _apply_rules(report: _ReportCells, values: Values) -> None:
    for rule in report.rules:
        if all(_holds(report, values, name, value) for name, value in rule.when.items()):
            values.update(rule.set)
            _add_reasons(values, rule.because)


def _add_reasons(values: Values, because: Mapping[str, str]) -> None:
    for name, reason in because.items():
        if name in values:
            values[name] = replace(values[name], because=reason)


def _holds(report: _ReportCells, values: Values, name: str, expected: Any) -> bool:
    if name in report.cells:
        return _is_one_of(bare_text(report.cells[name]), expected)
    if name not in target_columns():
        return False
    found = values.get(name, Stated(None)).value
    options = expected if isinstance(expected, list) else [expected]
    return any(found == option and type(found) is type(option) for option in options)


def _is_one_of(text: str, expected: Any) -> bool:
    options = expected if isinstance(expected, list) else [expected]
    return text in [str(option) for option in options]


def _drop_nulls(values: Values) -> Values:
    return {name: stated for name, stated in values.items() if stated.value is not None}
