"""Reports of optimum-benchmark: what its numbers are of, and which it prints wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]

NAMED = {"model_id": "llama-2-7b"}


@pytest.fixture
def reports(fixtures: Path) -> Path:
    return fixtures / "optimum_benchmark"


def test_a_table_has_a_run_in_each_row(
    reports: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    lora, bnb, full, gptq = observe(reports / "full_report.csv")
    assert lora["configuration"] == {
        "model_id": "llama-2-7b", "weights": "random", "method": "lora", "lora_rank": 8,
        "lora_alpha": 8, "lora_dropout": 0, "param_dtype": "fp16", "compute_dtype": "fp16",
        "gpu_id": "a100-sxm4-80gb", "n_gpus": 1, "seq_len": 256, "length_distribution": "full",
        "micro_batch_size": 16, "grad_accum_steps": 1,
    }  # fmt: skip
    assert figure(lora, "samples_per_second")["value"] == 17.61553393108114
    assert figure(lora, "step_time")["value"] == pytest.approx(90.82892441749571 / 100)
    assert (bnb["configuration"]["quant_bits"], bnb["configuration"]["quant_type"]) == (4, "fp4")
    assert full["configuration"]["method"] == "full"
    assert (gptq["configuration"]["quant_method"], gptq["configuration"]["quant_bits"]) == (
        "gptq",
        4,
    )
    assert lora["environment"]["torch_version"] == "2.1.1+cu118"
    assert [run["citations"][0]["locator"] for run in (lora, gptq)] == [
        "full_report.csv, row 1",
        "full_report.csv, row 4",
    ]


def test_results_of_2023_take_the_settings_beside_them(
    reports: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (run,) = observe(reports / "run")
    assert run["configuration"]["micro_batch_size"] == 2
    assert figure(run, "samples_per_second")["value"] == 6.929868107022354
    assert figure(run, "total_time")["value"] == 28.878009557724


def test_the_rate_of_a_report_is_that_of_its_times(
    reports: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (run,) = observe(reports / "benchmark.json", **NAMED)
    rate = figure(run, "samples_per_second")
    mean = figure(run, "step_time", statistic="mean")["value"]
    assert rate["value"] == pytest.approx(2 * 2 / mean)  # a fifth of what is printed: five steps
    assert rate["reason"].endswith(
        "; the report prints 76.4853, samples of all steps / seconds of one"
    )
    peak = figure(run, "peak_memory")
    assert (peak["kind"], peak["value"]) == ("host_rss", pytest.approx(530_423_808))


def test_memory_of_cards_is_a_sum_in_megabytes(
    reports: Path, tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    report = json.loads((reports / "benchmark.json").read_text(encoding="utf-8"))
    report["config"]["backend"] |= {"device": "cuda", "device_ids": "0,1"}
    report["config"]["launcher"] |= {"name": "torchrun", "nproc_per_node": 2}
    report["config"]["environment"]["gpu"] = ["NVIDIA A100-SXM4-80GB"] * 4
    report["report"]["train"]["memory"] |= {"max_allocated": 30_000.5, "max_global_vram": 41_000.0}
    (tmp_path / "benchmark.json").write_text(json.dumps(report), encoding="utf-8")
    (run,) = observe(tmp_path, **NAMED)
    peak = figure(run, "peak_memory", kind="allocated")
    assert (peak["value"], peak["scope"]) == (30_000_500_000, "total")
    assert figure(run, "peak_memory", kind="device")["value"] == 41e9
    assert (run["configuration"]["gpu_id"], run["configuration"]["n_gpus"]) == ("a100-sxm4-80gb", 2)
    mean = figure(run, "step_time", statistic="mean")["value"]
    assert figure(run, "samples_per_second")["value"] == pytest.approx(2 * 2 * 2 / mean)


def test_nothing_is_taken_of_an_inference(
    reports: Path, tmp_path: Path, read: Callable[..., Imported]
) -> None:
    report = json.loads((reports / "benchmark.json").read_text(encoding="utf-8"))
    report["report"] = {"load": {}, "forward": {"latency": {"mean": 11.3}}}
    (tmp_path / "benchmark.json").write_text(json.dumps(report), encoding="utf-8")
    (refusal,) = read(tmp_path, **NAMED).refused
    assert refusal.reason == "a benchmark of inference; nothing was trained in it"


def test_results_without_their_settings_are_refused(
    reports: Path, tmp_path: Path, read: Callable[..., Imported]
) -> None:
    text = (reports / "run" / "training_results.csv").read_text(encoding="utf-8")
    (tmp_path / "training_results.csv").write_text(text, encoding="utf-8")
    (refusal,) = read(tmp_path, **NAMED).refused
    assert refusal.reason.startswith("a table from no known framework")
