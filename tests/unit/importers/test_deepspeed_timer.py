"""What DeepSpeed's timer counts, on lines of its releases that others published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from registry.importers.deepspeed_timer import (
    TimerLine,
    batch_by_clock,
    find_accumulation,
    parse_timer_line,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]
    Figure = Callable[..., dict[str, Any]]

STATED = {"model_id": "llama-2-7b", "method": "full"}


@pytest.fixture
def logs(fixtures: Path) -> Path:
    return fixtures / "deepspeed"


def lines_of(path: Path) -> list[str]:
    """Return the lines of a log."""
    return path.read_text(encoding="utf-8").splitlines()


def test_a_line_of_2022_counts_micro_batches(logs: Path, observe: Observe, figure: Figure) -> None:
    (run,) = observe(logs / "accumulated.log", **STATED)
    metrics = {row["metric"] for row in run["measurements"]}
    assert "n_steps" not in metrics  # 220 micro-batches of the 1,024 of a step
    assert run["flags"] == ["short_run"]
    rate = figure(run, "samples_per_second")
    assert rate["value"] == 2157.72249654535
    assert rate["reason"] == (
        "SamplesPerSec of the last line: all processes, the first two micro-batches left out"
    )
    assert figure(run, "peak_memory")["value"] == 28.27 * 2**30


def test_micro_batches_are_counted_as_steps_once_their_number_is_said(
    logs: Path, observe: Observe, read: Callable[..., Imported], figure: Figure
) -> None:
    (run,) = observe(logs / "first_releases.log", **STATED, grad_accum_steps="8")
    assert figure(run, "n_steps")["value"] == 62
    (unsaid,) = observe(logs / "first_releases.log", **STATED)
    assert {row["metric"] for row in unsaid["measurements"]} == {"samples_per_second"}
    missing = read(logs / "first_releases.log", **STATED).missing
    assert any("say it (--set grad_accum_steps=…)" in text for text in missing)
    assert "first_releases.log: no memory" in missing


def test_the_engines_steps_tell_how_many_micro_batches_one_has(
    logs: Path, tmp_path: Path, observe: Observe, figure: Figure
) -> None:
    (same,) = observe(logs / "steps.log", **STATED)
    assert same["configuration"]["grad_accum_steps"] == 1
    assert figure(same, "n_steps")["value"] == 50
    text = (logs / "steps.log").read_text(encoding="utf-8")
    text = text.replace(" 0/40,", " 0/160,").replace(" 0/50,", " 0/200,")
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    (four,) = observe(tmp_path, **STATED)
    assert four["configuration"]["grad_accum_steps"] == 4
    assert four["inferences"]["grad_accum_steps"] == (
        "40 micro-batches of the timer in 10 steps of the engine"
    )
    assert figure(four, "n_steps")["value"] == 50
    assert "flags" not in four


@pytest.mark.parametrize("last", [195, 155])
def test_counts_that_do_not_match_tell_no_accumulation(logs: Path, last: int) -> None:
    text = "\n".join(lines_of(logs / "steps.log"))
    lines = text.replace(" 0/40,", " 0/160,").replace(" 0/50,", f" 0/{last},").splitlines()
    timer = parse_timer_line(lines[-1])
    assert timer is not None
    assert find_accumulation(lines, timer) is None


def test_one_line_of_the_engine_is_not_enough(logs: Path) -> None:
    lines = lines_of(logs / "steps.log")[:2]
    last = parse_timer_line(lines[-1])
    assert last is not None
    assert find_accumulation(lines, last) is None


def test_both_counts_of_a_line_of_today_tell_the_accumulation(
    logs: Path, tmp_path: Path, observe: Observe, figure: Figure
) -> None:
    text = (logs / "train.log").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if "gradient_accumulation_steps" not in line]
    (tmp_path / "run.log").write_text("\n".join(lines), encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert run["configuration"]["grad_accum_steps"] == 2
    assert run["inferences"]["grad_accum_steps"] == "40 micro-batches in 20 steps of the timer"
    assert figure(run, "n_steps")["value"] == 20


def test_equal_counts_of_a_line_of_today_do_not_tell_the_accumulation(logs: Path) -> None:
    lines = lines_of(logs / "resumed.log")
    last = parse_timer_line(lines[-1])
    assert last is not None
    assert (last.micro_batches, last.count) == (8, 8)
    assert find_accumulation(lines, last) is None


def test_a_resumed_run_of_2022_is_told_in_steps(
    logs: Path, tmp_path: Path, observe: Observe
) -> None:
    text = (logs / "steps.log").read_text(encoding="utf-8")
    text = text.replace(" step=40,", " step=2040,").replace(" step=50,", " step=2050,")
    text = text.replace(" 0/40,", " 0/160,").replace(" 0/50,", " 0/200,")
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert run["flags"] == ["resumed"]
    assert run["inferences"]["flags"] == "the engine counts 2050 steps, its timer 50"


def test_rate_and_clock_give_the_batch_of_what_is_counted(
    logs: Path, tmp_path: Path, observe: Observe
) -> None:
    lines = [timer for line in lines_of(logs / "sft.log") if (timer := parse_timer_line(line))]
    assert batch_by_clock(lines) == pytest.approx(128, rel=0.01)
    assert batch_by_clock(lines[:3]) is None
    text = (logs / "first_releases.log").read_text(encoding="utf-8")
    settings = "  train_micro_batch_size_per_gpu  23\n"
    (tmp_path / "run.log").write_text(settings + text, encoding="utf-8")
    (run,) = observe(tmp_path, **STATED)
    assert run["configuration"]["n_gpus"] == 5
    assert run["inferences"]["n_gpus"] == (
        "samples/s x seconds of a micro-batch by the log's clock: 115.2 samples, 23 on each"
    )
    assert "global_batch_size" not in run["configuration"]
    (said,) = observe(tmp_path, **STATED, grad_accum_steps="8")
    assert said["configuration"]["global_batch_size"] == 5 * 23 * 8


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("INFO:root:0/50, SamplesPerSec=83.5", (50, False, 50, "SamplesPerSec", "83.5")),
        (
            "[timer.py:198:stop] 0/20, RunningAvgSamplesPerSec=232.7, CurrSamplesPerSec=227.4",
            (20, False, 20, "RunningAvgSamplesPerSec", "232.7"),
        ),
        (
            "global_step=20, RunningAvgSamplesPerSec=12.5",
            (20, True, None, "RunningAvgSamplesPerSec", "12.5"),
        ),
    ],
)
def test_the_forms_of_a_line(line: str, expected: tuple[Any, ...]) -> None:
    found = parse_timer_line(line)
    assert found is not None
    assert found == TimerLine(*expected)


@pytest.mark.parametrize(
    "line",
    [
        "[timer.py:191:stop] 0/10, SamplesPerSec=-inf",
        "[timer.py:191:stop] 0/10, vm percent: 4.1, swap percent: 0.0",
        "loss 1/0/10, SamplesPerSec=3",
        "samples: 0.0/10, SamplesPerSec=3",
    ],
)
def test_other_lines_are_none_of_the_timer(line: str) -> None:
    assert parse_timer_line(line) is None
