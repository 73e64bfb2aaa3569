"""The facts and rules of :mod:`registry.facts` and :mod:`registry.rules`, for whole tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from registry.bulk_identity import combined, observation_index
from registry.contract import load_rules, load_table, rule_facts
from registry.facts import DEVICE_KINDS, MEMORY_METRICS, RATES, format_fact
from registry.promises import truth
from registry.rules import ArrowLogic, evaluate, rule_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from registry.contract import Rule

    Mask = npt.NDArray[np.bool_]
    Positions = npt.NDArray[np.int64]

#: Most observations that are named of those that break one rule.
MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class _Figures:
    """Measurements beside the position of the observation each hangs on."""

    index: Positions
    table: pa.Table
    n_observations: int

    def where(self, column: str, *values: str) -> Mask:
        """Tell which figures have one of these values in a column."""
        known = pa.array(values, pa.string())
        return truth(pc.is_in(self.table.column(column), value_set=known), unknown=False)

    def stated(self, column: str) -> Mask:
        """Tell which figures state a column."""
        return truth(pc.is_valid(self.table.column(column)), unknown=False)

    def count(self, mask: Mask) -> pa.Array:
        """Return the number of figures of each observation."""
        counts = np.bincount(self.index[mask], minlength=self.n_observations)
        return pa.array(counts.astype(np.int64))

    def some(self, mask: Mask) -> pa.Array:
        """Tell of each observation whether it has such a figure."""
        found = np.zeros(self.n_observations, dtype=np.bool_)
        found[self.index[mask]] = True
        return pa.array(found)

    def largest(self, column: str, mask: Mask) -> pa.Array:
        """Return the largest value of a column of each observation, null where there is none."""
        values = self.table.column(column).filter(pa.array(mask))
        groups = pa.table({"index": self.index[mask], "value": values}).group_by("index")
        largest = groups.aggregate([("value", "max")])
        places = pc.index_in(
            pa.array(np.arange(self.n_observations)),
            value_set=largest.column("index").combine_chunks(),
        )
        return largest.column("value_max").combine_chunks().take(places)


def collect_table_facts(
    configurations: pa.Table,
    observations: pa.Table,
    measurements: pa.Table,
    gpus: pa.Table,
    *,
    index: Positions | None = None,
) -> dict[str, pa.Array]:
    """Return the facts of whole tables: for each, a column with one value per observation.

    Measurements of other observations are left out. Configurations and GPUs are looked up by id.
    ``index`` is the :func:`observation_index` of the measurements, where it is known already.
    """
    ids = _column(observations, "observation_id")
    if index is None:
        index = observation_index(ids, measurements)
    known = index >= 0
    if not known.all():
        index, measurements = index[known], measurements.filter(pa.array(known))
    figures = _Figures(index, measurements, len(ids))
    settings = _settings(configurations, observations)
    flags = _column(observations, "flags")
    return {
        **settings,
        **{name: _column(observations, name) for name in _needed("observations")},
        **_figure_facts(figures),
        "peak_memory_bytes_per_gpu": _peak_per_gpu(figures, settings["n_gpus"]),
        "gpu_memory_bytes": _gpu_memory(gpus, settings["gpu_id"]),
        "peak_over_capacity_flagged": _has_item(flags, "peak_over_capacity"),
    }


def _column(table: pa.Table, name: str) -> pa.Array:
    return combined(table.column(name))


def _needed(table: str) -> list[str]:
    """Return the columns of a table that some rule is about."""
    names = {name for rule in load_rules() for name in rule_names(rule)} - set(rule_facts())
    return [name for name in load_table(table).names if name in names]


def _settings(configurations: pa.Table, observations: pa.Table) -> dict[str, pa.Array]:
    places = pc.index_in(
        _column(observations, "configuration_id"),
        value_set=_column(configurations, "configuration_id"),
    )
    names = {*_needed("configurations"), "n_gpus", "gpu_id"}
    return {name: _column(configurations, name).take(places) for name in sorted(names)}


def _figure_facts(figures: _Figures) -> dict[str, pa.Array]:
    has_kind, is_memory = figures.stated("kind"), figures.where("metric", *MEMORY_METRICS)
    has_device, per_gpu = figures.stated("device_index"), figures.where("scope", "per_gpu")
    values = figures.table.column("value")
    above = pc.greater(figures.table.column("low"), values)
    below = pc.less(figures.table.column("high"), values)
    return {
        "n_measurements": figures.count(np.ones(len(figures.index), dtype=np.bool_)),
        "has_step_time": figures.some(figures.where("metric", "step_time")),
        "has_rate": figures.some(figures.where("metric", *RATES)),
        "low_above_value": figures.some(truth(above, unknown=False)),
        "value_above_high": figures.some(truth(below, unknown=False)),
        "n_memory_without_kind": figures.count(is_memory & ~has_kind),
        "n_kind_without_memory": figures.count(has_kind & ~is_memory),
        "n_per_gpu_without_index": figures.count(per_gpu & ~has_device),
        "max_device_index": figures.largest("device_index", has_device),
    }


def _peak_per_gpu(figures: _Figures, n_gpus: pa.Array) -> pa.Array:
    peaks = figures.where("metric", "peak_memory") & figures.where("kind", *DEVICE_KINDS)
    fullest = figures.largest("value", peaks & figures.where("scope", "per_gpu", "max_gpu"))
    total = figures.largest("value", peaks & figures.where("scope", "total"))
    return pc.coalesce(fullest, pc.divide(total, n_gpus.cast(pa.float64())))


def _gpu_memory(gpus: pa.Table, gpu_ids: pa.Array) -> pa.Array:
    places = pc.index_in(gpu_ids, value_set=_column(gpus, "gpu_id"))
    return _column(gpus, "memory_bytes").take(places)


def _has_item(lists: pa.Array, item: str) -> pa.Array:
    rows = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    found = np.zeros(len(lists), dtype=np.bool_)
    found[rows[truth(pc.equal(pc.list_flatten(lists), item), unknown=False)]] = True
    return pa.array(found)


def broken_rules(facts: Mapping[str, pa.Array]) -> Iterator[tuple[Rule, Positions]]:
    """Yield each rule that some observation breaks, with the positions of these observations."""
    logic = ArrowLogic()
    for rule in load_rules():
        held = evaluate(rule, facts, logic)
        broken = np.flatnonzero(~truth(held, unknown=True))
        if len(broken):
            yield rule, broken


def check_rules_table(observation_ids: pa.Array, facts: Mapping[str, pa.Array]) -> list[str]:
    """Return what the contract's rules find wrong, at most 20 observations for each rule."""
    problems = []
    for rule, broken in broken_rules(facts):
        for place in broken[:MOST_NAMED].tolist():
            found = _format_facts(rule, facts, place)
            problems.append(
                f"observations, observation_id = {observation_ids[place].as_py()!r}: found "
                f"{found}; expected that {rule.expected}; {rule.way_out}"
            )
        if len(broken) > MOST_NAMED:
            more = len(broken) - MOST_NAMED
            problems.append(f"observations: and {more} more of which not {rule.expected}")
    return problems


def _format_facts(rule: Rule, facts: Mapping[str, pa.Array], place: int) -> str:
    values = ((name, facts[name][place].as_py()) for name in rule_names(rule))
    return ", ".join(
        f"{name} = {format_fact(value)}" for name, value in values if value is not None
    )
