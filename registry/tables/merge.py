"""Merge reports of the same experiment into one observation with several citations."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from registry.errors import SourceError
from registry.submission.identity import canonical_json
from registry.tables.values import Stated, Values, split_parts
from registry.units import Figure, check_related, figure_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from registry.tables.report import FigureKey, Report, ReportedFigure

#: Columns that describe an observation and do not tell experiments apart.
_DESCRIPTIVE = ("model_reported", "outcome_detail", "flags", "provenance")

#: Most runs of one configuration without a run_id: each report is held against all of them.
_MOST_RUNS = 1000

_RELATED = {
    "total_time": "total_seconds",
    "samples_per_second": "samples_per_second",
    "tokens_per_second": "tokens_per_second",
    "sample_time": "seconds_per_sample",
    "step_time": "seconds_per_step",
}


@dataclass(eq=False)
class Group:
    """Reports of one experiment."""

    values: Values
    figures: dict[FigureKey, ReportedFigure] = field(default_factory=dict)
    citations: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)

    @property
    def first(self) -> int:
        """Place of the first report in the document."""
        return min(number for number, _ in self.citations)


@dataclass(frozen=True)
class Apart:
    """Two reports that say the same and are kept apart, for their rows differ in some columns."""

    one: Report
    other: Report
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Repeated:
    """Runs of equal settings with other figures, and what they differ in that is not read.

    These are columns, and the ``titles`` of their tables.
    """

    runs: tuple[Report, ...]
    columns: tuple[str, ...]
    titles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Merged:
    """The experiments that reports are about, and what a reader is to know of how they were told.

    ``apart`` are reports kept apart for their cells alone, ``repeated`` runs of equal settings that
    columns tell apart which the mapping does not read.
    """

    groups: list[Group]
    apart: list[Apart]
    repeated: list[Repeated]


def merge_reports(reports: Sequence[Report], unite: Mapping[str, str], *, origin: str) -> Merged:
    """Return the experiments that reports are about, in order of their first report.

    Reports are of one experiment where configuration, environment and outcome are the same, no
    figure contradicts another, and no column that the mapping does not read tells their rows apart.
    ``unite`` names columns, each with a reason, in which a report may leave out what another
    states, if all their figures agree and they share one at least, or in which rows may differ.
    """
    apart: list[Apart] = []
    groups = _merge_equal(reports, unite, apart, origin=origin)
    if unite:
        groups = _unite(groups, unite)
    groups.sort(key=lambda group: group.first)
    return Merged(groups, apart, _number_runs(groups))


def _merge_equal(
    reports: Sequence[Report], unite: Mapping[str, str], apart: list[Apart], *, origin: str
) -> list[Group]:
    by_key: dict[str, list[Group]] = defaultdict(list)
    for number, report in enumerate(reports):
        figures = {figure.key: figure for figure in report.figures}
        new = Group(dict(report.values), figures, [(number, report.citation)], [report])
        alike = by_key[_key(report.values)]
        same = _find_same(alike, new, unite, apart)
        if same is None:
            alike.append(new)
            if len(alike) > _MOST_RUNS:
                raise SourceError(
                    f"{origin}, {report.citation['locator']}: found more than {_MOST_RUNS} runs "
                    "that differ in their figures alone, expected a column that distinguishes "
                    "them; map one to run_id"
                )
        else:
            _absorb(same, new)
    return [group for alike in by_key.values() for group in alike]


def _find_same(
    alike: Iterable[Group], new: Group, unite: Mapping[str, str], apart: list[Apart]
) -> Group | None:
    """Return the group that a report joins; note one that it does not join for its cells alone.

    A report that shares no figure with any joins the only one there is: whose of several runs its
    figures are, nobody can tell.
    """
    (report,) = new.reports
    without_shared: list[Group] = []
    for group in alike:
        if not _agree(group, new):
            continue
        differing = _differing(group, report, unite)
        shares = bool(group.figures.keys() & new.figures.keys()) or not new.figures
        if differing is None and shares:
            return group
        if differing is None:
            without_shared.append(group)
        elif shares:
            apart.append(differing)
    return without_shared[0] if len(without_shared) == 1 else None


def _differing(
    group: Group, report: Report, unite: Mapping[str, str], *, named: bool = True
) -> Apart | None:
    """Return what tells a report from those of a group, if columns do that are not united."""
    for known in group.reports:
        columns = [name for name in known.differing(report, named=named) if name not in unite]
        if columns:
            return Apart(known, report, tuple(columns))
    return None


def _key(values: Values, without: Iterable[str] = ()) -> str:
    left_out = {*_DESCRIPTIVE, *without}
    stated = {
        name: value.value
        for name, value in values.items()
        if value.value is not None and name not in left_out
    }
    return canonical_json(stated)


def _agree(group: Group, other: Group) -> bool:
    shared = group.figures.keys() & other.figures.keys()
    return all(
        group.figures[key].quantity.value == other.figures[key].quantity.value for key in shared
    )


def _absorb(group: Group, other: Group) -> None:
    for name, stated in other.values.items():
        group.values[name] = _merge_stated(name, group.values.get(name), stated)
    for key, figure in other.figures.items():
        known = group.figures.get(key)
        group.figures[key] = figure if known is None else _merge_figures(known, figure)
    group.citations = _join_citations([*group.citations, *other.citations])
    group.reports += [report for report in other.reports if _is_new(report, group.reports)]


def _join_citations(
    citations: list[tuple[int, dict[str, Any]]],
) -> list[tuple[int, dict[str, Any]]]:
    """Return citations in order, those of one place as one: columns of a row may share a label."""
    joined: dict[str, tuple[int, dict[str, Any]]] = {}
    for number, citation in sorted(citations, key=lambda entry: entry[0]):
        first, known = joined.get(citation["locator"], (number, citation))
        cells = {**known.get("cells", {}), **citation.get("cells", {})}
        joined[citation["locator"]] = first, {**known, **({"cells": cells} if cells else {})}
    return list(joined.values())


def _is_new(report: Report, known: Iterable[Report]) -> bool:
    """Return whether a report has texts that none of the others has."""
    return not any(
        (report.table, report.unread, report.named) == (other.table, other.unread, other.named)
        for other in known
    )


def _merge_stated(name: str, known: Stated | None, other: Stated) -> Stated:
    if known is None or known.value is None:
        return other
    value = known.value
    if name == "flags" and other.value:
        value = sorted({*value, *other.value})
    return Stated(value, _join(known.because, other.because), known.half_width)


def _join(*reasons: str | None) -> str | None:
    return "; ".join(dict.fromkeys(filter(None, reasons))) or None


def _merge_figures(known: ReportedFigure, other: ReportedFigure) -> ReportedFigure:
    """Return the figure whose text needs the fewer inferences, and say what the other needed."""
    if known.quantity.reason == other.quantity.reason:
        return known
    kept, dropped = (known, other) if known.quantity.reason is None else (other, known)
    if kept.quantity.reason is not None:
        return known
    also = f"also written {dropped.raw!r}: {dropped.quantity.reason}"
    return replace(kept, because=_join(kept.because, also))


def _unite(groups: list[Group], unite: Mapping[str, str]) -> list[Group]:
    united = []
    for alike in _collect_alike(groups, unite):
        for group in list(alike):
            fuller = [
                other
                for other in alike
                if _fills(other, group, unite)
                and not any(_differing(other, r, unite, named=False) for r in group.reports)
            ]
            if len(fuller) == 1:
                _take_in(fuller[0], group, unite)
                alike.remove(group)
        united += alike
    return united


def _collect_alike(groups: Iterable[Group], without: Iterable[str] = ()) -> list[list[Group]]:
    """Return groups by what they state, some columns left out."""
    by_key: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        by_key[_key(group.values, without)].append(group)
    return list(by_key.values())


def _fills(fuller: Group, group: Group, unite: Mapping[str, str]) -> bool:
    """Return whether one report states all that the other does, and more, of the same run."""
    stated, known = _stated(fuller, unite), _stated(group, unite)
    shares = bool(fuller.figures.keys() & group.figures.keys())
    return known.items() < stated.items() and shares and _agree(fuller, group)


def _stated(group: Group, names: Iterable[str]) -> dict[str, Any]:
    values = {name: group.values[name].value for name in names if name in group.values}
    return {name: value for name, value in values.items() if value is not None}


def _take_in(fuller: Group, group: Group, unite: Mapping[str, str]) -> None:
    missing = _stated(fuller, unite).keys() - _stated(group, unite).keys()
    for name in missing:
        stated = fuller.values[name]
        fuller.values[name] = replace(stated, because=_join(stated.because, unite[name]))
        group.values.pop(name, None)
    _absorb(fuller, group)


def _number_runs(groups: list[Group]) -> list[Repeated]:
    """Number the experiments that differ in their figures alone; return those cells tell apart."""
    repeated = []
    for alike in _collect_alike(groups):
        for number, group in enumerate(alike if len(alike) > 1 else (), start=1):
            run_id = group.values.get("run_id", Stated(None)).value
            group.values["run_id"] = Stated(f"{run_id}.{number}" if run_id else str(number))
        runs = tuple(group.reports[0] for group in alike)
        columns = _told_apart_by(runs)
        titles = tuple(dict.fromkeys(run.title for run in runs if run.title))
        if columns or len(titles) > 1:
            repeated.append(Repeated(runs, tuple(columns), titles if len(titles) > 1 else ()))
    return repeated


def _told_apart_by(runs: Sequence[Report]) -> list[str]:
    """Return the unread columns with words in which runs differ; figures may be of each run."""
    shared = set.intersection(*({*run.unread} for run in runs))
    texts = {name: {run.unread[name] for run in runs} for name in sorted(shared)}
    return [
        name
        for name, different in texts.items()
        if len(different) > 1 and any(character.isalpha() for t in different for character in t)
    ]


def format_observation(group: Group, n_tokens: int | None) -> dict[str, Any]:
    """Return a group as an observation of a submission; ``n_tokens`` are those of the data."""
    values = dict(group.values)
    if _disagrees(group, n_tokens):
        flags = values.get("flags", Stated([])).value or []
        values["flags"] = Stated(sorted({*flags, "figures_disagree"}))
    parts = split_parts(values)
    inferences = {
        name: stated.because
        for name, stated in sorted(values.items())
        if stated.because and stated.value is not None
    }
    return {
        **parts["observation"],
        **({"inferences": inferences} if inferences else {}),
        "configuration": parts["configuration"],
        "environment": parts["environment"],
        "measurements": [figure.measurement() for figure in group.figures.values()],
        "citations": [citation for _, citation in group.citations],
    }


def _disagrees(group: Group, n_tokens: int | None) -> bool:
    """Return whether related figures contradict each other beyond rounding."""
    figures = {
        _RELATED[figure.metric]: figure_of(figure.quantity)
        for figure in group.figures.values()
        if figure.metric in _RELATED
        and (figure.statistic, figure.scope) == ("value", "total")
        and not _is_inverted(figure)
    }
    names = ("n_samples", "n_epochs")
    n_samples, n_epochs = (group.values.get(name, Stated(None)) for name in names)
    if n_samples.value is not None and n_epochs.value is not None:
        times = n_epochs.value
        figures["n_samples"] = Figure(n_samples.value * times, n_samples.half_width * times)
        if n_tokens is not None:
            figures["n_tokens"] = Figure(n_tokens * times)
    return bool(check_related(figures))


def _is_inverted(figure: ReportedFigure) -> bool:
    """Return whether a time was written as a rate or a rate as a time: its rounding is another."""
    reading = figure.quantity.reading
    if figure.quantity.unit == "second":
        return reading.endswith("/s")
    return reading.startswith("s/")
