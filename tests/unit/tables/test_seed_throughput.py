"""The comparison of cards, methods and models: glued cells, mixed units, the same run thrice."""

from __future__ import annotations

import pytest

from tests.unit.tables.seeds import Seeds, cited, figure, select, the

THROUGHPUT = "llm-train-throughput"


@pytest.mark.parametrize(
    ("locator", "mebibytes"),
    [
        ("table 1, row 5", [19869.9375, 19871.9375]),
        ("table 3, row 1", [21898, 21892]),
        ("table 3, row 4", [19869, 19859]),
    ],
)
def test_glued_memory_is_that_of_two_cards(
    seeds: Seeds, locator: str, mebibytes: list[float]
) -> None:
    (found,) = cited(seeds[THROUGHPUT], locator)
    cards = [
        figure(found, "peak_memory", scope="per_gpu", device_index=index) for index in range(2)
    ]
    assert [card["value"] / 2**20 for card in cards] == mebibytes
    total = figure(found, "peak_memory", scope="total")
    assert (total["value"] / 2**20, total["origin"]) == (sum(mebibytes), "derived")


def test_two_runs_glued_in_one_row_are_two_observations(seeds: Seeds) -> None:
    runs = cited(seeds[THROUGHPUT], "table 4, row 3")
    assert [run["run_id"] for run in runs] == ["1", "2"]
    metrics = ("samples_per_second", "total_time", "peak_memory")
    figures = [[figure(run, metric)["raw"] for metric in metrics] for run in runs]
    assert figures == [["1.303", "14:04", "17025.9375"], ["1.505", "12:10", "16636MiB"]]
    assert runs[0]["configuration"] == runs[1]["configuration"]


def test_a_point_in_a_clock_time_is_a_colon(seeds: Seeds) -> None:
    (found,) = cited(seeds[THROUGHPUT], "table 3, row 12")
    time = figure(found, "total_time")
    assert (time["value"], time["raw"]) == (18 * 60 + 37, "18.37")
    assert "0.984 sample/s" in time["reason"]


def test_a_column_that_says_mb_is_read_in_mebibytes(seeds: Seeds) -> None:
    (found,) = cited(seeds[THROUGHPUT], "table 1, row 1")
    memory = figure(found, "peak_memory")
    assert memory["value"] == 15075.9375 * 2**20
    assert (memory["unit_reported"], memory["reading"]) == ("MB", "MiB")
    assert "64 KiB" in memory["reason"]
    assert "low" not in memory


def test_an_integer_of_megabytes_may_be_decimal(seeds: Seeds) -> None:
    (found,) = cited(seeds[THROUGHPUT], "table 3, row 13")
    memory = figure(found, "peak_memory")
    assert (memory["value"], memory["low"]) == (11722 * 2**20, 11722 * 10**6)


def test_lora_of_one_table_is_lora_int8_of_another(seeds: Seeds) -> None:
    found = the(
        seeds[THROUGHPUT],
        model_id="baichuan2-7b",
        gpu_id="rtx-4090",
        n_gpus=1,
        quant_bits=8,
        micro_batch_size=2,
    )
    assert [citation["locator"] for citation in found["citations"]] == [
        "table 1, row 8",
        "table 2, row 2",
        "table 3, row 6",
        "table 4, row 2",
    ]
    assert found["inferences"]["quant_bits"].endswith("stand in table 3 under lora(int8)")


def test_the_link_is_filled_in_only_where_the_same_run_states_it(seeds: Seeds) -> None:
    (same,) = cited(seeds[THROUGHPUT], "table 1, row 5")
    assert same["citations"][1]["locator"] == "table 3, row 2"
    assert same["configuration"]["interconnect"] == "qpi"
    assert same["inferences"]["interconnect"].startswith("the same figures stand in table 3")
    (other,) = cited(seeds[THROUGHPUT], "table 1, row 6")
    assert "interconnect" not in other["configuration"]


def test_bold_is_no_part_of_a_name(seeds: Seeds) -> None:
    (found,) = cited(seeds[THROUGHPUT], "table 3, row 8")
    assert found["citations"][0]["cells"]["GPU型号"] == "**A800**"
    assert found["configuration"]["gpu_id"] == "a800-80gb"
    assert found["configuration"]["compute_dtype"] == "fp16"


def test_tokens_per_second_that_disagree_with_the_time_are_kept_and_flagged(seeds: Seeds) -> None:
    flagged = [entry for entry in seeds[THROUGHPUT] if entry.get("flags") == ["figures_disagree"]]
    rates = [figure(entry, "tokens_per_second")["value"] for entry in flagged]
    assert rates == [474.11, 991.86, 1169.29]
    documents = ("qwen-finetune-profile", "llama2-lora-3090", "swift-benchmark", THROUGHPUT)
    everything = [entry for source_id in documents for entry in seeds[source_id]]
    assert sum("figures_disagree" in entry.get("flags", ()) for entry in everything) == 3


def test_the_paged_optimizer_is_stated_for_the_paged_rows_only(seeds: Seeds) -> None:
    paged = select(seeds[THROUGHPUT], optimizer="paged_adamw_32bit")
    assert {entry["citations"][0]["locator"].split(",")[0] for entry in paged} == {"table 1"}
    assert len(paged) == 5
