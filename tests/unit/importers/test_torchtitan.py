"""Logs of torchtitan: its rates and memory are of one GPU, and of the ranks one is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]
    Figure = Callable[..., dict[str, Any]]


def test_the_first_line_is_no_speed_and_the_rate_is_of_one_gpu(
    fixtures: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(fixtures / "torchtitan" / "full.log")
    rate = figure(run, "tokens_per_second")
    assert (rate["value"], rate["scope"], rate["statistic"]) == (7026, "per_gpu", "median")
    assert figure(run, "step_time")["value"] == pytest.approx((2 * 60 - 4.666) / 99)
    peak = figure(run, "peak_memory")
    assert (peak["value"], peak["kind"]) == (49.59 * 2**30, "reserved")
    assert run["outcome"] == "ok"


def test_the_start_states_batch_length_model_and_cards(fixtures: Path, observe: Observe) -> None:
    (run,) = observe(fixtures / "torchtitan" / "full.log")
    stated = {
        "model_id": "llama-3-8b",
        "gpu_id": "h200",
        "n_gpus": 8,
        "method": "full",
        "micro_batch_size": 1,
        "global_batch_size": 8,
        "seq_len": 8192,
        "sharding": "fsdp",
        "gradient_checkpointing": True,
    }
    assert stated.items() <= run["configuration"].items()


def test_lines_of_several_ranks_and_of_validations_count_once(
    fixtures: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(fixtures / "torchtitan" / "ranks.log")
    assert figure(run, "peak_memory")["value"] == 66.91 * 2**30
    assert figure(run, "flops_per_second")["value"] == 313.36e12
    assert figure(run, "n_steps")["value"] == 2
    assert (run["flags"], run["outcome"]) == (["resumed"], "unknown")


def test_a_new_mesh_gives_the_parallel_sizes_and_experts_share_its_gpus(
    fixtures: Path, observe: Observe
) -> None:
    (run,) = observe(fixtures / "torchtitan" / "ranks.log")
    configuration = run["configuration"]
    assert (configuration["n_gpus"], configuration["tensor_parallel"]) == (8, 2)
    assert (configuration["expert_parallel"], configuration["seq_len"]) == (4, 4096)


LORA = "[titan] x - LoRA training active with rank=16, alpha=32.0, target_modules=['wq']\n"


def test_lora_colours_and_the_first_of_the_ranks_are_read(
    fixtures: Path, tmp_path: Path, observe: Observe, figure: Figure
) -> None:
    text = (fixtures / "torchtitan" / "full.log").read_text(encoding="utf-8")
    coloured = text.replace("memory:", "\x1b[36mmemory:").replace("tps:", "\x1b[34mtps:")
    other = text.splitlines()[9].replace("rank0", "rank1").replace("7,026", "9,999")
    (tmp_path / "run.log").write_text(LORA + coloured + other, encoding="utf-8")
    (run,) = observe(tmp_path)
    assert (run["configuration"]["method"], run["configuration"]["lora_rank"]) == ("lora", 16)
    assert figure(run, "tokens_per_second")["value"] == 7026


def test_steps_that_go_back_and_memory_that_ran_out_are_told(
    fixtures: Path, tmp_path: Path, read: Callable[..., Imported], observe: Observe
) -> None:
    text = (fixtures / "torchtitan" / "full.log").read_text(encoding="utf-8")
    (tmp_path / "two.log").write_text(text + text, encoding="utf-8")
    (refusal,) = read(tmp_path).refused
    assert refusal.reason.startswith("its steps go back from 100 to 1")
    lines = text.splitlines()[:-2]
    (tmp_path / "two.log").write_text("\n".join([*lines, "torch.OutOfMemoryError: CUDA out of"]))
    (run,) = observe(tmp_path)
    assert (run["outcome"], run["failed_step"]) == ("oom", 41)


@pytest.mark.parametrize(
    "change",
    [
        ("memory: 49.59GiB", "memory: 1.2.3GiB"),
        ("memory: 49.59GiB", "memory: .GiB"),
        ("tps: 6,856", "tps: ,"),
        ("tps: 6,856", "tps: 6,856  tflops: ..,"),
        ("Training completed", "LoRA training active with rank=8, alpha=1.2.3"),
    ],
)
def test_what_is_no_number_is_passed_over(
    fixtures: Path, tmp_path: Path, observe: Observe, figure: Figure, change: tuple[str, str]
) -> None:
    text = (fixtures / "torchtitan" / "full.log").read_text(encoding="utf-8")
    head, _, tail = text.rpartition(change[0])
    (tmp_path / "run.log").write_text(head + change[1] + tail, encoding="utf-8")
    (run,) = observe(tmp_path)
    assert figure(run, "peak_memory")["value"] == 49.59 * 2**30
