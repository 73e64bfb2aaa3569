"""Real files that nobody here wrote: what is taken of them and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

RECORDS = Path(__file__).parents[3] / "records"

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]


def test_all_runs_of_the_method_comparison_are_taken(samples: Path, observe: Observe) -> None:
    observations = observe(samples / "peft_method_comparison")
    assert len(observations) == 63
    assert {row["outcome"] for row in observations} == {"ok"}
    assert {row["configuration"]["gpu_id"] for row in observations} == {"l40s"}


def test_the_same_configuration_ran_on_two_software_stacks(
    samples: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    name = "lora--llama-3.2-3B-rank32.json"
    (new,) = observe(samples / "peft_method_comparison" / name)
    (old,) = observe(samples / "peft_method_comparison_2025-06" / name)
    assert new["configuration"] == old["configuration"]
    assert new["environment"]["torch_version"] == "2.13.0+cu130"
    assert old["environment"]["torch_version"] == "2.7.1+cu126"
    times = [round(figure(row, "train_time", statistic="value")["value"]) for row in (old, new)]
    assert times == [2103, 942]


def test_all_benchmark_rows_are_taken_and_the_silent_ones_stay_silent(
    samples: Path, observe: Observe
) -> None:
    found = observe(samples / "fms_acceleration", model_id="mistral-7b")
    assert len(found) == 449
    assert Counter(row["outcome"] for row in found) == {"ok": 349, "unknown": 100}
    assert {row["configuration"]["gpu_id"] for row in found} == {"a100-80gb"}


def test_a_checkpoint_and_a_run_of_the_trainer_lack_their_model(
    samples: Path, read: Callable[..., Imported], observe: Observe
) -> None:
    found = read(samples / "hf_trainer")
    assert found.submissions == ()
    assert {refusal.path.name for refusal in found.refused} == {
        "mistral.all_results.json",
        "mistral_checkpoint_1000.trainer_state.json",
        "tinyllama_lora.trainer_state.json",
    }
    first, second = observe(samples / "hf_trainer", model_id="tinyllama-1.1b", method="lora")
    assert (first["outcome"], second["outcome"]) == ("ok", "unknown")
    assert first["configuration"]["global_batch_size"] == 16


def test_a_run_of_llama_factory_is_without_its_evaluations(
    samples: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (observation,) = observe(samples / "llama_factory")
    assert observation["configuration"]["model_id"] == "qwen2.5-7b"
    assert figure(observation, "total_time")["value"] == 24486.754
    assert figure(observation, "eval_time")["value"] == 2880.0


def test_a_run_of_ms_swift_is_without_its_evaluations(
    samples: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (observation,) = observe(samples / "ms_swift")
    assert observation["configuration"]["model_id"] == "deepseek-r1-0528-qwen3-8b"
    peak = figure(observation, "peak_memory", scope="max_gpu")
    assert peak["value"] == 16.56 * 2**30
    assert figure(observation, "step_time")["value"] == pytest.approx(5.05, abs=0.01)
