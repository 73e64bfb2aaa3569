"""mlx-lm on lines of trainings that others published."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]
    Read = Callable[..., Imported]
    Figure = Callable[..., dict[str, Any]]

STATED = {"model_id": "phi-3.5-mini", "method": "lora"}
ITERATION = "Iter {}: Train loss 1.2, Learning Rate 1.000e-05, It/sec {}, Tokens/sec 300.100"
SETTINGS = {
    "model": "mlx-community/Mistral-7B-Instruct-v0.2-4bit",
    "fine_tune_type": "lora",
    "batch_size": 4,
    "iters": 500,
    "num_layers": 16,
    "max_seq_length": 2048,
    "grad_checkpoint": True,
    "grad_accumulation_steps": 8,
    "optimizer": "adamw",
    "steps_per_report": 10,
    "lora_parameters": {
        "rank": 8,
        "dropout": 0.0,
        "scale": 20.0,
        "keys": ["self_attn.q_proj", "self_attn.v_proj"],
    },
}


@pytest.fixture
def lora(fixtures: Path) -> Path:
    return fixtures / "mlx_lm" / "lora.log"


def test_lines_that_compile_validate_or_are_cut_short_are_no_speed(
    lora: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(lora, **STATED, grad_accum_steps="1")
    # 2.323, 2.338, 2.338, 2.278 and 2.320: without 10, 180, 200 and 500
    step = figure(run, "step_time")
    assert step["value"] == pytest.approx(1 / 2.323)
    assert (step["low"], step["high"]) == pytest.approx((1 / 2.3235, 1 / 2.3225))
    assert step["reason"] == "1 / It/sec of 5 lines, 4 of 9 left out; without validation"
    assert figure(run, "tokens_per_second")["value"] == 138.864
    assert figure(run, "n_tokens")["value"] == 31121
    assert figure(run, "n_steps")["value"] == 500
    assert figure(run, "trainable_params")["value"] == 1_573_000
    assert run["outcome"] == "ok"


def test_validation_counts_beside_the_steps_and_in_the_peak(
    lora: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(lora, **STATED)
    assert figure(run, "eval_time")["value"] == pytest.approx(7.179 + 5.383 + 5.410)
    assert figure(run, "eval_loss")["value"] == 0.958
    assert run["flags"] == ["includes_evaluation"]


def test_the_bar_of_a_validation_tells_decimal_gigabytes(
    lora: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(lora, **STATED)
    peak = figure(run, "peak_memory")
    assert (peak["value"], peak["kind"], peak["device_index"]) == (8.122e9, "allocated", 0)
    assert peak["high"] == pytest.approx(8.1225e9)


def test_without_a_bar_memory_may_be_in_gibibytes(
    fixtures: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(fixtures / "mlx_lm" / "command.log")
    peak = figure(run, "peak_memory")
    assert peak["value"] == 10.588e9
    assert peak["high"] == pytest.approx(10.5885 * 2**30)
    assert peak["reason"].endswith("or by 2^30 before 2024-11-07: the log does not say which")


def test_an_iteration_is_no_step_unless_someone_says_how_many_make_one(
    lora: Path, read: Read
) -> None:
    found = read(lora, **STATED)
    metrics = {row["metric"] for row in found.submissions[0]["observations"][0]["measurements"]}
    assert not metrics & {"step_time", "n_steps"}
    assert any("--set grad_accum_steps=…" in text for text in found.missing)
    assert any("no accelerator; state it (--set gpu_id=…)" in text for text in found.missing)


def test_a_command_without_a_configuration_has_the_defaults_that_never_changed(
    fixtures: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(fixtures / "mlx_lm" / "command.log")
    assert run["configuration"] == {
        "model_id": "llama-3.2-3b", "method": "lora", "grad_accum_steps": 1,
    }  # fmt: skip
    assert figure(run, "step_time")["value"] == pytest.approx(2 / (23.6 + 24.234))
    assert run["outcome_detail"] == "the log ends at iteration 50 of 100"


def test_the_settings_beside_a_log_are_those_of_the_run(
    lora: Path, tmp_path: Path, observe: Observe, figure: Figure
) -> None:
    (tmp_path / "train.log").write_text(lora.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "adapter_config.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    (run,) = observe(tmp_path)
    assert run["configuration"] == {
        "model_id": "mistral-7b-v0.2", "method": "lora", "quant_bits": 4, "lora_rank": 8,
        "lora_alpha": 160.0, "lora_dropout": 0.0, "lora_target_modules": ["q_proj", "v_proj"],
        "micro_batch_size": 4, "grad_accum_steps": 8, "seq_len": 2048,
        "length_distribution": "variable", "gradient_checkpointing": True, "optimizer": "adamw",
    }  # fmt: skip
    assert run["provenance"]["trained_layers"] == 16
    assert figure(run, "step_time")["value"] == pytest.approx(8 / 2.323)
    assert figure(run, "n_steps")["value"] == 62
    assert "adapter_config.json" in run["provenance"]["files"]


def test_full_leaves_the_embeddings_as_they_are(
    lora: Path, tmp_path: Path, observe: Observe
) -> None:
    (tmp_path / "train.log").write_text(lora.read_text(encoding="utf-8"), encoding="utf-8")
    settings = {**SETTINGS, "fine_tune_type": "full", "lora_parameters": None}
    (tmp_path / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (run,) = observe(tmp_path)
    assert run["configuration"]["method"] == "freeze"
    assert "lora_rank" not in run["configuration"]


def test_a_bar_before_the_line_and_tokens_with_a_point_are_read(
    tmp_path: Path, observe: Observe, figure: Figure
) -> None:
    lines = [
        "1%| | 10/1000 [00:32<53:42]" + ITERATION.format(20, "0.283"),
        ITERATION.format(30, "0.468"),
    ]
    text = ", Trained Tokens 3778.0, Peak mem 4.974 GB\n".join([*lines, ""])
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert figure(run, "n_tokens")["value"] == 3778


def test_lines_without_memory_of_2023_are_read(tmp_path: Path, read: Read) -> None:
    lines = [f"Iter {at}: Train loss 3.5, It/sec 0.01{at % 7}, Tokens/sec 1.425" for at in (10, 20)]
    (tmp_path / "train.log").write_text("\n".join(lines), encoding="utf-8")
    found = read(tmp_path, **STATED)
    assert len(found.submissions) == 1
    assert "train.log: no memory" in found.missing


@pytest.mark.parametrize(
    "text",
    [
        "Iter 10: Train loss 1,2, It/sec 0,5, Tokens/sec 300,1",  # a comma for a point
        "Iter 10: Train loss 1.2, It/sec 0.5.1, Tokens/sec 300.1",
        "Iter 10: Train loss 1.2, It/sec 0.500, Tokens/sec 300.1.7",
        "Iter 10: Train loss 1.2, It/sec inf, Tokens/sec nan",
        "Iter 10: Train loss 1.2, It/sec 0.5",  # cut off
        "Iter ten: Train loss 1.2, It/sec 0.500, Tokens/sec 300.1",
    ],
)
def test_lines_of_another_form_are_not_recognized(tmp_path: Path, read: Read, text: str) -> None:
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    (refusal,) = read(tmp_path, kind="mlx-lm", **STATED).refused
    assert refusal.reason.startswith("not recognized as mlx-lm; expected a console log with lines")


def test_two_runs_in_one_log_are_refused(lora: Path, tmp_path: Path, read: Read) -> None:
    (tmp_path / "train.log").write_text(lora.read_text(encoding="utf-8") * 2, encoding="utf-8")
    (refusal,) = read(tmp_path, **STATED).refused
    assert refusal.reason.startswith("its steps go back from 500 to 10")


def test_a_log_that_breaks_off_keeps_its_whole_lines(
    lora: Path, tmp_path: Path, observe: Observe, figure: Figure
) -> None:
    text = lora.read_text(encoding="utf-8")
    (tmp_path / "train.log").write_text(text[: text.index("Iter 40") + 60], encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert run["outcome_detail"] == "the log ends at iteration 30 of 500"
    assert figure(run, "tokens_per_second")["value"] == pytest.approx((153.066 + 134.44) / 2)


@pytest.mark.parametrize("name", ["command.log", "lora.log"])
def test_a_notebook_that_runs_the_command_is_read_as_its_console(
    fixtures: Path, tmp_path: Path, observe: Observe, name: str
) -> None:
    log = fixtures / "mlx_lm" / name
    first, *rest = log.read_text("utf-8").splitlines(keepends=True)
    is_command = name == "command.log"
    cell = {
        "cell_type": "code",
        "source": [f"!{first}"] if is_command else ["print('tuning')"],
        "outputs": [{"output_type": "stream", "text": rest if is_command else [first, *rest]}],
    }
    notebook = tmp_path / "run.ipynb"
    notebook.write_text(json.dumps({"cells": [cell], "nbformat": 4}), "utf-8")
    stated = {} if is_command else STATED
    (expected,), (run,) = observe(log, **stated), observe(notebook, **stated)
    assert run["measurements"] == expected["measurements"]
    assert run["configuration"] == expected["configuration"]
