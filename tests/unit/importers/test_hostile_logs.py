"""Logs of any content are read or refused with one reason; the other files of a run go on."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.errors import SubmissionError
from registry.importers import read_files
from registry.importers.shared.loading import load_file
from registry.importers.shared.shapes import count_of, entries_of, number_of, section_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.importers import Imported

    Read = Callable[..., Imported]
    Observe = Callable[..., list[dict[str, Any]]]

RUN = {"model_id": "llama-3.2-1b", "method": "lora"}
UNKNOWN = "not recognized as a training log or result of any known framework"

REFUSED = {
    "a long field.csv": (
        "a,b\n1," + "x" * 131_073,
        "line 2: field larger than field limit (131072); expected CSV with shorter cells",
    ),
    "an open quote.csv": (
        'a,b\n1,"' + "x\n" * 100_000,
        "line 65538: field larger than field limit (131072); expected CSV with shorter cells",
    ),
    "columns beyond the memory.csv": (
        "," * 100_000 + "\n" + "1\n" * 20,
        "found more than 2000000 cells; split the table",
    ),
    "nested.yaml": ("- " * 900, "nested too deeply; expected a few levels"),
    "digits.yaml": (
        "a: " + "9" * 300,
        "found a number of 300 characters, expected at most 64; expected YAML",
    ),
    "nested.json": (
        "[" * 100_000,
        UNKNOWN,
    ),
    "digits.json": (
        '{"train_runtime": ' + "9" * 5_000 + "}",
        "found a number of more than 300 digits",
    ),
    "digits.log": (
        "9" * 200_000,
        "found a number of more than 300 digits",
    ),
    "fewer digits.log": (
        "9" * 300,
        UNKNOWN,
    ),
    "bars.log": (
        "1/2 [" * 50_000 + "{'" * 50_000,
        UNKNOWN,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_file_is_refused_with_a_reason(tmp_path: Path, read: Read, name: str) -> None:
    text, reason = REFUSED[name]
    (tmp_path / name).write_text(text, encoding="utf-8", newline="")
    (refusal,) = read(tmp_path).refused
    assert (refusal.path, refusal.reason.partition(" (peft, ")[0]) == (tmp_path / name, reason)


def test_a_log_of_too_many_values_is_refused_before_any_is_read(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.reading.json_reader.MOST_VALUES", 6)
    monkeypatch.setattr("registry.importers.shared.loading.MOST_VALUES", 6)
    path = tmp_path / "trainer_state.json"
    path.write_text("[[],[],[],[]]", encoding="utf-8")
    assert read(path).refused == ((path, "found more than 6 values; split the file"),)


@pytest.mark.parametrize("signs", ["-", "+", "not ", "(", "[", "1+", "lambda:"])
def test_a_printed_entry_of_endless_signs_is_passed_over(
    tmp_path: Path, observe: Observe, signs: str
) -> None:
    log = tmp_path / "run.log"
    lines = [
        "{'loss': '1.5', 'memory/max_active (GiB)': '2.5'}",
        "{'loss': " + signs * 200_000 + "1}",
        "{'loss': " + signs * (1_900 // len(signs)) + "1}",
        "{'loss': 1, [2]: 3}",
        "{'loss', [2]}",
        "{'loss': 1, 2: 3}",
    ]
    log.write_text("\n".join(lines), encoding="utf-8")
    (observation,) = observe(tmp_path, **RUN)
    assert [row["value"] for row in observation["measurements"]] == [1.0, 2.5 * 2**30]


@pytest.mark.parametrize("history", [None, 1, "x", {}, [None], [1, "train_runtime"]])
def test_a_trainer_state_without_a_history_is_one_of_a_checkpoint(
    tmp_path: Path, observe: Observe, history: Any
) -> None:
    state = {"log_history": history, "global_step": 3, "max_steps": 10}
    (tmp_path / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    (observation,) = observe(tmp_path, **RUN)
    assert observation["outcome"] == "unknown"
    assert observation["outcome_detail"] == "state of a checkpoint at step 3 of 10"


@pytest.mark.parametrize("step", [None, "many", [], 10**400, -1, True])
def test_of_several_states_the_furthest_is_the_one_with_a_step(
    tmp_path: Path, observe: Observe, step: Any
) -> None:
    for name, done in (("checkpoint-1", step), ("checkpoint-2", 5)):
        (tmp_path / name).mkdir()
        state: dict[str, Any] = {"log_history": [], "global_step": done, "max_steps": 10}
        (tmp_path / name / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    (observation,) = observe(tmp_path, **RUN)
    assert observation["outcome_detail"] == "state of a checkpoint at step 5 of 10"


def test_a_log_of_nothing_but_restarts_is_refused(tmp_path: Path, read: Read) -> None:
    entry = {"total_steps": 1000, "elapsed_time": "0:00:01", "loss": 1.0}
    lines = [json.dumps({"current_steps": step, **entry}) for step in range(500, 0, -1)]
    path = tmp_path / "trainer_log.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert read(tmp_path, **RUN).refused == (
        (path, "found more than 200 runs in one log, expected a few; split the log"),
    )


def test_carriage_returns_alone_end_the_lines_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\r1,2\r3\r4,5,6\r")
    loaded = load_file(path)
    assert getattr(loaded, "document", None) == [
        {"a": "1", "b": "2"},
        {"a": "3", "b": ""},
        {"a": "4", "b": "5"},
    ]


def test_only_line_feeds_end_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "x\u2028y"}\r\n{"a": "x\x85y"}\n', encoding="utf-8", newline="")
    loaded = load_file(path)
    assert getattr(loaded, "document", None) == [{"a": "x\u2028y"}, {"a": "x\x85y"}]
    assert getattr(loaded, "lines", None) == (1, 2)


def test_folders_that_lie_too_deep_are_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(*["d"] * 40).mkdir(parents=True)
    Path(*["d"] * 40, "a.log").touch()
    (refusal,) = read_files([Path("d")]).refused
    assert refusal.path == Path(*["d"] * 34)
    reason = "lies more than 32 folders deep in d; name it to read what it holds"
    assert refusal.reason == reason


def test_a_folder_that_vanishes_meanwhile_is_passed_over(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b.log").touch()
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    scan = os.scandir

    def scan_late(path: Any) -> Any:
        if str(path).endswith("a"):
            Path(path).rmdir()
        return scan(path)

    monkeypatch.setattr(os, "scandir", scan_late)
    assert [refusal.path for refusal in read(tmp_path).refused] == [tmp_path / "b.log"]


def test_a_pipe_and_a_device_are_refused_and_passed_over_in_a_folder(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "zero.log").symlink_to("/dev/zero")
    found = read_files([pipe, Path("/dev/zero")])
    assert [tuple(refusal) for refusal in found.refused] == [
        (pipe, "found a pipe, expected a log in a regular file; save it in one first"),
        (
            Path("/dev/zero"),
            "found a device, expected a log in a regular file; save it in one first",
        ),
    ]
    assert read_files([tmp_path]).refused == ()


def test_a_path_that_is_not_there_is_an_error() -> None:
    with pytest.raises(SubmissionError) as caught:
        read_files([Path("none")])
    assert str(caught.value) == "none: not found; expected a file or a folder"


@pytest.mark.parametrize("value", [10**400, 1e300, float("inf"), float("nan"), 1e-300, "1e999"])
def test_what_no_figure_can_be_is_no_number(value: Any) -> None:
    assert number_of(value) is None


@pytest.mark.parametrize("value", [10**400, 0, -3, 2.0, "3", None, True])
def test_what_counts_nothing_is_no_count(value: Any) -> None:
    assert count_of(value) is None


@pytest.mark.parametrize("document", [None, 1, "ab", [], {}, {"a": None}, {"a": 1}, {"a": "b"}])
def test_what_is_of_another_shape_is_not_there(document: Any) -> None:
    assert section_of(document, "a") == {}
    assert entries_of(document, "a") == []


DIGITS = "9" * 5_000
OF_LOGS = {
    "a date that is none": "[INFO|2024-13-45 99:99:99] t.py:1 >> ***** Running training *****\n",
    "counts of any size": (
        "[INFO|2024-11-26 22:07:15] t.py:1 >> ***** Running training *****\n"
        f"[INFO|2024-11-26 22:07:15] t.py:1 >>   Num Epochs = {DIGITS}\n"
        "{'train_runtime': 1.2.3, 'epoch': 1..2}\n"
    ),
    "a date of DeepSpeed": (
        "[2023-99-18 01:46:59,171] global_step=10, RunningAvgSamplesPerSec=1.5, "
        "CurrSamplesPerSec=1.5\n"
    ),
    "figures of DeepSpeed": f"global_step={DIGITS}, RunningAvgSamplesPerSec=1.2.3, Curr\n",
    "arguments of Megatron": (
        f"  world_size ........ {DIGITS}\n  seq_length ........ ²\n"
        " iteration 1/ 2 | elapsed time per iteration (ms): 5.0 |\n"
    ),
    "iterations of Megatron": f" iteration {DIGITS}/ 2 | elapsed time per iteration (ms): 1e9 |\n",
    "a report of nothing": '{"config": {"scenario": 3}, "report": {"train": {"latency": 5}}}',
    "a report that is none": '{"config": 5, "report": [1]}',
    "throughput of any size": f"Training throughput: {DIGITS} tok/s\n#params = {DIGITS}\n",
}


@pytest.mark.parametrize("text", OF_LOGS.values(), ids=OF_LOGS.keys())
def test_lines_of_any_content_are_read_or_refused(tmp_path: Path, read: Read, text: str) -> None:
    (tmp_path / "run.txt").write_text(text, encoding="utf-8")
    found = read(tmp_path, **RUN)
    assert found.submissions or found.refused


@pytest.mark.parametrize(
    "words",
    ["loading weights file a/", "loading configuration file a/", "{'loss': 1, ", "{'step': 1 "],
)
def test_the_same_words_many_times_in_a_line_are_read_in_no_time(
    tmp_path: Path, observe: Observe, words: str
) -> None:
    """Each of them begins what a pattern looks for; read to the end each time, it took minutes."""
    totals = "{'train_runtime': 1.5, 'train_loss': 1.0}"
    path = tmp_path / "run.log"
    path.write_text(f"{words * 40_000}\n{totals}\n", encoding="utf-8")
    started = time.perf_counter()
    assert len(observe(path, **RUN)) == 1
    assert time.perf_counter() - started < 20


def test_the_same_setting_many_times_in_a_line_is_read_in_no_time(
    tmp_path: Path, observe: Observe
) -> None:
    step = "completed step: 1, seconds: 5.667, TFLOP/s/device: 134.924, loss: 10.374"
    (tmp_path / "run.log").write_text(f"{'Config param a: ' * 2_000_000}\n{step}\n")
    started = time.perf_counter()
    assert len(observe(tmp_path, **RUN)) == 1
    assert time.perf_counter() - started < 20


@pytest.mark.parametrize(
    "words",
    [
        "\n" * 60_000,
        "model = " + "Model" * 40_000,
        "1 * " * 40_000,
        "!" + "a-" * 60_000,
        'name = "a/b"\nmodel = AutoModel.from_pretrained(name)\n' * 20_000,
    ],
    ids=["lines", "models", "products", "commands", "loads"],
)
def test_the_same_words_many_times_in_a_cell_are_read_in_no_time(
    tmp_path: Path, observe: Observe, words: str
) -> None:
    output = {"text": "{'train_runtime': 9.5, 'train_samples_per_second': 1.5, 'train_loss': 1.0}"}
    cell = {"cell_type": "code", "source": f"x = {words}\n{words}\n", "outputs": [output]}
    notebook = {"cells": [cell], "nbformat": 4}
    (tmp_path / "run.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    started = time.perf_counter()
    assert len(observe(tmp_path, **RUN)) == 1
    assert time.perf_counter() - started < 20


def test_the_same_words_many_times_in_a_models_name_are_read_in_no_time(
    tmp_path: Path, observe: Observe
) -> None:
    totals = {"train_runtime": 1.5, "train_loss": 1.0}
    (tmp_path / "all_results.json").write_text(json.dumps(totals), encoding="utf-8")
    adapter = {"peft_type": "LORA", "base_model_name_or_path": "models--" * 10_000 + "x\n"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(adapter), encoding="utf-8")
    started = time.perf_counter()
    assert len(observe(tmp_path, **RUN)) == 1
    assert time.perf_counter() - started < 20
