"""What a draft makes of words and headers: what is not sure is left open, never guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from registry.errors import SourceError
from registry.tables import draft_mapping, import_document, parse_mapping, read_tables
from registry.tables.guess import guess_column
from registry.tables.guess_settings import guess_table, values_of
from registry.tables.guess_words import read_method, read_settings

if TYPE_CHECKING:
    from pathlib import Path

    from registry.catalogue import Catalogue

QLORA = {"method": "lora", "quant_bits": {"value": 4, "because": "QLoRA is 4-bit LoRA"}}


def draft_text(folder: Path, catalogue: Catalogue, text: str, suffix: str = ".csv") -> str:
    path = folder / f"doc{suffix}"
    path.write_text(text, encoding="utf-8")
    return draft_mapping(path, read_tables(path), catalogue)


def draft(folder: Path, catalogue: Catalogue, text: str, suffix: str = ".csv") -> dict[str, Any]:
    (table,) = yaml.safe_load(draft_text(folder, catalogue, text, suffix))["tables"]
    return dict(table)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("RTX 3090", {"gpu_id": "rtx-3090"}),
        ("RTX 9999", {"gpu_id": "?"}),
        ("GTX 9999", {"gpu_id": "?"}),
        ("DGX 2", {"gpu_id": "?"}),
        ("RTX 3090 x 2", {"gpu_id": "rtx-3090", "n_gpus": 2}),
        ("RTX3090x2", {"gpu_id": "rtx-3090", "n_gpus": 2}),
        ("9999 x 2", {"gpu_id": "?", "n_gpus": 2}),
        ("2 x 9999", {"gpu_id": "?", "n_gpus": 2}),
    ],
)
def test_the_name_of_a_card_is_no_number_of_cards(
    catalogue: Catalogue, text: str, values: dict[str, Any]
) -> None:
    assert values_of("gpu_id", text, catalogue) == values


@pytest.mark.parametrize("header", ["Recommended GPU", "Min. GPU", "GPU required", "推荐显卡"])
def test_cards_that_are_needed_are_not_those_of_a_run(
    tmp_path: Path, catalogue: Catalogue, header: str
) -> None:
    document = f"Batch,GPU memory,{header}\n4,16 GB,RTX 3090\n8,40 GB,A100 40GB\n"
    columns = draft(tmp_path, catalogue, document)["columns"]
    assert columns[header] == "?"
    assert columns["GPU memory"]["figure"]["metric"] == "?"


def test_a_column_of_chinese_machines_is_asked_about(tmp_path: Path, catalogue: Catalogue) -> None:
    document = "Model,机器型号,Memory (GB)\nQwen-7B,Atlas 900,20\nLlama-2-7B,Atlas 950,21\n"
    assert draft(tmp_path, catalogue, document)["columns"]["机器型号"] == "?"


@pytest.mark.parametrize(("text", "dtype"), [("bfloat16", "bf16"), ("float16", "fp16")])
def test_number_formats_are_read_by_their_long_names(
    catalogue: Catalogue, text: str, dtype: str
) -> None:
    assert values_of("compute_dtype", text, catalogue) == {"compute_dtype": dtype}


def test_the_card_of_a_training_is_no_number_of_cards() -> None:
    assert guess_column("Train GPU", ["A100"]).to == "gpu_id"


@pytest.mark.parametrize(
    "name",
    ["eval_samples_per_second", "Eval memory (GB)", "Validation tokens/s", "Test speed (it/s)"],
)
def test_figures_of_an_evaluation_are_asked_about(name: str) -> None:
    doubt = guess_column(name, ["6.1", "20.4"]).doubt
    assert doubt is not None
    assert doubt.reason.endswith("of an evaluation, not of the training?")


def test_a_column_called_as_a_method_is_asked_about(tmp_path: Path, catalogue: Catalogue) -> None:
    document = "Model,LoRA,Memory\nQwen-7B,off,60 GB\nLlama-2-7B,r=16,14 GB\n"
    assert draft(tmp_path, catalogue, document)["columns"]["LoRA"] == "?"


def test_the_number_of_cards_called_rtx_is_asked_for(tmp_path: Path, catalogue: Catalogue) -> None:
    document = "Model,GPU,Peak memory (GB)\nQwen-7B,RTX 3090,20\nQwen-7B,RTX 4090,21\n"
    assert draft(tmp_path, catalogue, document)["defaults"]["n_gpus"] == "?"


@pytest.mark.parametrize("header", ["Source", "Status", "validation_status"])
def test_a_column_that_calls_some_rows_estimates_is_asked_about(
    tmp_path: Path, catalogue: Catalogue, header: str
) -> None:
    document = f"Model,Peak memory (GB),{header}\nQwen-7B,20,measured\nLlama-2-7B,60,estimated\n"
    column = draft(tmp_path, catalogue, document)["columns"][header]
    assert column["values"]["estimated"] == {"evidence": "?"}


def test_a_column_that_calls_no_row_an_estimate_is_not(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = 'Qwen-7B,20,measured\nLlama-2-7B,60,"measured, not estimated"\n'
    document = f"Model,Peak memory (GB),Source\n{rows}"
    assert "Source" not in draft(tmp_path, catalogue, document)["columns"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("LoRA", {"method": "lora"}),
        ("LoRA r=8", {"method": "lora", "lora_rank": 8}),
        ("LoRA (r=128)", {"method": "lora", "lora_rank": 128}),
        ("LoRA rank 16, alpha 32", {"method": "lora", "lora_rank": 16, "lora_alpha": 32}),
        ("LoRA (attn only)", {"method": "lora", "attn only": "?"}),
        ("LoRA + GC", {"method": "lora", "gradient_checkpointing": True}),
        ("LoRA w/o GC", {"method": "lora", "gradient_checkpointing": False}),
        ("LoRA, gradient checkpointing off", {"method": "lora", "gradient_checkpointing": False}),
        ("8-bit LoRA", {"method": "lora", "quant_bits": 8}),
        ("LoRA int8", {"method": "lora", "quant_bits": 8}),
        ("LoRA (nf4)", {"method": "lora", "quant_bits": 4, "quant_type": "nf4"}),
        ("GPTQ LoRA int4", {"method": "lora", "quant_bits": 4, "quant_method": "gptq"}),
        ("LoRA 8-bit AdamW", {"method": "lora", "optimizer": "adamw_8bit"}),
        ("LoRA, Adam", {"method": "lora", "optimizer": "adam"}),
        ("LoRA, Adam(W)", {"method": "lora", "optimizer": "adamw"}),
        ("LoRA not using Liger and packing", {"method": "lora", "packing": "?", "not Liger": "?"}),
        ("LoRA without Liger, packing", {"method": "lora", "packing": True, "without Liger": "?"}),
        ("LoRA (8-bit optimizer)", {"method": "lora", "optimizer": "?"}),
        ("16-bit LoRA", {"method": "lora", "16-bit": "?"}),
        ("Full ZeRO-3 offload", {"method": "full", "sharding": "zero3", "offload": "stated"}),
        ("Full-parameter + Z2", {"method": "full", "sharding": "zero2"}),
        ("LoRA without ZeRO-3", {"method": "lora", "without ZeRO-3": "?"}),
        ("LoRA ZeRO++", {"method": "lora", "ZeRO": "?"}),
        ("FSDP QLoRA", {**QLORA, "sharding": "fsdp"}),
        ("Unsloth QLoRA", {**QLORA, "Unsloth": "?"}),
        ("LoRA (r=8) + rm", {"method": "lora", "lora_rank": 8, "rm": "?"}),
        ("LoRA (r=8) + ppo", {"method": "lora", "lora_rank": 8, "objective": "ppo"}),
        ("LoRA bf16 mixed precision", {"method": "lora", "compute_dtype": "bf16"}),
        ("LoRA r=8/16", {"method": "lora", "lora_rank": 8, "16": "?"}),
        ("LoRA+", {"method": "lora", "LoRA+": "?"}),
        ("LoRA+GaLore", {"method": "galore", "LoRA": "?"}),
        ("Full r=8", {"method": "full", "r=8": "?"}),
        ("Freeze (l=3)", {"method": "freeze", "l=3": "?"}),
        ("P-Tuning v2", {"method": "p_tuning", "v2": "?"}),
        ("rsLoRA fine-tuning", {"method": "lora", "use_rslora": True}),
        ("SFT (Zero3 method)", {"method": "?", "sharding": "zero3", "objective": "sft"}),
        ("Prefix Tuning", {"method": "prefix_tuning"}),
        ("LoRA (Base)", {"method": "lora", "Base": "?"}),
        ("LoRA on q,v", {"method": "lora", "on q": "?", "v": "?"}),
        ("Baseline", {"method": "?"}),
        ("not LoRA", {"method": "?"}),
    ],
)
def test_words_of_a_method_are_read_or_left_open(text: str, values: dict[str, Any]) -> None:
    assert read_method(text).values() == values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("FP16", {"compute_dtype": "fp16"}),
        ("INT8", {"quant_bits": 8}),
        ("4bit", {"quant_bits": 4}),
        ("load_in_4bit", {"quant_bits": 4}),
        ("NF4", {"quant_bits": 4, "quant_type": "nf4"}),
        ("fast", {}),
    ],
)
def test_words_of_settings_are_read(text: str, said: dict[str, Any]) -> None:
    assert read_settings(text).said == said


METHODS = """Model,Method,GPU,n_gpus,Seq Len,BS,VRAM (GB)
Llama-2-7B,LoRA r=8,RTX 3090,1,2048,1,15
Llama-2-7B,LoRA (attn only),RTX 3090,1,2048,1,13
"""


def test_words_left_over_do_not_import_until_somebody_decides(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    text = draft_text(tmp_path, catalogue, METHODS)
    with pytest.raises(SourceError, match=r"'attn only'.*which the draft left for you to fill in"):
        parse_mapping(text, origin="m.yaml")
    decided = text.replace("attn only: '?'", "lora_target_modules: [q_proj, v_proj]")
    mapping = parse_mapping(decided, origin="m.yaml")
    result = import_document(tmp_path / "doc.csv", mapping, catalogue)
    assert result.problems == ()
    first, second = (seen["configuration"] for seen in result.submission["observations"])
    assert (first["lora_rank"], second["lora_target_modules"]) == (8, ["q_proj", "v_proj"])


def test_a_remark_behind_a_model_is_not_dropped(tmp_path: Path, catalogue: Catalogue) -> None:
    table = draft(
        tmp_path,
        catalogue,
        "Model,Peak VRAM (GB)\nQwen-7B (int8),15.5\nQwen-7B (long),19.5\n",
    )
    assert table["columns"]["Model"]["values"] == {
        "Qwen-7B (int8)": {"model_id": "qwen-7b", "quant_bits": 8},
        "Qwen-7B (long)": {"model_id": "qwen-7b", "long": "?"},
    }


def test_how_a_checkpoint_is_packed_is_not_dropped(tmp_path: Path, catalogue: Catalogue) -> None:
    names = ("Qwen-7B (4bit)", "unsloth/Qwen3-8B-bnb-4bit", "Qwen2.5-7B-Instruct-GPTQ-Int4")
    rows = "".join(f"{name},{10 + place}.5\n" for place, name in enumerate(names))
    table = draft(tmp_path, catalogue, f"Model,Peak VRAM (GB)\n{rows}")
    assert table["columns"]["Model"]["values"] == {
        names[0]: {"model_id": "qwen-7b", "quant_bits": 4},
        names[1]: {"model_id": "qwen3-8b", "quant_bits": 4, "quant_method": "bitsandbytes"},
        names[2]: {"model_id": "qwen2.5-7b", "quant_bits": 4, "quant_method": "gptq"},
    }


@pytest.mark.parametrize(
    ("name", "cell", "metric"),
    [
        ("Step (ms)", "1107", "step_time"),
        ("Iter time (ms)", "660", "step_time"),
        ("Iteration (s)", "2", "step_time"),
        ("Avg step time (s)", "2", "step_time"),
        ("avg_step_time_ms", "12", "step_time"),
        ("Time per Global Step (s)", "10.5", "step_time"),
        ("s/it", "0.66", "step_time"),
        ("Training time", "3h20min", "total_time"),
        ("train_runtime", "310", "total_time"),
        ("Wall clock (min)", "3", "total_time"),
        ("Fine-tuning duration (h)", "3", "total_time"),
        ("Time (hh:mm)", "1:30", "total_time"),
        ("Train (hh:mm:ss)", "11:35", "total_time"),
        ("Train (mm:ss)", "11:35", "total_time"),
        ("Training", "1:25:29", "total_time"),
        ("Finished", "11:35", None),
        ("Start (hh:mm:ss)", "11:35:00", None),
        ("Time", "35min", "total_time"),
        ("Time (s)", "30", None),
        ("Time", "1.2s", None),
        ("Time", "1.2 sec", None),
        ("Latency (ms)", "5", None),
        ("Step latency p99 first token (ms)", "5", None),
        ("Epoch time", "3600 s", None),
        ("Time per epoch (min)", "60", None),
        ("min/epoch", "60", None),
        ("Eval time (s)", "5", None),
        ("GPU hours", "40", None),
        ("A100 GPU-days", "40", None),
        ("Forward (ms)", "3", None),
        ("Micro-step (s)", "1", None),
        ("Checkpoint saving time (s)", "1", None),
        ("Data loading (s)", "1", None),
        ("Compile time (s)", "1", None),
        ("Time saved (h)", "1", None),
        ("Startup (s)", "1", None),
    ],
)
def test_a_time_is_plainly_a_steps_or_the_trainings_or_open(
    name: str, cell: str, metric: str | None
) -> None:
    guess = guess_column(name, [cell])
    assert (None if guess.doubt else guess.metric) == metric


@pytest.mark.parametrize(
    ("name", "n_steps"),
    [
        ("Time/1k steps (s)", 1000),
        ("Time per 100 iterations (s)", 100),
        ("Time per step (s)", None),
    ],
)
def test_a_time_of_several_steps_is_divided(name: str, n_steps: int | None) -> None:
    guess = guess_column(name, ["660"])
    assert (guess.metric, guess.doubt, guess.divide_by) == ("step_time", None, n_steps)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Throughput (k tokens/s)", 3200),
        ("Throughput (k tok/s)", 3200),
        ("Throughput [K tokens/sec]", 3200),
        ("Throughput (thousand tokens/s)", 3200),
        ("Thousands of tokens per second", 3200),
        ("ktok/s", 3200),
        ("ktok_s", 3200),
        ("throughput_k_tokens_per_s", 3200),
        ("tokens/s (K)", 3200),
        ("Throughput (tokens/s x1000)", 3200),
        ("tokens per ms", 3200),
        ("MTokens/s", 3_200_000),
        ("tokens/s (万)", 32_000),
        ("tokens/min", 3.2 / 60),
        ("Throughput (M tokens/day)", 3_200_000 / 86400),
        ("B tokens/day", 3.2e9 / 86400),
        ("Total tokens/s", 3.2),
    ],
)
def test_rates_in_thousands_and_of_other_periods_are_drafted_as_such(
    tmp_path: Path, catalogue: Catalogue, name: str, value: float
) -> None:
    row = f"model,method,gpu,n_gpus,{name}\nllama-2-7b,lora,a100-80gb,1,3.2\n"
    mapping = parse_mapping(draft_text(tmp_path, catalogue, row), origin="m.yaml")
    result = import_document(tmp_path / "doc.csv", mapping, catalogue)
    assert result.problems == ()
    (observation,) = result.submission["observations"]
    (figure,) = observation["measurements"]
    assert figure["metric"] == "tokens_per_second"
    assert figure["value"] == pytest.approx(value)


def test_a_table_of_clocks_is_drafted_as_it_can_be_imported(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    text = "| Model | GPU | Bits | Train (hh:mm:ss) |\n|---|---|---|---|\n" + "".join(
        f"| llama-2-7b | 1x A100 80GB | {bits} | {cell} |\n"
        for bits, cell in ((4, "11:35"), (8, "1:25:29"), (16, "OOM"))
    )
    drafted = draft_text(tmp_path, catalogue, text, ".md").replace("method: '?'", "method: lora")
    drafted = drafted.replace("quant_bits: '?'", "compute_dtype: bf16")
    mapping = parse_mapping(drafted, origin="m.yaml")
    result = import_document(tmp_path / "doc.md", mapping, catalogue)
    assert result.problems == ()
    seen = [
        (row["outcome"], [figure["value"] for figure in row.get("measurements", ())])
        for row in result.submission["observations"]
    ]
    assert seen == [("ok", [695.0]), ("ok", [5129.0]), ("oom", [])]


@pytest.mark.parametrize("name", ["error", "note", "Comments", "remarks", "run.message"])
def test_a_column_that_speaks_of_failures_is_the_outcomes(
    tmp_path: Path, catalogue: Catalogue, name: str
) -> None:
    head = f"model,method,gpu,n_gpus,Peak memory (GiB),{name}\n"
    rows = ("30.1,fine", "79.0,OOM", "40,", "50,RuntimeError: NCCL")
    text = head + "".join(f"llama-2-7b,lora,a100-80gb,1,{row}\n" for row in rows)
    mapping = parse_mapping(draft_text(tmp_path, catalogue, text), origin="m.yaml")
    result = import_document(tmp_path / "doc.csv", mapping, catalogue)
    outcomes = [observation["outcome"] for observation in result.submission["observations"]]
    assert outcomes == ["ok", "oom", "ok", "error"]


def test_a_switch_called_oom_is_the_outcomes(tmp_path: Path, catalogue: Catalogue) -> None:
    runs = '[{"peak_memory_gib": 30, "oom": false}, {"peak_memory_gib": 79, "oom": true}]'
    assert draft(tmp_path, catalogue, runs, ".json")["columns"]["oom"] == {
        "values": {"true": {"outcome": "oom"}},
        "patterns": [{"pattern": "(?s).*", "set": {}}],
    }


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("OOM at 4096", {"values": {"OOM at 4096": {"outcome": "?"}}}),
        ("no OOM", None),
        ("never crashed", None),
        ("oomph", None),
    ],
)
@pytest.mark.parametrize("peak", ["", "OOM"])
def test_a_longer_text_of_a_failure_is_left_open(
    tmp_path: Path, catalogue: Catalogue, text: str, peak: str, column: dict[str, Any] | None
) -> None:
    rows = f"30.1,\n{peak},{text}\n"
    table = draft(tmp_path, catalogue, f"Peak memory (GiB),note\n{rows}")
    assert table["columns"].get("note") == column


def test_a_longer_text_of_a_failure_beside_figures_is_about_another_run(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    remark = "batch size of 7 fails CUDA OOM"
    table = draft(tmp_path, catalogue, f"Peak memory (GiB),Notes\n30.1,{remark}\n40.1,\n")
    assert "Notes" not in table["columns"]
    rows = f"30.1,{remark}\n79.0,OOM\n40.1,\n,OOM at step 3\n"
    table = draft(tmp_path, catalogue, f"Peak memory (GiB),Notes\n{rows}")
    assert table["columns"]["Notes"] == {
        "values": {"OOM": {"outcome": "oom"}, "OOM at step 3": {"outcome": "?"}},
        "patterns": [{"pattern": "(?s).*", "set": {}}],
    }


def test_columns_of_other_thousands_are_no_settings_of_one_figure(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    text = "model,A100 ktok/s,H100 tok/s\nllama-2-7b,3.2,9000\n"
    assert "pivot" not in draft(tmp_path, catalogue, text)


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("BS/GPU", "micro_batch_size"),
        ("Batch per GPU", "micro_batch_size"),
        ("Batch size / device", "micro_batch_size"),
        ("Per-GPU batch", "micro_batch_size"),
        ("Batch size (global)", "global_batch_size"),
        ("Batch size (total)", "global_batch_size"),
        ("batch_size_total", "global_batch_size"),
        ("Batch size (all GPUs)", "global_batch_size"),
        ("Batch size, across devices", "global_batch_size"),
        ("Batch (effective)", "global_batch_size"),
        ("BS (samples, total)", "global_batch_size"),
        ("Overall batch", "global_batch_size"),
        ("Aggregate batch size", "global_batch_size"),
        ("total_train_batch_size", "global_batch_size"),
        ("Global batch size", "global_batch_size"),
        ("Global mini-batch", "global_batch_size"),
        ("Effective BS", "global_batch_size"),
        ("全局批大小", "global_batch_size"),
        ("Total batch size per GPU", "micro_batch_size"),
        ("Batch size", "micro_batch_size"),
        ("Total micro batch size", "micro_batch_size"),
        ("GPUs", "n_gpus"),
        ("GPU count", "n_gpus"),
        ("Num GPUs used", "n_gpus"),
        ("Devices", "n_gpus"),
        ("Layers per GPU", None),
        ("Experts/GPU", None),
        ("GPU util (%)", None),
        ("GPU power (W)", None),
        ("GA", "grad_accum_steps"),
        ("ctx", "seq_len"),
    ],
)
def test_a_number_beside_the_word_gpu_is_not_always_that_of_the_cards(
    name: str, target: str | None
) -> None:
    guess = guess_column(name, ["4"])
    assert (guess.to, guess.metric) == (target, None)


@pytest.mark.parametrize(
    ("name", "cell", "is_peak"),
    [
        ("Peak VRAM (GB)", "24", True),
        ("VRAM (GB)", "15.1", True),
        ("GPU memory usage", "80G", True),
        ("GPU RAM (GB)", "13.1", True),
        ("Memory w/ gradient checkpointing (GB)", "12.3", True),
        ("Memory per card (GB)", "20.5", True),
        ("Reserved (GiB)", "3.1", True),
        ("CPU RAM (GB)", "64.5", False),
        ("Host memory (GB)", "3.1", False),
        ("Checkpoint (GB)", "0.2", False),
        ("Adapter (MB)", "33", False),
        ("Memory saved (GB)", "12.1", False),
        ("Memory reduction (GB)", "12.1", False),
        ("\u0394 mem (GB)", "3.1", False),
        ("Idle VRAM (GB)", "14.1", False),
        ("KV cache (GB)", "1.5", False),
        ("Activation memory (GB)", "3.1", False),
        ("Optimizer states (GB)", "3.1", False),
        ("Weights memory", "13.5 GB", False),
        ("Estimated VRAM (GB)", "11.1", False),
        ("Predicted peak memory (GB)", "11.1", False),
        ("Min VRAM required", "15.5 GB", False),
        ("Recommended VRAM", "15.5 GB", False),
        ("GPU memory (GB)", "24", False),
        ("GPU memory", "80 GB", False),
        ("Dataset (GB)", "3.1", False),
        ("Download (GB)", "3.1", False),
        ("Inference VRAM (GB)", "13.1", False),
    ],
)
def test_memory_is_plainly_a_peak_of_a_training_or_open(
    name: str, cell: str, *, is_peak: bool
) -> None:
    guess = guess_column(name, [cell])
    assert (guess.metric == "peak_memory" and guess.doubt is None) == is_peak


def test_what_is_in_doubt_is_drafted_open_with_the_reason(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    document = "Model,Idle VRAM (GB),Inference tok/s,Peak VRAM (GB)\nQwen-7B,14.5,30,20.5\n"
    text = draft_text(tmp_path, catalogue, document)
    assert "unit: GB}}  # 'Idle' is not the peak of a training run; else {ignore: why}" in text
    columns = yaml.safe_load(text)["tables"][0]["columns"]
    assert columns["Idle VRAM (GB)"]["figure"]["metric"] == "?"
    assert columns["Inference tok/s"] == {"ignore": "not a figure of a training run"}
    assert columns["Peak VRAM (GB)"]["figure"]["metric"] == "peak_memory"


@pytest.mark.parametrize(
    ("above", "metric"),
    [
        ("Memory for generating 2048 tokens", "?"),
        ("Serving the model", "?"),
        ("Memory of fine-tuning; for inference see below", "peak_memory"),
        ("Memory", "peak_memory"),
    ],
)
def test_figures_below_words_of_inference_are_open(
    tmp_path: Path, catalogue: Catalogue, above: str, metric: str
) -> None:
    document = f"# {above}\n\n| Model | VRAM |\n|---|---|\n| Qwen-7B | 15.5 GB |\n"
    table = draft(tmp_path, catalogue, document, ".md")
    assert table["columns"]["VRAM"]["figure"]["metric"] == metric


PRECISIONS = """Method,Batch size,Mode,VRAM
LoRA,4,FP16,20.5GB
LoRA,4,INT8,10.5GB
LoRA,4,INT4,8.5GB
"""


@pytest.mark.parametrize("name", ["Mode", "Quant", "Precision", "Weights as"])
def test_a_column_of_precisions_is_read(tmp_path: Path, catalogue: Catalogue, name: str) -> None:
    table = draft(tmp_path, catalogue, PRECISIONS.replace("Mode", name))
    assert table["columns"][name]["values"] == {
        "FP16": {"compute_dtype": "fp16"},
        "INT8": {"quant_bits": 8},
        "INT4": {"quant_bits": 4},
    }


@pytest.mark.parametrize(
    ("name", "cells", "said"),
    [
        ("Optim", ("AdamW", "Sophia"), [{"optimizer": "adamw"}, {"optimizer": "?"}]),
        (
            "GC",
            ("on", "off"),
            [{"gradient_checkpointing": True}, {"gradient_checkpointing": False}],
        ),
        ("ZeRO", ("2", "stage 3"), [{"sharding": "zero2"}, {"sharding": "?"}]),
        ("Offload", ("cpu", "no"), [{"offload": "stated"}, {"offload": "none"}]),
        ("Quant", ("8", "mystery"), [{"quant_bits": 8}, {"quant_bits": "?"}]),
        ("Attention", ("sdpa", "FA2"), [{"attention": "sdpa"}, {"attention": "flash2"}]),
    ],
)
def test_columns_of_settings_are_drafted_text_by_text(
    tmp_path: Path,
    catalogue: Catalogue,
    name: str,
    cells: tuple[str, str],
    said: list[dict[str, Any]],
) -> None:
    rows = "".join(f"LoRA,{cell},20.{n}GB\n" for n, cell in enumerate(cells))
    table = draft(tmp_path, catalogue, f"Method,{name},VRAM\n{rows}")
    assert list(table["columns"][name]["values"].values()) == said


def test_a_column_that_alone_tells_rows_apart_is_asked_for(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    document = "Method,Flavour,Depth,Loss,VRAM\nLoRA,mild,1,1.5,20.5GB\nLoRA,hot,2,1.6,21.5GB\n"
    text = draft_text(tmp_path, catalogue, document)
    table = yaml.safe_load(text)["tables"][0]
    assert table["columns"]["Flavour"] == "?"
    assert "Depth" not in table["columns"]  # the other tells them apart
    assert "ignore: rest  # 'Depth', 'Loss'" in text
    with pytest.raises(SourceError, match=r"columns\.Flavour: found '\?'"):
        parse_mapping(text, origin="m.yaml")


def test_a_column_beside_settings_that_tell_rows_apart_is_left_out(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    document = "Method,Batch,Flavour,VRAM\nLoRA,1,mild,20.5GB\nLoRA,2,hot,21.5GB\n"
    assert "Flavour" not in draft(tmp_path, catalogue, document)["columns"]


def test_a_column_of_numbers_is_asked_for_where_no_text_tells(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    document = "Method,Depth,Loss,VRAM\nLoRA,1,1.5,20.5GB\nLoRA,2,1.6,21.5GB\n"
    assert draft(tmp_path, catalogue, document)["columns"]["Depth"] == "?"


@pytest.mark.parametrize(
    ("name", "cell", "parts"),
    [
        ("Cost", "37.1G / 2.3s/it", ["peak_memory", "step_time"]),
        ("Memory / speed", "20GB / 5 samples/s", ["peak_memory", "samples_per_second"]),
        ("Mem / time", "22GB / 3h", ["peak_memory", "total_time"]),
        (
            "Alloc/Reserved (GiB)",
            "9.8/11.2",
            ["peak_memory, unit GiB, allocated", "peak_memory, unit GiB, reserved"],
        ),
        ("Speed", "0.5 it/s", []),
        ("Memory/GPU (GiB)", "20.1", []),
    ],
)
def test_cells_of_several_figures_are_drafted_as_parts(
    name: str, cell: str, parts: list[str]
) -> None:
    guess = guess_column(name, [cell, "-", cell])
    assert (list(map(str, guess.parts)), guess.doubt) == (parts, None)


@pytest.mark.parametrize(
    ("name", "cell"),
    [("VRAM", "22 GB / 24 GB"), ("GPU/CPU memory (GB)", "20.1/30.2"), ("Cost", "20 GB / 30sec")],
)
def test_parts_that_are_not_told_apart_are_open(name: str, cell: str) -> None:
    guess = guess_column(name, [cell])
    assert len(guess.parts) == 2
    assert guess.doubt is not None


def test_a_pivot_of_cells_of_two_figures_imports_once_filled_in(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    document = "Method,512,1024\nLoRA,37.1G / 2.3s/it,40.1G / 3.3s/it\n"
    text = draft_text(tmp_path, catalogue, document)
    answers = (("model_id: '?'", "qwen-7b"), ("gpu_id: '?'", "a100-80gb"), ("n_gpus: '?'", "1"))
    for line, answer in (*answers, ("scope: '?'", "total")):
        assert line in text
        text = text.replace(line, line.replace("'?'", answer))
    mapping = parse_mapping(text, origin="m.yaml")
    result = import_document(tmp_path / "doc.csv", mapping, catalogue)
    assert result.problems == ()
    first, second = result.submission["observations"]
    assert [figure["value"] for figure in first["measurements"]] == [37_100_000_000, 2.3]
    assert second["configuration"]["seq_len"] == 1024


@pytest.mark.parametrize(
    ("header", "cells", "to"),
    [
        ("Fine-tuning", ["Qwen2.5-7B", "GLM-4-9B-Chat", "ours"], "model_id"),
        ("Training mode", ["Llama 3.1 8B", "Mistral 7B"], "model_id"),
        ("Fine-tuning Model", ["GLM-4-9B-Chat", "GLM-4V-9B"], "model_id"),
        ("Model", ["LoRA", "QLoRA", "Full"], "method"),
        ("Mode", ["A100 80GB", "H100 80GB"], "gpu_id"),
        ("Fine-tuning", ["LoRA", "Qwen2.5-7B", "Qwen2.5-14B"], "method"),
        ("Model", ["ours", "theirs"], "model_id"),
        ("微调方案", ["lora (PEFT)", "SFT (Zero3 method)"], "method"),
    ],
)
def test_a_column_is_what_its_cells_name_where_none_is_what_the_header_says(
    tmp_path: Path, catalogue: Catalogue, header: str, cells: list[str], to: str
) -> None:
    rows = "".join(f"{cell},{20 + n} GB\n" for n, cell in enumerate(cells))
    path = tmp_path / "doc.csv"
    path.write_text(f"{header},Memory\n{rows}", encoding="utf-8")
    (table,) = read_tables(path).tables
    assert guess_table(table, catalogue)[header].to == to


def test_figures_of_one_cell_are_parts_without_blanks_around_the_slash(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    bare = draft(tmp_path, catalogue, "length,memory/speed\n256,37.1G/2.3s/it\n512,40G/3s/it\n")
    spaced = draft(tmp_path, catalogue, "length,memory/speed\n256,37.1G / 2.3s/it\n")
    assert bare["columns"]["memory/speed"] == spaced["columns"]["memory/speed"]
    assert [part["metric"] for part in bare["columns"]["memory/speed"]["parts"]] == [
        "peak_memory",
        "step_time",
    ]


ON_ITS_SIDE = """\
LLaMA 7B,FP16 + LoRA,INT8 + LoRA
GPU Memory (GB) @ BS=1,14.6,8.85
Time per Epoch (min) @ BS=1,220,643
GPU Memory (GB) @ BS=24,24.08,20.4
Time per Epoch (min) @ BS=24,79.1,168
"""


def test_a_table_whose_rows_name_metrics_lies_on_its_side(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    found = draft(tmp_path, catalogue, ON_ITS_SIDE)
    assert found["transposed"] is True
    assert list(found["columns"]) == ["LLaMA 7B"]
    assert [(pivot["to"], pivot["cell"]["figure"]["unit"]) for pivot in found["pivot"]] == [
        ("micro_batch_size", "GB"),
        ("micro_batch_size", "min"),
    ]


@pytest.mark.parametrize("name", ["Sequence Parallel", "seq parallel size", "Context Parallelism"])
def test_parallelism_over_a_sequence_is_no_length(name: str) -> None:
    assert guess_column(name, ["2", "4"]).to != "seq_len"


@pytest.mark.parametrize(
    "name",
    [
        "gpu_memory_utilization_peak", "gpu_memory_utilization_avg", "GPU Memory Util",
        "gpu_compute_utilization_min", "gpu_compute_utilization_avg", "gpu_power_watts_min",
        "gpu_power_percent_max", "Power (min)", "GPU temperature",
    ],
)  # fmt: skip
def test_a_share_of_a_card_is_neither_memory_nor_time_nor_a_card(name: str) -> None:
    found = guess_column(name, ["31.498108", "70.2", "99"])
    assert (found.metric, found.to, found.header.unit) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("GPU memory utilization (GiB)", ["31.5", "70.2"]),
        ("Memory utilization", ["31.5 GiB", "70.2 GiB"]),
        ("Memory usage", ["31.5", "70.2"]),
    ],
)
def test_a_use_of_memory_with_its_unit_is_memory(name: str, cells: list[str]) -> None:
    assert guess_column(name, cells).metric == "peak_memory"


@pytest.mark.parametrize(
    ("name", "cell", "meaning"),
    [
        ("train/peak_mem_gb", "15.5", "peak_memory, unit GB"),
        ("metrics.tokens_per_sec", "1234.5", "tokens_per_second, unit token/s"),
        ("train/train_samples_per_second", "3.2", "samples_per_second, unit sample/s"),
        ("eval/samples_per_second", "3.2", "?"),
        ("Relative memory", "0.45", "?"),
        ("Time (relative)", "0.45", "?"),
        ("Tokens/s vs baseline", "1.2", "?"),
        ("time (GPU-h)", "6", "?"),
        ("ms/step", "1500", "step_time, unit ms"),
    ],
)
def test_prefixed_names_are_read_and_shares_and_card_hours_are_left_open(
    name: str, cell: str, meaning: str
) -> None:
    assert str(guess_column(name, [cell, cell])) == meaning


@pytest.mark.parametrize(
    ("name", "cell", "meaning"),
    [
        ("GPU-Speicher (GB)", "20,5", "peak_memory, unit GB"),
        ("Trainingszeit", "2 Std. 5 Min.", "total_time"),
        ("Mémoire GPU", "20,5 Go", "peak_memory"),
        ("Durée d'entraînement", "2 heures", "total_time"),
        ("最大メモリ使用量", "20.5GB", "peak_memory"),
        ("学習時間", "2時間5分", "total_time"),
        ("메모리 사용량", "20.5GB", "peak_memory"),
        ("학습 시간", "2시간 5분", "total_time"),
        ("時間", "5", "total_time"),
        ("Modèle", "Llama", "model_id"),
        ("バッチサイズ", "4", "micro_batch_size"),
    ],
)
def test_headers_in_other_languages_are_read(name: str, cell: str, meaning: str) -> None:
    assert str(guess_column(name, [cell, cell])) == meaning


@pytest.mark.parametrize(
    "name",
    ["Est. train time (h)", "Est. memory (GB)", "Arbeitsspeicher (GB)", "Peak process RSS (GB)"],
)
def test_an_estimate_and_the_hosts_memory_are_asked_for(name: str) -> None:
    doubt = guess_column(name, ["4.5", "5.5"]).doubt
    assert doubt is not None
    assert doubt.is_by_name


@pytest.mark.parametrize(
    ("name", "cells", "meaning"),
    [
        ("Speed", ["25 ms/step", "30 ms/step"], "step_time"),
        ("Speed", ["30 it/min"], "steps_per_second"),
        ("Speed / it/s", ["2.4"], "steps_per_second, unit step/s"),
        ("Mem / GiB", ["9.1"], "peak_memory, unit GiB"),
        ("Time / min", ["30"], "total_time, unit min"),
        ("Price / h", ["1.2"], "?"),
        ("VRAM", ["28GB/GPU", "65 GB per card"], "peak_memory"),
        ("Number of V100 GPUs", ["16", "64"], "n_gpus"),
        ("GPU-A40 Number", ["4"], "n_gpus"),
        ("序列", ["4K"], "seq_len"),
        ("DeepSpeed-Stage", ["zero2"], "sharding"),
        ("ckpt", ["Yes"], "gradient_checkpointing"),
    ],
)
def test_units_in_cells_and_second_rows_and_numbers_of_cards_are_read(
    name: str, cells: list[str], meaning: str
) -> None:
    assert str(guess_column(name, cells)) == meaning


def test_the_time_of_several_steps_is_a_step_time(tmp_path: Path, catalogue: Catalogue) -> None:
    columns = draft(
        tmp_path,
        catalogue,
        "model,Time,Speed\na,4.8\u79d2/3\u30b9\u30c6\u30c3\u30d7,4.8 s / 3 steps\n"
        "b,5.8\u79d2/3\u30b9\u30c6\u30c3\u30d7,12 s per 100 steps\n",
    )["columns"]
    assert columns["Time"] == columns["Speed"] == {"figure": {"metric": "step_time"}}


@pytest.mark.parametrize("cell", ["23.1 \u2192 18.4 GB", "23.1 GB -> 18.4 GB", "23.1=>18.4GB"])
def test_which_figure_of_a_change_is_the_rows_is_asked(
    tmp_path: Path, catalogue: Catalogue, cell: str
) -> None:
    text = draft_text(tmp_path, catalogue, f"model,Memory,Loss\na,{cell},2\nb,{cell},3\n")
    assert f"Memory: {{figure: {{metric: '?', scope: '?'}}}}  # '{cell}' is two figures" in text


def test_a_change_is_refused_with_a_form_that_reads_it(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    path = tmp_path / "doc.csv"
    path.write_text("Model,Memory\nQwen-7B,23.1 \u2192 18.4 GB\n", encoding="utf-8")

    def read(form: str) -> Any:
        mapping = (
            "source: {source_id: x, title: x, kind: document}\n"
            "tables:\n  - match: {table: 1}\n"
            "    defaults: {method: lora, gpu_id: a100-sxm4-80gb, n_gpus: 1}\n    columns:\n"
            "      Model: {values: {Qwen-7B: {model_id: qwen-7b}}}\n"
            f"      Memory: {{figure: {{metric: peak_memory{form}}}}}\n"
        )
        return import_document(path, parse_mapping(mapping, origin="m.yaml"), catalogue)

    (problem,) = read("").problems
    way_out = r"form: ['.+→\s*(?P<value>.+)']"
    assert f"which of them is the row's? `{way_out}` of the figure takes the last" in problem
    found = read(f", {way_out}")
    assert found.problems == ()
    assert found.submission["observations"][0]["measurements"][0]["value"] == 18_400_000_000


@pytest.mark.parametrize(
    ("name", "cells"),
    [("Memory (%)", "45,55"), ("Mem. reduction", "45 %,55 %"), ("GPU memory", "45%,55%")],
)
def test_percentages_are_no_amounts_of_memory(
    tmp_path: Path, catalogue: Catalogue, name: str, cells: str
) -> None:
    first, second = cells.split(",")
    columns = draft(
        tmp_path, catalogue, f"model,{name},Peak memory\na,{first},4 GB\nb,{second},5 GB\n"
    )["columns"]
    assert columns[name] == {"ignore": "percentages, no amounts"}


@pytest.mark.parametrize(
    "heading",
    [
        "# Estimated memory",
        "# Theoretical memory\n\n## 7B",
        "# \u9884\u4f30\u663e\u5b58",
        "# Memory\n\nThese are estimates of the memory.",
        "# Memory requirements",
        *("# Resultados esperados", "# ハードウェア要件", "# Ожидаемая память", "# Requisitos"),
    ],
)
def test_estimates_are_not_drafted_as_measurements(
    tmp_path: Path, catalogue: Catalogue, heading: str
) -> None:
    rows = "| Model | Memory (GB) |\n|---|---|\n| Qwen-7B | 20 |\n"
    text = draft_text(tmp_path, catalogue, f"{heading}\n\n{rows}", ".md")
    assert "Memory (GB): {figure: {metric: '?'" in text
    assert "measured, or not?; else {ignore: why}" in text


def test_failures_below_the_names_of_several_cards_are_of_each(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = "Precision,H100,L40S\nbf16,OOM,OOM\nfp16,unsupported,OOM\n"
    columns = draft(tmp_path, catalogue, rows)["columns"]
    assert (columns["H100"], columns["L40S"]) == ("?", "?")


def test_a_column_of_setups_is_drafted_with_what_its_texts_say(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = 'Run,Seq len,Step time (s)\n"tp2, pp8, mbs=4, x=1",4096,1.5\n"TP4PP2",8192,2.5\n'
    assert draft(tmp_path, catalogue, rows)["columns"]["Run"]["values"] == {
        "tp2, pp8, mbs=4, x=1": {
            "tensor_parallel": 2,
            "pipeline_parallel": 8,
            "micro_batch_size": 4,
            "x=1": "?",
        },
        "TP4PP2": {"tensor_parallel": 4, "pipeline_parallel": 2},
    }


def test_estimated_settings_are_asked_for_in_pivots(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = "| Model | LoRA | full |\n|---|---|---|\n| Qwen-7B | 20 | 60 |\n"
    found = draft(tmp_path, catalogue, f"# Estimated memory (GB)\n\n{rows}", ".md")
    assert found["pivot"][0]["cell"]["figure"]["metric"] == "?"


def test_what_is_measured_below_estimates_is_measured(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = "| Model | Memory (GB) |\n|---|---|\n| Qwen-7B | 20 |\n"
    heading = "# Memory estimation\n\n## Measured peaks"
    found = draft(tmp_path, catalogue, f"{heading}\n\n{rows}", ".md")
    assert found["columns"]["Memory (GB)"]["figure"]["metric"] == "peak_memory"


@pytest.mark.parametrize("about", ["~", "\u7ea6", "\u7d04", "\uc57d "])
def test_what_is_about_a_figure_is_one(about: str) -> None:
    assert str(guess_column("VRAM", [f"{about}8GB", f"{about}11GB"])) == "peak_memory"


def test_the_step_tells_apart_the_rows_of_one_run_not_its_learning_rate(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    text = "Step,LR,Tokens/s\n1,1.33e-8,67.4\n5,4.00e-8,153.5\n"
    columns = draft(tmp_path, catalogue, text)["columns"]
    assert (columns["Step"], "LR" in columns) == ("?", False)


RST = """\
Bench
=====

