"""The rows that a picture is drawn from, chosen by the filters of ``registry ls``."""

from __future__ import annotations

import re
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from registry.charts.kinds import COLUMNS
from registry.errors import ChartError, QueryError, QueryTimeoutError, SourceError
from registry.query.filters import bind_filters, find_word, put_filters
from registry.query.process import read_rows
from registry.store.read import build_dataset
from registry.store.snapshot import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from registry.api import Registry
    from registry.comparison.configurations import Compared
    from registry.measure.ratios import Ratio
    from registry.query.filters import Filters

Row = dict[str, Any]

#: Which rows are drawn: a picture cannot say that one of its points is hard to believe.
BELIEVED = "not coalesce(array_contains(flags, 'suspect'), false)"


def select_rows(db: Registry, kind: str, filters: Filters, sides: Sequence[str] = ()) -> list[Row]:
    """Return the rows of a kind that meet the filters; of a comparison, those of its two sides.

    ``sides`` are two selections of runs in the words of ``registry compare``. Raises FilterError
    for a model, card, method or source that is not known; ChartError for filters or sides that the
    kind does not take; QueryError, StoreError.
    """
    if kind == "compare":
        return _compare(db, filters, sides)
    if sides:
        raise ChartError(f"{kind}: found {' '.join(sides)!r} beside it; expected options only")
    if kind == "residuals":
        return _judge_residuals(db, filters)
    snapshot = read_snapshot(db.location, db.at)
    dataset = build_dataset(snapshot)
    params = bind_filters(filters, snapshot, partial(read_rows, dataset))
    # the engine reads in parallel: without an order, two calls may draw two pictures
    sql = put_filters(f"{_relation(kind)} /* filters */ {_ends(kind)} order by all")
    rows = read_rows(dataset, sql, params)
    return order_releases(rows) if kind == "history" else rows


def _relation(kind: str) -> str:
    if kind == "history":
        return read_history()
    columns = ", ".join(COLUMNS[kind])
    if kind == "scaling":
        return f"select {columns} from (select *, 'ok' as outcome, null as method from scaling)"  # noqa: S608 - names of our own
    return f"select {columns} from (from finetuning where {BELIEVED})"  # noqa: S608 - our own


def _ends(kind: str) -> str:
    return "and series in (select series from followed)" if kind == "history" else ""


def read_history() -> str:
    """Return the SELECT of all runs with their series and release; ``followed`` has the series."""
    return _read("history")


def _read(name: str) -> str:
    return (files("registry.charts") / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def order_releases(rows: list[Row]) -> list[Row]:
    """Return runs with the places of their releases: by time if all are dated, else by version."""
    rows = _without_constants(rows)
    first: dict[str, str | None] = {}
    for row in sorted(rows, key=lambda row: row["observed_at"] or "~"):  # the undated last
        first.setdefault(row["release"], row["observed_at"])
    dated = all(first.values())
    releases = sorted(first, key=lambda name: (first[name] if dated else "", _natural(name), name))
    places = {name: place for place, name in enumerate(releases)}
    return [{**row, "release_order": places[row["release"]]} for row in rows]


def _without_constants(rows: list[Row]) -> list[Row]:
    """Return runs whose releases are called by the versions that are not the same in all."""
    parts = {tuple(str(row["release"]).split(", ")) for row in rows if row["release"]}
    # a single release keeps its name: nothing tells it from another
    shared = set.intersection(*map(set, parts)) if len(parts) > 1 else set()
    return [
        {**row, "release": ", ".join(part for part in words if part not in shared)}
        for row in rows
        if row["release"] and (words := row["release"].split(", "))
    ]


def _natural(text: str) -> list[tuple[int, str]]:
    """Return what sorts text by the numbers in it.

    >>> sorted(["1.10", "1.9"], key=_natural)
    ['1.9', '1.10']
    """
    parts = re.split(r"(\d+)", text)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _judge_residuals(db: Registry, filters: Filters) -> list[Row]:
    from registry.predict.calibration.runs import read_observations  # noqa: PLC0415 - heavy
    from registry.predict.evaluation.evaluate import held_back, judge_peaks  # noqa: PLC0415 - as above

    stated = filters.stated()
    if set(stated) - {"source"}:
        raise ChartError(
            f"residuals: found {', '.join(f'--{name}' for name in stated)}; expected no filter but "
            "--source: the chart shows all peaks that were measured"
        )
    judged = judge_peaks(read_observations(db))
    source = find_word("source", filters.source, {one.source for one in judged})
    return [
        {
            "source_id": one.source,
            "held_back": one.source in held_back(),
            "predicted_bytes": one.answer.value,
            "low_bytes": one.answer.low,
            "high_bytes": one.answer.high,
            "measured_bytes": one.measured,
        }
        for one in judged
        if source in (None, one.source)
    ]


def _compare(db: Registry, filters: Filters, sides: Sequence[str]) -> list[Row]:
    from registry.comparison.selections import compare_words  # noqa: PLC0415 - only for this kind

    if len(sides) != 2 or filters.stated():  # noqa: PLR2004 - A and B
        raise ChartError(
            "compare: expected two selections of runs and no filters, such as "
            "peft-method-comparison-2025-06 peft-method-comparison, as `registry compare` has them"
        )
    snapshot = read_snapshot(db.location, db.at)
    read = partial(read_rows, build_dataset(snapshot))
    try:
        _, found = compare_words(sides, read, snapshot.catalogue)
    except QueryTimeoutError:
        raise
    except (QueryError, SourceError) as error:
        raise ChartError(str(error)) from None
    return list(_ratio_rows(found))


def _ratio_rows(found: list[Compared]) -> Iterator[dict[str, Any]]:
    seen: dict[str, int] = {}
    for compared in found:
        n = seen[compared.label] = seen.get(compared.label, 0) + 1
        label = compared.label if n == 1 else f"{compared.label} ({n})"  # another configuration
        told = {"configuration": label, "regression": compared.regression}
        ratios: dict[str, Ratio | None] = {"time": compared.time, "memory": compared.memory}
        for measure, ratio in ratios.items():
            if ratio is not None:
                yield {
                    **told, "measure": measure, "ratio": ratio.value, "low": ratio.low,
                    "high": ratio.high, "n_a": ratio.n_a, "n_b": ratio.n_b,
                }  # fmt: skip
        if compared.regression and not any(ratios.values()):
            yield {**told, "measure": "time"}
