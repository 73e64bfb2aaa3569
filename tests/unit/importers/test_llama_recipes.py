"""llama-recipes on lines that it printed in trainings others published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]
    Figure = Callable[..., dict[str, Any]]

STATED = {"model_id": "llama-2-7b", "gpu_id": "v100-32gb", "n_gpus": "1"}


@pytest.fixture
def log(fixtures: Path) -> Path:
    return fixtures / "llama_recipes" / "lora.log"


def test_the_time_of_the_epochs_is_the_trainings_alone(
    log: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(log, **STATED)
    seconds = 12864.613309495151 + 12824.521782848984 + 12817.443107374012
    assert figure(run, "train_time")["value"] == pytest.approx(seconds)
    assert figure(run, "n_steps")["value"] == 3 * 388
    assert figure(run, "step_time")["value"] == pytest.approx(seconds / (3 * 388))
    assert (run["outcome"], figure(run, "eval_loss")["value"]) == ("ok", 1.6479)
    configuration = run["configuration"]
    assert (configuration["method"], configuration["n_epochs"]) == ("lora", 3)
    assert (configuration["n_samples"], configuration["grad_accum_steps"]) == (14732, 1)
    assert (configuration["quant_method"], configuration["quant_bits"]) == ("bitsandbytes", 8)


@pytest.mark.parametrize(("kind", "peak"), [("allocated", 21), ("reserved", 24), ("active", 21)])
def test_its_whole_gigabytes_are_rounded_down_from_gibibytes(
    log: Path, observe: Observe, figure: Figure, kind: str, peak: int
) -> None:
    (run,) = observe(log, **STATED)
    found = figure(run, "peak_memory", kind=kind)
    assert (found["low"], found["value"], found["high"]) == (
        peak * 2**30,
        peak * 2**30,
        (peak + 1) * 2**30,
    )
    assert (found["scope"], found["device_index"]) == ("per_gpu", 0)


def test_the_bar_counts_steps_and_its_words_batches(
    log: Path, tmp_path: Path, observe: Observe, figure: Figure
) -> None:
    text = log.read_text(encoding="utf-8").replace("388/388 [", "97/97 [")
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert run["configuration"]["grad_accum_steps"] == 4
    assert figure(run, "n_steps")["value"] == 3 * 97


def test_an_epoch_that_is_missing_leaves_the_end_open(
    log: Path, tmp_path: Path, observe: Observe
) -> None:
    text = log.read_text(encoding="utf-8").partition("Training Epoch: 3/3")[0]
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert (run["outcome"], run["outcome_detail"]) == (
        "unknown",
        "the log ends after epoch 2 of 3",
    )


@pytest.mark.parametrize("line", ["Epoch 1: train_", "Training Epoch: 1/3"])
def test_two_trainings_in_one_log_are_refused(
    log: Path, tmp_path: Path, read: Callable[..., Imported], line: str
) -> None:
    text = log.read_text(encoding="utf-8").replace("epoch time", "epcoh time")
    again = next(one for one in text.splitlines() if one.startswith(line))
    (tmp_path / "two.log").write_text(text + again, encoding="utf-8")
    (refusal,) = read(tmp_path, **STATED).refused
    assert refusal.reason.startswith("its steps go back from 3 to 1")
