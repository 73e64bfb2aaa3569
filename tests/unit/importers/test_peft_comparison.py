from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Observe = Callable[..., list[dict[str, Any]]]


LORA = {"peft_type": "LORA", "r": 32, "lora_alpha": 64, "target_modules": ["v_proj", "q_proj"]}
CONFIG = {
    "model_id": "meta-llama/Llama-3.2-3B",
    "dtype": "bfloat16",
    "max_seq_length": 768,
    "batch_size": 4,
    "max_steps": 500,
    "optimizer_type": "AdamW",
    "optimizer_kwargs": {"lr": 0.0001},
}
ROUNDS = [
    {"step": 250, "train time": 25.0, "eval time": 5.0, "train loss": 0.9},
    {"step": 500, "train time": 30.0, "eval time": 5.0, "train loss": 0.8},
    {"step": 500, "test accuracy": 0.4, "train loss": 0.8, "train total tokens": 110000},
]


def write_result(
    folder: Path,
    *,
    peft: dict[str, Any] | None = LORA,
    prefix: str = "accelerator",
    optimizer: str = "AdamW",
    **train: Any,
) -> Path:
    run = {
        "created_at": "2026-07-15T05:41:18+00:00",
        "total_time": 200.0,
        "experiment_name": "lora/made-up",
        "train_config": {**CONFIG, "optimizer_type": optimizer},
        "peft_config": peft,
        "error_msg": train.pop("error_msg", ""),
    }
    figures = {
        f"{prefix}_memory_reserved_avg": 14_000,
        f"{prefix}_memory_max": 22_000,
        f"{prefix}_memory_reserved_99th": 20_000,
        "train_time": 120.0,
        "status": "success",
        "metrics": ROUNDS,
    } | train
    meta = {
        "package_info": {"torch-version": "2.13.0+cu130", "peft-version": "0.19.2"},
        "system_info": {"system": "Linux", "release": "6.17.0", prefix[:3]: None}
        | {"accelerator" if prefix == "accelerator" else "gpu": "NVIDIA L40S"},
    }
    path = folder / "result.json"
    document = {"run_info": run, "train_info": figures, "meta_info": meta}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.mark.parametrize("prefix", ["accelerator", "cuda"])
def test_both_generations_of_keys_are_read(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]], prefix: str
) -> None:
    (observation,) = observe(write_result(tmp_path, prefix=prefix))
    assert figure(observation, "peak_memory", scope="per_gpu")["value"] == 22_000
    assert figure(observation, "memory", statistic="mean")["value"] == 14_000
    assert figure(observation, "memory", statistic="p99")["value"] == 20_000
    assert observation["flags"] == ["includes_evaluation", "memory_is_delta"]
    assert observation["configuration"]["gpu_id"] == "l40s"


def test_step_time_is_from_the_timed_rounds_alone(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (observation,) = observe(write_result(tmp_path))
    assert figure(observation, "step_time")["value"] == pytest.approx(55 / 500)
    assert figure(observation, "train_time", statistic="value")["value"] == 120.0
    assert figure(observation, "train_time", statistic="sum")["value"] == 55.0
    assert figure(observation, "tokens_per_second")["value"] == 2000.0
    assert [row["seconds"] for row in observation["samples"]] == [0.1, 0.12]


@pytest.mark.parametrize(
    ("peft", "optimizer", "method"),
    [
        (LORA, "AdamW", "lora"),
        ({**LORA, "use_dora": True}, "AdamW", "dora"),
        (LORA, "lora-fa", "lorafa"),
        ({"peft_type": "IA3", "target_modules": ["k_proj"]}, "AdamW", "ia3"),
        ({"peft_type": "P_TUNING", "num_virtual_tokens": 20}, "AdamW", "p_tuning"),
        (None, "AdamW", "full"),
    ],
)
def test_the_method_follows_from_the_configuration(
    tmp_path: Path, observe: Observe, peft: dict[str, Any] | None, optimizer: str, method: str
) -> None:
    (observation,) = observe(write_result(tmp_path, peft=peft, optimizer=optimizer))
    assert observation["configuration"]["method"] == method


def test_settings_without_a_column_stand_in_peft_config(tmp_path: Path, observe: Observe) -> None:
    peft = {**LORA, "init_lora_weights": "mica", "use_rslora": True, "qalora_group_size": 16}
    (observation,) = observe(write_result(tmp_path, peft=peft))
    assert observation["configuration"]["peft_config"] == {"init_lora_weights": "mica"}
    assert observation["configuration"]["use_rslora"] is True


def test_ranks_that_training_wrote_are_not_a_setting(tmp_path: Path, observe: Observe) -> None:
    peft = {"peft_type": "ADALORA", "init_r": 64, "rank_pattern": {"layer": [True, False]}}
    (observation,) = observe(write_result(tmp_path, peft=peft))
    assert observation["configuration"]["peft_config"] == {"init_r": 64}


@pytest.mark.parametrize(
    ("message", "outcome"),
    [("CUDA out of memory. Tried to allocate", "oom"), ("manually canceled", "interrupted")],
)
def test_a_run_that_did_not_succeed_says_how_it_ended(
    tmp_path: Path, observe: Observe, message: str, outcome: str
) -> None:
    path = write_result(tmp_path, status="canceled", error_msg=message, metrics=[])
    (observation,) = observe(path)
    assert (observation["outcome"], observation["outcome_detail"]) == (outcome, message)


def test_the_cuda_version_is_read_off_the_torch_version(tmp_path: Path, observe: Observe) -> None:
    (observation,) = observe(write_result(tmp_path))
    assert observation["environment"]["cuda_version"] == "13.0"
    assert observation["inferences"]["cuda_version"] == "ending of the torch version"
