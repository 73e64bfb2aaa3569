from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]


CONFIG = """\
base_model: NousResearch/Llama-2-7b-hf
adapter: qlora
load_in_4bit: true
lora_r: 32
lora_alpha: 16
lora_target_linear: true
sequence_len: 4096
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 4
num_epochs: 1
optimizer: paged_adamw_32bit
gradient_checkpointing: true
flash_attention: true
bf16: true
"""
GENERATIONS = {
    "renamed": ("memory/max_active (GiB)", "memory/device_reserved (GiB)"),
    "earlier": ("memory/max_mem_active(gib)", "memory/device_mem_reserved(gib)"),
    "first": ("memory/max_memory_active", "memory/device_memory_reserved"),
}


def write_run(folder: Path, *lines: str) -> Path:
    (folder / "config.yml").write_text(CONFIG, encoding="utf-8")
    (folder / "train.log").write_text("\n".join(lines), encoding="utf-8")
    return folder


def console(generation: str, active: str, reserved: str, rate: str) -> str:
    first, second = GENERATIONS[generation]
    entry = {"loss": "0.7157", first: active, second: reserved}
    return f" 50%|###  | 5/10 [00:05<00:05] {entry | {'tokens_per_second_per_gpu': rate}}"


TOTALS = str(
    {
        "train_runtime": "55.71",
        "train_samples_per_second": "1.436",
        "train_steps_per_second": "0.1795",
        "train_loss": "0.06318",
        "epoch": "1.0",
    }
)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_memory_is_found_under_every_name_it_had(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]], generation: str
) -> None:
    log = write_run(
        tmp_path,
        console(generation, "14.5", "16.25", "1200"),
        console(generation, "14.25", "16.0", "1300"),
        f"100%|#####| 10/10 [00:10<00:00] {TOTALS}",
    )
    (observation,) = observe(log)
    assert figure(observation, "peak_memory", kind="active")["value"] == 14.5 * 2**30
    peak = figure(observation, "peak_memory", kind="reserved")
    assert (peak["value"], peak["raw"]) == (16.25 * 2**30, "16.25")


