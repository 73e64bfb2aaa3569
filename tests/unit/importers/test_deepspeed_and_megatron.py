"""DeepSpeed and Megatron on lines that they printed in trainings others published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]
    Figure = Callable[..., dict[str, Any]]
    Read = Callable[..., Imported]

STATED = {"model_id": "llama-2-7b", "method": "full"}


@pytest.fixture
def logs(fixtures: Path) -> Path:
    return fixtures / "deepspeed"


@pytest.fixture
def megatron(fixtures: Path) -> Path:
    return fixtures / "megatron"


def test_the_command_of_deepspeed_chat_names_model_method_and_batch(
    logs: Path, observe: Observe
) -> None:
    (run,) = observe(logs / "sft.log")
    assert run["configuration"] == {
        "model_id": "opt-1.3b", "method": "full", "sharding": "zero2", "seq_len": 512,
        "micro_batch_size": 8, "grad_accum_steps": 1, "global_batch_size": 128, "n_gpus": 16,
        "n_epochs": 16,
    }  # fmt: skip
    assert run["inferences"]["n_gpus"] == (
        "samples/s x seconds of a step by the log's clock: 128.1 samples, 8 on each"
    )
    assert run["outcome"] == "ok"  # its processes exit successfully


def test_a_round_of_rlhf_is_timed_as_a_whole(
    logs: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (run,) = observe(logs / "rlhf.log")
    assert run["configuration"]["objective"] == "ppo"
    assert "n_gpus" not in run["configuration"]
    assert figure(run, "step_time")["value"] == pytest.approx(3.875)
    assert figure(run, "samples_per_second")["value"] == 15.06  # not 86.8, the engine's own
    assert figure(run, "n_steps")["value"] == 10


def test_an_engine_that_counts_more_than_its_timer_was_resumed(
    logs: Path, observe: Observe
) -> None:
    (run,) = observe(logs / "resumed.log", **STATED)
    assert run["flags"] == ["resumed", "short_run"]
    assert run["inferences"]["flags"] == "the engine counts 136008 steps, its timer 8"
    assert run["configuration"]["n_gpus"] == 3072


def test_a_rate_of_skipped_steps_is_flagged(logs: Path, observe: Observe) -> None:
    (run,) = observe(logs / "skipped.log", **STATED)
    assert run["flags"] == ["short_run"]  # 17 of 30 were skipped


def test_deepspeed_chats_own_line_is_of_one_process(
    logs: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (run,) = observe(logs / "chat.log", **STATED)
    rate = figure(run, "samples_per_second")
    assert (rate["value"], rate["scope"], rate["device_index"]) == (20, "per_gpu", 0)
    assert run["configuration"]["micro_batch_size"] == 8


def test_autotunings_bounds_are_no_batch(tmp_path: Path, logs: Path, observe: Observe) -> None:
    log = tmp_path / "run.log"
    bounds = '    "min_train_batch_size": 1,\n    "min_train_micro_batch_size_per_gpu": 1,\n'
    text = (logs / "train.log").read_text(encoding="utf-8")
    log.write_text(bounds + text, encoding="utf-8")
    (run,) = observe(log, **STATED)
    assert run["configuration"]["micro_batch_size"] == 4
    assert run["configuration"]["global_batch_size"] == 64


@pytest.mark.parametrize(("folder", "name"), [("deepspeed", "train"), ("megatron", "interval")])
def test_steps_that_go_back_are_refused_and_other_logs_read(
    fixtures: Path, tmp_path: Path, read: Callable[..., Imported], folder: str, name: str
) -> None:
    text = (fixtures / folder / f"{name}.log").read_text(encoding="utf-8")
    (tmp_path / "one.log").write_text(text, encoding="utf-8")
    (tmp_path / "two.log").write_text(text + text, encoding="utf-8")
    found = read(tmp_path, **STATED)
    (refusal,) = found.refused
    assert refusal.path.name == "two.log"
    assert "several runs, or a restart, in one file; split it" in refusal.reason
    (run,) = found.submissions[0]["observations"]
    assert list(run["provenance"]["files"]) == ["one.log"]


def test_a_line_of_ten_iterations_holds_the_warm_up(
    megatron: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (run,) = observe(megatron / "interval.log", **STATED)
    time = figure(run, "step_time")
    assert (time["value"], time["reason"]) == (0.7794, "of 3 lines, the first 1 left out")
    assert "flags" not in run  # a checkpoint of iteration 0 is another model's weights


def test_a_checkpoint_of_a_later_iteration_is_a_resumed_run(
    megatron: Path, tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    text = (megatron / "interval.log").read_text(encoding="utf-8")
    (tmp_path / "run.log").write_text(text.replace("iteration 0\n", "iteration 5\n"), "utf-8")
    (run,) = observe(tmp_path / "run.log", **STATED)
    assert run["flags"] == ["resumed"]
    assert figure(run, "n_steps")["value"] == 35
    with (tmp_path / "run.log").open("a", encoding="utf-8") as file:
        file.write("\ntorch.OutOfMemoryError: CUDA out of memory.\n")
    (failed,) = observe(tmp_path / "run.log", **STATED)
    assert (failed["outcome"], failed["failed_step"]) == ("oom", 41)


def test_the_memory_of_ms_swifts_megatron_trainer_is_read(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    lines = [
        f" [2026-01-20 08:{minute}:00] iteration {step:8}/ 206 | consumed samples: 320 | elapsed "
        f"time per iteration (ms): {1e5 + step} | memory(GiB): {memory} | global batch size: 64 |"
        for step, minute, memory in ((5, 10, 21.54), (10, 20, 21.56), (15, 30, 21.56))
    ]
    (tmp_path / "swift.log").write_text("\n".join(lines), encoding="utf-8")
    said = {"model_id": "qwen3-30b-a3b", "method": "lora", "gpu_id": "h100-80gb"}
    (run,) = observe(tmp_path / "swift.log", **said)
    peak = figure(run, "peak_memory", kind="reserved", scope="max_gpu")
    assert peak["value"] == pytest.approx(21.56 * 2**30)


def test_mindspeed_divides_by_two_to_the_thirty_what_it_calls_gb(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    lines = [
        f"INFO [2026-06-22 19:28:4{step}] >>  iteration {step:8}/    2000 | consumed samples: 8 | "
        f"consumed tokens: 32768 | elapsed time per iteration (ms): {time} | tokens/s: {tokens} | "
        "mfu: 31.20 | learning rate: 9.999994E-06 | global batch size:     8 | lm loss: "
        f"1.304194E+00 | max_memory_allocated(GB): {peak} | max_memory_reserved(GB): 25.59 |"
        for step, time, tokens, peak in (
            (1, 10520.6, 3114.6, 19.07),
            (2, 1879.9, 17430.7, 19.65),
            (3, 1770.0, 18513.0, 19.65),
            (4, 1769.0, 18523.0, 19.65),
        )
    ]
    (tmp_path / "train.log").write_text("\n".join(lines), encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert run["environment"]["framework"] == "mindspeed-llm"
    assert figure(run, "peak_memory", kind="allocated")["value"] == 19.65 * 2**30
    assert figure(run, "peak_memory", kind="reserved", scope="max_gpu")["value"] == 25.59 * 2**30
    assert figure(run, "tokens_per_second", scope="total")["value"] == 18_523.0
    assert figure(run, "step_time")["value"] == pytest.approx(1.769)


def test_megatron_bridges_gigabytes_are_decimal(
    megatron: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (run,) = observe(megatron / "bridge.log", **STATED)
    assert figure(run, "peak_memory", kind="allocated")["value"] == 153_400_000_000
    assert figure(run, "peak_memory", kind="active")["value"] == 169_960_000_000
    assert figure(run, "flops_per_second")["value"] == 663.5e12
    assert run["outcome"] == "ok"


def test_of_two_figures_the_first_is_that_of_the_iteration(
    megatron: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (run,) = observe(megatron / "hip.log", **STATED)
    assert figure(run, "step_time")["value"] == 13.3728
    assert figure(run, "tokens_per_second")["value"] == 9801.4
    assert figure(run, "peak_memory", kind="device")["value"] == 153.81 * 2**30


def test_nemo_prints_bytes_and_an_excerpt_has_no_warm_up(
    megatron: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (run,) = observe(megatron / "nemo_bytes.log", **STATED)
    assert figure(run, "peak_memory", kind="reserved")["value"] == 64_286_097_408
    assert figure(run, "peak_memory", kind="allocated")["value"] == 62_777_982_976
    assert figure(run, "flops_per_second")["value"] == 866.9e12
    assert figure(run, "step_time")["reason"] == "of 3 lines"


def test_megatron_deepspeed_has_its_memory_in_the_engines_line(
    megatron: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (run,) = observe(megatron / "deepspeed.log", **STATED)
    assert figure(run, "peak_memory")["value"] == 19.52 * 2**30
    assert run["configuration"]["seq_len"] == 4096
    assert figure(run, "tokens_per_second")["value"] == pytest.approx(1136.723)


def test_a_megatron_that_ran_out_of_memory_keeps_the_speed_of_its_steps(
    megatron: Path, tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    text = (megatron / "interval.log").read_text(encoding="utf-8")
    (tmp_path / "run.log").write_text(f"{text}\ntorch.OutOfMemoryError: CUDA out of memory.\n")
    (run,) = observe(tmp_path, **STATED)
    assert (run["outcome"], run["failed_step"]) == ("oom", 41)
    assert run["inferences"]["failed_step"] == "the step after the last that the log shows"
    assert figure(run, "step_time")["value"] == 0.7794


def test_a_log_of_nothing_but_its_first_iteration_is_a_short_run(
    tmp_path: Path, observe: Observe
) -> None:
    line = (
        " [2025-05-27 15:23:07] iteration        1/    24000 | consumed samples:         1024 | "
        "elapsed time per iteration (ms): 271607.0 | global batch size:  1024 | "
        "lm loss: 1.192634E+01 | number of nan iterations:    0 |"
    )
    (tmp_path / "run.log").write_text(line, encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert run["flags"] == ["short_run"]


def test_gpt_neox_writes_the_samples_of_all_processes_before_the_iteration(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    line = (
        " samples/sec: 7.799 | iteration    34/   10000 | elapsed time per iteration (ms): 4103.1"
        " | learning rate: 2.111E-06 | approx flops per GPU: 112.9TFLOPS | lm_loss: 1.118665E+01 |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )
    (tmp_path / "run.log").write_text(line, encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert run["environment"]["framework"] == "gpt-neox"
    samples, flops = figure(run, "samples_per_second"), figure(run, "flops_per_second")
    assert (samples["value"], samples["scope"]) == (7.799, "total")
    assert (flops["value"], flops["scope"]) == (112.9e12, "per_gpu")


def _bar(done: int, of: int, seconds: float, epoch: int = 0) -> str:
    """NeMo's bar, as published consoles of 2024 have it."""
    return (
        f"Epoch {epoch}: : {100 * done // of:3d}%|████▋     | {done}/{of} [06:19<07:13, v_num=0, "
        f"reduced_train_loss=11.50, global_step={done - 1}.000, consumed_samples=12288.0, "
        f"train_step_timing in s={seconds:.2f}, val_loss=0.0917]"
    )


