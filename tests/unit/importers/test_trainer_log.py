"""``running_log.txt`` of LLaMA-Factory, and consoles of the Trainer saved as text."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize(
    "line",
    [
        r"configuration file C:\Users\A Person\models\Qwen2.5-3B\config.json",
        r"configuration file config.json from cache at C:\A\models--Qwen--Qwen2.5-3B\config.json",
        r"weights file D:\models\Qwen2.5-3B\model.safetensors.index.json",
    ],
)
def test_a_model_on_windows_is_named_without_its_folders(
    line: str, tmp_path: Path, observe: Observe
) -> None:
    totals = "{'train_runtime': 100.1, 'train_loss': 1.1}"
    (tmp_path / "run.log").write_text(f"loading {line}\n{totals}\n", encoding="utf-8")
    (run,) = observe(tmp_path, method="lora")
    assert run["configuration"]["model_id"] == "qwen2.5-3b"
    assert run["model_reported"].rpartition("/")[2] == "Qwen2.5-3B"


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
    said = text.replace("Running training", "Running Prediction").splitlines(keepends=True)
    other = "".join(line for line in said if "'loss'" not in line and "checkpoint-" not in line)
    (tmp_path / "none.txt").write_text(other, encoding="utf-8")
    assert {refusal.path.name: refusal.reason for refusal in read(tmp_path).refused} == {
        "two.txt": "several training runs in one log; split it",
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


SETTINGS = """\
model_name_or_path: deepseek-ai/deepseek-llm-7b-chat
stage: sft
template: deepseek
cutoff_len: 1024
lora_rank: 16
per_device_train_batch_size: {batch}
"""


def test_the_configuration_beside_a_running_log_adds_what_the_log_does_not_say(
    log: Path, tmp_path: Path, read: Callable[..., Imported], observe: Observe
) -> None:
    shutil.copy(log, tmp_path)
    (tmp_path / "deepseek_lora_sft.yaml").write_text(SETTINGS.format(batch=1), encoding="utf-8")
    (run,) = observe(tmp_path)
    configuration = run["configuration"]
    assert (configuration["lora_rank"], configuration["seq_len"]) == (16, 1024)
    assert set(run["provenance"]["files"]) == {"running_log.txt", "deepseek_lora_sft.yaml"}
    assert "deepseek_lora_sft.yaml: settings of the run" in read(tmp_path).taken


def test_a_configuration_that_contradicts_the_log_is_of_another_run(
    log: Path, tmp_path: Path, read: Callable[..., Imported], observe: Observe
) -> None:
    shutil.copy(log, tmp_path)
    (tmp_path / "run.yaml").write_text(SETTINGS.format(batch=4), encoding="utf-8")
    (run,) = observe(tmp_path)
    assert "lora_rank" not in run["configuration"]
    found = read(tmp_path)
    assert (
        "running_log.txt: no settings of run.yaml: it is of another run, micro_batch_size is 4 "
        "there and 1 in the log"
    ) in found.missing
    assert found.taken == ("running_log.txt: a log of the Trainer",)


def test_of_two_configurations_beside_a_log_none_is_taken(
    log: Path, tmp_path: Path, read: Callable[..., Imported]
) -> None:
    shutil.copy(log, tmp_path)
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(SETTINGS.format(batch=1), encoding="utf-8")
    missing = read(tmp_path).missing
    assert "running_log.txt: settings of a.yaml, b.yaml: which of them is the run's?" in missing


PLAIN = """trainable params: 4,194,304 || all params: 6,742,609,920 || trainable%: 0.0622
{'loss': 1.4122, 'grad_norm': 0.51, 'learning_rate': 0.0002, 'epoch': 0.1}
{'loss': 1.2122, 'grad_norm': 0.51, 'learning_rate': 0.0001, 'epoch': 0.2}
{'eval_loss': 1.2, 'eval_runtime': 12.5, 'eval_steps_per_second': 0.8, 'epoch': 0.2}
100%|##########| 10/10 [00:12<00:00,  1.02s/it]
100%|##########| 500/500 [12:34<00:00,  1.51s/it]
{'train_runtime': 754.2, 'train_samples_per_second': 10.607, 'train_steps_per_second': 0.663, \
'train_loss': 1.1, 'epoch': 1.0}
"""
SAID = {"model_id": "llama-2-7b", "method": "lora", "gpu_id": "rtx-4090", "n_gpus": "1"}


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(PLAIN, encoding="utf-8")
    return path


def test_a_plain_output_of_the_trainer_is_read_by_its_totals(
    plain: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (run,) = observe(plain, **SAID)
    assert run["outcome"] == "ok"
    assert run["flags"] == ["includes_evaluation"]
    assert run["configuration"]["n_epochs"] == 1.0
    assert run["inferences"]["n_epochs"] == "epoch of the totals"
    assert run["configuration"]["global_batch_size"] == 16
    assert figure(run, "total_time")["value"] == 754.2
    assert figure(run, "samples_per_second")["value"] == 10.607
    assert figure(run, "n_steps")["value"] == 500
    assert figure(run, "step_time")["value"] == pytest.approx((754.2 - 12.5) / 500)
    assert figure(run, "trainable_params")["value"] == 4_194_304


@pytest.mark.parametrize(
    ("printed", "micro"), [((6,), 6), ((6, 6), 6), ((6, 8), None), ((0,), None)]
)
def test_arguments_that_a_script_prints_as_json_are_read_unless_they_differ(
    plain: Path, observe: Observe, printed: tuple[int, ...], micro: int | None
) -> None:
    text = "".join(
        f'ARGS: {{\n  "per_device_train_batch_size": {batch},\n  "bf16": true\n}}\n'
        for batch in printed
    )
    plain.write_text(f'{{"per_device_train_batch_size": \n}}\n{text}{PLAIN}', encoding="utf-8")
    (run,) = observe(plain, **SAID)
    assert run["configuration"].get("micro_batch_size") == micro
    assert run["configuration"].get("compute_dtype") == (None if len(set(printed)) > 1 else "bf16")


def test_totals_that_are_texts_of_four_digits_keep_their_power_of_ten(
    plain: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    totals = "'train_runtime': '1.235e+04', 'train_samples_per_second': '0.648', "
    plain.write_text(
        f"{{'loss': '1.4', 'epoch': '0.1'}}\n{{{totals}'train_loss': '1.1', 'epoch': '1'}}\n",
        encoding="utf-8",
    )
    (run,) = observe(plain, **SAID)
    time = figure(run, "total_time")
    assert (time["low"], time["value"], time["high"]) == (12345, 12350, 12355)
    assert figure(run, "samples_per_second")["value"] == 0.648


def test_a_plain_output_that_begins_in_the_middle_gives_no_rates(
    plain: Path, observe: Observe
) -> None:
    plain.write_text(
        PLAIN.replace("'epoch': 0.1", "'epoch': 0.5").replace("'epoch': 0.2", "'epoch': 0.6"),
        encoding="utf-8",
    )
    (run,) = observe(plain, **SAID)
    metrics = {one["metric"] for one in run["measurements"]}
    assert "resumed" in run["flags"]
    assert not metrics & {"samples_per_second", "steps_per_second", "step_time"}


def test_two_plain_outputs_in_one_file_are_refused(
    plain: Path, read: Callable[..., Imported]
) -> None:
    plain.write_text(PLAIN + PLAIN, encoding="utf-8")
    (refusal,) = read(plain, **SAID).refused
    assert refusal.reason == "several training runs in one log; split it"


def test_a_beginning_without_a_clock_leaves_the_evaluations_timed_and_its_counts_read(
    plain: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    without = plain.read_text(encoding="utf-8")
    (timed,) = observe(plain, **SAID)
    begins = """***** Running training *****
  Num examples = 8,000
  Num Epochs = 1
  Instantaneous batch size per device = 4
  Gradient Accumulation steps = 4
  Total optimization steps = 500
