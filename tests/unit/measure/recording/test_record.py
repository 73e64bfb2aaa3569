"""From a record to a submission."""

from __future__ import annotations

from typing import Any

import pytest

from registry.catalogue import Catalogue
from registry.errors import SubmissionError
from registry.measure.failure import Failure
from registry.measure.recording.ranks import merge_peaks, merge_steps
from registry.measure.recording.record import Record, build_observation, build_submission, quantile
from registry.submission.derive import complete_observation
from registry.submission.prepare import prepare_submission

CATALOGUE = Catalogue(gpus={"cpu": {"gpu_id": "cpu"}})


def make_record(**changes: Any) -> Record:
    steps = [
        {"step": step, "seconds": seconds, "tokens": 100, "samples": 2, "warmup": step == 1}
        for step, seconds in enumerate((9.0, 1.0, 2.0, 3.0), 1)
    ]
    stated: dict[str, Any] = {
        "run_id": "0123456789abcdef",
        "observed_at": "2026-01-02T03:04:05+00:00",
        "configuration": {"method": "lora", "gpus_per_node": 1, "n_nodes": 1},
        "environment": {"python_version": "3.11.7"},
        "model": {"model_id": "tiny-h8", "n_params": 10},
        "gpu": {"gpu_id": "cpu"},
        "steps": steps,
        "parts": [{"rank": 0, "steps": steps, "peaks": [["host_rss", 0, 4_096_000]]}],
        "seconds": {"total_time": 15.0},
    }
    return Record(**{**stated, **changes})


def figures(observation: dict[str, Any]) -> dict[tuple[str, str], float]:
    return {
        (row["metric"], row.get("statistic", "value")): row["value"]
        for row in observation["measurements"]
        if row.get("scope", "total") == "total"
    }


def test_figures_leave_the_warmup_out() -> None:
    found = figures(build_observation(make_record()))
    assert found["step_time", "median"] == 2.0
    assert found["step_time", "mean"] == 2.0
    assert found["step_time", "p90"] == pytest.approx(2.8)
    assert found["step_time", "std"] == 1.0
    assert found["tokens_per_second", "value"] == 50.0
    assert found["samples_per_second", "value"] == 1.0


@pytest.mark.parametrize(
    ("longest", "flags", "told"),
    [
        ([24, 40], [], 40.0),
        ([24, None], [], None),  # one process did not say
        ([24, 64], [], None),  # as long as it allows
        ([24, 40], ["recovered_from_oom"], None),  # its step may have been given up
        ([], [], None),
    ],
)
def test_the_longest_sequence_is_told_where_all_processes_know_it(
    longest: list[int | None], flags: list[str], told: float | None
) -> None:
    parts: list[dict[str, Any]] = [
        {"rank": rank, "steps": [], "peaks": [], "longest": each}
        for rank, each in enumerate(longest)
    ]
    configuration = {"method": "lora", "gpus_per_node": 2, "n_nodes": 1, "seq_len": 64}
    found = build_observation(make_record(parts=parts, flags=flags, configuration=configuration))
    assert figures(found).get(("sequence_length", "max")) == told


def test_a_recorded_run_is_a_valid_submission() -> None:
    prepared = prepare_submission(build_submission(make_record()), CATALOGUE, origin="run")
    observation = prepared.document["observations"][0]
    assert observation["outcome"] == "ok"
    assert complete_observation(observation)["configuration"]["n_gpus"] == 1
    assert len(observation["samples"]) == 4


@pytest.mark.parametrize(
    ("said", "is_seen"),
    [({"trainer": "loop"}, True), ({"length_limit": 512}, False), ({"spec": {}}, False)],
)
def test_a_length_that_nobody_stated_says_that_it_was_seen(
    said: dict[str, Any],
    is_seen: bool,  # noqa: FBT001 - a column of the table
) -> None:
    record = make_record(provenance=said)
    assert "inferences" not in build_observation(record)  # no length at all
    record.configuration["seq_len"] = 96
    document = prepare_submission(build_submission(record), CATALOGUE, origin="run").document
    assert ("seq_len" in document["observations"][0].get("inferences", {})) == is_seen


def test_an_early_oom_is_a_valid_submission_without_step_times() -> None:
    failure = Failure("oom", "OutOfMemoryError: CUDA out of memory", "forward")
    part = {"rank": 0, "steps": [], "peaks": [["host_rss", 0, 4_096_000]]}
    record = make_record(failure=failure, failed_step=1, steps=[], parts=[part])
    prepared = prepare_submission(build_submission(record), CATALOGUE, origin="run")
    observation = prepared.document["observations"][0]
    assert (observation["outcome"], observation["phase"]) == ("oom", "forward")
    assert "step_time" not in {row["metric"] for row in observation["measurements"]}


