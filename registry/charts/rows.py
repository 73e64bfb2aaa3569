"""The rows that a picture is drawn from, chosen by the filters of ``registry ls``."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from registry.charts.kinds import COLUMNS
from registry.errors import ChartError, did_you_mean
from registry.query.model import Query
from registry.query.process import start_worker
from registry.store.read import read_dataset
from registry.store.snapshot import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from registry.api import Registry
    from registry.catalogue import Catalogue
    from registry.query.model import Dataset

Row = dict[str, Any]


@dataclass(frozen=True)
class Filters:
    """Which observations are drawn: those that meet all that is stated."""

    model: str | None = None
    gpu: str | None = None
    method: str | None = None
    source: str | None = None
    outcome: str | None = None
    seq_len: int | None = None

    def __str__(self) -> str:
        """Return what is stated, as a heading has it."""
        stated = {name: value for name, value in asdict(self).items() if value is not None}
        if length := stated.pop("seq_len", None):
            stated["length"] = f"length {length}"
        return ", ".join(map(str, stated.values()))


def split_filters(options: Mapping[str, Any]) -> tuple[Filters, dict[str, Any]]:
    """Return the filters among some options, and the others."""
    names = [field.name for field in fields(Filters)]
    chosen = Filters(**{name: options[name] for name in names if name in options})
    return chosen, {name: value for name, value in options.items() if name not in names}


def select_rows(db: Registry, kind: str, filters: Filters) -> list[Row]:
    """Return the rows of a kind that meet the filters.

    Raises ChartError for a model, card, method or source that no observation has, and for a
    comparison, whose rows are of two selections; QueryError, StoreError.
    """
    if kind == "residuals":
        return _judge_residuals(db, filters)
    if kind == "compare":
        raise ChartError(
            "compare: is drawn of two selections of runs; use `registry plot compare A B`, or give "
            "the rows of comparisons to registry.charts.build_chart"
        )
    dataset, _ = read_dataset(db.location, db.at)
    params = _bind(read_snapshot(db.location, db.at).catalogue, dataset, filters)
    rows = _fetch(dataset, f"{_relation(kind)}\n{_read('filters')}{_ends(kind)}", params)
    return order_releases(rows) if kind == "history" else rows


def _relation(kind: str) -> str:
    if kind == "history":
        return read_history()
    columns = ", ".join(COLUMNS[kind])
    if kind == "scaling":
        return f"select {columns} from (select *, 'ok' as outcome, null as method from scaling)"  # noqa: S608 - names of our own
    return f"select {columns} from finetuning"  # noqa: S608 - names of our own


def _ends(kind: str) -> str:
    return "and series in (select series from followed)" if kind == "history" else ""


def read_history() -> str:
    """Return the SELECT of all runs with their series and release; ``followed`` has the series."""
    return _read("history")


def _read(name: str) -> str:
    return (files("registry.charts") / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def _fetch(dataset: Dataset, sql: str, params: dict[str, Any]) -> list[Row]:
    with start_worker() as worker:
        rows: list[Row] = json.loads(worker.fetch(dataset, Query(sql, params, "json")))
        return rows


def _bind(catalogue: Catalogue, dataset: Dataset, filters: Filters) -> dict[str, Any]:
    model = None if filters.model is None else catalogue.resolve_model(filters.model)
    if filters.model is not None and model is None:
        raise ChartError(catalogue.unknown_model(filters.model))
    gpu = None if filters.gpu is None else catalogue.resolve_gpu(filters.gpu)
    if filters.gpu is not None and gpu is None:
        raise ChartError(catalogue.unknown_gpu(filters.gpu))
    gpus = ",".join(catalogue.kinds_of(gpu)) if gpu else None
    _check_words(dataset, filters)
    return {
        "model": model, "gpus": gpus, "method": filters.method, "source": filters.source,
        "outcome": filters.outcome, "seq_len": filters.seq_len,
    }  # fmt: skip


def _check_words(dataset: Dataset, filters: Filters) -> None:
    if filters.method is None and filters.source is None:
        return
    rows = _fetch(dataset, "select distinct source_id, method, method_label from results", {})
    known = {
        "source": {row["source_id"] for row in rows},
        "method": {row[name] for row in rows for name in ("method", "method_label") if row[name]},
    }
    for kind, words in known.items():
        _check_word(kind, getattr(filters, kind), words)


def _check_word(kind: str, word: str | None, known: Iterable[str]) -> None:
    folded = {name.lower() for name in known}
    if word is not None and word.lower() not in folded:
        listed = "sources" if kind == "source" else "query 'from coverage'"
        raise ChartError(
            f"{kind} {word!r} is not known{did_you_mean(word, known)}; `registry {listed}` lists "
            "those that are"
        )


def order_releases(rows: list[Row]) -> list[Row]:
    """Return runs with the places of their releases: by time if all are dated, else by version."""
    rows = _without_constants(rows)
    first: dict[str, str | None] = {}
    for row in sorted(rows, key=lambda row: row["observed_at"] or "~"):  # the undated last
        first.setdefault(row["release"], row["observed_at"])
    dated = all(first.values())
    releases = sorted(first, key=lambda name: (first[name] if dated else "", _natural(name)))
    places = {name: place for place, name in enumerate(releases)}
    return [{**row, "release_order": places[row["release"]]} for row in rows]


def _without_constants(rows: list[Row]) -> list[Row]:
    """Return runs whose releases are called by the versions that are not the same in all."""
    parts = [str(row["release"]).split(", ") for row in rows if row["release"]]
    shared = set(parts[0]).intersection(*parts) if parts else set()
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

    stated = [name for name, value in asdict(filters).items() if value is not None]
    if set(stated) - {"source"}:
        raise ChartError(
            f"residuals: found {', '.join(f'--{name}' for name in stated)}; expected no filter but "
            "--source: the picture is of all peaks that were measured"
        )
    judged = judge_peaks(read_observations(db))
    if filters.source is not None:
        _check_word("source", filters.source, {one.source for one in judged})
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
        if filters.source in (None, one.source)
    ]