"""
    plain.write_text(begins + without, encoding="utf-8")
    (run,) = observe(plain, **SAID)
    assert figure(run, "step_time") == figure(timed, "step_time")
    found = run["configuration"]
    names = ("micro_batch_size", "grad_accum_steps", "n_steps", "n_samples")
    assert [found[name] for name in names] == [4, 4, 500, 8000]


@pytest.mark.parametrize(
    ("epochs", "flags"),
    [
        (("0.02", "0.03"), []),  # 0.015 and 0.03: rounded
        (("0.01", "0.01"), []),
        (("1.51", "1.52"), ["resumed"]),
        (("0.5", "0.6"), ["resumed"]),
    ],
)
def test_only_a_first_loss_that_lies_further_on_tells_a_resumed_run(
    plain: Path, observe: Observe, epochs: tuple[str, str], flags: list[str]
) -> None:
    first, second = epochs
    text = PLAIN.replace("'epoch': 0.1}", f"'epoch': {first}}}", 1)
    plain.write_text(text.replace("'epoch': 0.2}", f"'epoch': {second}}}", 1), encoding="utf-8")
    (run,) = observe(plain, **SAID)
    assert [flag for flag in run.get("flags", []) if flag == "resumed"] == flags


def test_totals_that_the_script_prints_again_are_those_of_one_training(
    plain: Path, observe: Observe
) -> None:
    again = (
        "TrainOutput(global_step=500, training_loss=1.1, metrics={'train_runtime': 754.2, "
        "'train_samples_per_second': 10.607, 'train_loss': 1.1, 'epoch': 1.0})\n"
    )
    plain.write_text(PLAIN + again, encoding="utf-8")
    assert len(observe(plain, **SAID)) == 1


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{'loss': 1.2, 'gpu_memory_used': 47172.0, 'epoch': 0.2}", '"gpu_memory_used\': 47172.0"'),
        ("  train_mem_gpu_peaked_delta =    477MB", "'train_mem_gpu_peaked_delta =    477'"),
        ("Peak GPU memory: 18.42 GB", "'Peak GPU memory: 18.42 GB'"),
        ("max memory allocated = 17.1 GiB", "'max memory allocated = 17.1 GiB'"),
    ],
)
def test_memory_that_is_not_read_is_named(
    plain: Path, read: Callable[..., Imported], line: str, named: str
) -> None:
    plain.write_text(f"{line}\n{PLAIN}", encoding="utf-8")
    assert f"no memory: {named} is not read" in " ".join(read(plain, **SAID).missing)


@pytest.mark.parametrize("line", ["  train_mem_cpu_peaked_delta =    3MB", "Peak loss: 18.42"])
def test_memory_of_the_host_is_no_memory_of_a_card(
    plain: Path, read: Callable[..., Imported], line: str
) -> None:
    plain.write_text(f"{line}\n{PLAIN}", encoding="utf-8")
    assert "train.log: no memory" in read(plain, **SAID).missing


#: Lines of Liger-Kernel's examples/huggingface with the totals of the run.
LIGER = """********** Pre-Init Patching ***********
{'loss': 29.4636, 'grad_norm': 213.1, 'learning_rate': 6e-06, 'epoch': 0.0}
{'loss': 38.7507, 'epoch': 0.0, 'step': 2, 'step_time_sec': 2.43, 'avg_step_time_sec': 2.43, \
'total_peak_memory_allocated_MB': 40728.97, 'total_peak_memory_reserved_MB': 54272.0, \
'step_tokens_per_second': 9480.43, 'avg_tokens_per_second': 9480.43}
"""
LIGER_TOTALS = """{'train_runtime': 29.3781, 'train_samples_per_second': 32.677, \
'train_steps_per_second': 0.34, 'train_loss': 16.159214401245116, 'epoch': 0.02, \
'num_input_tokens_seen': 243456, 'step': 10, 'step_time_sec': 1.89, 'avg_step_time_sec': 2.66, \
'total_peak_memory_allocated_MB': 40729.03, 'total_peak_memory_reserved_MB': 54408.0, \
'step_tokens_per_second': 9367.21, 'avg_tokens_per_second': 9209.15}
"""


def test_ligers_callback_tells_memory_and_the_time_of_the_steps_alone(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (tmp_path / "run.log").write_text(LIGER + LIGER_TOTALS, encoding="utf-8")
    (run,) = observe(tmp_path, **SAID | {"gpu_id": "a100-80gb", "n_gpus": "4"})
    peaks = {row["kind"]: row for row in run["measurements"] if row["metric"] == "peak_memory"}
    assert peaks["allocated"]["value"] == 40729.03 * 2**20
    assert (peaks["reserved"]["value"], peaks["reserved"]["scope"]) == (54408 * 2**20, "per_gpu")
    assert figure(run, "step_time")["value"] == 2.66
    assert figure(run, "tokens_per_second")["value"] == 9209.15
    assert figure(run, "total_time")["value"] == 29.3781
    assert (figure(run, "n_steps")["value"], figure(run, "n_tokens")["value"]) == (10, 243_456)


def test_ligers_callback_tells_of_a_run_that_did_not_end(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (tmp_path / "run.log").write_text(LIGER, encoding="utf-8")
    (run,) = observe(tmp_path, **SAID | {"gpu_id": "a100-80gb"})
    assert run["outcome"] == "unknown"
    assert figure(run, "step_time")["value"] == 2.43
    assert figure(run, "n_steps")["value"] == 2


def test_losses_without_totals_are_refused_with_what_is_missing(
    plain: Path, read: Callable[..., Imported]
) -> None:
    plain.write_text("\n".join(PLAIN.splitlines()[:4]), encoding="utf-8")
    (refusal,) = read(plain, **SAID).refused
    assert refusal.reason.startswith(
        "losses of the Trainer without a time: found no line `{'train_runtime': "
    )
    assert "trainer_state.json" in refusal.reason


def test_a_middle_of_a_training_is_not_told_as_an_evaluation(
    plain: Path, read: Callable[..., Imported]
) -> None:
    line = "[INFO|trainer.py:3410] 2024-05-01 10:10:00,000 >> ***** Running Evaluation *****\n"
    plain.write_text(line + "\n".join(PLAIN.splitlines()[:4]), encoding="utf-8")
    (refusal,) = read(plain, **SAID).refused
    assert refusal.reason.startswith("losses of the Trainer without a time: found no line")


LISTED = """***** train metrics *****
  epoch                    =        5.0
  total_flos               = 38889053GF
  train_loss               =     2.2415
  train_runtime            = 0:16:08.44
  train_samples_per_second =      5.065
  train_steps_per_second   =       0.32
