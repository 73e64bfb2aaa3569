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


RUN = {"model_id": "qwen2.5-0.5b", "method": "lora"}


def write_log(folder: Path, *entries: dict[str, Any]) -> Path:
    text = "".join(json.dumps(entry) + "\n" for entry in entries)
    (folder / "logging.jsonl").write_text(text, encoding="utf-8")
    return folder


def entry(step: int, elapsed: str, **more: Any) -> dict[str, Any]:
    return {"loss": 1.0, "global_step/max_steps": f"{step}/8", "elapsed_time": elapsed, **more}


def test_a_training_that_stopped_before_its_first_loss_is_a_training(
    tmp_path: Path, observe: Observe
) -> None:
    evaluated = {"eval_loss": 1.2, "eval_runtime": 10.1, "elapsed_time": "1m 2s"}
    log = write_log(tmp_path, {**evaluated, "global_step/max_steps": "4/8"})
    (run,) = observe(log, **RUN)
    assert (run["outcome"], run["outcome_detail"]) == ("unknown", "the log ends at step 4 of 8")


def test_a_real_run_takes_the_totals_of_its_last_line(
    fixtures: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (observation,) = observe(fixtures / "ms_swift")
    assert observation["environment"]["framework_version"] == "4.6.0"
    assert observation["flags"] == ["includes_evaluation"]
    assert figure(observation, "total_time")["value"] == 6.4808
    assert figure(observation, "eval_time")["value"] == pytest.approx(0.01)
    assert figure(observation, "steps_per_second")["value"] == pytest.approx(8 / 6.4808)


@pytest.mark.parametrize(
    ("data", "longest"),
    [
        ("287.505147±102.300820, min=63.000000, max=1005.000000, size=6994", [1005]),
        ("287.505147±102.300820, min=63.000000, max=2048.000000, size=6994", []),  # as it allows
        ("max=many, size=6994", []),
    ],
)
def test_the_datas_longest_sample_is_told_where_longer_ones_are_allowed(
    tmp_path: Path, observe: Observe, data: str, longest: list[int]
) -> None:
    (tmp_path / "args.json").write_text(
        json.dumps({"tuner_type": "lora", "model": "Qwen/Qwen2.5-0.5B", "max_length": 2048})
    )
    log = write_log(tmp_path, entry(8, "1m 2s"), {"train_dataset": data})
    (run,) = observe(log, **RUN)
    found = [row for row in run["measurements"] if row["metric"] == "sequence_length"]
    assert [row["value"] for row in found] == longest
    assert run["configuration"]["n_samples"] == 6994


@pytest.mark.parametrize(
    ("settings", "data", "longest"),
    [
        ({"max_length": "2048"}, "max=1005.000000, size=6994", [1005]),
        ({"max_length": [2048]}, "max=1005.000000, size=6994", []),
        ({"max_length": 2048}, "max=0.000000, size=6994", []),
        ({"max_length": 2048, "packing": True}, "max=1005.000000, size=6994", []),
    ],
)
def test_a_longest_sample_is_told_only_of_a_sequence_below_a_limit(
    tmp_path: Path,
    read: Callable[..., Imported],
    settings: dict[str, Any],
    data: str,
    longest: list[int],
) -> None:
    arguments = {"tuner_type": "lora", "model": "Qwen/Qwen2.5-0.5B", **settings}
    (tmp_path / "args.json").write_text(json.dumps(arguments))
    found = read(write_log(tmp_path, entry(8, "1m 2s"), {"train_dataset": data}), **RUN)
    (run,) = (run for one in found.submissions for run in one["observations"])
    told = [row["value"] for row in run["measurements"] if row["metric"] == "sequence_length"]
    assert told == longest


def test_defaults_of_a_quantization_that_is_not_used_are_left_out(
    fixtures: Path, observe: Observe
) -> None:
    (observation,) = observe(fixtures / "ms_swift")
    assert not {"quant_type", "quant_bits", "double_quant"} & observation["configuration"].keys()


def test_memory_is_the_largest_entry_in_gibibytes_even_as_text(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    log = write_log(
        tmp_path,
        entry(4, "4s", **{"memory(GiB)": "16.56"}),
        entry(8, "8s", **{"memory(GiB)": "16.5"}),
    )
    (observation,) = observe(log, **RUN)
    peak = figure(observation, "peak_memory")
    assert peak["value"] == 16.56 * 2**30
    assert (peak["kind"], peak["scope"]) == ("reserved", "max_gpu")


@pytest.mark.parametrize(
    ("key", "metric"),
    [("train_speed(iter/s)", "steps_per_second"), ("train_speed(s/it)", "step_time")],
)
def test_the_speed_of_an_unfinished_log_is_steps(
    tmp_path: Path,
    observe: Observe,
    figure: Callable[..., dict[str, Any]],
    key: str,
    metric: str,
) -> None:
    (observation,) = observe(write_log(tmp_path, entry(4, "4s", **{key: "0.5"})), **RUN)
    assert observation["outcome"] == "unknown"
    assert figure(observation, metric)["value"] == 0.5


def test_a_log_without_settings_says_so(
    tmp_path: Path, fixtures: Path, read: Callable[..., Imported]
) -> None:
    shutil.copyfile(fixtures / "ms_swift" / "logging.jsonl", tmp_path / "logging.jsonl")
    assert read(tmp_path, **RUN).missing == (
        "logging.jsonl: no memory",
        "logging.jsonl: no settings (args.json)",
    )


CONSOLE = """\
Train:   0%|          | 0/40 [00:00<?, ?it/s][INFO:swift] use_logits_to_keep: True
Train:   2%|2         | 1/40 [01:08<44:41, 68.75s/it]{'loss': '0.3605', 'epoch': '0.129', \
'global_step/max_steps': '1/40', 'elapsed_time': '1m 9s', 'memory(GiB)': '11.15', \
'train_speed(s/it)': '68.75'}
Train:  12%|1         | 5/40 [06:05<43:34, 74.69s/it]{'loss': '0.3135', 'epoch': '0.6452', \
'global_step/max_steps': '5/40', 'elapsed_time': '6m 5s', 'memory(GiB)': '11.17', \
'train_speed(s/it)': '73.07'}
"""
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.22 GiB."


def test_a_console_has_the_entries_of_the_log(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    path = tmp_path / "train.log"
    path.write_text(CONSOLE, encoding="utf-8")
    (run,) = observe(path, model_id="qwen-7b", method="lora")
    assert (run["outcome"], run["configuration"]["n_steps"]) == ("unknown", 40)
    assert figure(run, "step_time")["value"] == 73.07
    assert figure(run, "peak_memory")["value"] == 11.17 * 2**30
    path.write_text(CONSOLE + OOM, encoding="utf-8")
    (run,) = observe(path, model_id="qwen-7b", method="lora")
    assert (run["outcome"], run["failed_step"]) == ("oom", 6)


def test_of_several_consoles_beside_each_other_none_is_taken(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text(CONSOLE, encoding="utf-8")
    reasons = {refusal.reason for refusal in read(tmp_path).refused}
    assert reasons == {"several consoles next to each other (a.log, b.log); name one"}


@pytest.mark.parametrize(("epochs", "longest"), [("0.0229", []), ("1.0", [1005]), (2, [1005])])
def test_the_longest_sample_is_told_of_a_run_over_all_the_data(
    tmp_path: Path, observe: Observe, epochs: Any, longest: list[int]
) -> None:
    arguments = {"tuner_type": "lora", "model": "Qwen/Qwen2.5-0.5B", "max_length": 2048}
    (tmp_path / "args.json").write_text(json.dumps(arguments))
    summary = {"train_dataset": "max=1005.000000, size=6994"}
    (run,) = observe(write_log(tmp_path, entry(8, "1m 2s", epoch=epochs), summary), **RUN)
    told = [row["value"] for row in run["measurements"] if row["metric"] == "sequence_length"]
    assert told == longest


_CONSOLE = """\
[INFO:swift] rank: {rank}, local_rank: {rank}, world_size: {world}, local_world_size: {world}
[INFO:swift] Setting args.gradient_accumulation_steps: 16
[INFO:swift] args: {args}
[INFO:swift] Dataset Token Length: 172.068281±93.875049, min=36.000000, max=866.000000, size=48330
[INFO:swift] Dataset Token Length: 173.094262±91.890054, min=43.000000, max=473.000000, size=488
[INFO:swift] model_parameter_info: PeftModelForCausalLM: 498.4320M Params (4.3991M Trainable)
{{'loss': 1.9, 'memory(GiB)': 2.11, 'train_speed(iter/s)': 1.5, 'epoch': 1.0, {step}}}
"""
_STEP = "'global_step/max_steps': '5/9060', 'elapsed_time': '3s'"
_ON_LINES = """TrainArguments(
accelerator_config={'dispatch_batches': False},
bf16=True,
fsdp=,
gradient_accumulation_steps=None,
gradient_checkpointing=True,
lora_alpha=32,
lora_rank=8,
max_length=2048,
model=/data/hub/models/Qwen/Qwen2.5-0.5B-Instruct,
per_device_train_batch_size=2,
target_modules=['all-linear'],
task_type=causal_lm,
torch_dtype=torch.bfloat16,
train_type=lora,
)"""


@pytest.mark.parametrize("on_lines", [True, False])
@pytest.mark.parametrize(("world", "n_gpus"), [(4, 4), (1, None)])
def test_a_console_lists_its_arguments(  # noqa: PLR0913 - fixtures, and what is varied
    tmp_path: Path,
    observe: Observe,
    figure: Callable[..., dict[str, Any]],
    *,
    on_lines: bool,
    world: int,
    n_gpus: int | None,
) -> None:
    args = _ON_LINES
    if not on_lines:
        args = (
            args.replace("\n", " ")
            .replace("model=/data/hub/models/Qwen/", "model='")
            .replace("Instruct,", "Instruct',")
        )
    text = _CONSOLE.format(args=args, world=world, rank=0, step=_STEP)
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    (run,) = observe(tmp_path)
    stated = {
        "model_id": "qwen2.5-0.5b",
        "method": "lora",
        "lora_rank": 8,
        "lora_alpha": 32,
        "lora_target_modules": ["all-linear"],
        "micro_batch_size": 2,
        "grad_accum_steps": 16,
        "seq_len": 2048,
        "compute_dtype": "bf16",
        "param_dtype": "bf16",
        "gradient_checkpointing": True,
        "objective": "sft",
        "n_samples": 48330,
    }
    assert stated.items() <= run["configuration"].items()
    assert run["configuration"].get("n_gpus") == n_gpus
    assert figure(run, "sequence_length")["value"] == 866
    assert figure(run, "trainable_params")["value"] == 4_399_100
    assert "sharding" not in run["configuration"]


def test_one_process_on_the_first_card_alone_is_one_card(tmp_path: Path, observe: Observe) -> None:
    text = _CONSOLE.format(args=_ON_LINES, world=1, rank=-1, step=_STEP)
    text = text.replace(
        "[INFO:swift] Dataset", "model_kwargs: {'device_map': 'cuda:0'}\nDataset", 1
    )
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    (run,) = observe(tmp_path)
    assert run["configuration"]["n_gpus"] == 1


def test_a_notebook_of_a_run_that_ended_is_read_as_its_console(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    totals = (
        "{'train_runtime': 20.5, 'train_samples_per_second': 15.6, 'train_steps_per_second': 0.5, "
        "'train_loss': 1.2, 'epoch': 1.0, 'global_step/max_steps': '10/10', 'elapsed_time': '20s'}"
    )
    step = _STEP.replace("5/9060", "10/10")
    printed = _CONSOLE.format(args=_ON_LINES, world=2, rank=0, step=step) + totals
    cell = {
        "cell_type": "code",
        "source": "!swift sft",
        "outputs": [{"output_type": "stream", "name": "stdout", "text": printed}],
    }
    (tmp_path / "run.ipynb").write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    (run,) = observe(tmp_path)
    assert run["environment"]["framework"] == "ms-swift"
    assert (run["configuration"]["model_id"], run["configuration"]["n_gpus"]) == ("qwen2.5-0.5b", 2)
    assert figure(run, "total_time")["value"] == 20.5
    assert figure(run, "peak_memory")["kind"] == "reserved"