def test_the_bar_of_nemo_is_read_as_it_was_drawn_last(
    tmp_path: Path, observe: Observe, figure: Figure
) -> None:
    steps = [_bar(n, 8, 60 if n < 4 else 40 + n) for n in range(1, 8)]
    drawn = "\r".join([*steps[:5], _bar(5, 8, 45), *steps[5:]])
    (tmp_path / "nemo.out").write_text(f"{drawn}\n", "utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert run["environment"]["framework"] == "nemo"
    assert figure(run, "step_time")["value"] == pytest.approx(45.5)  # of 44, 45, 46 and 47
    assert figure(run, "n_steps")["value"] == 7
    assert run["outcome_detail"] == "the log ends at iteration 6 of 7"


def test_bars_of_several_epochs_go_on_and_those_that_go_back_are_refused(
    tmp_path: Path, read: Read, observe: Observe, figure: Figure
) -> None:
    log = tmp_path / "nemo.out"
    epochs = [_bar(n, 3, 2, epoch) for epoch in range(2) for n in range(1, 4)]
    log.write_text("\n".join(epochs), "utf-8")
    (run,) = observe(log, **STATED)
    assert (figure(run, "n_steps")["value"], run["outcome"]) == (6, "ok")
    log.write_text("\n".join([*epochs, epochs[2]]), "utf-8")
    (refusal,) = read(log, **STATED).refused
    assert "its steps go back from 5 to 2" in refusal.reason
