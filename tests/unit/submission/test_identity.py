"""What was stated alike has the same id; what a reader notes, or what follows, changes none."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.submission.derive import complete_observation
from registry.submission.identity import (
    canonical_json,
    configuration_id,
    document_id,
    environment_id,
    float_columns,
    observation_id,
)

RECORDS = Path(__file__).parents[3] / "records"

CONFIGURATION: dict[str, Any] = {
    "model_id": "tiny",
    "method": "lora",
    "lora_rank": 8,
    "n_nodes": 2,
    "gpus_per_node": 4,
    "sharding": "zero2",
    "micro_batch_size": 2,
    "grad_accum_steps": 4,
}
OBSERVATION: dict[str, Any] = {
    "outcome": "ok",
    "evidence": "measured",
    "run_id": "run-1",
    "configuration": CONFIGURATION,
    "environment": {"framework": "trl"},
    "measurements": [
        {"metric": "step_time", "statistic": "value", "scope": "total", "value": 2.0},
        {
            "metric": "peak_memory",
            "statistic": "max",
            "scope": "total",
            "kind": "device",
            "value": 8e9,
        },
    ],
}
IDENTITY = observation_id("src", OBSERVATION)


def changed(**columns: Any) -> str:
    """Return the id of the observation with other columns."""
    return observation_id("src", {**OBSERVATION, **columns})


def with_figure(**columns: Any) -> str:
    """Return the id of the observation with a changed first figure."""
    first, second = OBSERVATION["measurements"]
    return changed(measurements=[{**first, **columns}, second])


def configured(**columns: Any) -> str:
    """Return the id of the observation with a changed configuration."""
    return changed(configuration={**CONFIGURATION, **columns})


@pytest.mark.parametrize(
    "noted",
    [
        {"flags": ["short_run"]},
        {"inferences": {"seq_len": "the title says so"}},
        {"provenance": {"command": "train"}},
        {"outcome_detail": "it went well"},
        {"citations": [{"locator": "page 3"}]},
        {"samples": [{"step": 1, "seconds": 2.0}]},
        {"phase": None, "flags": []},
    ],
)
def test_what_a_reader_notes_changes_no_id(noted: dict[str, Any]) -> None:
    assert changed(**noted) == IDENTITY


@pytest.mark.parametrize(
    "noted",
    [
        {"raw": "2 s"},
        {"unit_reported": "s"},
        {"reading": "second"},
        {"reason": "the column says so"},
        {"low": 1.9, "high": 2.1},
        {"origin": "reported"},
        {"value": 2},
    ],
)
def test_how_a_figure_was_read_changes_no_id(noted: dict[str, Any]) -> None:
    assert with_figure(**noted) == IDENTITY


@pytest.mark.parametrize(
    "following",
    [
        {"n_gpus": 8},
        {"global_batch_size": 64},
        {"n_gpus": 8, "global_batch_size": 64},
        {"seq_len": None, "kernels": []},
    ],
)
def test_stating_what_follows_changes_no_id(following: dict[str, Any]) -> None:
    assert configured(**following) == IDENTITY
    stated = {**CONFIGURATION, **following}
    assert configuration_id(stated) == configuration_id(CONFIGURATION)


def test_one_card_is_one_host_with_one_card() -> None:
    card: dict[str, Any] = {"model_id": "tiny", "method": "lora", "n_gpus": 1}
    host = {**card, "n_nodes": 1, "gpus_per_node": 1}
    del host["n_gpus"]
    assert configuration_id(card) == configuration_id(host)


@pytest.mark.parametrize(
    "other", [{"n_gpus": 7}, {"global_batch_size": 63}, {"lora_rank": 9}, {"packing": False}]
)
def test_a_configuration_that_contradicts_or_adds_has_another_id(other: dict[str, Any]) -> None:
    assert configured(**other) != IDENTITY


@pytest.mark.parametrize(
    "other",
    [
        {"outcome": "oom"},
        {"run_id": "run-2"},
        {"evidence": "claimed"},
        {"observed_at": "2024-05-01T10:00:00Z"},
        {"model_reported": "Tiny"},
        {"phase": "forward"},
        {"failed_step": 3},
        {"environment": {"framework": "peft"}},
        {"environment": {}},
        {"measurements": OBSERVATION["measurements"][:1]},
    ],
)
def test_what_was_observed_changes_the_id(other: dict[str, Any]) -> None:
    assert changed(**other) != IDENTITY


@pytest.mark.parametrize(
    "other",
    [
        {"value": math.nextafter(2.0, 3.0)},
        {"statistic": "median"},
        {"scope": "max_gpu"},
        {"scope": "per_gpu", "device_index": 0},
    ],
)
def test_another_reported_figure_changes_the_id(other: dict[str, Any]) -> None:
    assert with_figure(**other) != IDENTITY


def test_another_source_changes_the_id() -> None:
    assert observation_id("other", OBSERVATION) != IDENTITY


def test_the_order_of_measurements_changes_no_id() -> None:
    assert changed(measurements=OBSERVATION["measurements"][::-1]) == IDENTITY


def test_a_derived_figure_changes_no_id() -> None:
    rate = {"metric": "samples_per_second", "statistic": "value", "scope": "total", "value": 32.0}
    derived = [*OBSERVATION["measurements"], {**rate, "origin": "derived"}]
    assert changed(measurements=derived) == IDENTITY
    assert changed(measurements=[*OBSERVATION["measurements"], rate]) != IDENTITY


_CONFIGURATION_TEXT = (
    '["configurations",{"gpus_per_node":4,"grad_accum_steps":4,"lora_rank":8,"method":"lora",'
    '"micro_batch_size":2,"model_id":"tiny","n_nodes":2,"sharding":"zero2"}]'
)
_OBSERVATION_TEXT = (
    r'["observations",{"configuration_id":"61d95df2d2c6e56e28a15b7e9610a8ea","environment_id":'
    r'"aab9febb58c6d99bcd126e2ccf7d3c31","evidence":"measured","measurements":['
    r'"{\"kind\":\"device\",\"metric\":\"peak_memory\",\"scope\":\"total\",'
    r'\"statistic\":\"max\",\"value\":8000000000.0}",'
    r'"{\"metric\":\"step_time\",\"scope\":\"total\",\"statistic\":\"value\",\"value\":2.0}"],'
    r'"outcome":"ok","run_id":"run-1","source_id":"src"}]'
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('["environments",{"framework":"trl"}]', environment_id(OBSERVATION["environment"])),
        ('["environments",{}]', environment_id({})),
        (_CONFIGURATION_TEXT, configuration_id(CONFIGURATION)),
        ('["configurations",{"lora_alpha":16.0}]', configuration_id({"lora_alpha": 16})),
        (_OBSERVATION_TEXT, IDENTITY),
    ],
    ids=["environment", "nothing", "configuration", "float", "observation"],
)
def test_an_id_is_the_first_half_of_the_sha256_of_table_and_row(text: str, found: str) -> None:
    assert found == hashlib.sha256(text.encode()).hexdigest()[:32]


def test_ids_of_today_are_those_of_tomorrow() -> None:
    assert configuration_id(CONFIGURATION) == "61d95df2d2c6e56e28a15b7e9610a8ea"
    assert environment_id(OBSERVATION["environment"]) == "aab9febb58c6d99bcd126e2ccf7d3c31"
    assert environment_id({}) == "e6a76aea64452f2efb3e21cde2c41706"
    assert IDENTITY == "00809e40bcc7d054fa894d5bfb51b5c7"


def test_minus_zero_is_zero_and_no_other_value() -> None:
    zero = with_figure(value=0.0)
    assert with_figure(value=-0.0) == zero
    assert with_figure(value=0) == zero
    assert with_figure(value=5e-324) != zero


def test_an_observation_without_environment_or_figures_has_empty_ones() -> None:
    bare = {"outcome": "ok", "configuration": CONFIGURATION}
    stated = {**bare, "environment": {}, "measurements": []}
    assert observation_id("src", bare) == observation_id("src", stated)


def test_text_beyond_ascii_is_kept_as_it_is_in_canonical_json() -> None:
    assert canonical_json({"b": [1, None], "a": "é"}) == '{"a":"é","b":[1,null]}'
    assert document_id("é") == hashlib.sha256("é".encode()).hexdigest()


def test_columns_of_floats_are_those_the_contract_calls_so() -> None:
    assert float_columns("measurements") == {"value", "low", "high"}
    assert float_columns("configurations") == {"lora_alpha", "lora_dropout", "n_epochs"}
    assert float_columns("citations") == set()


def test_the_environment_is_identified_by_what_it_states() -> None:
    stated = environment_id({"framework": "trl", "n_cpus": 8})
    assert stated == environment_id({"n_cpus": 8, "framework": "trl", "os": None})
    assert stated != environment_id({"framework": "trl"})


_COUNTS = st.none() | st.integers(1, 16)
_CONFIGURATIONS = st.fixed_dictionaries(
    {"model_id": st.just("tiny"), "method": st.just("full")},
    optional={
        "n_nodes": _COUNTS,
        "gpus_per_node": _COUNTS,
        "n_gpus": _COUNTS,
        "micro_batch_size": _COUNTS,
        "grad_accum_steps": _COUNTS,
        "global_batch_size": _COUNTS,
        "tensor_parallel": _COUNTS,
        "sharding": st.sampled_from(["ddp", "zero3", "device_map"]),
        "seq_len": st.just(512),
        "length_distribution": st.just("full"),
        "n_samples": st.just(100),
        "n_epochs": st.just(2),
    },
)
_FIGURES = st.fixed_dictionaries(
    {
        "metric": st.sampled_from(["step_time", "sample_time", "total_time", "peak_memory"]),
        "statistic": st.sampled_from(["value", "median", "mean", "max"]),
        "scope": st.sampled_from(["total", "max_gpu", "per_gpu"]),
        "value": st.floats(1e-3, 1e12) | st.integers(1, 10**6),
    },
    optional={"kind": st.sampled_from(["device", "reserved"]), "device_index": st.integers(0, 3)},
)


def _without_nulls(configuration: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in configuration.items() if value is not None}


@given(_CONFIGURATIONS.map(_without_nulls), st.lists(_FIGURES, max_size=4))
def test_an_observation_has_the_id_of_its_completed_form(
    configuration: dict[str, Any], figures: list[dict[str, Any]]
) -> None:
    stated = {"outcome": "ok", "configuration": configuration, "measurements": figures}
    complete = complete_observation(stated)
    assert observation_id("src", complete) == observation_id("src", stated)
    assert configuration_id(complete["configuration"]) == configuration_id(configuration)


@given(st.dictionaries(st.text(max_size=3), st.integers() | st.booleans() | st.none()))
def test_canonical_json_does_not_depend_on_the_order_of_keys(document: dict[str, Any]) -> None:
    turned = dict(reversed(document.items()))
    assert canonical_json(document) == canonical_json(turned)


def test_canonical_json_holds_no_nan() -> None:
    with pytest.raises(ValueError, match="Out of range float values"):
        canonical_json({"a": math.nan})


def test_a_document_id_is_the_sha256_of_its_text() -> None:
    assert document_id("{}") == hashlib.sha256(b"{}").hexdigest()


def test_every_old_id_of_the_curated_records_leads_to_an_observation_of_today() -> None:
    with (RECORDS / "ids.csv").open(newline="") as file:
        renamed = {row["old_id"]: row["new_id"] for row in csv.DictReader(file)}
    assert len(renamed) >= 740  # none is ever taken out
    path = RECORDS / "tables" / "observations.parquet"
    there = set(pq.read_table(path, columns=["observation_id"])["observation_id"].to_pylist())
    assert set(renamed.values()) <= there
    assert not set(renamed) & there


def test_the_ids_that_runs_of_a_plan_had_as_sources_of_their_own_lead_to_those_of_its_source() -> (
    None
):
    with (RECORDS / "ids.csv").open(newline="") as file:
        renamed = {row["old_id"]: row["new_id"] for row in csv.DictReader(file)}
    lines = (RECORDS / "sources" / "cpu-smoke" / "submissions.jsonl").read_text().splitlines()
    observations = [each for line in lines for each in json.loads(line)["observations"]]
    assert len(observations) == 13
    for each in observations:
        before = observation_id(f"run-{each['run_id']}", each)
        assert renamed[before] == observation_id("cpu-smoke", each)
