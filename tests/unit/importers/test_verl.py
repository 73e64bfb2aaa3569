"""Logs of verl: a step of reinforcement learning is more than an update, and offload is none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]
    Figure = Callable[..., dict[str, Any]]

GPU = {"gpu_id": "rtx-3090"}


@pytest.fixture
def grpo(fixtures: Path) -> Path:
    return fixtures / "verl" / "grpo.log"


def test_the_printed_configuration_gives_the_settings(grpo: Path, observe: Observe) -> None:
    (run,) = observe(grpo, model_id="smollm2-135m", **GPU)
    settings = run["configuration"]
    stated = {
        "objective": "grpo",
        "method": "full",
        "sharding": "fsdp",
        "seq_len": 256,
        "length_distribution": "variable",
        "gradient_checkpointing": True,
        "padding_free": True,
        "n_nodes": 1,
        "n_gpus": 1,
    }
    assert stated.items() <= settings.items()
    # batches are filled up to a number of tokens; what is moved between phases is no offload
    assert {"micro_batch_size", "offload", "lora_rank", "kernels"}.isdisjoint(settings)
    assert run["provenance"]["responses_per_prompt"] == 8
    assert (run["outcome"], run["outcome_detail"]) == ("unknown", "the log ends at step 3 of 140")


def test_figures_are_those_of_steps_after_the_first_and_memory_of_all(
    grpo: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(grpo, model_id="smollm2-135m", **GPU)
    assert figure(run, "step_time")["value"] == 35
    rate = figure(run, "tokens_per_second")
    assert (rate["value"], rate["scope"], rate["statistic"]) == (4500, "mean_gpu", "median")
    peaks = {row["kind"]: row for row in run["measurements"] if row["metric"] == "peak_memory"}
    assert peaks["allocated"]["value"] == 19 * 2**30
    assert (peaks["reserved"]["value"], peaks["reserved"]["scope"]) == (23.5 * 2**30, "max_gpu")
    assert figure(run, "n_steps")["value"] == 3
    assert figure(run, "n_tokens")["value"] == 159906 + 160000 + 150000


def test_fine_tuning_has_the_ranks_that_it_says_and_not_those_of_the_configuration(
    fixtures: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(fixtures / "verl" / "sft.log", gpu_id="h100-80gb")
    stated = {
        "objective": "sft",
        "model_id": "qwen2.5-3b",
        "method": "lora",
        "lora_rank": 32,
        "lora_alpha": 16,
        "lora_target_modules": ["all-linear"],
        "micro_batch_size": 4,
        "seq_len": 16384,
        "n_gpus": 4,
        "context_parallel": 4,
        "kernels": ["liger"],
    }
    assert stated.items() <= run["configuration"].items()
    assert figure(run, "step_time")["value"] == pytest.approx((7.293778896 + 6.083798885) / 2)
    assert figure(run, "train_loss")["value"] == pytest.approx(0.7899439)


def test_the_command_says_what_no_configuration_was_printed_of(
    tmp_path: Path, observe: Observe
) -> None:
    command = (
        "+ python3 -m verl.trainer.main_ppo algorithm.adv_estimator=gae "
        "data.max_prompt_length=512 data.max_response_length=1024 "
        "actor_rollout_ref.model.path=/data/Qwen2.5-0.5B-Instruct "
        "actor_rollout_ref.model.lora_rank=64 actor_rollout_ref.model.lora_alpha=32 "
        "actor_rollout_ref.actor.strategy=fsdp2 "
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
        "trainer.n_gpus_per_node=8 trainer.nnodes=2"
    )
    worker = "\x1b[36m(main_task pid=1, ip=10.0.0.1)\x1b[0m"
    step = worker + " step:{} - actor/pg_loss:0.1 - timing_s/step:5.6"
    (tmp_path / "run.log").write_text("\n".join([command, *map(step.format, (1, 2))]), "utf-8")
    (run,) = observe(tmp_path, **GPU)
    stated = {
        "objective": "ppo",
        "model_id": "qwen2.5-0.5b",
        "method": "lora",
        "lora_rank": 64,
        "micro_batch_size": 4,
        "seq_len": 1536,
        "n_gpus": 16,
        "n_nodes": 2,
    }
    assert stated.items() <= run["configuration"].items()


def test_a_log_that_ran_out_of_memory_and_one_that_restarted(
    tmp_path: Path, read: Callable[..., Imported], observe: Observe, grpo: Path
) -> None:
    text = grpo.read_text("utf-8")
    (tmp_path / "oom.log").write_text(
        text + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n", "utf-8"
    )
    (run,) = observe(tmp_path, model_id="smollm2-135m", **GPU)
    assert (run["outcome"], run["failed_step"]) == ("oom", 4)
    last = text.splitlines()[-1].replace("step:3", "step:2")
    (tmp_path / "oom.log").write_text(f"{text}{last}\n", "utf-8")
    (refusal,) = read(tmp_path, model_id="smollm2-135m", **GPU).refused
    assert "its steps go back from 3 to 2" in refusal.reason


@pytest.mark.parametrize("n_cells", [1, 2])
def test_a_log_that_a_notebook_only_quotes_is_no_run(
    tmp_path: Path, read: Callable[..., Imported], grpo: Path, n_cells: int
) -> None:
    cell = {"cell_type": "code", "source": grpo.read_text("utf-8"), "outputs": []}
    notebook = tmp_path / "run.ipynb"
    notebook.write_text(json.dumps({"cells": [cell] * n_cells, "nbformat": 4}), "utf-8")
    found = read(notebook, model_id="smollm2-135m", **GPU)
    assert found.submissions == ()
    assert [refusal.path for refusal in found.refused] == [notebook]


@pytest.mark.parametrize("config", ["{'trainer': " * 500, "{'a': 1}}", "{'trainer': 1}", "{'x'"])
def test_what_is_no_configuration_is_passed_over(
    tmp_path: Path, observe: Observe, config: str
) -> None:
    lines = [config, "step:1 - train/loss:0.5 - train/time(s):2.0"]
    (tmp_path / "run.log").write_text("\n".join(lines), "utf-8")
    (run,) = observe(tmp_path, model_id="qwen2.5-3b", method="full", **GPU)
    assert run["flags"] == ["short_run"]


def test_a_line_longer_than_any_configuration_is_not_parsed(
    tmp_path: Path, observe: Observe
) -> None:
    long = f"{{'trainer': {{'x': [{'1,' * 300_000}]}}, 'data': {{'max_length': 512}}}}"
    lines = [f"(TaskRunner pid=1) {long}", "step:1 - train/loss:0.5 - train/time(s):2.0"]
    (tmp_path / "run.log").write_text("\n".join(lines), "utf-8")
    (run,) = observe(tmp_path, model_id="qwen2.5-3b", method="full", **GPU)
    assert "seq_len" not in run["configuration"]
