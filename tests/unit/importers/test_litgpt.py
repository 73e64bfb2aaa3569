"""LitGPT on lines of its trainings of 2023 to 2026."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]
    Figure = Callable[..., dict[str, Any]]

STATED = {"model_id": "phi-2", "method": "lora"}


@pytest.fixture
def logs(fixtures: Path) -> Path:
    return fixtures / "litgpt"


def test_a_step_is_the_micro_batches_since_the_last_one(
    logs: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "lora.log", model_id="phi-2")
    assert figure(run, "step_time")["value"] == pytest.approx((0.89534 + 1.02584) / 2)
    assert figure(run, "n_steps")["value"] == 5
    assert run["configuration"] == {
        "model_id": "phi-2", "method": "lora", "lora_rank": 8, "lora_alpha": 16.0,
        "lora_dropout": 0.05, "param_dtype": "bf16", "compute_dtype": "bf16", "n_gpus": 1,
        "seq_len": 512, "length_distribution": "variable", "micro_batch_size": 4,
        "grad_accum_steps": 2, "global_batch_size": 8, "n_steps": 5,
    }  # fmt: skip


def test_its_gigabyte_is_decimal_and_of_the_first_process(
    logs: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "lora.log", model_id="phi-2")
    peak = figure(run, "peak_memory")
    assert (peak["value"], peak["kind"], peak["scope"]) == (13.9e9, "allocated", "per_gpu")
    assert figure(run, "total_time")["value"] == 11.2


def test_the_report_at_the_end_counts_tokens_of_all_processes(
    logs: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "report.log", **STATED)
    assert figure(run, "tokens_per_second")["value"] == 1249.93
    assert figure(run, "n_tokens")["value"] == 230325
    assert "model_reported" not in run  # what is merged after it is not what was trained


FIRST = """\
{'log_interval': 10, 'devices': 2, 'quantize': 'bnb.nf4-dq', 'precision': '16-mixed'}
iter 0 step 1: loss 11.1288, LR: 0.000000, iter time: 2820.98ms (optimizer.step)
iter 10 step 11: loss 6.6115, LR: 0.000030, iter time: 2432.98ms (optimizer.step)
iter 20 step 21: loss 4.9748, LR: 0.000060, iter time: 2433.09ms (optimizer.step)
"""


def test_where_an_iteration_is_a_step_not_each_needs_a_line(
    tmp_path: Path, observe: Observe, figure: Figure
) -> None:
    (tmp_path / "run.log").write_text(FIRST, encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    found = run["configuration"]
    assert figure(run, "step_time")["value"] == pytest.approx(2.433035)
    assert (found["n_gpus"], found["grad_accum_steps"], found["compute_dtype"]) == (2, 1, "fp16")
    assert (found["quant_type"], found["double_quant"]) == ("nf4", True)
    assert run["outcome"] == "unknown"


def test_without_the_lines_of_all_micro_batches_there_is_no_time_of_a_step(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    text = FIRST.replace("step 11", "step 3").replace("step 21", "step 5")
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    found = read(tmp_path, **STATED)
    assert "run.log: no time of a step: not all of its micro-batches have a line" in found.missing
    assert all(
        figure["metric"] != "step_time"
        for figure in found.submissions[0]["observations"][0]["measurements"]
    )


def test_a_log_that_runs_out_of_memory_says_after_which_step(
    tmp_path: Path, observe: Observe
) -> None:
    text = f"{FIRST}torch.cuda.OutOfMemoryError: CUDA out of memory.\n"
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert (run["outcome"], run["failed_step"]) == ("oom", 22)


def test_two_trainings_in_one_log_are_refused(
    logs: Path, tmp_path: Path, read: Callable[..., Imported]
) -> None:
    text = (logs / "lora.log").read_text(encoding="utf-8")
    (tmp_path / "two.log").write_text(text + text, encoding="utf-8")
    (refusal,) = read(tmp_path, model_id="phi-2").refused
    assert refusal.reason.startswith("its steps go back from 10 to 1")


def test_a_log_of_2023_names_its_weights_and_its_micro_batches(
    tmp_path: Path, observe: Observe
) -> None:
    log = tmp_path / "falcon.log"
    log.write_text(
        "{'devices': 1, 'batch_size': 128, 'micro_batch_size': 2, 'gradient_accumulation_iters': "
        "64, 'lora_r': 8, 'lora_alpha': 16}\n"
        "Loading model 'checkpoints/tiiuae/falcon-7b/lit_model.pth' with {'n_layer': 32}\n"
        "iter 100 step 1: loss 10.4189,  time:0.2mins  iter time: 127.70ms\n",
        encoding="utf-8",
    )
    (run,) = observe(log)
    found = run["configuration"]
    assert (found["model_id"], found["lora_rank"]) == ("falcon-7b", 8)
    assert (found["micro_batch_size"], found["grad_accum_steps"]) == (2, 64)
