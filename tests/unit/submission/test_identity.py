"""What was stated alike has the same id; what a reader notes, or what follows, changes none."""

from __future__ import annotations

import csv
import hashlib
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
    assert len(renamed) == 727
    path = RECORDS / "tables" / "observations.parquet"
    there = set(pq.read_table(path, columns=["observation_id"])["observation_id"].to_pylist())
    assert set(renamed.values()) <= there
    assert not set(renamed) & there