Estimated memory
----------------

All of it was computed.

+--------+---------+
| Method | Memory  |
+========+=========+
| LoRA   | 20 GiB  |
+--------+---------+
"""

PAGE = """\
<html><p>Memory as estimated.</p>
<table><tr><th>Method</th><th>Memory</th></tr><tr><td>LoRA</td><td>20 GiB</td></tr></table></html>
"""


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        (RST, ".rst"),
        (PAGE, ".html"),
    ],
)
def test_estimates_are_asked_about_in_other_formats(
    tmp_path: Path, catalogue: Catalogue, text: str, suffix: str
) -> None:
    found = draft(tmp_path, catalogue, text, suffix)
    assert found["columns"]["Memory"]["figure"]["metric"] == "?"


def test_a_section_that_is_alone_in_its_document_is_a_heading(tmp_path: Path) -> None:
    path = tmp_path / "doc.rst"
    path.write_text(RST, encoding="utf-8")
    (table,) = read_tables(path).tables
    assert (table.heading, table.prose) == (
        ("Bench", "Estimated memory"),
        ("All of it was computed.",),
    )


def test_what_is_left_of_the_card_is_no_peak(tmp_path: Path, catalogue: Catalogue) -> None:
    columns = draft(
        tmp_path,
        catalogue,
        "method,peak_reserved_gb,reserved_headroom_gb\nlora,31.686,0.298\ndora,30.887,1.097\n",
    )["columns"]
    assert columns["peak_reserved_gb"]["figure"]["metric"] == "peak_memory"
    assert columns["reserved_headroom_gb"]["figure"]["metric"] == "?"


def test_parameters_that_are_trained_more_are_no_count_of_a_run(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    columns = draft(
        tmp_path,
        catalogue,
        "method,trainable_params,extra_trainable_params_vs_lora,peak_gb\n"
        "lora,979435520,0,30.9\ndora,983664640,4229120,31.6\n",
    )["columns"]
    assert columns["trainable_params"] == {"figure": {"metric": "trainable_params"}}
    assert "extra_trainable_params_vs_lora" not in columns


def test_of_two_whole_times_one_is_asked_for(tmp_path: Path, catalogue: Catalogue) -> None:
    columns = draft(
        tmp_path,
        catalogue,
        "rank,train_runtime_seconds,wall_time_seconds\n8,1085.7,1095.1\n16,1123.2,1133.0\n",
    )["columns"]
    assert columns["train_runtime_seconds"]["figure"]["metric"] == "total_time"
    assert columns["wall_time_seconds"]["figure"]["metric"] == "?"


def test_the_memory_of_a_machine_is_no_peak_and_its_versions_are_no_runs(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    table = draft(
        tmp_path,
        catalogue,
        "Component,Specification\nGPU,NVIDIA GeForce RTX 4090\nVRAM,24.2 GB\nCUDA,12.8\n"
        "TRL,0.29.1\n",
    )
    assert table["columns"]["VRAM"]["figure"]["metric"] == "?"
    assert "pivot" not in table


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("offload=False (seq 512, r16)", {"offload": "none", "seq_len": 512, "lora_rank": 16}),
        ("offload=True + grad ckpt", {"offload": "stated", "gradient_checkpointing": True}),
        ("packing=off", {"packing": False}),
        ("DDP = false", {"sharding": "?"}),
        ("seq2048, sequence parallel 4", {"seq_len": 2048}),
    ],
)
def test_a_word_that_is_turned_off_behind_it_says_so(text: str, said: dict[str, Any]) -> None:
    assert read_settings(text).said == said


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        *(("VERIFIED_OOM", "oom"), ("VERIFIED_OK", "ok"), ("NOT_RUN_YET", "?")),
        *(("NO_OOM", "ok"), ("NOT_OK", "?"), ("not_failed", "?"), ("UNTESTED_OK", "?")),
    ],
)
def test_the_last_word_of_a_label_tells_how_a_run_ended(
    catalogue: Catalogue, text: str, outcome: str
) -> None:
    assert values_of("outcome", text, catalogue) == {"outcome": outcome}


def test_a_label_of_an_estimate_is_no_outcome(catalogue: Catalogue) -> None:
    assert values_of("outcome", "ESTIMATED_OOM", catalogue) == {"evidence": "?"}
