"""Guesses of what columns mean, and the drafts made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from registry.catalogue import Catalogue
from registry.tables import (
    draft_mapping,
    format_listing,
    import_document,
    parse_mapping,
    read_tables,
)
from registry.tables.guess import guess_column
from registry.tables.guess_settings import values_of
from registry.tables.header import read_header

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "unit", "per_gpu"),
    [
        ("Peak memory (GiB)", "GiB", False),
        ("Peak memory per GPU, GB", "GB", True),
        ("显存占用(MB)", "MB", False),
        ("Tokens/sec *", "token/s", False),
        ("tok/sec/GPU", "token/s/gpu", True),
        ("Throughput (samples per second per GPU)", "sample/s/gpu", True),
        ("每秒处理样本（sample/s）", "sample/s", False),  # noqa: RUF001 - as people write it
        ("Sec/it", "s/step", False),
        ("TFLOPs/GPU", "TFLOP/s", True),
        ("Time [min]", "min", False),
        ("Global Tokens / sec", "token/s", False),
        ("Model", None, False),
        ("peak_memory_gb", "GB", False),
        ("avg_step_time_ms", "ms", False),
        ("tokens_per_second_per_gpu", "token/s/gpu", True),
        ("throughput_tokens_s", "token/s", False),
    ],
)
def test_a_header_says_its_unit(name: str, unit: str | None, *, per_gpu: bool) -> None:
    header = read_header(name)
    assert (header.unit, header.per_gpu) == (unit, per_gpu)


@pytest.mark.parametrize(
    ("name", "cells", "guess"),
    [
        ("Peak Memory per GPU", ["18.9 GiB", "37.4 GiB"], "peak_memory, per GPU"),
        ("Peak reserved (GiB)", ["18.9"], "peak_memory, unit GiB, reserved"),
        ("GPU Memory", ["27.74GiB"], "peak_memory"),
        ("Runnable On", ["1x 4090"], "gpu_id"),
        ("GPUs", ["1", "8"], "n_gpus"),
        ("# GPUs", ["8"], "n_gpus"),
        ("GPU", ["A100", "V100"], "gpu_id"),
        ("Max length", ["2048"], "seq_len"),
        ("Micro-batch", ["4"], "micro_batch_size"),
        ("Global batch size", ["64"], "global_batch_size"),
        ("Training Speed", ["1.2s/it"], "step_time"),
        ("Step time (ms)", ["120"], "step_time, unit ms"),
        ("Training time", ["3h20min"], "total_time"),
        ("Training time (100 iterations)", ["1.62 min"], "total_time"),
        ("Time per Global Step (s)", ["10.51"], "step_time, unit s"),
        ("step_time (s)", ["10.51"], "step_time, unit s"),
        ("Total Elapsed", ["122.7s", "1279.2s"], "total_time"),
        ("s/passo", ["1,55s", "39s+"], "step_time"),
        ("s/Schritt", ["1.55"], "step_time, unit s/step"),
        ("Foo", ["1.55s", "4.2s"], "total_time"),
        ("Foo", ["2m 3s", "3m 4s"], "total_time"),
        ("Foo", ["12秒"], "total_time"),
        ("Foo", ["7m", "13m"], "?"),
        ("ёмкость", ["24 ГБ"], "peak_memory"),
        ("Скорость (выборок/\u0441)", ["46"], "samples_per_second, unit sample/s"),
        ("tok/step", ["8192"], "tokens_per_second?"),
        ("tokens per parameter", ["20"], "tokens_per_second?"),
        ("tok per GPU per second", ["950"], "tokens_per_second, unit token/s/gpu, per GPU"),
        ("mb", ["1", "2"], "peak_memory?, unit MB"),
        ("Total FLOPs", ["1.2e18"], "flops_per_second?"),
        ("FLOPs", ["1.2e18"], "flops_per_second?"),
        ("FLOP/s", ["1.2e14"], "flops_per_second"),
        ("TFLOPs", ["180"], "flops_per_second, unit TFLOP/s"),
        ("Speed", ["1.2k tok/s", "1.9k tok/s"], "tokens_per_second"),
        ("Speed", ["3.2万 tokens/s"], "tokens_per_second"),
        ("Perf", ["145 TFLOPS"], "flops_per_second"),
        ("TPS per GPU", ["950"], "tokens_per_second, per GPU"),
        ("VRAM (train / infer)", ["21.5 / 14.2 GB"], "peak_memory?"),
        ("Mem usage/GB", ["15", "128"], "peak_memory, unit GB"),
        ("tokens/GB", ["15", "128"], "tokens_per_second?"),
        ("Tokens/s (T4)", ["0.06 it/s"], "steps_per_second?"),
        ("Tokens/s (T4)", ["950 tok/s"], "tokens_per_second"),
        ("Grad. Ckpt", ["✅", "❌"], "gradient_checkpointing"),
        ("GPU mem", ["~24%", "~46%"], "?"),
        ("vram_change_pct", ["-2.9"], "?"),
        ("Queue Length", ["5"], "?"),
        ("step_s", ["366.526"], "step_time, unit s"),
        ("time_per_step_s", ["366.526"], "step_time, unit s"),
        ("steps_s", ["0.41"], "steps_per_second, unit step/s"),
        ("speed_iter_s", ["0.41"], "steps_per_second, unit step/s"),
        ("it_s", ["0.41"], "steps_per_second, unit step/s"),
        ("H200 total memory", ["143 GB"], "peak_memory?"),
        ("memory.total [MiB]", ["24564"], "peak_memory?, unit MiB"),
        ("max_response_length", ["512"], "?"),
        ("训练时间\uff08估计\uff09", ["24 小时"], "total_time?"),
        ("可训练参数", ["4.2M"], "trainable_params"),
        ("Trainable Params", ["4.19M"], "trainable_params"),
        ("LoRA rank", ["8"], "lora_rank"),
        ("TP", ["8"], "tensor_parallel"),
        ("1 Device", ["✅", "❌"], "?"),
        ("Comment", ["fast"], "?"),
        ("Memory", ["OOM", "-"], "?"),
        ("Inference speed", ["33.1 tokens/sec"], "?"),
        ("Model Size", ["548 MB"], "?"),
        ("num_gpus", ["1"], "n_gpus"),
        ("gpu_name", ["A100"], "gpu_id"),
        ("per_device_train_batch_size", ["4"], "micro_batch_size"),
        ("gradient_accumulation_steps", ["4"], "grad_accum_steps"),
        ("max_seq_length", ["4096"], "seq_len"),
        ("cutoff_len", ["4096"], "seq_len"),
        ("peak_memory_gb", ["20.5"], "peak_memory, unit GB"),
        ("train_runtime", ["310.5"], "total_time"),
        ("train_samples_per_second", ["3.2"], "samples_per_second, unit sample/s"),
        ("status", ["success", "OOM"], "outcome"),
    ],
)
def test_a_column_looks_like_what_it_is_called_and_holds(
    name: str, cells: list[str], guess: str
) -> None:
    assert str(guess_column(name, cells)) == guess


DOCUMENT = """
# Benchmark

