"""XTuner on lines of trainings that others published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from registry.importers import ImportOptions
from registry.importers.shared.draft import Draft
from registry.importers.xtuner import parse_xtuner_step
from registry.importers.xtuner_iterations import parse_mmengine_line
from registry.importers.xtuner_settings import parse_configuration, state_dumped_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]
    Read = Callable[..., Imported]
    Figure = Callable[..., dict[str, Any]]

STATED = {"model_id": "llama-3-8b", "method": "lora"}
SYSTEM = """\
09/06 13:52:38 - mmengine - INFO -
------------------------------------------------------------
System environment:
    sys.platform: linux
    Python: 3.10.12 (main, Jul  5 2023, 18:54:27) [GCC 11.2.0]
    GPU 0,1: NVIDIA A100-SXM4-80GB
    PyTorch: 2.0.1
    PyTorch compiling details: PyTorch built with:
Runtime environment:
    Distributed launcher: pytorch
    GPU number: 2
------------------------------------------------------------
"""
ZERO = """\
05/04 08:50:12 - mmengine - INFO - Config:
max_length = 2048
model = dict(
    llm=dict(
        pretrained_model_name_or_path='meta-llama/Meta-Llama-3-8B',
        type='transformers.AutoModelForCausalLM.from_pretrained'),
    type='xtuner.model.SupervisedFinetune',
    use_varlen_attn=False)
optim_wrapper = dict(
    optimizer=dict(lr=0.002, type='torch.optim.AdamW', weight_decay=0),
    type='DeepSpeedOptimWrapper')
pack_to_max_length = True
strategy = dict(
    config=dict(
        bf16=dict(enabled=True),
        fp16=dict(enabled=False, initial_scale_power=16),
        gradient_accumulation_steps='auto',
        train_micro_batch_size_per_gpu='auto',
        zero_optimization=dict(overlap_comm=True, stage=2)),
    gradient_accumulation_steps=16,
    sequence_parallel_size=2,
    train_micro_batch_size_per_gpu=6,
    type='xtuner.engine.DeepSpeedStrategy')