"""


@pytest.mark.parametrize(
    "behind", ["", "***** Running Evaluation *****\n{'eval_loss': 2.6, 'eval_runtime': 94.2}\n"]
)
def test_the_list_of_metrics_at_the_end_is_enough(
    behind: str, tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (tmp_path / "console.log").write_text(LISTED + behind, encoding="utf-8")
    (run,) = observe(tmp_path / "console.log", **SAID)
    assert run["outcome"] == "ok"
    time = figure(run, "total_time")
    bounds = (time["low"], time["value"], time["high"])
    assert bounds == pytest.approx((968.435, 968.44, 968.445))
    assert figure(run, "samples_per_second")["value"] == 5.065
    assert "flags" not in run or "includes_evaluation" not in run["flags"]


@pytest.mark.parametrize(
    ("clock", "seconds"),
    [("1 day, 5:21:43.37", 105_703.37), ("2 days, 0:00:01.00", 172_801), ("0:16:08.44", 968.44)],
)
def test_the_days_of_a_training_count(
    clock: str,
    seconds: float,
    tmp_path: Path,
    observe: Observe,
    figure: Callable[..., dict[str, Any]],
) -> None:
    listed = LISTED.replace("0:16:08.44", clock)
    (tmp_path / "run.log").write_text(listed, encoding="utf-8")
    (run,) = observe(tmp_path, model_id="gpt2", method="lora")
    assert figure(run, "total_time")["value"] == pytest.approx(seconds)


def test_two_lists_of_metrics_are_two_trainings(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    (tmp_path / "console.log").write_text(LISTED * 2, encoding="utf-8")
    (refusal,) = read(tmp_path / "console.log", **SAID).refused
    assert refusal.reason == "several training runs in one log; split it"


def test_a_training_that_someone_ended_is_interrupted(
    log: Path, tmp_path: Path, observe: Observe
) -> None:
    lines = log.read_text(encoding="utf-8").splitlines()[:-2]
    path = tmp_path / "stopped.txt"
    path.write_text("\n".join([*lines, "KeyboardInterrupt"]), encoding="utf-8")
    (run,) = observe(path, **SAID)
    end = "the log ends at step 2100 of 17000"
    assert (run["outcome"], run["outcome_detail"]) == ("interrupted", end)


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.22 GiB. GPU 0 has 23 GiB"
LOSS = "{'loss': 1.5, 'grad_norm': 0.5, 'learning_rate': 2e-4, 'epoch': 0.1}"


@pytest.mark.parametrize(
    "lines",
    [
        (LOSS, OOM),
        ('  File "/x/site-packages/transformers/trainer.py", line 3736, in training_step', OOM),
    ],
)
def test_a_trainer_that_ran_out_of_memory_is_an_oom(
    tmp_path: Path, observe: Observe, lines: tuple[str, ...]
) -> None:
    path = tmp_path / "console.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    (run,) = observe(path, model_id="qwen-7b", method="lora")
    assert run["outcome"] == "oom"
    assert run["outcome_detail"] == OOM.removeprefix("torch.")
    assert {row["metric"] for row in run.get("measurements", ())} <= {"train_loss"}


def test_what_ran_out_of_memory_without_a_trainer_is_none_of_it(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    path = tmp_path / "console.txt"
    path.write_text(f"starting\n{OOM}\n", encoding="utf-8")
    assert read(path).refused[0].reason.startswith("not recognized as a training log")


def test_a_training_that_ended_after_an_earlier_oom_is_ok(
    log: Path, tmp_path: Path, observe: Observe
) -> None:
    path = tmp_path / "console.txt"
    path.write_text(f"{OOM}\n{log.with_name('console.txt').read_text()}", encoding="utf-8")
    (run,) = observe(path)
    assert run["outcome"] == "ok"


def test_a_resumed_training_ran_out_of_memory_at_a_step_of_the_whole_run(
    tmp_path: Path, observe: Observe
) -> None:
    stamp = "[INFO|2024-11-26 22:07:15] trainer.py:2329 >>   "
    lines = [
        f"{stamp}Continuing training from global step 100",
        f"{stamp}***** Running training *****",
        f"{stamp}Num Epochs = 3",
        f"{stamp}Total optimization steps = 300",
        "{'loss': 1.5, 'learning_rate': 2e-4, 'epoch': 1.2, 'throughput': 1000.5}",
        OOM,
    ]
    path = tmp_path / "running_log.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    (run,) = observe(path, model_id="qwen-7b", method="lora")
    assert (run["outcome"], run["failed_step"], run["flags"]) == ("oom", 121, ["resumed"])


BOARD = """\
top.booster: flashattn2
top.finetuning_type: lora
top.model_name: Qwen2.5-7B-Instruct
top.quantization_bit: '4'
top.quantization_method: bnb
train.batch_size: 2
train.compute_type: bf16
train.cutoff_len: 1024
train.dataset: [a, b]
train.ds_stage: none
train.extra_args: '{"optim": "paged_adamw_8bit"}'
train.gradient_accumulation_steps: 4
train.lora_alpha: 32
train.lora_rank: 16
train.lora_target: ''
train.neat_packing: true
train.num_train_epochs: '3.0'
train.packing: false
train.training_stage: DPO
"""


def test_what_llama_board_keeps_of_a_run_are_its_settings(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    state = {"global_step": 10, "max_steps": 10, "log_history": [TOTALS_OF_STATE]}
    (tmp_path / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    (tmp_path / "llamaboard_config.yaml").write_text(BOARD, encoding="utf-8")
    (run,) = observe(tmp_path)
    found = run["configuration"]
    assert (found["model_id"], found["method"]) == ("qwen2.5-7b", "lora")
    assert (found["lora_rank"], found["lora_alpha"], found["quant_bits"]) == (16, 32, 4)
    assert (found["micro_batch_size"], found["grad_accum_steps"]) == (2, 4)
    assert (found["seq_len"], found["packing"], found["objective"]) == (1024, True, "dpo")
    assert (found["optimizer"], found["attention"]) == ("paged_adamw_8bit", "flash2")
    assert (found["dataset"], found["lora_target_modules"]) == ("a,b", ["all-linear"])
    assert run["environment"]["framework"] == "llama-factory"
    assert figure(run, "step_time")["value"] == 2


TOTALS_OF_STATE = {
    "epoch": 3.0,
    "step": 10,
    "train_loss": 1.0,
    "train_runtime": 20.0,
    "train_samples_per_second": 4.0,
    "train_steps_per_second": 0.5,
}


def test_llama_board_adds_to_a_running_log_and_yields_to_the_yaml_of_the_run(
    log: Path, tmp_path: Path, observe: Observe
) -> None:
    shutil.copy(log, tmp_path)
    settings = {"batch_size: 2": "batch_size: 1", "steps: 4": "steps: 64", "'4'": "none"}
    text = BOARD.replace("Qwen2.5-7B-Instruct", "Custom")
    for before, after in settings.items():
        text = text.replace(before, after)
    (tmp_path / "llamaboard_config.yaml").write_text(text, encoding="utf-8")
    (run,) = observe(tmp_path)
    assert (run["configuration"]["lora_rank"], run["configuration"]["lora_alpha"]) == (16, 32)
    assert run["model_reported"] == "deepseek-llm-7b-chat"
    yaml = SETTINGS.format(batch=1).replace("lora_rank: 16", "lora_rank: 4")
    (tmp_path / "training_args.yaml").write_text(yaml, encoding="utf-8")
    (run,) = observe(tmp_path)
    assert run["configuration"]["lora_rank"] == 4
    assert "llamaboard_config.yaml" not in run["provenance"]["files"]


def test_llama_board_without_a_run_says_what_is_expected(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    (tmp_path / "llamaboard_config.yaml").write_text(BOARD, encoding="utf-8")
    (refusal,) = read(tmp_path).refused
    assert refusal.reason.startswith("settings of LLaMA-Factory without their run; expected beside")


BANNER = """\
==((====))==  Unsloth - 2x faster free finetuning | Num GPUs = 1
   \\\\   /|    Num examples = 24,772 | Num Epochs = 1
