"""Read the rows of a table, and the claims of prose, into drafts of observations."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from registry.errors import UnitError
from registry.submission.derive import fill_configuration
from registry.tables.cell_reader import (
    FITS,
    FigureCell,
    bare_text,
    find_estimate,
    footnote_of,
    is_absent,
    marks_of_column,
    read_failure,
    read_figure_cell,
    read_outcome,
    read_values,
    texts_of,
)
from registry.tables.column_spec import SHARED_METRICS
from registry.tables.decimal_marks import check_decimal, find_decimal_comma
from registry.tables.figure_reader import Hardware, read_figure
from registry.tables.header_check import check_header, check_unit_column
from registry.tables.matching import pivot_labels
from registry.tables.problems import Place, Problems
from registry.tables.report import Report, ReportedFigure
from registry.tables.rows import ReportCells, TableRows
from registry.tables.rules import Rules
from registry.tables.title_settings import title_of_table
from registry.tables.values import Stated, Values, contradict, lay_over, split_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from registry.catalogue import Catalogue
    from registry.tables.mapping import SourceMapping
    from registry.tables.matching import FoundTable
    from registry.tables.notes import Notes

_REQUIRED = ("model_id", "method")

#: Figures that a source can give without having run anything.
_OF_THE_MODEL = {"trainable_params", "n_params"}

#: What names a run, of which several columns may be a part: the last counts.
_NAMES = {"run_id", "model_reported"}


@dataclass
class _Draft:
    """What is known so far of one report."""

    values: Values
    #: What cells of values say of this row alone.
    stated: Values = field(default_factory=dict)
    cells: dict[str, FigureCell] = field(default_factory=dict)
    outcomes: dict[str, Values] = field(default_factory=dict)


class RowReader:
    """Reads rows into reports, and collects what cannot be read and what a reader is to know."""

    def __init__(
        self, mapping: SourceMapping, catalogue: Catalogue, problems: Problems, notes: Notes
    ) -> None:
        self._mapping = mapping
        self._catalogue = catalogue
        self._problems = problems
        self._notes = notes
        self._rules = Rules(mapping)
        self._comma: str | None = None
        #: The last cell that named cards, by table and column.
        self._cards: dict[tuple[int, str], str] = {}

    def look_over(self, tables: Iterable[FoundTable]) -> None:
        """Take in what holds for all tables: whether figures have decimal commas."""
        self._comma = find_decimal_comma(tables)

    def count_reports(self, found: FoundTable, *, most: int) -> int:
        """Return how many reports a table holds, without reading them; no more than ``most``."""
        return TableRows(found, self._mapping, self._problems.origin).count(most)

    def read_table(self, found: FoundTable) -> Iterator[Report]:
        """Yield the reports of a table, in order."""
        rows = TableRows(found, self._mapping, self._problems.origin)
        self._check_headers(found)
        self._read_labels(rows)
        headings = self._read_headings(rows)
        section: Values = {}
        for number in range(1, len(found.table.rows) + 1):
            place = Place(found.number, number)
            try:
                said = rows.read_section(number)
                reports = (
                    list(rows.reports(number, {**headings, **section})) if said is None else []
                )
            except UnitError as error:
                where = f"{rows.where}, row {number}"
                self._problems.add_error(error, where, place, column=None, path=None)
                continue
            if said:
                said = self._with_mark_of_section(said, rows, place)
            section = section if said is None else said
            for report in reports:
                draft = self._read_report(report, rows)
                if draft is not None:
                    yield draft
        self._notes.add_rows(rows)

    def _with_mark_of_section(self, said: Values, rows: TableRows, place: Place) -> Values:
        """Return what a section says, and what the footnote mark behind its text means."""
        spec, text = rows.found.spec.sections, rows.section_text(place.row or 0)
        values = dict(said)
        if spec is not None and text is not None and text.strip() not in spec.values:
            column = rows.found.table.columns[0]
            self._note_mark(footnote_of(text), rows.found, place, column, values)
        return values

    def read_claims(self) -> Iterator[Report]:
        """Yield the observations that only the prose reports."""
        for number, claim in enumerate(self._mapping.claims):
            place = Place(locator=claim.locator)
            values = {**self._mapping.defaults, "evidence": Stated("claimed"), **claim.set}
            self._resolve(values, place, ("claims", number))
            self._check_complete(values, place, ("claims", number))
            if "outcome" not in values:
                self._problems.add(
                    "found no outcome, expected one in a claim", place, path=("claims", number)
                )
                continue
            yield Report(_drop_nulls(values), (), {"locator": claim.locator})

    def note_rules(self) -> None:
        """Note the rules of tables that matched no row."""
        for path, rule in self._rules.unmatched():
            self._notes.add_rule(self._mapping, path, rule.when)

    def _check_headers(self, found: FoundTable) -> None:
        """Hold the meaning of each column of figures against its header."""
        specs = [(name, spec, found.path_of(name)) for name, spec in found.columns.items()]
        for name in found.table.columns:
            pivot = next(
                (p for p in found.spec.pivot if name in pivot_labels(found.table, p)), None
            )
            if pivot is not None:
                specs.append((name, pivot.cell, (*found.path, "pivot")))
        for name, spec, path in specs:
            for figure in [spec.figure] if spec.figure else ():
                for problem in check_header(name, figure):
                    self._problems.add(problem, Place(found.number), column=name, path=path)

    def _read_labels(self, rows: TableRows) -> None:
        place = Place(rows.found.number)
        for number, name, error in rows.read_labels():
            path = (*rows.found.path, "pivot", number)
            self._problems.add_error(error, rows.where, place, column=name, path=path)
        self._notes.add_labels(rows)

    def _read_headings(self, rows: TableRows) -> Values:
        try:
            return rows.read_headings()
        except UnitError as error:
            place, path = Place(rows.found.number), (*rows.found.path, "headings")
            self._problems.add_error(error, rows.where, place, column=None, path=path)
            return {}

    def _read_report(self, report: ReportCells, rows: TableRows) -> Report | None:
        draft = _Draft(dict(report.values))
        self._read_values(report, draft)
        self._read_words(report, draft)
        path = report.found.path
        self._resolve(draft.values, report.place, path)
        self._apply_rules(report, draft)
        self._resolve(draft.values, report.place, path)
        self._read_cells(report, draft)
        if not self._problems.has(report.place):
            self._check_complete(draft.values, report.place, (*path, "defaults"))
        figures = self._read_figures(report, draft)
        if self._problems.has(report.place):
            return None
        self._state_outcome(report, draft.values, figures, rows)
        if self._problems.has(report.place):
            return None
        unread, named = _distinguishing(report)
        if draft.values.get("outcome", Stated(None)).value in ("ok", "unknown"):
            for name, text in unread.items():
                if read_failure(name, text):
                    self._notes.failures[name, text].append(report.place)
        if draft.values.get("evidence", Stated("measured")).value == "measured":
            for name, text in unread.items():
                if find_estimate(text):
                    self._notes.estimates[name, text].append(report.place)
        values = _drop_nulls(draft.values)
        number = report.found.number
        title = title_of_table(report.found.table) or report.found.spec.title
        return Report(values, tuple(figures), report.citation, number, unread, named, title)

    def _read_values(self, report: ReportCells, draft: _Draft) -> None:
        """Put what the cells of values state into the draft."""
        names: list[str] = []
        said: Values = {}
        by: dict[str, str] = {}
        for name, spec in report.columns.items():
            if spec.ignore or spec.figures or name not in report.cells:
                continue
            cell = report.cells[name]
            where = f"{report.where}, column {name!r}"
            absent = (*self._mapping.absent, *spec.absent)
            try:
                stated = read_values(cell, spec, absent, where=where)
                own = () if cell.strip() in spec.values else (footnote_of(cell),)
                self._note_marks(name, own, report, draft.values, is_said=bool(stated))
            except UnitError as error:
                self._add_cell_error(error, where, report, name)
                continue
            for column, value in stated.items():
                if column not in _NAMES and contradict(said.get(column, value).value, value.value):
                    self._add_contradiction(
                        column, (by[column], name), (said[column], value), report
                    )
                by[column] = name
            for known in (draft.values, draft.stated, said):
                lay_over(known, stated)
            if "model_id" in stated:
                names.append(bare_text(cell))
        self._note_cards(report, by.get("gpu_id"))
        if "model_reported" not in said:
            draft.values |= self._read_model_name(report, names)

    def _note_cards(self, report: ReportCells, said_by: str | None) -> None:
        """Note a row without cards below one that has them, where it begins with empty cells.

        So rows are grouped by eye; an empty cell further to the right says that nobody knows.
        """
        number = report.found.number
        if said_by is not None:
            self._cards[number, said_by] = bare_text(report.cells[said_by])
            return
        for name in takewhile(lambda name: not report.cells[name].strip(), report.cells):
            above = self._cards.get((number, name))
            if above is not None:
                self._notes.blanks[name, above].append(report.place)

    def _add_contradiction(
        self,
        column: str,
        names: tuple[str, str],
        values: tuple[Stated, Stated],
        report: ReportCells,
    ) -> None:
        first, second = (f"{v.value!r} in column {n!r}" for n, v in zip(names, values, strict=True))
        self._problems.add(
            f"found {column} = {first} and {second}, expected one of them; leave it out of what "
            "the other column's cells state",
            report.place,
        )

    def _read_model_name(self, report: ReportCells, names: list[str]) -> Values:
        """Return the model's name as the cells write it; none where they do not."""
        columns = report.found.spec.model_reported or self._mapping.model_reported
        texts = [report.cells[name] for name in columns if name in report.cells]
        named = [bare_text(text) for text in texts if not is_absent(text, self._mapping.absent)]
        if named:
            return {"model_reported": Stated(" ".join(named))}
        return {"model_reported": Stated(names[0])} if names else {}

    def _read_words(self, report: ReportCells, draft: _Draft) -> None:
        """Put the outcomes that cells of figures state into the draft."""
        for name, spec in report.columns.items():
            if not spec.figures or name not in report.cells:
                continue
            where = f"{report.where}, column {name!r}"
            try:
                outcome = read_outcome(report.cells[name], spec, self._mapping.absent, where=where)
            except UnitError as error:
                self._add_cell_error(error, where, report, name)
                continue
            if outcome is None:
                draft.cells[name] = FigureCell()
                continue
            draft.outcomes[name] = outcome
            cell = report.cells[name]
            own = () if cell.strip() in spec.words else (footnote_of(cell),)
            self._note_marks(name, own, report, draft.values, is_said=bool(outcome))
        stated = {
            n: said["outcome"].value for n, said in draft.outcomes.items() if "outcome" in said
        }
        if len(set(stated.values())) > 1:
            listed = ", ".join(f"{value} in column {name!r}" for name, value in stated.items())
            self._problems.add(f"found {listed}, expected one outcome", report.place)
        for said in draft.outcomes.values():
            draft.values.update(said)

    def _read_cells(self, report: ReportCells, draft: _Draft) -> None:
        """Take the cells of figures apart; what they say beside the figures counts for the row."""
        before = dict(draft.values)
        said: Values = {}
        for name in draft.cells:
            where = f"{report.where}, column {name!r}"
            n_gpus = _hardware(draft.values, self._catalogue).n_gpus
            try:
                cell = read_figure_cell(
                    report.cells, name, report.columns[name], n_gpus, where=where
                )
            except UnitError as error:
                self._add_cell_error(error, where, report, name)
                continue
            draft.cells[name] = cell
            self._note_marks(name, cell.footnotes, report, said)
            for column, value in cell.values.items():
                self._state_beside({**draft.stated, **said}, column, value, report, name)
                said.setdefault(column, value)
        draft.values.update(said)
        if draft.values != before:
            self._resolve(draft.values, report.place, report.found.path)
            self._apply_rules(report, draft)

    def _apply_rules(self, report: ReportCells, draft: _Draft) -> None:
        """Put what holds for such rows into the draft; one with figures of a run is ok so far."""
        figures = (figure for name in draft.cells for figure in report.columns[name].figures)
        ended = "ok" if any(figure.metric not in _OF_THE_MODEL for figure in figures) else None
        self._rules.apply(report, draft.values, outcome=ended)

    def _state_beside(
        self, said: Values, column: str, value: Stated, report: ReportCells, name: str
    ) -> None:
        known = said.get(column, value)
        if known.value != value.value:
            self._problems.add(
                f"found {column} {value.value!r} beside a figure and {known.value!r} elsewhere in "
                "the row, expected one for the row",
                report.place,
                column=name,
                path=report.found.path_of(name),
            )

    def _note_marks(
        self,
        column: str,
        own: Iterable[str | None],
        report: ReportCells,
        values: Values,
        *,
        is_said: bool = True,
    ) -> None:
        """Take over what a cell's own marks mean, and where it says something, its column's."""
        for mark in (*(marks_of_column(column) if is_said else ()), *own):
            self._note_mark(mark, report.found, report.place, column, values)

    def _note_mark(
        self, mark: str | None, found: FoundTable, place: Place, column: str, values: Values
    ) -> None:
        """Take over what a footnote mark means; say which mark has no meaning."""
        if mark is None:
            return
        for named in (found.spec.footnotes, self._mapping.footnotes):
            if mark in named:
                lay_over(values, named[mark])
                return
        self._notes.marks[mark, column].append(place)

    def _read_figures(self, report: ReportCells, draft: _Draft) -> list[ReportedFigure]:
        figures: list[ReportedFigure] = []
        hardware = _hardware(draft.values, self._catalogue)
        for name, cell in draft.cells.items():
            for part in cell.texts:
                try:
                    check_decimal(part.text, part.figure, self._comma, where=part.where)
                    check_unit_column(report.cells, part.figure, where=part.where)
                    read = read_figure(part, hardware, draft.values)
                except UnitError as error:
                    where = f"{report.where}, column {name!r}"
                    self._add_cell_error(error, where, report, name)
                    continue
                figures += read.figures
                self._note_scope(part.figure.scope, read.figures[0], hardware, report, name)
                if read.disagrees:
                    flags = draft.values.get("flags", Stated([])).value or []
                    draft.values["flags"] = Stated(sorted({*flags, "figures_disagree"}))
        self._check_twice(figures, report)
        return figures

    def _note_scope(
        self,
        stated: str | None,
        figure: ReportedFigure,
        hardware: Hardware,
        report: ReportCells,
        column: str,
    ) -> None:
        """Say that a figure was taken as that of all cards where their number is not known."""
        is_taken = figure.metric in SHARED_METRICS and hardware.n_gpus is None
        if stated is None and is_taken and figure.scope == "total":
            self._notes.scopes[column].append(report.place)

    def _check_twice(self, figures: list[ReportedFigure], report: ReportCells) -> None:
        """Refuse a row that gives one and the same figure twice, with two values."""
        by_key: dict[Any, ReportedFigure] = {}
        for figure in figures:
            known = by_key.setdefault(figure.key, figure)
            if known.quantity.value != figure.quantity.value:
                self._problems.add(
                    f"found {figure.metric} twice, {known.raw!r} and "
                    f"{figure.raw!r}; expected one; tell them apart by statistic, scope "
                    "or kind, read columns that are runs of their own as `pivot`, or ignore one",
                    report.place,
                )

    def _state_outcome(
        self, report: ReportCells, values: Values, figures: list[ReportedFigure], rows: TableRows
    ) -> None:
        """Say how a run ended: a figure of it shows that it did; one of the model shows nothing."""
        stated = values.get("outcome")
        ran = any(figure.metric not in _OF_THE_MODEL for figure in figures)
        if stated is not None and stated.value is not None:
            if stated.value == "ok" and not figures:
                values.setdefault("outcome_detail", FITS["outcome_detail"])
            elif figures and values.get("outcome_detail") is FITS["outcome_detail"]:
                del values["outcome_detail"]
            return
        if ran:
            values["outcome"] = Stated("ok")
        elif figures:
            values["outcome"] = Stated("unknown")
            self._notes.unknown.append(report.place)
        elif report.found.is_complete:
            self._problems.add(self._nothing(report, rows), report.place, path=report.found.path)

    def _nothing(self, report: ReportCells, rows: TableRows) -> str:
        number = report.place.row or 0
        text = rows.section_text(number)
        if text is not None:
            return (
                f"found {text!r} alone in the row, expected a figure or an outcome; if it is about "
                "the rows below, say what it means under `sections`"
            )
        return (
            "found neither a figure nor an outcome, expected one; leave such rows out with "
            "`skip: [{empty: true}]`, or say under `words` what the cells mean"
        )

    def _add_cell_error(
        self, error: UnitError, where: str, report: ReportCells, column: str
    ) -> None:
        path = report.found.path_of(column)
        self._problems.add_error(error, where, report.place, column=column, path=path)

    def _resolve(self, values: Values, place: Place, path: tuple[str | int, ...]) -> None:
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
                self._problems.add(unknown(stated.value, "mapping"), place, path=path)
            else:
                values[column] = Stated(resolved, stated.because)

    def _check_complete(self, values: Values, place: Place, path: tuple[str | int, ...]) -> None:
        for name in _REQUIRED:
            if values.get(name, Stated(None)).value is None:
                self._problems.add(
                    f"found no {name}, expected one; map a column to it, or state it under "
                    "`defaults`",
                    place,
                    path=path,
                )


def _hardware(values: Values, catalogue: Catalogue) -> Hardware:
    configuration = split_parts(values)["configuration"]
    fill_configuration(configuration)
    gpu = catalogue.gpus.get(configuration.get("gpu_id", ""), {})
    flags = values.get("flags", Stated([])).value or []
    return Hardware(
        n_gpus=configuration.get("n_gpus"),
        gpu_memory_bytes=gpu.get("memory_bytes"),
        allow_over_capacity="peak_over_capacity" in flags,
    )


def _distinguishing(report: ReportCells) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts of the columns that are not read, and of those that are given a meaning."""
    unread = {name: report.cells[name] for name in report.found.ignored if name in report.cells}
    named = {}
    for name, spec in report.columns.items():
        if name not in report.cells or spec.figures:
            continue
        if spec.ignore:
            unread[name] = report.cells[name]
        elif spec.values or spec.patterns or spec.to == "model_id":
            named[name] = bare_text(report.cells[name])
    return {name: texts_of(text)[1] for name, text in unread.items()}, named


def _drop_nulls(values: Values) -> Values:
    return {name: stated for name, stated in values.items() if stated.value is not None}
