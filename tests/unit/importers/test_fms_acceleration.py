from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]


ROW = {
    "framework_config": "accelerated-peft-bnb-foak",
    "mem_nvidia_mem_reserved": "20000.0",
    "mem_peak_torch_mem_alloc_in_bytes": "18000000000",
    "mem_torch_mem_alloc_in_bytes": "9000000000",
    "model_name_or_path": "mistralai/Mistral-7B-v0.1",
    "num_gpus": "2",
    "peft_method": "lora",
    "r": "16",
    "lora_alpha": "16",
    "lora_dropout": "0.1",
    "target_modules": "q_proj v_proj",
    "per_device_train_batch_size": "4",
    "torch_dtype": "bfloat16",
    "train_loss": "0.9",
    "train_runtime": "100.0",
    "train_samples_per_second": "8.0",
    "train_steps_per_second": "1.0",
    "train_tokens_per_second": "16384.0",
}
SILENT = {key: "" for key in ROW if key.startswith("train_")}


def write_table(folder: Path, *rows: dict[str, str], name: str = "a100_80gb.csv") -> Path:
    with (folder / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / name


def test_device_memory_is_mebibytes_and_the_mean_over_the_gpus(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (observation,) = observe(write_table(tmp_path, ROW))
    mean = figure(observation, "peak_memory", kind="device", scope="mean_gpu")
    assert mean["value"] == 20000 * 2**20
    total = figure(observation, "peak_memory", kind="device", scope="total")
    assert (total["value"], total["origin"]) == (2 * 20000 * 2**20, "derived")
    first = figure(observation, "peak_memory", kind="allocated", scope="per_gpu")
    assert (first["value"], first["device_index"]) == (18e9, 0)
    assert observation["flags"] == ["memory_is_delta"]


def test_the_gpu_is_read_off_the_name_of_the_file(tmp_path: Path, observe: Observe) -> None:
    (observation,) = observe(write_table(tmp_path, ROW, name="refs__a100_80gb_liger.csv"))
    assert observation["configuration"]["gpu_id"] == "a100-80gb"
    assert observation["inferences"]["gpu_id"] == "a100_80gb in the file's name"


def test_tokens_per_second_are_those_of_one_process(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (observation,) = observe(write_table(tmp_path, ROW))
    assert figure(observation, "tokens_per_second", scope="per_gpu")["value"] == 16384
    assert figure(observation, "tokens_per_second", scope="total")["value"] == 32768
    assert observation["configuration"]["seq_len"] == 4096
    assert observation["configuration"]["length_distribution"] == "full"


def test_the_framework_configuration_names_quantization_and_kernels(
    tmp_path: Path, observe: Observe
) -> None:
    gptq = {**ROW, "framework_config": "accelerated-peft-autogptq-padding-free"}
    first, second = observe(write_table(tmp_path, ROW, gptq))
    assert first["configuration"]["quant_method"] == "bitsandbytes"
    assert first["configuration"]["quant_type"] == "nf4"
    assert first["configuration"]["kernels"] == ["fms-foak"]
    assert second["configuration"]["quant_method"] == "gptq"
    assert second["configuration"]["padding_free"] is True


def test_accumulation_follows_from_the_rates(tmp_path: Path, observe: Observe) -> None:
    row = {**ROW, "train_samples_per_second": "32.0"}
    (observation,) = observe(write_table(tmp_path, row))
    assert observation["configuration"]["grad_accum_steps"] == 4
    assert observation["configuration"]["n_steps"] == 100


def test_a_row_with_memory_and_no_speed_has_no_invented_reason(
    tmp_path: Path, observe: Observe, read: Callable[..., Imported]
) -> None:
    table = write_table(tmp_path, ROW, {**ROW, **SILENT})
    _, silent = observe(table)
    assert silent["outcome"] == "unknown"
    assert silent["outcome_detail"] == "memory without speed; the source gives no reason"
    assert {row["metric"] for row in silent["measurements"]} == {"peak_memory", "memory"}
    assert "a100_80gb.csv: 1 rows have memory, no speed and no stated reason" in read(table).missing


@pytest.mark.parametrize(
    ("changed", "flags"),
    [
        ({**SILENT, "mem_nvidia_mem_reserved": "79500.0"}, ["memory_is_delta", "peak_at_capacity"]),
        ({**SILENT, "mem_nvidia_mem_reserved": "79000.0"}, ["memory_is_delta"]),  # 96.4 %
        ({"mem_nvidia_mem_reserved": "79500.0"}, ["memory_is_delta"]),  # with a speed: it went on
    ],
)
def test_a_full_card_without_speed_may_have_run_out_of_memory(
    tmp_path: Path, observe: Observe, changed: dict[str, str], flags: list[str]
) -> None:
    (observation,) = observe(write_table(tmp_path, {**ROW, **changed}))
    assert observation["flags"] == flags


def test_equal_rows_stay_apart(tmp_path: Path, observe: Observe) -> None:
    first, second = observe(write_table(tmp_path, ROW, ROW))
    assert (first["run_id"], second["run_id"]) == ("a100_80gb.csv, row 1", "a100_80gb.csv, row 2")


def test_a_table_without_a_model_is_refused_alone(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    write_table(tmp_path, ROW)
    bare = {key: text for key, text in ROW.items() if key != "model_name_or_path"}
    write_table(tmp_path, bare, name="a100_80gb_mp.csv")
    found = read(tmp_path)
    assert len(found.submissions) == 1
    assert [(refusal.path.name, refusal.reason) for refusal in found.refused] == [
        (
            "a100_80gb_mp.csv",
            "the files do not name the model; say which one it is with `--set model_id=…`",
        )
    ]


@pytest.mark.parametrize(("table", "torch"), [("a100_80gb", "2.4.1"), ("a100_80gb_moe", "2.6.0")])
def test_versions_are_of_the_list_that_is_named_as_the_table(
    tmp_path: Path, observe: Observe, table: str, torch: str
) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.4.1\npeft==0.13.2\n", encoding="utf-8")
    (tmp_path / "requirements_moe.txt").write_text("torch==2.6.0\n", encoding="utf-8")
    write_table(tmp_path, ROW, name=f"{table}.csv")
    (observation,) = observe(tmp_path)
    assert observation["environment"]["torch_version"] == torch
