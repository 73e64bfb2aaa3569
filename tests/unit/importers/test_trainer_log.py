"""``running_log.txt`` of LLaMA-Factory, and consoles of the Trainer saved as text."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def log(fixtures: Path) -> Path:
    return fixtures / "trainer_log" / "running_log.txt"


def test_a_running_log_names_model_method_and_cards(log: Path, observe: Observe) -> None:
    (run,) = observe(log)
    configuration = run["configuration"]
    assert (configuration["model_id"], configuration["method"]) == ("deepseek-llm-7b", "lora")
    assert (configuration["n_gpus"], configuration["global_batch_size"]) == (2, 128)
    assert (configuration["attention"], configuration["gradient_checkpointing"]) == ("sdpa", True)
    assert run["environment"] == {"framework": "llama-factory", "transformers_version": "4.46.1"}


def test_a_training_that_someone_stopped_is_told_by_its_steps(
    log: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (run,) = observe(log)
    assert run["outcome"] == "interrupted"
    assert run["outcome_detail"] == "the log ends at step 2100 of 17000"
    assert figure(run, "step_time")["value"] == pytest.approx(44353 / 2100)
    time = figure(run, "total_time")
    assert (time["low"], time["value"], time["high"]) == (44352, 44353, 44354)
    assert run["flags"] == ["includes_evaluation"]


def test_metrics_at_the_end_say_it_better_than_the_clock(
    log: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (run,) = observe(log.with_name("console.txt"))
    time = figure(run, "total_time")
    assert (time["low"], time["value"], time["high"]) == (7715.505, 7715.51, 7715.515)
    assert figure(run, "samples_per_second")["value"] == 10.323
    assert figure(run, "step_time")["value"] == pytest.approx(7715.51 / 1230)
    assert run["configuration"]["model_id"] == "qwen2.5-vl-7b"
    assert run["outcome"] == "ok"


def test_a_log_that_went_on_from_a_step_counts_the_steps_since(
    log: Path, tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    line = (
        "[INFO|2024-11-26 22:07:15] trainer.py:2329 >>   Continuing training from global step 100"
    )
    text = log.read_text(encoding="utf-8")
    (tmp_path / "running_log.txt").write_text(f"{line}\n{text}", encoding="utf-8")
    (run,) = observe(tmp_path)
    assert "resumed" in run["flags"]
    assert figure(run, "n_steps")["value"] == 2000


def test_a_prediction_and_two_trainings_are_refused(
    log: Path, tmp_path: Path, read: Callable[..., Imported]
) -> None:
    text = log.read_text(encoding="utf-8")
    (tmp_path / "two.txt").write_text(text + text, encoding="utf-8")
    other = text.replace("Running training", "Running Prediction")
    (tmp_path / "none.txt").write_text(other, encoding="utf-8")
    assert {refusal.path.name: refusal.reason for refusal in read(tmp_path).refused} == {
        "two.txt": "several trainings in one log; split it",
        "none.txt": "evaluation or prediction only; nothing was trained here",
    }


def test_beside_a_progress_log_it_says_what_was_trained(
    fixtures: Path, log: Path, tmp_path: Path, observe: Observe
) -> None:
    shutil.copy(fixtures / "llama_factory" / "trainer_log.jsonl", tmp_path)
    shutil.copy(log, tmp_path)
    (run,) = observe(tmp_path)
    assert run["configuration"]["model_id"] == "deepseek-llm-7b"
    assert set(run["provenance"]["files"]) == {"trainer_log.jsonl", "running_log.txt"}
