"""Figures and settings of anything but a training are asked about in a draft, or left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from registry.tables import draft_mapping, read_tables
from registry.tables.guess import guess_column

if TYPE_CHECKING:
    from pathlib import Path

    from registry.catalogue import Catalogue


def draft(folder: Path, catalogue: Catalogue, text: str) -> dict[str, Any]:
    path = folder / "doc.csv"
    path.write_text(text, encoding="utf-8")
    (table,) = yaml.safe_load(draft_mapping(path, read_tables(path), catalogue))["tables"]
    return dict(table)


@pytest.mark.parametrize(
    "name",
    [
        *("初始显存占用", "训练前显存", "理论显存", "Initial memory", "初期メモリ", "초기 메모리"),
        *(
            "メモリ削減量",
            "메모리 절감",
            "Экономия памяти",
            "Speicherersparnis",
            "Économie de mémoire",
        ),
        *("必要VRAM", "最小 VRAM", "推奨VRAM", "필요 메모리", "Минимальная память"),
    ],
)
def test_memory_at_the_start_saved_or_needed_is_no_peak(name: str) -> None:
    doubt = guess_column(name, ["11.5 GB", "9.3 GB"]).doubt
    assert doubt is not None
    assert doubt.is_by_name


@pytest.mark.parametrize("name", ["fwd only (iter/sec)", "fwd + bwd (iter/sec)", "forward it/s"])
def test_the_speed_of_a_part_of_a_step_is_asked_about(name: str) -> None:
    guess = guess_column(name, ["38.5"])
    assert guess.doubt is not None
    assert "of a part of a step" in guess.doubt.reason


@pytest.mark.parametrize("name", ["Batch/s", "训练速度 Batch/s", "batches per second"])
def test_batches_a_second_are_neither_a_batch_size_nor_surely_steps(name: str) -> None:
    guess = guess_column(name, ["21.39"])
    assert (guess.to, guess.metric) == (None, "?")
    assert guess.doubt is not None
    assert "micro-batches" in guess.doubt.reason


@pytest.mark.parametrize(
    "name", ["推論速度 (it/s)", "추론 속도 (it/s)", "Vitesse d'inférence (it/s)"]
)
def test_the_speed_of_answers_is_left_out_in_other_languages(name: str) -> None:
    assert guess_column(name, ["3.1"]).metric is None


@pytest.mark.parametrize("name", ["エポック時間", "에폭 시간"])
def test_the_time_of_an_epoch_is_asked_about_in_other_languages(name: str) -> None:
    doubt = guess_column(name, ["3 min"]).doubt
    assert doubt is not None
    assert doubt.is_by_name


def test_the_time_of_one_step_is_a_step_time_in_chinese() -> None:
    assert str(guess_column("单步耗时(s)", ["0.9"])) == "step_time, unit s"


def test_images_a_second_are_samples() -> None:
    assert str(guess_column("imgs/s", ["41.9"])) == "samples_per_second, unit sample/s"


def test_a_setting_of_inference_is_none_of_the_training(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    text = "Model,Inference Precision,Training Precision,Peak memory\nqwen-7b,fp16,bf16,20 GB\n"
    columns = draft(tmp_path, catalogue, text)["columns"]
    assert columns["Inference Precision"] == {"ignore": "of inference, not of a training run"}
    assert columns["Training Precision"] == {"values": {"bf16": {"compute_dtype": "bf16"}}}


def test_a_number_of_parameters_is_no_model(tmp_path: Path, catalogue: Catalogue) -> None:
    text = '设置,模型参数,显存\na,"1,303,132,160",20 GB\nb,"1,303,132,160",21 GB\n'
    table = draft(tmp_path, catalogue, text)
    assert "模型参数" not in table["columns"]
    assert table["defaults"]["model_id"] == "?"


def test_memory_beside_that_of_the_cards_may_be_the_hosts(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    text = "Model,Peak Mem,Peak VRAM\nqwen-7b,120GB,54GB\nqwen-14b,200GB,72GB\n"
    table = draft(tmp_path, catalogue, text)
    assert "pivot" not in table
    assert table["columns"]["Peak Mem"]["figure"]["metric"] == "?"
    assert table["columns"]["Peak VRAM"]["figure"]["metric"] == "peak_memory"


def test_hours_of_all_cards_are_asked_about_as_such(tmp_path: Path, catalogue: Catalogue) -> None:
    path = tmp_path / "doc.csv"
    path.write_text("Model,GPU Hours,Memory\nqwen-7b,100h,9 GB\nqwen-14b,80h,12 GB\n", "utf-8")
    text = draft_mapping(path, read_tables(path), catalogue)
    assert "GPU Hours: '?'  # the time of all cards together" in text


@pytest.mark.parametrize("name", ["Step(s)", "Node(s)", "Epoch(s)"])
def test_the_plural_of_a_word_is_no_second(name: str) -> None:
    guess = guess_column(name, ["1", "2"])
    assert (guess.metric, guess.unit) == (None, None)


@pytest.mark.parametrize("name", ["Time(s)", "Step time(s)", "Step (s)"])
def test_seconds_in_brackets_are_a_unit(name: str) -> None:
    assert guess_column(name, ["1.5", "2.5"]).unit == "s"


def test_operations_of_a_sample_are_no_operations_a_second() -> None:
    guess = guess_column("FLOP/sample", ["3.2 TFLOP", "3.3 TFLOP"])
    assert guess.metric is None or (guess.doubt is not None and guess.doubt.is_by_name)
    assert guess_column("TFLOP/s", ["3.2"]).doubt is None


def test_what_a_name_says_against_a_peak_is_told_first(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    path = tmp_path / "doc.csv"
    path.write_text("Model,Peak VRAM,CPU state\nqwen-7b,54GB,16 KB\nqwen-14b,72GB,17 KB\n", "utf-8")
    text = draft_mapping(path, read_tables(path), catalogue)
    assert "'CPU' is not the peak of a training run" in text


def test_names_below_the_word_batch_are_no_batch_sizes() -> None:
    assert guess_column("batch api", ["plain", "fancy"]).to is None
    assert guess_column("batch", ["auto", "8"]).to == "micro_batch_size"


def test_memory_beside_a_peak_is_no_peak_itself(tmp_path: Path, catalogue: Catalogue) -> None:
    names = "method,peak_train_vram_gb,current_vram_gb,reserved_vram_gb,avg_seq_len"
    columns = draft(tmp_path, catalogue, f"{names}\nlora,45.46,4.39,11.06,837\n")["columns"]
    metrics = {
        name: column["figure"]["metric"] for name, column in columns.items() if "vram" in name
    }
    assert metrics == {
        "peak_train_vram_gb": "peak_memory",
        "current_vram_gb": "?",
        "reserved_vram_gb": "?",
    }
    assert "avg_seq_len" not in columns


def test_figures_beside_those_of_answers_are_asked_about(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    text = "rank,peak_vram_gb,tok_per_s,train_time_min,ttft_ms\n8,14.5,177.2,7.8,13.5\n"
    columns = draft(tmp_path, catalogue, text)["columns"]
    assert columns["peak_vram_gb"]["figure"]["metric"] == "?"
    assert columns["tok_per_s"]["figure"]["metric"] == "?"
    assert columns["train_time_min"]["figure"]["metric"] == "total_time"


def test_a_table_of_an_evaluation_is_asked_about(tmp_path: Path, catalogue: Catalogue) -> None:
    text = "EVAL,Polaris,Aurora\nruntime,0:00:06.26,0:00:09.12\nsteps/sec,0.16,0.11\n"
    columns = draft(tmp_path, catalogue, text)["columns"]
    assert columns["runtime"]["figure"]["metric"] == "?"
    assert columns["steps/sec"]["figure"]["metric"] == "?"


def test_the_speed_of_a_card_is_asked_about(tmp_path: Path, catalogue: Catalogue) -> None:
    text = (
        "Component,Specification\nGPU Model,NVIDIA A10\nGPU Memory,24 GB\nGPU Compute,31.2 TFLOPS\n"
    )
    columns = draft(tmp_path, catalogue, text)["columns"]
    assert columns["GPU Compute"]["figure"]["metric"] == "?"
    assert columns["GPU Memory"]["figure"]["metric"] == "?"
