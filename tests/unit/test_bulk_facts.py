"""Facts and rules of whole tables are those of each observation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from registry.arrow import rows_table
from registry.bulk_facts import broken_rules, check_rules_table, collect_table_facts
from registry.contract import load_rules, rule_facts
from registry.facts import collect_facts
from registry.rules import check_rules, rule_names

if TYPE_CHECKING:
    import pyarrow as pa

GPUS = {"small": 100, "large": 1000}


def optional(*values: Any) -> st.SearchStrategy[Any]:
    return st.none() | st.sampled_from(values)


CONFIGURATION = st.fixed_dictionaries(
    {
        "model_id": st.just("m"),
        "method": st.sampled_from(["lora", "full"]),
        "gpu_id": optional("small", "large", "elsewhere"),
        "n_nodes": optional(1, 2),
        "gpus_per_node": optional(1, 4),
        "n_gpus": optional(1, 2, 4, 8),
        "quant_bits": optional(4),
        "quant_type": optional("nf4"),
        "lora_rank": optional(8),
    }
)
FIGURE = st.fixed_dictionaries(
    {
        "metric": st.sampled_from(["peak_memory", "memory", "step_time", "samples_per_second"]),
        "statistic": st.just("value"),
        "scope": st.sampled_from(["total", "per_gpu", "max_gpu", "mean_gpu"]),
        "device_index": optional(0, 1, 5),
        "kind": optional("reserved", "host_rss", "unknown"),
        "value": st.sampled_from([10.0, 99.5, 100.0, 101.0, 4000.0]),
        "low": optional(9.0, 200.0),
        "high": optional(5.0, 5000.0),
        "origin": st.just("reported"),
    }
)
OBSERVATION = st.fixed_dictionaries(
    {
        "outcome": st.sampled_from(["ok", "oom", "error", "not_run"]),
        "evidence": st.just("measured"),
        "failed_step": optional(0, 1, 2),
        "flags": optional(["peak_over_capacity"], ["figures_disagree", "short_run"]),
    }
)
EXPERIMENT = st.tuples(CONFIGURATION, OBSERVATION, st.lists(FIGURE, max_size=4))


def stated(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def build_tables(experiments: list[Any]) -> tuple[pa.Table, pa.Table, pa.Table, pa.Table]:
    configurations, observations, measurements = [], [], []
    for number, (configuration, observation, figures) in enumerate(experiments):
        name = f"{number:032x}"
        configurations.append({"configuration_id": name, **configuration})
        fixed = {"environment_id": "e", "source_id": "s", "figures_hash": "f"}
        observations.append(
            {"observation_id": name, "configuration_id": name, **fixed, **observation}
        )
        measurements += [{"observation_id": name, **figure} for figure in figures]
    return (
        rows_table("configurations", configurations),
        rows_table("observations", observations),
        rows_table("measurements", measurements),
        rows_table("gpus", [{"gpu_id": g, "memory_bytes": size} for g, size in GPUS.items()]),
    )


def scalar_facts(experiment: Any) -> dict[str, Any]:
    configuration, observation, figures = experiment
    memory = GPUS.get(configuration["gpu_id"])
    rows = [stated(figure) for figure in figures]
    return collect_facts(stated(configuration), stated(observation), rows, memory)


@settings(max_examples=80, deadline=None)
@given(st.lists(EXPERIMENT, min_size=1, max_size=6))
def test_facts_of_tables_are_those_of_each_observation(experiments: list[Any]) -> None:
    facts = collect_table_facts(*build_tables(experiments))
    names = {*rule_facts(), *(name for rule in load_rules() for name in rule_names(rule))}
    expected = [scalar_facts(experiment) for experiment in experiments]
    for name in sorted(names):
        assert facts[name].to_pylist() == [one[name] for one in expected], name


@settings(max_examples=80, deadline=None)
@given(st.lists(EXPERIMENT, min_size=1, max_size=6))
def test_rules_of_tables_are_broken_where_those_of_observations_are(
    experiments: list[Any],
) -> None:
    facts = collect_table_facts(*build_tables(experiments))
    found = {
        (rule.name, place) for rule, places in broken_rules(facts) for place in places.tolist()
    }
    expected = {
        (rule.name, place)
        for place, experiment in enumerate(experiments)
        for rule in check_rules(scalar_facts(experiment))
    }
    assert found == expected


def no_measurement(count: int) -> list[Any]:
    configuration = {"model_id": "m", "method": "lora", "gpu_id": None, "n_gpus": None}
    return [(configuration, {"outcome": "ok", "evidence": "measured"}, [])] * count


def test_a_broken_rule_names_the_observation_and_the_way_out() -> None:
    tables = build_tables(no_measurement(1))
    ids = tables[1].column("observation_id").combine_chunks()
    assert check_rules_table(ids, collect_table_facts(*tables)) == [
        (
            f"observations, observation_id = '{0:032x}': found outcome = ok, n_measurements = 0; "
            "expected that an observation with outcome ok has at least one measurement; add a "
            "measurement, or state outcome not_run"
        )
    ]


def test_many_broken_rules_are_counted() -> None:
    tables = build_tables(no_measurement(25))
    ids = tables[1].column("observation_id").combine_chunks()
    problems = check_rules_table(ids, collect_table_facts(*tables))
    assert len(problems) == 21
    assert problems[-1].startswith("observations: and 5 more of which not an observation")