train_cfg = dict(max_epochs=30, type='xtuner.engine.runner.TrainLoop')
train_dataloader = dict(batch_size=6, num_workers=0)
"""


@pytest.fixture
def logs(fixtures: Path) -> Path:
    return fixtures / "xtuner"


def test_the_printed_configuration_says_what_was_trained(logs: Path, observe: Observe) -> None:
    (run,) = observe(logs / "qlora.log")
    assert run["configuration"] == {
        "model_id": "internlm-7b", "method": "lora", "lora_rank": 64, "lora_alpha": 16,
        "lora_dropout": 0.1, "lora_target_modules": ["all-linear"], "quant_method": "bitsandbytes",
        "quant_bits": 4, "quant_type": "nf4", "double_quant": True, "gradient_checkpointing": True,
        "seq_len": 512, "packing": True, "length_distribution": "full", "micro_batch_size": 2,
        "grad_accum_steps": 16, "optimizer": "paged_adamw_32bit", "compute_dtype": "fp16",
        "n_gpus": 1, "n_epochs": 3,
    }  # fmt: skip
    assert run["inferences"]["gradient_checkpointing"] == "XTuner's default"
    assert run["inferences"]["n_gpus"] == "it prints that distributed training is not used"
    assert run["environment"]["framework"] == "xtuner"


def test_an_iteration_is_a_micro_batch_and_its_time_that_in_the_middle(
    logs: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "qlora.log")
    step = figure(run, "step_time")  # not 4.5296, with the answers that the model was asked for
    assert step["value"] == pytest.approx(1.42855 * 16, abs=0.01)
    assert step["high"] - step["low"] == pytest.approx(0.0001 * 16)
    assert step["reason"] == (
        "of 7 lines, the first 1 left out, each a mean of its last iterations; with the data and "
        "the hooks; x 16 iterations of a step"
    )
    assert figure(run, "train_loss")["value"] == 0.0045


def test_epochs_that_were_saved_are_the_end_of_a_run(
    logs: Path, tmp_path: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "qlora.log")
    assert run["outcome"] == "ok"
    assert figure(run, "n_steps")["value"] == 3 * 381 // 16
    text = (logs / "qlora.log").read_text(encoding="utf-8").replace("at 3 epochs", "at 2 epochs")
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    (cut,) = observe(tmp_path)
    assert cut["outcome_detail"] == "the log ends at iteration 380 of 381 in epoch 3 of 3"
    assert figure(cut, "n_steps")["value"] == (2 * 381 + 380) // 16


def test_memory_is_in_whole_mebibytes_rounded_down(
    logs: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "qlora.log")
    peak = figure(run, "peak_memory")
    assert (peak["kind"], peak["scope"], peak["device_index"]) == ("allocated", "per_gpu", 0)
    assert peak["value"] == peak["low"] == 10_428 * 2**20
    assert peak["high"] == 10_429 * 2**20
    assert run["flags"] == ["includes_evaluation"]


def test_without_its_accumulation_a_log_has_memory_only(
    logs: Path, observe: Observe, read: Read, figure: Figure
) -> None:
    (run,) = observe(logs / "iterations.log", **STATED)
    assert {row["metric"] for row in run["measurements"]} == {"peak_memory", "train_loss"}
    missing = read(logs / "iterations.log", **STATED).missing
    assert any("say it (--set grad_accum_steps=…)" in text for text in missing)
    (said,) = observe(logs / "iterations.log", **STATED, grad_accum_steps="16")
    assert figure(said, "n_steps")["value"] == 120
    assert figure(said, "step_time")["value"] == pytest.approx(0.3165 * 16)


def test_an_excerpt_has_no_warm_up_and_tokens_of_one_process(
    logs: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "throughput.log", **STATED)
    rate = figure(run, "tokens_per_second")
    assert (rate["value"], rate["scope"], rate["device_index"]) == (969.063, "per_gpu", 0)
    assert rate["reason"] == "of 5 lines; padding included, the last iteration of each"
    assert run["outcome_detail"] == "the log ends at iteration 8855 of 96000"


def test_a_strategy_of_deepspeed_says_accumulation_sharding_and_type(
    logs: Path, tmp_path: Path, observe: Observe
) -> None:
    text = (logs / "iterations.log").read_text(encoding="utf-8")
    (tmp_path / "run.log").write_text(SYSTEM + ZERO + text, encoding="utf-8")
    (run,) = observe(tmp_path)
    assert run["configuration"] == {
        "model_id": "llama-3-8b", "method": "full", "gpu_id": "a100-sxm4-80gb", "n_gpus": 2,
        "gradient_checkpointing": True, "seq_len": 2048, "packing": True,
        "length_distribution": "full", "micro_batch_size": 6, "grad_accum_steps": 16,
        "optimizer": "adamw_torch", "sharding": "zero2", "compute_dtype": "bf16",
        "context_parallel": 2, "n_epochs": 30,
    }  # fmt: skip
    assert run["inferences"]["method"] == "no lora in the model of the configuration"
    assert run["environment"] == {
        "framework": "xtuner", "torch_version": "2.0.1", "python_version": "3.10.12",
    }  # fmt: skip


def test_a_model_of_several_parts_leaves_the_method_open(catalogue: Any) -> None:
    text = ZERO.replace("xtuner.model.SupervisedFinetune", "xtuner.model.LLaVAModel")
    draft = Draft()
    state_dumped_settings(draft, text.splitlines(), ImportOptions(catalogue=catalogue))
    assert draft.configuration["model_id"] == "llama-3-8b"
    assert not draft.configuration.keys() & {"method", "gradient_checkpointing", "seq_len"}
    assert draft.missing == []


def test_adapters_of_another_kind_leave_the_method_open(catalogue: Any) -> None:
    adapter = "lora=dict(r=64, type='peft.LoHaConfig'),\n    type='xtuner.model.SupervisedFinetune'"
    text = ZERO.replace("type='xtuner.model.SupervisedFinetune'", adapter)
    draft = Draft()
    state_dumped_settings(draft, text.splitlines(), ImportOptions(catalogue=catalogue))
    assert draft.configuration["seq_len"] == 2048
    assert not draft.configuration.keys() & {"method", "lora_rank"}


def test_a_preference_training_has_its_objective(catalogue: Any) -> None:
    draft = Draft()
    lines = ZERO.replace("xtuner.model.SupervisedFinetune", "xtuner.model.DPO").splitlines()
    state_dumped_settings(draft, lines, ImportOptions(catalogue=catalogue))
    assert draft.configuration["objective"] == "dpo"


def test_a_configuration_that_another_process_broke_is_read_in_parts(catalogue: Any) -> None:
    draft = Draft()
    lines = ZERO.replace("        type='transformers", "Loading 100%| [01:14<00:00\n").splitlines()
    state_dumped_settings(draft, lines, ImportOptions(catalogue=catalogue))
    assert draft.configuration["grad_accum_steps"] == 16
    assert draft.missing == ["no settings of the model: its configuration is not printed whole"]


@pytest.mark.parametrize(
    "text",
    ["a = " + "(" * 100_000, "a = " + "-" * 100_000 + "1", "x" * 300_000, "a = (1,\nb = 2 +"],
)
def test_what_is_no_configuration_has_no_values(text: str) -> None:
    assert parse_configuration(text) == {}


def test_values_of_a_configuration_are_constants_lists_and_dicts() -> None:
    text = "a = [1, (2, 'b')]\nc = {'d': None, e: 1}\nf = dict(g=-1.5, h=open('x'), **i)\n"
    assert parse_configuration(text) == {
        "a": [1, [2, "b"]],
        "c": {"d": None},
        "f": {"g": None, "h": None},
    }


def test_a_run_that_goes_on_counts_its_own_iterations(
    logs: Path, tmp_path: Path, observe: Observe, figure: Figure
) -> None:
    text = (logs / "iterations.log").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if " [  " not in line]
    begin = "05/04 08:52:12 - mmengine - INFO - resumed epoch: 0, iter: 1600"
    failure = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    (tmp_path / "run.log").write_text("\n".join([begin, *lines, failure]), encoding="utf-8")
    (run,) = observe(tmp_path, **STATED, grad_accum_steps="16")
    assert run["flags"] == ["resumed"]
    assert figure(run, "n_steps")["value"] == 20
    assert (run["outcome"], run["failed_step"]) == ("oom", 121)


def test_steps_of_xtuner_1_are_those_of_the_optimizer(
    logs: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "steps.log", model_id="llama-3-8b")
    assert run["configuration"] == {
        "model_id": "llama-3-8b", "method": "full", "grad_accum_steps": 1,
    }  # fmt: skip
    assert run["inferences"]["method"] == "it prints that no parameter is untrainable"
    step = figure(run, "step_time")
    assert step["value"] == pytest.approx(0.3268 + 0.0181)
    assert step["reason"] == (
        "of 3 lines, the first 3 left out; time + data_time, without checkpoints"
    )
    assert figure(run, "tokens_per_second")["value"] == 10_424.9
    assert figure(run, "n_steps")["value"] == 6
    assert figure(run, "peak_memory", kind="allocated")["value"] == 8.24 * 2**30
    assert figure(run, "peak_memory", kind="reserved")["value"] == 9.77 * 2**30
    assert run["outcome_detail"] == "the log ends at step 6 of 109"


def test_of_several_processes_the_first_is_read(
    logs: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "ranks.log", **STATED)
    assert figure(run, "n_steps")["value"] == 2
    peak = figure(run, "peak_memory", kind="allocated")
    assert (peak["value"], peak["device_index"]) == (18.02 * 2**30, 1)
    assert run["flags"] == ["short_run"]


def test_an_excerpt_of_xtuner_1_does_not_say_how_many_steps_there_were(
    logs: Path, tmp_path: Path, observe: Observe, read: Read
) -> None:
    lines = (logs / "steps.log").read_text(encoding="utf-8").splitlines()
    (tmp_path / "run.log").write_text("\n".join(lines[6:]), encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert "n_steps" not in {row["metric"] for row in run["measurements"]}
    assert "run.log: no count of steps: it begins at step 3" in read(tmp_path, **STATED).missing


def test_lines_of_later_releases_have_epochs_and_commas() -> None:
    line = (
        "[XTuner][RANK 0][2026-01-20 10:00:00][INFO] Epoch 1 Step 2/32 data_time: 0.0058 "
        "lr: 6.000000e-05 time: 0.5000 text_tokens: 1593 approximate_total_consumed_tokens: 2718 "
        "reduced_llm_loss: 10.82200000, local_loss: 10.82 efficient_attn_ratio: 0.31 grad_norm: "
        "9.2 max_memory: 6.59 GB reserved_memory: 8.02 GB tgs: 3186.0 exp_tgs: 3000.1 eta: 0:00:15"
    )
    step = parse_xtuner_step(line)
    assert step is not None
    assert (step.step, step.all, step.seconds) == (2, 32, 0.5058)
    assert {"reduced_llm_loss": 10.822, "max_memory": 6.59, "tgs": 3186.0}.items() <= (
        step.figures.items()
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [("iterations", ("memory",)), ("steps", ("max_memory", "reserved_memory"))],
)
def test_lines_without_memory_are_read(
    logs: Path, tmp_path: Path, read: Read, name: str, words: tuple[str, ...]
) -> None:
    text = (logs / f"{name}.log").read_text(encoding="utf-8")
    for word in words:
        text = text.replace(f" {word}: ", " unknown: ")
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    found = read(tmp_path, **STATED)
    assert "run.log: no memory" in found.missing
    (run,) = found.submissions[0]["observations"]
    assert "peak_memory" not in {row["metric"] for row in run["measurements"]}


def test_a_step_of_xtuner_1_without_a_time_is_none() -> None:
    line = "[XTuner][RANK 0][2025-09-08 03:09:21][INFO] Step 1/109 data_time: 0.0178 time: 0.0000"
    assert parse_xtuner_step(line) is None
    assert parse_xtuner_step(line.replace("0.0000", "1.3009")) is not None


@pytest.mark.parametrize(
    "line",
    [
        "05/17 09:34:02 - mmengine - INFO - Iter(train) [ 5/50]  loss: 4.0949",
        "05/17 09:34:02 - mmengine - INFO - Iter(train) [   /50]  time: 1.0  loss: 4.0949",
        "05/17 09:34:02 - mmengine - INFO - Iter(train) [ 5/50]  time: 0.0000  loss: 4.0949",
        "08/02 12:35:34 - mmengine - INFO - Iter(val) [11/11]    aAcc: 87.59  time: 0.0345",
    ],
)
def test_lines_without_a_time_of_training_are_not_recognized(line: str) -> None:
    assert parse_mmengine_line(line) is None


@pytest.mark.parametrize("name", ["iterations", "steps"])
def test_two_runs_in_one_log_of_xtuner_are_refused(
    logs: Path, tmp_path: Path, read: Read, name: str
) -> None:
    text = (logs / f"{name}.log").read_text(encoding="utf-8")
    (tmp_path / "run.log").write_text(text * 2, encoding="utf-8")
    (refusal,) = read(tmp_path, **STATED).refused
    assert "several runs, or a restart, in one file; split it" in refusal.reason


def test_a_log_of_another_kind_of_model_needs_its_name(tmp_path: Path, read: Read) -> None:
    line = (
        "06/16 08:24:00 - mmengine - INFO - Iter(train) [2900/3000]  lr: 9.3518e-03  eta: 0:00:57  "
        "time: 0.5780  data_time: 0.0083  memory: 3614  loss: 0.0365  decode.loss_ce: 0.0257"
    )
    (tmp_path / "run.log").write_text(line, encoding="utf-8")
    (refusal,) = read(tmp_path).refused
    assert refusal.reason.startswith("the files do not name the model; say which one it is with")
