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


UTILIZATION = "timestamp, index, utilization.gpu [%]\n2024/05/01 10:00:00.000, 0, 99 %\n"
NO_HEADER = "10:00:00.000, 40000 MiB, 81920 MiB\n10:00:01.000, 40001 MiB, 81920 MiB\n"
USED = "timestamp, memory.used [MiB]\n2024/05/01 10:00:00.000, 27451 MiB\n"
COMMAND = "`nvidia-smi --query-gpu=timestamp,name,memory.used --format=csv -l 1` writes"
NAMED, ALONE = f"memory.used, as {COMMAND}", f"alone or the header that {COMMAND}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            UTILIZATION,
            f"without memory; found timestamp, index, utilization.gpu [%]; expected {NAMED} it",
        ),
        (
            "pid, process_name, used_gpu_memory [MiB]\n1, python, 20480 MiB\n",
            (
                "of single processes, which lack what others and the driver hold of the card; "
                f"found pid, process_name, used_gpu_memory [MiB]; expected {NAMED} it"
            ),
        ),
        (
            NO_HEADER,
            f"without a header; found several columns in MiB, expected memory.used {ALONE}",
        ),
    ],
)
def test_readings_without_memory_say_what_they_lack(
    fixtures: Path, tmp_path: Path, read: Callable[..., Imported], text: str, reason: str
) -> None:
    reason = f"readings of nvidia-smi {reason}"
    (tmp_path / "gpu.csv").write_text(text, encoding="utf-8")
    assert read(tmp_path).refused[0].reason == reason
    shutil.copy(fixtures / "deepspeed" / "sft.log", tmp_path / "train.log")
    found = read(tmp_path)
    assert f"gpu.csv: {reason}" in found.missing
    assert not any("gpu.csv" in message for message in found.taken)


def test_readings_are_known_under_any_name(
    fixtures: Path, tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    shutil.copy(fixtures / "deepspeed" / "sft.log", tmp_path / "train.log")
    shutil.copy(fixtures / "monitor" / "gpu.csv", tmp_path / "gpu.log")
    (run,) = observe(tmp_path)
    assert figure(run, "peak_memory", kind="device")["value"] == 27451 * 2**20
    assert run["configuration"]["gpu_id"] == "v100-sxm2-32gb"


def test_readings_without_a_run_or_a_card_say_so(
    fixtures: Path, tmp_path: Path, read: Callable[..., Imported]
) -> None:
    path = tmp_path / "gpu.csv"
    path.write_text(USED, encoding="utf-8")
    assert read(tmp_path).refused[0].reason == (
        "readings of nvidia-smi without a run; expected the log of the training beside them: "
        f"`registry add LOG {path}`"
    )
    shutil.copy(fixtures / "deepspeed" / "sft.log", tmp_path / "train.log")
    assert "gpu.csv: no card: it has no column name (--set gpu_id=…)" in read(tmp_path).missing


def test_lines_without_a_header_have_one_column_of_mebibytes() -> None:
    rows = [["45", " 0 %", " 12 MiB"], ["51", " 100 %", " 31219 MiB"], ["end"]]
    assert parse_monitor(rows) == Monitor(31219)
    assert parse_monitor([["10 MiB", "32510 MiB"], ["31219 MiB", "32510 MiB"]]) is None
    assert parse_monitor([["a", "b"], ["1", "2"]]) is None