def test_the_validation_would_refuse_an_unknown_gpu() -> None:
    document = build_submission(make_record(gpu={"gpu_id": "cpu"}))
    with pytest.raises(SubmissionError, match="unknown gpu 'cpu'"):
        prepare_submission(document, Catalogue(), origin="run")


def test_few_steps_are_flagged() -> None:
    assert build_observation(make_record())["flags"] == ["short_run"]
    steps = [{"step": i, "seconds": 1.0} for i in range(1, 9)]
    assert "flags" not in build_observation(make_record(steps=steps))


def test_a_loss_that_is_no_number_is_left_out() -> None:
    record = make_record(counts={"train_loss": float("nan"), "n_steps": 4})
    metrics = {row["metric"] for row in build_observation(record)["measurements"]}
    assert "n_steps" in metrics
    assert "train_loss" not in metrics


def test_the_slowest_rank_is_the_step_and_tokens_add_up() -> None:
    parts = [
        {"rank": 0, "steps": [{"step": 1, "seconds": 1.0, "tokens": 10, "host_rss_bytes": 7}]},
        {"rank": 1, "steps": [{"step": 1, "seconds": 1.5, "tokens": 12, "host_rss_bytes": 9}]},
    ]
    assert merge_steps(parts) == [{"step": 1, "seconds": 1.5, "tokens": 22, "host_rss_bytes": 9}]


def test_what_a_rank_ends_late_is_not_counted_twice() -> None:
    steps = [
        [{"step": number, "seconds": seconds} for number, seconds in enumerate(each, 1)]
        for each in ((1.0, 1.25, 0.75, 1.0), (1.0, 0.75, 1.25, 1.0))
    ]
    parts = [{"rank": rank, "steps": each} for rank, each in enumerate(steps)]
    assert [row["seconds"] for row in merge_steps(parts)] == [1.0, 1.25, 0.75, 1.0]


def test_devices_of_several_ranks_are_numbered_by_rank() -> None:
    parts = [
        {"rank": 0, "peaks": [["allocated", 0, 5], ["host_rss", 0, 1]]},
        {"rank": 1, "peaks": [["allocated", 1, 6], ["host_rss", 1, 2]]},
    ]
    assert merge_peaks(parts, on_cpu=False) == {
        "allocated": {0: 5, 1: 6},
        "host_rss": {0: 1, 1: 2},
    }


def test_host_memory_of_a_gpu_job_is_no_memory_of_a_device() -> None:
    part = {"rank": 0, "steps": [], "peaks": [["allocated", 0, 5], ["host_rss", 0, 9]]}
    record = make_record(gpu={"gpu_id": "x-gpu"}, parts=[part])
    rows = build_observation(record)["measurements"]
    scopes = {(row["kind"], row.get("scope")) for row in rows if row["metric"] == "peak_memory"}
    assert scopes == {("allocated", None), ("allocated", "per_gpu"), ("host_rss", None)}


def test_quantiles_interpolate() -> None:
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.9) == pytest.approx(3.7)
    assert quantile([5.0], 0.9) == 5.0


@pytest.mark.parametrize(
    ("change", "longest"),
    [
        ({}, 24),
        ({"failure": Failure("oom", "out of memory", "backward")}, 24),
        ({"failure": Failure("oom", "out of memory", "evaluate")}, None),
        ({"flags": ["recovered_from_oom"]}, None),
        ({"provenance": {"ranks_missing": 1}}, None),
    ],
)
def test_the_longest_sequence_is_told_where_no_other_may_have_decided(
    change: dict[str, Any], longest: int | None
) -> None:
    limited = {"method": "lora", "gpus_per_node": 1, "n_nodes": 1, "seq_len": 64}
    part = {"rank": 0, "steps": [], "peaks": [["host_rss", 0, 4_096_000]], "longest": 24}
    found = build_observation(make_record(configuration=limited, parts=[part], **change))
    assert figures(found).get(("sequence_length", "max")) == longest


def test_a_part_of_an_earlier_release_tells_no_longest_sequence() -> None:
    limited = {"method": "lora", "gpus_per_node": 1, "n_nodes": 1, "seq_len": 64}
    found = build_observation(make_record(configuration=limited))
    assert ("sequence_length", "max") not in figures(found)
