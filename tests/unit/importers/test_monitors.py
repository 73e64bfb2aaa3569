"""Memory of nvidia-smi beside logs, and the bundles of Lambda's benchmark that have both."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from registry.importers.shared.monitor import Monitor, parse_monitor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]


def test_a_bundle_has_a_run_for_each_log_and_its_monitor(
    fixtures: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    base, large, xl = observe(fixtures / "deeplearning_examples")
    assert base["configuration"] == {
        "model_id": "bert-base-uncased", "method": "full", "compute_dtype": "fp16",
        "gpu_id": "rtx-a4000", "n_gpus": 16, "seq_len": 384, "micro_batch_size": 32,
        "grad_accum_steps": 1, "n_steps": 200,
    }  # fmt: skip
    assert figure(base, "samples_per_second")["value"] == 1381.0419275077888
    peak = figure(base, "peak_memory")
    assert (peak["value"], peak["kind"], peak["scope"]) == (11510 * 2**20, "device", "max_gpu")
    assert large["configuration"]["model_id"] == "bert-large-uncased"
    assert xl["configuration"]["model_id"] == "transformer-xl-base-wt103"
    assert xl["configuration"]["global_batch_size"] == 192  # 36,864 tokens a step
    assert figure(xl, "tokens_per_second")["value"] == 178188.74
    assert figure(xl, "total_time")["value"] == pytest.approx(93.6)


def test_a_rate_of_more_steps_than_the_epochs_hold_is_left_out(
    fixtures: Path, observe: Observe
) -> None:
    _, large, _ = observe(fixtures / "deeplearning_examples")
    assert large["flags"] == ["figures_disagree"]
    assert {row["metric"] for row in large["measurements"]} == {
        "peak_memory", "total_time", "train_loss",
    }  # fmt: skip
    assert "n_steps" not in large["configuration"]


def test_a_monitor_beside_a_log_gives_memory_and_card(
    fixtures: Path, tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    shutil.copy(fixtures / "deepspeed" / "sft.log", tmp_path / "train.log")
    shutil.copy(fixtures / "monitor" / "gpu.csv", tmp_path)
    (run,) = observe(tmp_path)
    assert figure(run, "peak_memory", kind="device")["value"] == 27451 * 2**20
    assert figure(run, "peak_memory", kind="allocated")["value"] == 22.95 * 2**30
    assert run["configuration"]["gpu_id"] == "v100-sxm2-32gb"
    assert run["inferences"]["gpu_id"] == "the name in gpu.csv"
    assert set(run["provenance"]["files"]) == {"train.log", "gpu.csv"}


@pytest.mark.parametrize(
    ("peak", "said"),
    [
        ("12", "gpu.csv: no memory: the monitor shows 12 MiB at most, an idle card"),
        ("9000", "gpu.csv: no memory taken, the run's own peak is larger: a monitor of another "),
    ],
)
def test_a_monitor_that_cannot_be_of_the_run_is_left_out(
    fixtures: Path,
    tmp_path: Path,
    read: Callable[..., Imported],
    peak: str,
    said: str,
) -> None:
    shutil.copy(fixtures / "deepspeed" / "sft.log", tmp_path / "train.log")
    (tmp_path / "gpu.csv").write_text(f"memory.used [MiB]\n{peak} MiB\n", encoding="utf-8")
    found = read(tmp_path)
    assert any(text.startswith(said) for text in found.missing)
    (run,) = found.submissions[0]["observations"]
    kinds = {row.get("kind") for row in run["measurements"] if row["metric"] == "peak_memory"}
    assert kinds == {"allocated"}


def test_lines_without_a_header_have_one_column_of_mebibytes() -> None:
    rows = [["45", " 0 %", " 12 MiB"], ["51", " 100 %", " 31219 MiB"], ["end"]]
    assert parse_monitor(rows) == Monitor(31219)
    assert parse_monitor([["10 MiB", "32510 MiB"], ["31219 MiB", "32510 MiB"]]) is None
    assert parse_monitor([["a", "b"], ["1", "2"]]) is None
