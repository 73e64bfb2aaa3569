"""Observations become questions with what is known of their software, and nothing is invented."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from registry.api import open_registry
from registry.contract import load_table
from registry.errors import QuestionError
from registry.predict.architecture import Architecture
from registry.predict.calibration.runs import (
    collect_observations,
    read_observations,
    read_runs_sql,
    resolve_stack,
)
from registry.store.folder import curated_dir
from tests.unit.store.registries import make_registry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from registry.catalogue import Catalogue
    from registry.predict.calibration.intervals import Calibration
    from registry.predict.calibration.runs import ObservedRun


def _of(calibration: Calibration, source_id: str) -> list[ObservedRun]:
    return [one for one in calibration.observations if one.source_id == source_id]


def test_runs_have_all_that_the_catalogue_says_of_a_shape() -> None:
    columns = {column.name for column in load_table("models").columns}
    wanted = {one.name for one in fields(Architecture)} & columns - {"verified"}  # only answers say
    found = open_registry(curated_dir()).query(f"from ({read_runs_sql()}) limit 0")
    assert wanted - set(found.table.column_names) == set()
    assert "layer_embedding_params" in wanted


def test_what_scripts_say_fills_what_the_source_leaves_out(calibration: Calibration) -> None:
    lora = [o.question for o in _of(calibration, "qwen-finetune-profile") if not o.question.full]
    assert {question.lora_rank for question in lora} == {64}
    assert {q.sharding for q in lora if q.quant_bits == 4} == {"zero2"}
    assert {q.sharding for q in lora if q.model.model_id == "qwen-72b" and not q.quantized} == {
        "zero3"
    }


def test_a_total_over_cards_is_shared_among_them(calibration: Calibration) -> None:
    peaks = [
        (one.peak_bytes, one.question.n_gpus)
        for one in _of(calibration, "qwen-finetune-profile")
        if one.question.n_gpus == 4 and one.peak_bytes
    ]
    assert peaks
    assert all(peak < 80 * 2**30 for peak, _ in peaks)


def test_seconds_are_of_one_micro_batch(calibration: Calibration) -> None:
    first = next(
        one
        for one in _of(calibration, "qwen-finetune-profile")
        if one.question.model.model_id == "qwen-72b" and one.question.seq_len == 8192
        and one.question.quantized
    )  # fmt: skip
    assert first.seconds == pytest.approx(179.8 / 8)


def test_a_model_without_a_shape_is_left_out(catalogue: Catalogue) -> None:
    row: dict[str, Any] = {
        "observation_id": "x", "source_id": "s", "outcome": "ok", "evidence": "measured",
        "method": "lora", **catalogue.models["moe-7b-1b-active-shared-experts"],
    }  # fmt: skip
    assert collect_observations([row], {}) == []
    row |= catalogue.models["qwen-7b"]
    assert collect_observations([row], {}) == []  # nor one that states no length and batch
    row |= {"seq_len": 512, "micro_batch_size": 1}
    assert len(collect_observations([row], {})) == 1


def test_a_run_that_states_its_steps_is_timed_by_them(catalogue: Catalogue) -> None:
    row: dict[str, Any] = {
        "observation_id": "x", "source_id": "s", "outcome": "ok", "evidence": "measured",
        "method": "lora", "seq_len": 512, "micro_batch_size": 2, "grad_accum_steps": 4,
        "total_seconds": 480.0, "n_steps": 60, "n_samples": 100_000,
        **catalogue.models["qwen-7b"],
    }  # fmt: skip
    (timed,) = collect_observations([row], {})
    assert timed.seconds == pytest.approx(480 / 60 / 4)
    (unknown,) = collect_observations([{**row, "grad_accum_steps": None}], {})
    assert unknown.seconds is None


def test_tokens_a_second_time_a_run_whose_sequences_are_filled(catalogue: Catalogue) -> None:
    row: dict[str, Any] = {
        "observation_id": "x", "source_id": "s", "outcome": "ok", "evidence": "measured",
        "method": "lora", "seq_len": 512, "micro_batch_size": 2, "n_gpus": 4,
        "tokens_per_second": 8192.0, **catalogue.models["qwen-7b"],
    }  # fmt: skip
    for filled in ({"packing": True}, {"length_distribution": "full"}):
        (timed,) = collect_observations([{**row, **filled}], {})
        assert timed.seconds == pytest.approx(512 / 8192 * 2 * 4)
    for unknown in ({}, {"length_distribution": "variable"}, {"packing": False}):
        (one,) = collect_observations([{**row, **unknown}], {})
        assert one.seconds is None


@pytest.fixture(scope="module")
def recorded() -> list[ObservedRun]:
    return read_observations(open_registry(curated_dir()))


def test_what_streams_weights_from_the_host_is_neither_learned_from_nor_judged(
    recorded: list[ObservedRun],
) -> None:
    kinds = ("params", "optimizer_and_params")
    away = [one.question for one in recorded if one.question.offload in kinds]
    assert {one.sharding for one in away} <= {"zero3", "fsdp", "fsdp2", "hsdp"}
    assert len(away) > 10
    assert "soup-benchmarks" in {one.source_id for one in recorded}
    assert "soup-layer-streaming" not in {one.source_id for one in recorded}


def test_what_is_asked_is_what_the_source_states(recorded: list[ObservedRun]) -> None:
    asked = [
        one.asked
        for one in recorded
        if one.source_id == "qwen-finetune-profile" and one.asked is not None
    ]
    assert len(asked) > 50
    assert {question.stack for question in asked} == {None}
    assert {question.lora_rank for question in asked} == {None}
    assert {question.gradient_checkpointing for question in asked} == {None}


def test_pretraining_and_encoders_are_told_apart(
    recorded: list[ObservedRun], calibration: Calibration
) -> None:
    by = {one.source_id: one.purpose for one in recorded}
    assert by["lambda-deeplearning-benchmark"] == "encoder"
    assert by["llm-foundry-throughput"] == "pretraining"
    assert {one.purpose for one in calibration.observations} == {"fine-tuning"}


def observe(outcome: str = "ok", kind: str = "reserved", **stated: Any) -> dict[str, Any]:
    """Return an observation of a run of LoRA, with more of its configuration stated."""
    peak = {"metric": "peak_memory", "kind": kind, "value": 18 * 2**30}
    return {
        "outcome": outcome,
        "configuration": {
            "model_id": "llama-2-7b",
            "method": "lora",
            "seq_len": 512,
            "micro_batch_size": 1,
            "gpu_id": "rtx-3090",
            "n_gpus": 1,
            **stated,
        },
        "measurements": [peak] if outcome == "ok" else [],
    }


@pytest.mark.parametrize(
    ("stated", "purpose"),
    [
        ({"data": "synthetic", "objective": "sft"}, "fine-tuning"),
        ({"data": "synthetic", "objective": "pretrain"}, "pretraining"),
        ({"data": "synthetic"}, "pretraining"),  # nobody says that it fine-tunes
        ({}, "fine-tuning"),
    ],
)
def test_fine_tuning_that_is_stated_counts_whatever_its_samples_say(
    tmp_path: Path, stated: dict[str, str], purpose: str
) -> None:
    db = make_registry(tmp_path / "mine")
    db.add({"source": {"source_id": "mine", "kind": "run"}, "observations": [observe(**stated)]})
    assert [one.purpose for one in read_observations(db)] == [purpose]


def longest_of(folder: Path, flags: Sequence[str] = (), **stated: Any) -> int | None:
    """Return the longest sample of a run of up to 512 tokens that says it had 120 at most."""
    db = make_registry(folder)
    observation = {**observe(**stated), "flags": list(flags)}
    longest = {"metric": "sequence_length", "statistic": "max", "value": 120}
    observation["measurements"] += [longest, {**longest, "statistic": "mean", "value": 99}]
    db.add({"source": {"source_id": "mine", "kind": "run"}, "observations": [observation]})
    (seen,) = read_observations(db)
    assert seen.asked is not None
    assert seen.asked.longest_sample == seen.question.longest_sample
    assert seen.question.longest == (seen.question.longest_sample or 512)
    return seen.question.longest_sample


def test_a_run_of_shorter_samples_than_it_allows_is_one_of_its_samples(tmp_path: Path) -> None:
    assert longest_of(tmp_path / "apart") == 120
    assert longest_of(tmp_path / "packed", packing=True) is None  # packed, they fill 512
    # what is evaluated may be longer
    assert longest_of(tmp_path / "evaluated", ["includes_evaluation"]) is None


@pytest.mark.parametrize("outcome", ["ok", "oom"])
def test_runs_on_cpu_stay_out_of_the_calibration_for_cards(tmp_path: Path, outcome: str) -> None:
    db = make_registry(tmp_path / "mine")
    for gpu_id, kind in (("cpu", "host_rss"), ("rtx-3090", "reserved")):
        source = {"source_id": f"on-{gpu_id}", "kind": "run"}
        observation = observe(outcome, kind, gpu_id=gpu_id)
        db.add({"source": source, "observations": [observation]})
    assert {row["source_id"] for row in db.query("from sources").rows()} == {
        "on-cpu",
        "on-rtx-3090",
    }
    assert [one.source_id for one in read_observations(db)] == ["on-rtx-3090"]


def test_a_stack_is_named_by_source_or_framework(calibration: Calibration) -> None:
    seen = calibration.observations
    assert resolve_stack("swift-benchmark", seen) == "swift-benchmark"
    assert resolve_stack("ms-swift", seen) == "ms-swift-benchmark-2024-07"
    with pytest.raises(QuestionError) as caught:
        resolve_stack("ms-swif", seen)
    assert str(caught.value).startswith(
        "stack: found 'ms-swif'; did you mean 'ms-swift'?; expected a source or framework that was "
        "measured: axolotl"
    )