O^O/ \\_/ \\    Batch size per device = 2 | Gradient Accumulation steps = 4
\\        /    Total batch size = 8 | Total steps = 60
{'loss': 2.149, 'learning_rate': 2e-4, 'epoch': 0.01}
{'loss': 1.149, 'learning_rate': 1e-4, 'epoch': 0.02}
{'train_runtime': 120.5, 'train_samples_per_second': 3.983, 'train_steps_per_second': 0.498, \
'train_loss': 1.3, 'epoch': 0.02}
"""


CARD = """\
==((====))==  Unsloth 2025.3.1: Fast Qwen3 patching. Transformers: 4.51.3.
   \\\\   /|    NVIDIA L4. Num GPUs = 1. Max memory: 22.161 GB. Platform: Linux.
"""
MEMORY = """\
Peak reserved memory = 5.541 GB.
Peak reserved memory for training = 1.2 GB.
Peak reserved memory % of max memory = {share} %.
"""


@pytest.mark.parametrize(("share", "flags"), [("25.003", []), ("60.1", ["figures_disagree"])])
def test_unsloths_console_tells_card_and_peak(
    tmp_path: Path,
    observe: Observe,
    figure: Callable[..., dict[str, Any]],
    share: str,
    flags: list[str],
) -> None:
    path = tmp_path / "train.log"
    parameters = '"-____-"     Trainable parameters = 1,024/4,096 (25.00% trained)\n'
    path.write_text(CARD + BANNER + parameters + MEMORY.format(share=share), encoding="utf-8")
    (run,) = observe(path, model_id="qwen-7b", method="lora")
    assert run["configuration"]["gpu_id"] == "l4"
    assert run["environment"]["transformers_version"] == "4.51.3"
    peak = figure(run, "peak_memory")
    assert (peak["value"], peak["kind"]) == (5.541 * 2**30, "reserved")
    assert figure(run, "trainable_params")["value"] == 1024
    assert all(one["metric"] != "n_params" for one in run["measurements"])
    assert run.get("flags", []) == flags


def test_the_memory_that_the_card_has_is_none_of_the_run(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    path = tmp_path / "train.log"
    path.write_text(CARD + BANNER, encoding="utf-8")
    missing = read(path, model_id="qwen-7b", method="lora").missing
    assert [text for text in missing if "memory" in text] == ["train.log: no memory"]


def test_unsloths_banner_tells_batch_and_steps(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    path = tmp_path / "train.log"
    path.write_text(BANNER, encoding="utf-8")
    (run,) = observe(path, model_id="qwen-7b", method="lora")
    found = run["configuration"]
    assert run["environment"]["framework"] == "unsloth"
    assert (found["n_gpus"], found["micro_batch_size"], found["grad_accum_steps"]) == (1, 2, 4)
    assert (run["outcome"], found["n_steps"], found["n_samples"]) == ("ok", 60, 24772)
    assert figure(run, "step_time")["value"] == pytest.approx(120.5 / 60)


STREAMED = """\
[INFO|trainer.py:2519] 2025-12-18 13:23:51,164 >> ***** Running training *****
[INFO|trainer.py:2520] 2025-12-18 13:23:51,164 >>   Num examples = 2,400
[INFO|trainer.py:2521] 2025-12-18 13:23:51,164 >>   Num Epochs = 9,223,372,036,854,775,807
[INFO|trainer.py:2522] 2025-12-18 13:23:51,164 >>   Instantaneous batch size per device = 1
[INFO|trainer.py:2525] 2025-12-18 13:23:51,164 >>   Total train batch size (w. parallel, \
distributed & accumulation) = 24
[INFO|trainer.py:2526] 2025-12-18 13:23:51,165 >>   Gradient Accumulation steps = 1
[INFO|trainer.py:2527] 2025-12-18 13:23:51,165 >>   Total optimization steps = 100
{'train_runtime': 299.1983, 'train_samples_per_second': 8.021, 'train_steps_per_second': 0.334, \
'train_loss': 2.85, 'epoch': 2.24}
100%|##########| 100/100 [04:59<00:00,  2.27s/it]
***** train metrics *****
  epoch                    =       2.24
  train_runtime            = 0:04:59.19
  train_samples            =      25000
  train_samples_per_second =      8.021
