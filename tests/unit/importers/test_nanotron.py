"""nanotron on lines of trainings that others published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from registry.importers.nanotron import parse_figure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]
    Read = Callable[..., Imported]
    Figure = Callable[..., dict[str, Any]]

STATED = {"model_id": "llama-3.2-1b"}
SIZES = """\
[INFO|DP=0|PP=0|TP=0]:        parallelism=ParallelismArgs(dp=2,
[INFO|DP=0|PP=0|TP=0]:                                    pp=1,
[INFO|DP=0|PP=0|TP=0]:                                    tp=4,
[INFO|DP=0|PP=0|TP=0]:                                    expert_parallel_size=1),
"""


@pytest.fixture
def logs(fixtures: Path) -> Path:
    return fixtures / "nanotron"


def test_the_first_iterations_are_no_speed(logs: Path, observe: Observe, figure: Figure) -> None:
    (run,) = observe(logs / "train.log", **STATED)
    step = figure(run, "step_time")  # of 8.95, 673 and 9.41 ms
    assert step["value"] == pytest.approx(9.41e-3)
    assert (step["low"], step["high"]) == pytest.approx((9.405e-3, 9.415e-3))
    assert step["reason"] == "of 3 lines, the first 3 left out"
    assert figure(run, "tokens_per_second")["value"] == 54_400
    assert figure(run, "flops_per_second")["value"] == pytest.approx(9.36e9)
    assert figure(run, "n_steps")["value"] == 15
    assert run["outcome"] == "ok"


def test_the_start_of_a_training_says_batch_and_length(logs: Path, observe: Observe) -> None:
    (run,) = observe(logs / "train.log", **STATED)
    assert run["configuration"] == {
        "model_id": "llama-3.2-1b", "method": "full", "seq_len": 256, "micro_batch_size": 2,
        "grad_accum_steps": 1, "global_batch_size": 2, "n_gpus": 1,
    }  # fmt: skip


def test_peaks_are_the_largest_around_an_iteration(
    logs: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "train.log", **STATED)
    assert figure(run, "peak_memory", kind="allocated")["value"] == 309.29 * 2**20
    assert figure(run, "peak_memory", kind="reserved")["value"] == 496 * 2**20


def test_reserved_memory_of_an_iteration_is_in_bytes_of_three_digits(
    logs: Path, observe: Observe, figure: Figure
) -> None:
    (run,) = observe(logs / "reserved.log", **STATED)
    peak = figure(run, "peak_memory")
    assert (peak["kind"], peak["value"], peak["raw"]) == ("reserved", 547e6, "547M")
    assert (peak["low"], peak["high"]) == (546.5e6, 547.5e6)


def test_gpus_are_counted_where_the_rounding_leaves_one_number(
    logs: Path, observe: Observe
) -> None:
    (eight,) = observe(logs / "reserved.log", **STATED)
    assert eight["configuration"]["n_gpus"] == 8
    (many,) = observe(logs / "tokens.log", **STATED)  # 259.5 to 261.3
    assert "n_gpus" not in many["configuration"]


def test_batches_in_tokens_are_no_samples(logs: Path, observe: Observe, figure: Figure) -> None:
    (run,) = observe(logs / "tokens.log", **STATED)
    assert "global_batch_size" not in run["configuration"]
    assert figure(run, "step_time")["value"] == pytest.approx(8.765)
    assert run["outcome_detail"] == "the log ends at iteration 211365 of 1500000"
    (older,) = observe(logs / "reserved.log", **STATED)
    assert older["configuration"]["global_batch_size"] == 20


def test_the_printed_sizes_are_those_of_the_run(
    logs: Path, tmp_path: Path, observe: Observe
) -> None:
    text = SIZES + (logs / "reserved.log").read_text(encoding="utf-8")
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    sizes = {"tensor_parallel": 4, "pipeline_parallel": 1, "expert_parallel": 1, "n_gpus": 8}
    assert sizes.items() <= run["configuration"].items()
    assert run["inferences"]["n_gpus"] == "product of dp, expert_parallel_size, pp, tp"


def test_a_session_that_goes_on_is_flagged_and_counts_its_own_steps(
    logs: Path, tmp_path: Path, observe: Observe, figure: Figure
) -> None:
    text = (logs / "train.log").read_text(encoding="utf-8")
    text = text.replace("start_iteration_step: 0", "start_iteration_step: 7")
    lines = [line for line in text.splitlines() if not any(f": {n} / " in line for n in (1, 2, 3))]
    (tmp_path / "run.log").write_text("\n".join(lines), encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert run["flags"] == ["resumed"]
    assert figure(run, "n_steps")["value"] == 8
    assert figure(run, "step_time")["value"] == pytest.approx(9.41e-3)  # 8 and 10 warm up


@pytest.mark.parametrize("text", ["1.2.3", "11.5Q", ".", "1e999"])
def test_what_is_no_number_is_no_figure(text: str) -> None:
    assert parse_figure(text) is None


@pytest.mark.parametrize(
    ("found", "written"),
    [
        ("elapsed_time_per_iteration_ms: 45 ", "elapsed_time_per_iteration_ms: 45,2 "),
        ("elapsed_time_per_iteration_ms: 45 ", "elapsed_time_per_iteration_ms: nan "),
        ("elapsed_time_per_iteration_ms: 45 ", "elapsed_time_per_iteration_ms: 0 "),
        ("| tokens_per_sec: 14.2K ", "| tokens_per_sec: 14.2Q "),
        ("iteration: 991 / ", "iteration: - / "),
    ],
)
def test_lines_of_another_form_are_not_recognized(
    logs: Path, tmp_path: Path, read: Read, found: str, written: str
) -> None:
    line = (logs / "reserved.log").read_text(encoding="utf-8").splitlines()[0]
    assert found in line
    (tmp_path / "run.log").write_text(line.replace(found, written), encoding="utf-8")
    (refusal,) = read(tmp_path, kind="nanotron", **STATED).refused
    assert refusal.reason.startswith("not recognized as nanotron; expected a console log with")


def test_two_runs_in_one_log_are_refused(logs: Path, tmp_path: Path, read: Read) -> None:
    text = (logs / "train.log").read_text(encoding="utf-8")
    (tmp_path / "run.log").write_text(text * 2, encoding="utf-8")
    (refusal,) = read(tmp_path, **STATED).refused
    assert refusal.reason.startswith("its steps go back from 15 to 1")


def test_memory_that_ran_out_behind_the_last_iteration_is_the_outcome(
    logs: Path, tmp_path: Path, observe: Observe
) -> None:
    text = (logs / "reserved.log").read_text(encoding="utf-8")
    failure = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    (tmp_path / "run.log").write_text(text + failure, encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert (run["outcome"], run["failed_step"]) == ("oom", 994)
