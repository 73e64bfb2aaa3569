"""The views give what can be computed by hand from seven observations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import registry
from registry.contract import load_table, read_view, view_names
from registry.contract.descriptions import view_columns

if TYPE_CHECKING:
    import pyarrow as pa

    Views = dict[str, pa.Table]

RESULTS = """
observation_id, source_id, outcome, evidence, model_id, model_reported, n_params, method,
method_label, quant_method, quant_bits, quant_type, compute_dtype, lora_rank, lora_alpha,
lora_target_modules, trains_embeddings, trainable_params, gpu_id, gpu_memory_bytes, n_nodes,
gpus_per_node, n_gpus, interconnect, sharding, offload, seq_len, micro_batch_size,
grad_accum_steps, global_batch_size, attention, gradient_checkpointing, optimizer, n_samples,
peak_memory_bytes, peak_memory_bytes_low, peak_memory_bytes_high, peak_memory_bytes_per_gpu,
memory_kind, memory_unit_reported, seconds_per_step, total_seconds, samples_per_second,
tokens_per_second, framework, framework_version, torch_version, cuda_version, observed_at,
n_citations
"""
PROMISED = [name.strip() for name in RESULTS.replace("\n", " ").split(",")]


def _one(views: Views, where: str, relation: str = "results") -> dict[str, Any]:
    (row,) = _rows(views, f"select * from {relation} where {where}")  # noqa: S608 - the test's own text
    return row


def _rows(views: Views, sql: str) -> list[dict[str, Any]]:
    with duckdb.connect(":memory:") as connection:
        for name, table in views.items():
            connection.register(name, table)
        rows: list[dict[str, Any]] = connection.execute(sql).to_arrow_table().to_pylist()
        return rows


def test_results_has_the_promised_columns_in_order(views: Views) -> None:
    assert views["results"].column_names[: len(PROMISED)] == PROMISED  # newer ones come after
    assert list(view_columns("results"))[: len(PROMISED)] == PROMISED


def test_results_has_one_row_per_observation(views: Views) -> None:
    ids = views["results"].column("observation_id").to_pylist()
    assert len(ids) == len(set(ids)) == 7


def test_results_shows_device_memory_before_reserved_with_its_bounds(views: Views) -> None:
    row = _one(views, "n_citations = 2")
    shown = (row["peak_memory_bytes"], row["peak_memory_bytes_low"], row["peak_memory_bytes_high"])
    assert shown == (8_000_000_000, 7_500_000_000, 8_500_000_000)
    assert row["memory_kind"] == "device"
    assert row["memory_unit_reported"] == "G"
    assert row["peak_memory_bytes_per_gpu"] == 8_000_000_000
    assert row["gpu_memory_bytes"] == 24 * 2**30


def test_results_shows_the_median_step_and_the_rates_that_follow(views: Views) -> None:
    row = _one(views, "n_citations = 2")
    assert row["seconds_per_step"] == 2.0
    assert row["global_batch_size"] == 8
    assert row["samples_per_second"] == 4.0
    assert row["tokens_per_second"] == 2048.0
    assert row["method_label"] == "QLoRA"
    assert (row["framework"], row["torch_version"]) == ("ms-swift", "2.5.1")


def test_results_sums_the_cards_and_names_the_fullest(views: Views) -> None:
    row = _one(views, "n_gpus = 2")
    assert row["peak_memory_bytes"] == 16_000_000_000
    assert row["peak_memory_bytes_per_gpu"] == 9_000_000_000
    assert row["samples_per_second"] == 6.4


def test_results_leaves_null_what_is_not_stated(views: Views) -> None:
    row = _one(views, "method = 'full'")
    for column in ("gpu_id", "gpu_memory_bytes", "n_gpus", "seq_len", "peak_memory_bytes"):
        assert row[column] is None
    assert row["trainable_params"] == 33_550_000
    assert row["total_seconds"] == 100.0
    assert row["samples_per_second"] == 10.3
    assert row["method_label"] == "full"


def test_citations_wide_has_one_row_per_place_with_its_cells(views: Views) -> None:
    rows = _rows(
        views,
        "select locator, cells, peak_memory_bytes from citations_wide where row is not null "
        "order by row",
    )
    assert rows == [
        {"locator": "table 1, row 1", "cells": '{"mem":"8G"}', "peak_memory_bytes": 8_000_000_000},
        {"locator": "table 2, row 4", "cells": '{"mem":"8 G"}', "peak_memory_bytes": 8_000_000_000},
    ]
    assert views["citations_wide"].num_rows == 8


def test_max_seq_len_tells_the_longest_that_fitted_and_the_shortest_oom(views: Views) -> None:
    row = _one(views, "n_gpus = 1", "max_seq_len")
    assert (row["longest_fitted"], row["shortest_oom"], row["n_observations"]) == (1024, 2048, 4)


def test_scaling_compares_with_the_smallest_number_of_gpus(views: Views) -> None:
    rows = _rows(views, "from scaling order by n_gpus")
    assert [row["n_gpus"] for row in rows] == [1, 2]
    one, two = rows
    base = (8 / 2.0 + 8 / 2.2) / 2  # the median of two runs
    assert one["samples_per_second"] == one["base_samples_per_second"] == pytest.approx(base)
    assert (one["speedup"], one["efficiency"]) == (1.0, 1.0)
    assert two["base_n_gpus"] == 1
    assert two["speedup"] == pytest.approx(6.4 / base)
    assert two["efficiency"] == pytest.approx(6.4 / base / 2)


def test_conflicts_pairs_like_runs_apart_by_more_than_two_per_cent(views: Views) -> None:
    rows = _rows(views, "from conflicts where kind like 'same%' order by metric")
    assert {row["metric"] for row in rows} == {
        "step_time",
        "samples_per_second",
        "tokens_per_second",
    }
    step = next(row for row in rows if row["metric"] == "step_time")
    assert sorted([step["value"], step["other_value"]]) == [2.0, 2.2]
    assert step["ratio"] == pytest.approx(step["other_value"] / step["value"])


def test_conflicts_holds_a_rate_against_samples_and_time(views: Views) -> None:
    row = _one(views, "kind = 'rate x time against samples'", "conflicts")
    assert (row["value"], row["other_value"]) == (10.3, 10.0)
    assert row["ratio"] == pytest.approx(10.0 / 10.3)


def test_coverage_counts_per_model_gpu_and_method(views: Views) -> None:
    row = _one(views, "gpu_id = 'rtx-3090'", "coverage")
    assert row == {
        "model_id": "llama-2-7b",
        "gpu_id": "rtx-3090",
        "method_label": "QLoRA",
        "n_observations": 6,
        "n_ok": 4,
        "n_oom": 1,
        "n_with_memory": 4,
        "n_with_speed": 4,
        "min_seq_len": 512,
        "max_seq_len": 4096,
        "min_n_gpus": 1,
        "max_n_gpus": 2,
        "n_sources": 1,
    }


def test_quality_counts_what_is_stated_inferred_uncertain_and_derived(views: Views) -> None:
    row = _one(views, "source_id = 'tiny'", "quality")
    assert row["n_observations"] == 7
    assert row["n_citations"] == 8
    assert row["n_measured"] == 6
    assert row["n_ok"] == 5
    assert row["share_with_memory"] == pytest.approx(4 / 5)
    assert row["share_with_speed"] == 1.0
    assert row["share_with_gpu"] == pytest.approx(6 / 7)
    assert row["share_with_versions"] == pytest.approx(3 / 7)
    assert row["n_inferred_columns"] == 2
    assert row["n_uncertain_figures"] == 1
    assert row["n_flagged"] == 1
    # Reported: 4 + 2 + 2 + 3 + 3. Derived: two rates of each run with a step time, and the sum of
    # the two cards.
    assert row["n_derived_figures"] == 4 * 2 + 1
    assert row["n_figures"] == 14 + 4 * 2 + 1


@pytest.mark.parametrize("name", view_names())
def test_views_are_the_same_before_and_after_the_fold(
    views: Views, pending_views: Views, name: str
) -> None:
    assert views[name].equals(pending_views[name])


def test_a_series_of_implausible_shares_every_column_of_the_configuration() -> None:
    grows = {"seq_len", "micro_batch_size"}
    follows = {"configuration_id", "global_batch_size", "n_samples", "n_epochs", "n_steps"}
    hashed = read_view("implausible").partition("md5(")[2].partition("as setting")[0]
    named = set(re.findall(r"\bc\.(\w+)", hashed))
    assert named == set(load_table("configurations").names) - grows - follows


def test_no_family_of_cards_has_more_generations_than_implausible_follows() -> None:
    rows = registry.open("records").query("select gpu_id, family_id from gpus").rows()
    families = {row["gpu_id"]: row["family_id"] for row in rows}
    for card in families:
        line = [card]
        while (above := families.get(line[-1])) is not None:
            line.append(above)
        assert len(line) <= 4, f"implausible.sql follows three families: {' of '.join(line)}"