Batch size 2, packed.

| Model | Method | Hardware | Seq len | Mem (GB) | tokens/s/GPU | Note |
|---|---|---|---|---|---|---|
| Qwen-7B | QLoRA | 2x A100 | 4K | 20.5† | 1650 | a |
| Nobody-7B | full fine-tuning | 8 x Nothing | 8K | OOM | - | b |
| Nobody-7B | LoRA | 1x RTX 4090 | 8K | - | - | c |
"""


def draft(folder: Path, catalogue: Catalogue) -> dict[str, Any]:
    path = folder / "a doc.md"
    path.write_text(DOCUMENT, encoding="utf-8")
    return dict(yaml.safe_load(draft_mapping(path, read_tables(path), catalogue)))


def test_a_draft_says_what_is_known_and_leaves_the_rest_open(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    found = draft(tmp_path, catalogue)
    (table,) = found.pop("tables")
    columns = table.pop("columns")
    assert found["source"]["source_id"] == "a-doc"
    assert (found["footnotes"], found["skip"]) == ({"†": "?"}, [{"empty": True}])
    assert table == {"match": {"table": 1}, "title": "Benchmark", "ignore": "rest"}
    assert columns["Model"] == {
        "values": {"Qwen-7B": {"model_id": "qwen-7b"}, "Nobody-7B": {"model_id": "?"}}
    }
    assert columns["Hardware"]["values"]["8 x Nothing"] == {"gpu_id": "?", "n_gpus": 8}
    assert columns["Method"]["values"]["full fine-tuning"] == {"method": "full"}
    assert columns["Seq len"] == {"to": "seq_len", "k_is": "?"}
    assert columns["Mem (GB)"] == {"figure": {"metric": "peak_memory", "scope": "?", "unit": "GB"}}
    assert columns["tokens/s/GPU"]["figure"] == {
        "metric": "tokens_per_second",
        "scope": "mean_gpu",
        "unit": "token/s/gpu",
    }
    assert "Note" not in columns


BENCH = """model,method,gpu,num_gpus,batch_size,max_seq_length,peak_memory_gb,train_runtime,status
Llama-2-7b-hf,lora,RTX 3090,1,1,512,16.2,310.5,success
Llama-2-7b-hf,qlora,RTX 3090,1,8,2048,,,OOM
Llama-2-7b-hf,qlora,RTX 3090,1,8,4096,,,killed
"""


def test_a_table_that_a_program_wrote_is_drafted_but_for_its_unit(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    path = tmp_path / "results_bench.csv"
    path.write_text(BENCH, encoding="utf-8")
    text = draft_mapping(path, read_tables(path), catalogue)
    said = {"success": {"outcome": "ok"}, "OOM": {"outcome": "oom"}, "killed": {"outcome": "?"}}
    found = yaml.safe_load(text)
    assert "skip" not in found  # a failure without figures says something
    (table,) = found["tables"]
    assert table["columns"]["status"] == {"values": said}
    assert table["columns"]["train_runtime"]["figure"] == {
        "metric": "total_time",
        "default_unit": "?",
        "default_reason": "?",
    }
    assert table["columns"]["peak_memory_gb"] == {"figure": {"metric": "peak_memory", "unit": "GB"}}
    for key, meant in (("outcome", "error"), ("default_unit", "s"), ("default_reason", "HF's")):
        text = text.replace(f"{key}: '?'", f"{key}: {meant}")
    result = import_document(path, parse_mapping(text, origin="m.yaml"), catalogue)
    assert result.problems == ()
    outcomes = [row["outcome"] for row in result.submission["observations"]]
    assert outcomes == ["ok", "oom", "error"]


def test_texts_that_differ_in_markup_alone_are_drafted_once(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    path = tmp_path / "doc.md"
    path.write_text(
        "| Model | Memory |\n|---|---|\n| **Qwen-7B** | 20 GiB |\n| Qwen-7B | 21 GiB |\n",
        encoding="utf-8",
    )
    text = draft_mapping(path, read_tables(path), catalogue)
    assert text.count("Qwen-7B: {model_id: qwen-7b}") == 1


def test_a_table_of_a_metric_in_each_row_is_drafted_on_its_side(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    path = tmp_path / "doc.md"
    path.write_text(
        "| Metric | LoRA | QLoRA |\n|---|---|---|\n"
        "| Peak memory | 20 GiB | 12 GiB |\n| Training time | 30 min | 45 min |\n",
        encoding="utf-8",
    )
    (table,) = yaml.safe_load(draft_mapping(path, read_tables(path), catalogue))["tables"]
    assert table["transposed"] is True
    assert table["columns"]["Metric"]["values"]["LoRA"] == {"method": "lora"}
    assert table["columns"]["Training time"] == {"figure": {"metric": "total_time"}}


def test_a_list_shows_headings_prose_columns_and_two_rows(tmp_path: Path) -> None:
    path = tmp_path / "doc.md"
    path.write_text(DOCUMENT + "\n| a | b |\n|---|\n", encoding="utf-8")
    lines = list(format_listing(read_tables(path)))
    assert lines[:3] == [
        "table 1: Benchmark (line 6, 3 rows)",
        "  above: Batch size 2, packed.",
        "  'Model'         model_id                                      Qwen-7B | Nobody-7B",
    ]
    assert lines[-1].startswith("  cannot be read: line 13: found 1 cells, expected 2")


@pytest.mark.parametrize(
    ("text", "bits"),
    [("QLoRA `quant_bit=8`", 8), ("QLoRA 8-bit", 8), ("QLoRA (int8)", 8), ("QLoRA quant_bit=4", 4)],
)
def test_bits_that_a_method_states_go_before_what_it_usually_has(text: str, bits: int) -> None:
    assert values_of("method", text, Catalogue()) == {"method": "lora", "quant_bits": bits}
    usual = values_of("method", "QLoRA, rank 8", Catalogue())
    assert usual["quant_bits"] == {"value": 4, "because": "QLoRA is 4-bit LoRA"}


def test_names_of_several_lines_are_drafted_on_one(tmp_path: Path, catalogue: Catalogue) -> None:
    path = tmp_path / "doc.md"
    path.write_text(
        "| Model | num<br>gpus | tok/s<br>plain | tok/s<br>packed |\n|---|---|---|---|\n"
        "| Qwen-7B | 2 | 950 | 1200 |\n",
        encoding="utf-8",
    )
    (table,) = yaml.safe_load(draft_mapping(path, read_tables(path), catalogue))["tables"]
    assert table["columns"]["num\ngpus"] == {"to": "n_gpus"}
    assert table["pivot"][0]["columns"] == "tok/s\n(.+)"


@pytest.mark.parametrize(("name", "is_asked"), [("Throughput", True), ("Speedup", False)])
def test_a_speed_of_nothing_stated_is_asked_about(
    tmp_path: Path, catalogue: Catalogue, name: str, *, is_asked: bool
) -> None:
    path = tmp_path / "doc.csv"
    path.write_text(f"Model,Peak memory,{name}\nQwen-7B,20 GB,950\n", encoding="utf-8")
    (table,) = yaml.safe_load(draft_mapping(path, read_tables(path), catalogue))["tables"]
    assert (table["columns"].get(name) == {"figure": {"metric": "?"}}) is is_asked


@pytest.mark.parametrize("name", ["Max batch", "max_batch_size", "最大批大小"])
def test_the_largest_batch_that_fits_is_not_taken_for_that_of_a_run(
    tmp_path: Path, catalogue: Catalogue, name: str
) -> None:
    path = tmp_path / "doc.csv"
    path.write_text(f"Model,{name},Step time (s)\nQwen-7B,8,1.5\n", encoding="utf-8")
    (table,) = yaml.safe_load(draft_mapping(path, read_tables(path), catalogue))["tables"]
    assert table["columns"][name] == "?"
