"""Logs of MaxText: the first steps compile, and rates are of all devices over their number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]
    Figure = Callable[..., dict[str, Any]]


@pytest.fixture
def log(fixtures: Path) -> Path:
    """Return a log of a DPO, its settings after those of another part of the script."""
    return fixtures / "maxtext" / "dpo.log"


@pytest.fixture
def edited(log: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the log with words replaced."""

    def edit(*words: tuple[str, str]) -> Path:
        text = log.read_text(encoding="utf-8")
        for old, new in words:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "edited.log"
        path.write_text(text, encoding="utf-8")
        return path

    return edit


def test_the_compilation_and_what_waits_for_it_are_no_speed(
    log: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(log)
    step = figure(run, "step_time")
    assert (step["value"], step["statistic"]) == (0.25, "median")
    assert step["reason"] == "of 9 lines, the first 2 left out"
    rate = figure(run, "tokens_per_second")
    assert (rate["value"], rate["scope"]) == (16355.771, "mean_gpu")
    assert figure(run, "flops_per_second")["value"] == 85.666e12
    assert figure(run, "n_steps")["value"] == 500
    assert figure(run, "n_params")["value"] == 0.596e9
    assert run["outcome"] == "ok"
    assert not any(one["metric"] == "peak_memory" for one in run["measurements"])


def test_the_settings_printed_last_are_those_of_the_run(log: Path, observe: Observe) -> None:
    (run,) = observe(log)
    stated = {
        "model_id": "qwen3-0.6b",
        "gpu_id": "tpu-v5p",
        "n_gpus": 4,
        "method": "full",
        "objective": "dpo",
        "seq_len": 1024,
        "micro_batch_size": 4,
        "global_batch_size": 16,
        "param_dtype": "bf16",
        "optimizer": "adamw",
        "sharding": "fsdp",
        "gradient_checkpointing": True,
    }
    assert stated.items() <= run["configuration"].items()


@pytest.mark.parametrize(
    ("words", "stated"),
    [
        ([("'enable_lora': False, 'lora_rank': 0", "'enable_lora': True, 'lora_rank': 16")],
         {"method": "lora", "lora_rank": 16}),
        ([("ici_tensor_parallelism: 1", "ici_tensor_parallelism: 2")],
         {"tensor_parallel": 2, "micro_batch_size": None, "sharding": "fsdp"}),
        ([("ici_tensor_parallelism: 1", "ici_tensor_parallelism: 4")],
         {"tensor_parallel": 4, "sharding": None}),
        ([("num_slices: 1", "num_slices: 2")], {"sharding": "hsdp"}),
        ([("ici_fsdp_parallelism: -1", "ici_fsdp_parallelism: 1")], {"sharding": None}),
        ([("remat_policy: full", "remat_policy: minimal")], {"gradient_checkpointing": None}),
        ([("QuantizationType.NONE", "int8")], {"compute_dtype": None}),
        ([("use_dpo: True", "use_dpo: False")], {"objective": "pretrain"}),
    ],
)  # fmt: skip
def test_what_the_settings_say_is_stated_and_nothing_else(
    edited: Callable[..., Path],
    observe: Observe,
    words: list[tuple[str, str]],
    stated: dict[str, Any],
) -> None:
    (run,) = observe(edited(*words))
    assert {name: run["configuration"].get(name) for name in stated} == stated


def test_a_log_that_ends_early_leaves_open_how_the_run_did(
    edited: Callable[..., Path], observe: Observe
) -> None:
    (run,) = observe(edited(("Config param steps: 500", "Config param steps: 900")))
    assert (run["outcome"], run["outcome_detail"]) == (
        "unknown",
        "the log ends at step 500 of 900",
    )


def test_one_that_begins_late_was_resumed(edited: Callable[..., Path], observe: Observe) -> None:
    begun = [(f"completed step: {n}, ", f"skipped: {n}, ") for n in range(1, 5)]
    (run,) = observe(edited(*begun))
    assert run["flags"] == ["resumed"]


def test_a_training_that_went_back_to_a_checkpoint_is_several_runs(
    edited: Callable[..., Path], read: Callable[..., Imported]
) -> None:
    found = read(edited(("completed step: 499", "completed step: 3")))
    assert "its steps go back from 9 to 3" in found.refused[0].reason


@pytest.mark.parametrize("loss", ["nan", "inf", "-inf"])
def test_a_loss_that_is_no_number_any_more_is_flagged(
    edited: Callable[..., Path], observe: Observe, loss: str
) -> None:
    (run,) = observe(edited(("loss: 0.624", f"loss: {loss}")))
    assert run["flags"] == ["not_finite"]
    assert not any(one["metric"] == "train_loss" for one in run["measurements"])
