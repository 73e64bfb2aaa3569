"""The curated sources come out right, each trap of the seed documents with a test."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.unit.tables.seeds import Seeds, cited, figure, select, the

QWEN, LLAMA = "qwen-finetune-profile", "llama2-lora-3090"
SWIFT, THROUGHPUT = "swift-benchmark", "llm-train-throughput"


@pytest.mark.parametrize(
    ("source_id", "outcomes", "n_citations"),
    [
        (QWEN, {"ok": 81, "not_run": 3, "oom": 2}, 84 + 2),
        (LLAMA, {"ok": 31, "oom": 1}, 34),
        (SWIFT, {"ok": 48, "oom": 3}, 59),
        (THROUGHPUT, {"ok": 30, "oom": 2}, 38),
    ],
)
def test_outcomes_and_citations_of_a_source(
    seeds: Seeds, source_id: str, outcomes: dict[str, int], n_citations: int
) -> None:
    observations = seeds[source_id]
    assert Counter(observation["outcome"] for observation in observations) == outcomes
    assert sum(len(observation["citations"]) for observation in observations) == n_citations


def test_there_are_199_measured_observations_in_215_places_and_two_claims(seeds: Seeds) -> None:
    everything = [
        entry for source_id in (QWEN, LLAMA, SWIFT, THROUGHPUT) for entry in seeds[source_id]
    ]
    evidence = Counter(entry["evidence"] for entry in everything)
    assert evidence == {"measured": 199, "claimed": 2}
    places = [
        citation
        for entry in everything
        if entry["evidence"] == "measured"
        for citation in entry["citations"]
    ]
    assert len(places) == 215
    assert all(place["cells"] for place in places)


def test_every_reported_figure_stands_in_a_cited_cell(seeds: Seeds) -> None:
    for source_id in (QWEN, LLAMA, SWIFT, THROUGHPUT):
        for entry in seeds[source_id]:
            cells = [
                cell
                for citation in entry["citations"]
                for cell in citation.get("cells", {}).values()
            ]
            for measurement in entry.get("measurements", ()):
                is_derived = measurement["origin"] == "derived"
                assert is_derived or any(measurement["raw"] in cell for cell in cells)


# qwen-finetune-profile


def test_a_cell_of_memory_and_speed_is_read_as_two_figures(seeds: Seeds) -> None:
    found = the(
        seeds[QWEN],
        model_id="qwen-7b",
        method="lora",
        trains_embeddings=False,
        n_nodes=1,
        quant_bits=None,
        seq_len=8192,
    )
    assert figure(found, "peak_memory")["value"] == 36_600_000_000
    assert figure(found, "step_time")["value"] == 21.3
    assert found["citations"] == [
        {
            "locator": "table 1, row 5, column 8192",
            "table_title": "显存占用及训练速度",
            "row": 5,
            "column": "8192",
            "cells": {
                "Model Size": "7B",
                "Method": "LoRA",
                "#Nodes": "1",
                "#GPUs per node": "1",
                "Sequence Length / 8192": "36.6G / 21.3s/it",
            },
        }
    ]


def test_a_cell_without_unit_has_the_columns_unit_and_the_reason(seeds: Seeds) -> None:
    (found,) = cited(seeds[QWEN], "table 1, row 11, column 256")
    memory = figure(found, "peak_memory")
    assert memory["value"] == 51_200_000_000
    assert "unit_reported" not in memory
    assert memory["reason"].startswith("no unit in this cell; ")


def test_dashes_of_the_full_parameter_row_mean_not_run(seeds: Seeds) -> None:
    not_run = [entry for entry in seeds[QWEN] if entry["outcome"] == "not_run"]
    assert [entry["configuration"]["seq_len"] for entry in not_run] == [2048, 4096, 8192]
    assert {entry["configuration"]["method"] for entry in not_run} == {"full"}
    assert all("measurements" not in entry and entry["outcome_detail"] for entry in not_run)


def test_memory_on_several_gpus_is_the_total_and_cannot_be_gib_on_two_cards(seeds: Seeds) -> None:
    found = the(seeds[QWEN], model_id="qwen-7b", method="full", seq_len=1024)
    memory = figure(found, "peak_memory")
    assert (memory["scope"], memory["value"]) == ("total", 162_000_000_000)
    assert "high" not in memory


def test_the_gib_reading_is_kept_as_bound_where_the_card_allows_it(seeds: Seeds) -> None:
    found = the(seeds[QWEN], model_id="qwen-72b", quant_bits=4, seq_len=8192)
    memory = figure(found, "peak_memory")
    assert (memory["value"], memory["high"]) == (75_600_000_000, 81_174_881_894)


def test_an_iteration_is_an_optimizer_step_of_eight_micro_batches(seeds: Seeds) -> None:
    found = the(seeds[QWEN], model_id="qwen-1.8b", method="full", seq_len=256)
    assert found["configuration"]["global_batch_size"] == 8
    assert "8 micro-batches" in figure(found, "step_time")["reason"]
    assert figure(found, "samples_per_second") == {
        "metric": "samples_per_second",
        "statistic": "value",
        "scope": "total",
        "value": 8 / 2.1,
        "origin": "derived",
        "reason": "batch / step time",
    }


def test_only_the_72b_model_is_said_to_be_quantized_to_int4(seeds: Seeds) -> None:
    quantized = select(seeds[QWEN], quant_bits=4)
    types = {
        (entry["configuration"]["model_id"], entry["configuration"].get("quant_type"))
        for entry in quantized
    }
    assert types == {
        ("qwen-1.8b", None),
        ("qwen-7b", None),
        ("qwen-14b", None),
        ("qwen-72b", "int4"),
    }


def test_multinode_and_zero3_rows_name_their_hardware(seeds: Seeds) -> None:
    multinode = select(seeds[QWEN], n_nodes=2)
    assert {entry["configuration"]["n_gpus"] for entry in multinode} == {4}
    zero3 = select(seeds[QWEN], sharding="zero3")
    assert {entry["configuration"]["model_id"] for entry in zero3} == {"qwen-72b"}
    assert len(multinode) == len(zero3) == 6


def test_the_prose_gives_two_claimed_failures_without_figures(seeds: Seeds) -> None:
    claims = [entry for entry in seeds[QWEN] if entry["evidence"] == "claimed"]
    assert [entry["outcome"] for entry in claims] == ["oom", "oom"]
    assert [entry["configuration"]["trains_embeddings"] for entry in claims] == [True, False]
    for entry in claims:
        assert entry["configuration"]["n_gpus"] == 4
        assert "sharding" not in entry["configuration"]
        assert "seq_len" not in entry["configuration"]
        assert "measurements" not in entry


# llama2-lora-3090


def test_hours_and_minutes_are_seconds(seeds: Seeds) -> None:
    found = the(seeds[LLAMA], quant_bits=8, micro_batch_size=4)
    assert figure(found, "total_time")["value"] == 20_100.0


def test_the_columns_own_count_of_samples_holds_against_the_prose(seeds: Seeds) -> None:
    int8 = select(seeds[LLAMA], quant_bits=8)
    assert {entry["configuration"]["n_samples"] for entry in int8} == {48_800}
    assert all("the prose above it says 274" in entry["inferences"]["n_samples"] for entry in int8)


def test_a_cell_written_s_is_a_missing_figure(seeds: Seeds) -> None:
    found = the(seeds[LLAMA], quant_bits=4, micro_batch_size=4)
    assert [entry["metric"] for entry in found["measurements"]] == ["peak_memory"]
    assert found["outcome"] == "ok"


def test_two_rows_of_llama_stand_in_two_tables(seeds: Seeds) -> None:
    twice = [
        [citation["locator"] for citation in entry["citations"]]
        for entry in seeds[LLAMA]
        if len(entry["citations"]) > 1
    ]
    assert twice == [
        ["table 1, row 1", "table 4, row 10"],
        ["table 1, row 5", "table 4, row 11"],
    ]


def test_oom_beside_dashes_is_one_outcome(seeds: Seeds) -> None:
    (found,) = (entry for entry in seeds[LLAMA] if entry["outcome"] == "oom")
    assert found["configuration"]["seq_len"] == 2048
    assert "measurements" not in found


def test_a_figure_above_the_card_in_gib_is_decimal_without_doubt(seeds: Seeds) -> None:
    found = the(seeds[LLAMA], seq_len=256, micro_batch_size=48)
    memory = figure(found, "peak_memory")
    assert (memory["value"], memory["raw"]) == (24_560_000_000, "24.56GB")
    assert "high" not in memory
    assert memory["reason"] == "24.56GB on a card of 24 GiB cannot be GiB"


# swift-benchmark


def test_the_gpu_of_swift_is_not_stated(seeds: Seeds) -> None:
    for entry in seeds[SWIFT]:
        assert not {"gpu_id", "n_gpus", "n_nodes", "gpus_per_node"} & entry["configuration"].keys()


def test_default_rows_of_swift_are_one_observation_each(seeds: Seeds) -> None:
    several = {
        entry["configuration"]["model_id"]: len(entry["citations"])
        for entry in seeds[SWIFT]
        if len(entry["citations"]) > 1
    }
    assert several == {"qwen-7b-chat": 6, "qwen-14b-chat": 3, "qwen-1.8b-chat": 2}


def test_a_time_without_unit_is_in_minutes_as_two_other_tables_have_it(seeds: Seeds) -> None:
    (found,) = cited(seeds[SWIFT], "table 1, row 5")
    time = figure(found, "total_time")
    assert (time["value"], time["raw"]) == (703.8, "11.73min")
    assert "also written '11.73': no unit in this cell" in time["reason"]
    assert found["citations"][0]["cells"]["Training Speed"] == "11.73"


def test_time_is_that_of_the_whole_run_over_1000_samples(seeds: Seeds) -> None:
    (found,) = cited(seeds[SWIFT], "table 6, row 4")
    assert figure(found, "total_time")["value"] == pytest.approx(7.14 * 60)
    rate = figure(found, "samples_per_second")
    assert (rate["value"], rate["origin"]) == (pytest.approx(1000 / (7.14 * 60)), "derived")


def test_megabytes_of_trainable_parameters_are_millions(seeds: Seeds) -> None:
    found = the(seeds[SWIFT], lora_rank=64)
    params = figure(found, "trainable_params")
    assert (params["value"], params["raw"], params["unit_reported"]) == (
        33_550_000,
        "33.55MB",
        "MB",
    )
    assert params["reading"] == "M"
    assert "the column counts parameters" in params["reason"]


def test_ticks_and_crosses_are_flash_attention_and_checkpointing(seeds: Seeds) -> None:
    settings = [
        (entry["configuration"]["attention"], entry["configuration"]["gradient_checkpointing"])
        for row in range(1, 5)
        for entry in cited(seeds[SWIFT], f"table 5, row {row}")
    ]
    assert settings == [
        ("flash2", True),
        ("flash2", False),
        ("not_flash", True),
        ("not_flash", False),
    ]


@pytest.mark.parametrize(
    ("row", "quantization"),
    [
        (1, (None, None, None, "bf16")),
        (2, ("gptq", 4, "int4", None)),
        (3, ("gptq", 8, "int8", None)),
        (4, ("bitsandbytes", 4, None, None)),
    ],
)
def test_quantizations_of_swift(seeds: Seeds, row: int, quantization: tuple[Any, ...]) -> None:
    (found,) = cited(seeds[SWIFT], f"table 1, row {row}")
    names = ("quant_method", "quant_bits", "quant_type", "compute_dtype")
    assert tuple(found["configuration"].get(name) for name in names) == quantization


def test_target_modules_are_known_for_qwen_only(seeds: Seeds) -> None:
    modules = {
        (entry["configuration"]["model_id"].split("-")[0], *targets)
        for entry in select(seeds[SWIFT], method="lora")
        for targets in [entry["configuration"].get("lora_target_modules", [])]
    }
    assert modules == {
        ("qwen", "c_attn"),
        ("qwen", "all-linear"),
        ("chatglm2",),
        ("chatglm3",),
        ("yi",),
        ("openbuddy",),
    }


def test_full_training_has_no_adapter(seeds: Seeds) -> None:
    full = select(seeds[SWIFT], method="full")
    assert len(full) == 11
    assert not any(name.startswith("lora") for e in full for name in e["configuration"])


def test_three_runs_of_swift_ran_out_of_memory(seeds: Seeds) -> None:
    oom = [entry["citations"][0]["locator"] for entry in seeds[SWIFT] if entry["outcome"] == "oom"]
    assert oom == ["table 1, row 9", "table 2, row 10", "table 2, row 11"]
