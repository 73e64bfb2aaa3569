"""A notebook beside the files that its Trainer left: one run, which is recorded once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Read = Callable[..., Any]

LOSSES = [round(2 / (1 + step / 20), 4) for step in range(60)]
TOTALS = {"train_runtime": 412.7153, "train_samples_per_second": 1.163, "train_loss": 0.8625}
ADAPTER = {"peft_type": "LORA", "r": 16, "base_model_name_or_path": "meta-llama/Llama-2-7b-hf"}

CELL = """
from transformers import AutoModelForCausalLM, TrainingArguments
from peft import LoraConfig
from trl import SFTTrainer
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-2-7b-hf")
args = TrainingArguments("out", per_device_train_batch_size=2, max_steps=60)
SFTTrainer(model, args=args, peft_config=LoraConfig(r=16), train_dataset=rows).train()
"""

MEAN = sum(LOSSES) / len(LOSSES)


def write_notebook(folder: Path, name: str = "train.ipynb", **metrics: float) -> None:
    stated = {**TOTALS, "train_loss": MEAN, **metrics}
    printed = f"TrainOutput(global_step=60, training_loss={MEAN}, metrics={stated})"
    outputs = [{"output_type": "execute_result", "data": {"text/plain": [printed]}}]
    cell = {"cell_type": "code", "source": CELL, "outputs": outputs}
    (folder / name).write_text(json.dumps({"cells": [cell], "nbformat": 4, "metadata": {}}))


def write_state(folder: Path, *more: dict[str, Any], losses: list[float] | None = None) -> None:
    log = [
        {"step": step, "loss": loss, "learning_rate": 2e-4, "epoch": step / 100}
        for step, loss in enumerate(losses or LOSSES, start=1)
    ]
    state = {"global_step": 60, "max_steps": 60, "train_batch_size": 2}
    (folder / "trainer_state.json").write_text(json.dumps({**state, "log_history": [*log, *more]}))
    (folder / "adapter_config.json").write_text(json.dumps(ADAPTER))


def test_a_checkpoint_of_the_notebooks_run_is_no_second_one(tmp_path: Path, read: Read) -> None:
    (tmp_path / "checkpoint-60").mkdir()
    write_notebook(tmp_path)
    write_state(tmp_path / "checkpoint-60")
    found = read(tmp_path, gpu_id="t4")
    assert [one["observations"][0]["outcome"] for one in found.submissions] == ["ok"]
    said = "(nothing further needed of trainer_state.json: the run of train.ipynb)"
    assert said in found.taken


def test_of_a_run_that_both_tell_of_the_richer_one_is_taken(tmp_path: Path, read: Read) -> None:
    write_notebook(tmp_path)
    memory = {"train_mem_gpu_alloc_delta": 10**9, "train_mem_gpu_peaked_delta": 10**9}
    write_state(tmp_path, {**TOTALS, "train_loss": MEAN, "step": 60, "epoch": 0.6, **memory})
    found = read(tmp_path, gpu_id="t4")
    (submission,) = found.submissions
    figures = {row["metric"] for row in submission["observations"][0]["measurements"]}
    assert "peak_memory" in figures
    said = "(nothing further needed of train.ipynb: the run of trainer_state.json)"
    assert said in found.taken


def test_files_that_say_too_little_are_not_refused_beside_a_notebook(
    tmp_path: Path, read: Read
) -> None:
    write_notebook(tmp_path)
    write_state(tmp_path)
    (tmp_path / "adapter_config.json").unlink()  # the only one that names a model
    found = read(tmp_path, gpu_id="t4")
    assert (len(found.submissions), found.refused) == (1, ())


@pytest.mark.parametrize("losses", [LOSSES[:-1], [loss * 1.001 for loss in LOSSES]])
def test_runs_with_other_losses_stay_two(tmp_path: Path, read: Read, losses: list[float]) -> None:
    write_notebook(tmp_path)
    write_state(tmp_path, losses=losses)
    assert len(read(tmp_path, gpu_id="t4").submissions) == 2


def test_runs_with_other_times_stay_two(tmp_path: Path, read: Read) -> None:
    write_notebook(tmp_path, train_runtime=413.9)
    write_state(tmp_path, {**TOTALS, "train_loss": MEAN, "step": 60, "epoch": 0.6})
    assert len(read(tmp_path, gpu_id="t4").submissions) == 2