def test_numbers_as_text_are_read(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    log = write_run(tmp_path, console("renamed", "1", "2", "9"), f"10/10 [00:10<00:00] {TOTALS}")
    (observation,) = observe(log)
    assert figure(observation, "total_time")["value"] == 55.71
    assert figure(observation, "step_time")["value"] == pytest.approx(5.571)


def test_zero_tokens_per_second_is_no_reading(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    rates = ("0", "1200", "1300", "1250")
    (observation,) = observe(write_run(tmp_path, *(console("renamed", "1", "2", r) for r in rates)))
    rate = figure(observation, "tokens_per_second")
    assert (rate["value"], rate["scope"]) == (1250.0, "per_gpu")
    assert rate["reason"] == "of 3 readings; first process, tokens that are trained on"


def test_the_yaml_gives_the_settings(tmp_path: Path, observe: Observe) -> None:
    (observation,) = observe(write_run(tmp_path, console("renamed", "1", "2", "9"), TOTALS))
    configuration = observation["configuration"]
    assert configuration["model_id"] == "llama-2-7b"
    assert (configuration["method"], configuration["quant_bits"]) == ("lora", 4)
    assert configuration["lora_target_modules"] == ["all-linear"]
    assert configuration["optimizer"] == "paged_adamw_32bit"
    assert configuration["attention"] == "flash"
    assert (configuration["seq_len"], configuration["packing"]) == (4096, True)


def test_the_attention_is_named_as_transformers_does(tmp_path: Path, observe: Observe) -> None:
    log = write_run(tmp_path, console("renamed", "1", "2", "9"), TOTALS)
    said = CONFIG.replace("flash_attention: true", "attn_implementation: flash_attention_2")
    (tmp_path / "config.yml").write_text(said, encoding="utf-8")
    (observation,) = observe(log)
    assert observation["configuration"]["attention"] == "flash2"


def test_a_trainer_state_with_memory_is_axolotl_s(tmp_path: Path, observe: Observe) -> None:
    history = [{"loss": 1.0, "step": 5, "memory/max_active (GiB)": 2.5}]
    state = {"global_step": 5, "max_steps": 10, "log_history": history}
    (tmp_path / "config.yml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    (observation,) = observe(tmp_path)
    assert observation["environment"]["framework"] == "axolotl"
    assert observation["outcome"] == "unknown"


@pytest.mark.parametrize(
    ("before", "epoch", "end"),
    [
        (" 50%|###  | 5/10 [00:05<00:05] ", 0.5, "the log ends at step 5 of 10"),
        ("", 0.5, "the log ends at epoch 0.5"),
        ("", None, "the log ends"),
    ],
)
def test_a_log_without_totals_says_how_far_it_came(
    tmp_path: Path, observe: Observe, before: str, epoch: float | None, end: str
) -> None:
    entry = {"loss": 1.5, "memory/max_active (GiB)": 2.5}
    entry |= {"epoch": epoch} if epoch else {}
    (observation,) = observe(write_run(tmp_path, f"{before}{entry}"))
    assert (observation["outcome"], observation["outcome_detail"]) == ("unknown", end)


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


@pytest.mark.parametrize(
    ("last", "outcome", "failed_step"),
    [(OOM, "oom", 6), ("KeyboardInterrupt", "interrupted", None), ("", "unknown", None)],
)
def test_a_log_without_totals_says_why_it_ended(
    tmp_path: Path, observe: Observe, last: str, outcome: str, failed_step: int | None
) -> None:
    log = write_run(tmp_path, OOM, console("renamed", "1", "2", "900"), last)
    (observation,) = observe(log)
    assert (observation["outcome"], observation.get("failed_step")) == (outcome, failed_step)


def test_of_an_oom_after_an_unknown_step_no_speed_is_taken(
    tmp_path: Path, read: Callable[..., Imported], observe: Observe
) -> None:
    entry = {"loss": 1.5, "memory/max_active (GiB)": 2.5, "tokens_per_second_per_gpu": 900}
    (observation,) = observe(write_run(tmp_path, str(entry), OOM))
    assert {row["metric"] for row in observation["measurements"]} == {"train_loss", "peak_memory"}
    assert any("does not say after which step" in text for text in read(tmp_path).missing)


PRINTED = {
    "adapter": "qlora",
    "base_model": "allenai/OLMoE-1B-7B-0924",
    "bf16": True,
    "env_capabilities": {"torch_version": "2.12.1"},
    "expert_offload": False,
    "gradient_accumulation_steps": 4,
    "load_in_4bit": True,
    "lora_r": 8,
    "micro_batch_size": 1,
    "sequence_len": 2048,
    "world_size": 2,
}


def printed_log(seconds: float, **changes: object) -> list[str]:
    """Return the lines of a log: the settings, a long bar of the data, two steps, the totals."""
    totals = {"train_runtime": str(seconds), "train_steps_per_second": f"{150 / seconds:.4g}"}
    entry = {"loss": "5.5", "memory/device_reserved (GiB)": f"{seconds / 100}"}
    return [
        "[2026-07-06 15:03:15,660] [INFO] [axolotl.cli.config] config:",
        *json.dumps({**PRINTED, **changes}, indent=2).splitlines(),
        "trainable params: 2,097,152 || all params: 3,700,033,536 || trainable%: 0.0567",
        "Tokenizing Prompts: 100%|##| 52002/52002 [00:10<00:00, 5000.00 examples/s]",
        f"100%|##| 179/179 [00:02<00:00] 1%|  | 1/150 [00:26<1:05:28] {entry}",
        f"100%|##| 150/150 [09:04<00:00, 2.61s/it] {totals | {'train_loss': '3.4'}}",
    ]


def test_the_settings_that_a_log_prints_are_its_own(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    log = write_run(tmp_path, *printed_log(500.0))
    (observation,) = observe(log)
    configuration = observation["configuration"]
    assert configuration["model_id"] == "olmoe-1b-7b-0924"
    assert (configuration["method"], configuration["lora_rank"]) == ("lora", 8)
    assert (configuration["seq_len"], configuration["n_gpus"]) == (2048, 2)
    assert "offload" not in configuration
    assert observation["environment"]["torch_version"] == "2.12.1"
    assert figure(observation, "trainable_params")["value"] == 2097152


def test_the_longest_bar_need_not_be_that_of_the_training(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (observation,) = observe(write_run(tmp_path, *printed_log(500.0)))
    assert "resumed" not in observation.get("flags", [])
    assert figure(observation, "step_time")["value"] == pytest.approx(500 / 150)


def test_several_logs_are_several_runs(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    write_run(tmp_path, *printed_log(500.0))
    (tmp_path / "copy.log").write_text((tmp_path / "train.log").read_text("utf-8"), "utf-8")
    other = "\n".join(printed_log(700.0, world_size=1, expert_offload=True))
    (tmp_path / "other.log").write_text(other, encoding="utf-8")
    runs = {row["configuration"]["n_gpus"]: row for row in observe(tmp_path)}
    assert figure(runs[2], "peak_memory")["value"] == 5 * 2**30
    assert figure(runs[1], "peak_memory")["value"] == 7 * 2**30
    assert runs[1]["configuration"]["offload"] == "params"


def test_of_several_yamls_none_is_taken(tmp_path: Path, read: Callable[..., Imported]) -> None:
    log = write_run(tmp_path, console("renamed", "1", "2", "9"), TOTALS)
    (tmp_path / "b.yml").write_text(CONFIG.replace("4096", "2048"), encoding="utf-8")
    found = read(log, model_id="llama-2-7b", method="lora")
    assert "seq_len" not in found.submissions[0]["observations"][0]["configuration"]
    assert any("b.yml, config.yml differ" in text for text in found.missing)


def test_a_log_of_before_the_memory_keys_gives_the_settings_that_it_prints(
    tmp_path: Path, observe: Observe
) -> None:
    lines = [line.replace("memory/device_reserved (GiB)", "grad") for line in printed_log(500.0)]
    (tmp_path / "train.log").write_text("\n".join(lines).replace("config:", "cfg:"), "utf-8")
    (observation,) = observe(tmp_path / "train.log")
    assert observation["configuration"]["model_id"] == "olmoe-1b-7b-0924"
    assert observation["environment"]["framework"] == "axolotl"


def test_the_line_of_a_function_is_no_figure_of_memory(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    line = "[INFO] [axolotl.utils.models.log_gpu_memory_usage:107] [RANK:0] after load: 2.313GB"
    (tmp_path / "train.log").write_text(f"{line}\n{TOTALS}\n", encoding="utf-8")
    found = read(tmp_path / "train.log", model_id="llama-3.2-1b", method="lora")
    (run,) = found.submissions[0]["observations"]
    assert run["environment"]["framework"] == "axolotl"
    assert "train.log: no memory" in found.missing