[INFO|trainer.py:4643] 2025-12-18 13:29:00,076 >> ***** Running Evaluation *****
[INFO|trainer.py:4645] 2025-12-18 13:29:00,076 >>   Num examples: Unknown
"""


def test_the_epochs_of_a_stream_are_no_count_of_samples(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (tmp_path / "run.log").write_text(STREAMED, encoding="utf-8")
    (run,) = observe(tmp_path, model_id="llama-2-7b", method="full")
    assert figure(run, "samples_per_second")["value"] == 8.021
    assert (run["configuration"]["n_gpus"], run["configuration"]["n_samples"]) == (24, 25000)
    assert "flags" not in run  # nor is the evaluation after the totals part of their time


def test_a_batch_that_did_not_fit_is_not_the_one_that_was_trained(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    begun = BANNER.partition("{'loss'")[0].replace("device = 2", "device = 4")
    text = begun.replace("steps = 60", "steps = 30") + BANNER
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    (run,) = observe(tmp_path, model_id="llama-2-7b", method="lora")
    assert run["configuration"]["micro_batch_size"] == 2
    assert figure(run, "n_steps")["value"] == 60


ENGINE = """\
[2023-08-10 11:02:11,001] [INFO] [config.py:957:print]   world_size ................... 8
[2023-08-10 11:02:11,001] [INFO] [config.py:957:print]   zero_optimization_stage ...... 2
[2023-08-10 11:12:11,001] [INFO] [timer.py:215:stop] epoch=0/micro_step=80/global_step=10, \
RunningAvgSamplesPerSec=8.5, CurrSamplesPerSec=8.6, MemAllocated=17.94GB, MaxMemAllocated=54.06GB
{'loss': 1.5, 'learning_rate': 5e-06, 'epoch': 0.01}
{'train_runtime': 17700.1, 'train_samples_per_second': 8.274, 'train_steps_per_second': 0.129, \
'train_loss': 1.2, 'epoch': 3.0}
100%|##########| 2286/2286 [4:55:00<00:00,  7.74s/it]
"""


def test_a_trainer_that_runs_on_deepspeed_is_read_by_its_totals(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (tmp_path / "run.log").write_text(ENGINE, encoding="utf-8")
    (run,) = observe(tmp_path, model_id="llama-2-7b", method="full")
    assert (run["outcome"], run["environment"]["framework"]) == ("ok", "transformers")
    assert figure(run, "total_time")["value"] == 17700.1
    assert figure(run, "n_steps")["value"] == 2286  # not 10, where the engine last wrote a line
    peak = figure(run, "peak_memory")
    assert (peak["value"], peak["kind"]) == (54.06 * 2**30, "allocated")
    assert (run["configuration"]["n_gpus"], run["configuration"]["sharding"]) == (8, "zero2")


def test_the_time_that_a_script_after_unsloths_template_prints_is_the_total(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    path = tmp_path / "train.log"
    head = "".join(line for line in BANNER.splitlines(keepends=True) if "train_" not in line)
    spent = "1664.6966 seconds used for training.\n27.74 minutes used for training.\n"
    losses = "".join(line for line in head.splitlines(keepends=True) if "'loss'" in line)
    path.write_text(CARD + losses + spent + MEMORY.format(share="25.003"), encoding="utf-8")
    (run,) = observe(path, model_id="llama-3.1-8b", method="lora")
    assert run["configuration"]["gpu_id"] == "l4"
    assert run["outcome"] == "ok"
    assert figure(run, "total_time")["value"] == 1664.6966
    assert figure(run, "peak_memory")["kind"] == "reserved"


def test_the_memory_that_the_trainer_prints_in_its_totals_is_the_runs(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    totals = {
        "train_runtime": 191.2,
        "train_loss": 1.06,
        "init_mem_gpu_alloc_delta": 0,
        "train_mem_gpu_alloc_delta": -17491768832,
        "train_mem_gpu_peaked_delta": 26747825664,
        "before_init_mem_gpu": 36141687296,
    }
    (tmp_path / "train.log").write_text(f"{totals}\n", encoding="utf-8")
    (run,) = observe(tmp_path / "train.log", model_id="llama-3-8b", method="full")
    peak = figure(run, "peak_memory")
    assert (peak["value"], peak["kind"]) == (45397744128, "allocated")
