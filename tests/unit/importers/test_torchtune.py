from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]


RUN = {"model_id": "llama-2-7b", "method": "lora"}
LINE = "Step {step} | loss:1.5 tokens_per_second_per_gpu:100.5 peak_memory_reserved:10.0 \n"


def write_log(folder: Path, name: str, *steps: int) -> Path:
    path = folder / name
    path.write_text("".join(LINE.format(step=step) for step in steps), encoding="utf-8")
    return path


def test_a_real_log_takes_its_recipe(fixtures: Path, observe: Observe) -> None:
    (observation,) = observe(fixtures / "torchtune")
    configuration = observation["configuration"]
    assert configuration["model_id"] == "llama-3.1-8b"
    assert (configuration["method"], configuration["quant_method"]) == ("lora", "torchao")
    assert configuration["lora_target_modules"] == ["q_proj", "v_proj"]
    assert (configuration["seq_len"], configuration["packing"]) == (2048, True)
    assert configuration["gradient_checkpointing"] is True


@pytest.mark.parametrize(
    ("name", "peak_bytes"),
    [
        ("log_1715000000.txt", 10 * 10**9),  # 2024-05-06
        ("log_1730000000.txt", 10 * 2**30),  # 2024-10-27
    ],
)
def test_the_divisor_of_memory_is_that_of_the_day(
    tmp_path: Path,
    observe: Observe,
    figure: Callable[..., dict[str, Any]],
    name: str,
    peak_bytes: int,
) -> None:
    (observation,) = observe(write_log(tmp_path, name, 1, 2), **RUN)
    assert figure(observation, "peak_memory")["value"] == peak_bytes


def test_memory_in_lines_of_its_own_is_that_of_the_run(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    lines = [
        "Step 0 | loss:1.5 lr:1e-05 gpu_resources:15000000000 ",
        "Step 1 | peak_memory_active:14.5 peak_memory_alloc:14.25 peak_memory_reserved:15.5 ",
        "Step 1 | loss:1.4 lr:1e-05 gpu_resources:15000000000 ",
        "Step 2 | peak_memory_active:14.0 peak_memory_alloc:14.0 peak_memory_reserved:15.0 ",
    ]
    (tmp_path / "log_1712000000.txt").write_text("\n".join(lines), encoding="utf-8")
    (run,) = observe(tmp_path, **RUN)
    assert figure(run, "peak_memory", kind="reserved")["value"] == 15.5e9
    assert figure(run, "peak_memory", kind="active")["value"] == 14.5e9
    assert figure(run, "n_steps")["value"] == 2
    assert figure(run, "train_loss")["value"] == 1.4


def test_without_a_day_both_divisors_bound_the_memory(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (observation,) = observe(write_log(tmp_path, "run.txt", 1, 2), **RUN)
    peak = figure(observation, "peak_memory")
    assert (peak["low"], peak["value"], peak["high"]) == (10e9, 10.0 * 2**30, 10.0 * 2**30)


def test_a_log_whose_steps_go_back_is_refused(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    found = read(write_log(tmp_path, "log_1730000000.txt", 1, 2, 1), **RUN)
    assert found.refused[0].reason == "its steps go back: several runs in one file; split it"


def test_an_unknown_component_says_how_to_name_the_model(
    tmp_path: Path, fixtures: Path, read: Callable[..., Imported]
) -> None:
    shutil.copyfile(fixtures / "torchtune" / "log_1795257895.txt", tmp_path / "log_1795257895.txt")
    config = "model:\n  _component_: torchtune.models.nowhere.lora_nowhere_9b\n"
    (tmp_path / "config.yaml").write_text(config, encoding="utf-8")
    (refusal,) = read(tmp_path).refused
    assert refusal.reason.startswith("unknown model 'lora_nowhere_9b'")
    assert refusal.reason.endswith("say which one it is with `--set model_id=…`")


def test_a_console_shows_the_recipe_and_the_logs_name(fixtures: Path, observe: Observe) -> None:
    (run,) = observe(fixtures / "torchtune_console")
    configuration = run["configuration"]
    assert (configuration["model_id"], configuration["method"]) == ("llama-3.1-8b", "lora")
    assert (configuration["seq_len"], configuration["grad_accum_steps"]) == (2048, 8)
    assert run["observed_at"] == "2024-08-16T21:34:32Z"


def test_early_logs_count_from_zero_and_print_no_peak(
    tmp_path: Path, read: Callable[..., Imported], figure: Callable[..., dict[str, Any]]
) -> None:
    line = "Step {} | loss:0.9 lr:2e-05 gpu_resources:40627453440 \n"
    (tmp_path / "log.txt").write_text("".join(map(line.format, range(3))), encoding="utf-8")
    found = read(tmp_path, **RUN)
    (run,) = found.submissions[0]["observations"]
    assert figure(run, "n_steps")["value"] == 3
    assert any("no memory" in text for text in found.missing)


def test_code_llama_is_no_llama(tmp_path: Path, read: Callable[..., Imported]) -> None:
    write_log(tmp_path, "log_1730000000.txt", 1, 2)
    config = "model:\n  _component_: torchtune.models.code_llama2.code_llama2_7b\n"
    (tmp_path / "config.yaml").write_text(config, encoding="utf-8")
    (refusal,) = read(tmp_path).refused
    assert refusal.reason.startswith("unknown model 'code_llama2_7b'")


def test_a_run_that_ran_out_of_memory_failed_after_its_last_step(
    tmp_path: Path, observe: Observe
) -> None:
    path = write_log(tmp_path, "log_1730000000.txt", 1, 2)
    with path.open("a", encoding="utf-8") as log:
        log.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    (run,) = observe(path, **RUN)
    assert (run["outcome"], run["failed_step"]) == ("oom", 3)
    assert run["outcome_detail"].startswith("OutOfMemoryError: CUDA out of memory")
