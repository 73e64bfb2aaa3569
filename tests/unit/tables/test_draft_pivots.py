"""Drafts of tables whose columns stand for settings, or whose cells say what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from registry.tables import draft_mapping, import_document, read_mapping, read_tables

if TYPE_CHECKING:
    from pathlib import Path

    from registry.catalogue import Catalogue


def table(*rows: str) -> str:
    width = rows[0].count("|") - 1
    return "\n".join([rows[0], "|---" * width + "|", *rows[1:]]) + "\n"


def draft_text(folder: Path, catalogue: Catalogue, document: str) -> str:
    path = folder / "doc.md"
    path.write_text(document, encoding="utf-8")
    return draft_mapping(path, read_tables(path), catalogue)


def draft_table(folder: Path, catalogue: Catalogue, document: str) -> dict[str, Any]:
    (found,) = yaml.safe_load(draft_text(folder, catalogue, document))["tables"]
    return dict(found)


MEMORY = {"figure": {"metric": "peak_memory", "scope": "?"}}


@pytest.mark.parametrize(
    ("columns", "pattern", "said"),
    [
        ("512 | 2048", "(512|2048)", {"to": "seq_len"}),
        ("4K | 8K", "(4K|8K)", {"to": "seq_len", "k_is": "?"}),
        ("seq 512 | seq 1024", "seq (.+)", {"to": "seq_len"}),
        ("bs=1 | bs=8", "bs=(.+)", {"to": "micro_batch_size"}),
        ("2 GPUs | 4 GPUs", "(.+) GPUs", {"to": "n_gpus"}),
        ("GPUs: 2 | GPUs: 4", "GPUs: (.+)", {"to": "n_gpus"}),
        (
            "RTX 4090 | 8x A100 80GB",
            "(RTX 4090|8x A100 80GB)",
            {
                "values": {
                    "RTX 4090": {"gpu_id": "rtx-4090"},
                    "8x A100 80GB": {"gpu_id": "a100-80gb", "n_gpus": 8},
                }
            },
        ),
        (
            "LoRA memory | full memory",
            "(.+) memory",
            {"values": {"LoRA": {"method": "lora"}, "full": {"method": "full"}}},
        ),
        (
            "Qwen-7B | Qwen-14B | Our-7B",
            "(Qwen-7B|Qwen-14B|Our-7B)",
            {
                "values": {
                    "Qwen-7B": {"model_id": "qwen-7b"},
                    "Qwen-14B": {"model_id": "qwen-14b"},
                    "Our-7B": {"model_id": "?"},
                }
            },
        ),
        ("ours memory | theirs memory", "(.+) memory", {"values": {"ours": "?", "theirs": "?"}}),
    ],
)
def test_columns_called_as_settings_are_drafted_as_a_pivot(
    tmp_path: Path,
    catalogue: Catalogue,
    columns: str,
    pattern: str,
    said: dict[str, Any],
) -> None:
    width = columns.count("|")
    rows = table(
        f"| note | {columns} |",
        f"| a | 10 GiB {'| 11 GiB' * width} |",
        f"| b {'| OOM' * width} | 9 GiB |",
    )
    found = draft_table(tmp_path, catalogue, rows)
    assert found["pivot"] == [{"columns": pattern, **said, "cell": MEMORY}]


def test_a_column_of_outcomes_belongs_to_the_settings_beside_it(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = table("| note | 512 | 1024 |", "| a | 10 GiB | OOM |", "| b | 12 GiB | OOM |")
    (pivot,) = draft_table(tmp_path, catalogue, rows)["pivot"]
    assert pivot["columns"] == "(512|1024)"


def test_the_heading_says_in_what_clocks_are(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = "# Training time (hours)\n\n" + table("| model | A100 | H100 |", "| a | 2:30 | 1:10 |")
    (pivot,) = draft_table(tmp_path, catalogue, rows)["pivot"]
    assert pivot["cell"]["figure"] == {
        "metric": "total_time",
        "default_unit": "h",
        "default_reason": "'Training time (hours)' says so",
    }


def test_the_heading_says_what_bare_figures_are(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = "# Memory usage (GiB)\n\n" + table("| Method | 512 | 1024 |", "| QLoRA | 10 | 12 |")
    (pivot,) = draft_table(tmp_path, catalogue, rows)["pivot"]
    assert pivot["cell"]["figure"] == {
        "metric": "peak_memory",
        "scope": "?",
        "default_unit": "GiB",
        "default_reason": "'Memory usage (GiB)' says so",
    }


@pytest.mark.parametrize(
    "columns",
    [
        "Training Memory | Inference Memory",
        "GPU memory (GB) | CPU memory (GB)",
        "peak allocated | peak reserved",
        "warmup time | run time",
    ],
)
def test_parts_of_one_run_are_no_settings(
    tmp_path: Path, catalogue: Catalogue, columns: str
) -> None:
    unit = "s" if "time" in columns else "GiB"
    rows = table(f"| note | {columns} |", f"| a | 10 {unit} | 11 {unit} |")
    assert "pivot" not in draft_table(tmp_path, catalogue, rows)


def test_rates_beside_each_other_are_of_several_settings(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = table("| Setup | Ours | Theirs |", "| a | 46.91 samples/s | 42.6 samples/s |")
    (pivot,) = draft_table(tmp_path, catalogue, rows)["pivot"]
    assert pivot["values"] == {"Ours": "?", "Theirs": "?"}


def test_bare_figures_by_number_of_cards_are_of_a_metric_to_be_named(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = "# Throughput\n\n" + table("| Layout | 8 GPUs | 16 GPUs |", "| tp=1 | 4062 | 3842 |")
    (pivot,) = draft_table(tmp_path, catalogue, rows)["pivot"]
    assert pivot == {"columns": "(.+) GPUs", "to": "n_gpus", "cell": {"figure": {"metric": "?"}}}


def test_a_table_on_its_side_is_drafted_so(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = table(
        "| GPU Number | 8 | 16 |", "| TGS | 4078 | 3939 |", "| Activation Ckpt | yes | no |"
    )
    found = draft_table(tmp_path, catalogue, rows)
    assert found["transposed"] is True
    assert found["columns"] == {
        "GPU Number": {"to": "n_gpus"},
        "TGS": {
            "figure": {"metric": "tokens_per_second", "scope": "mean_gpu", "unit": "token/s/gpu"}
        },
        "Activation Ckpt": {"to": "gradient_checkpointing"},
    }


def test_accuracies_of_models_are_no_measurements(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = table("| Benchmark | Qwen-7B | Llama 2 7B |", "| BLEU | 8.1 | 7.2 |")
    assert "no column of any table looks measured" in draft_text(tmp_path, catalogue, rows)


def test_cells_that_name_cards_and_methods_tell_what_their_column_is(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = table(
        "| Resources | Technique | Memory |",
        "| 2 x RTX 4090 | Baseline | 10 GiB |",
        "| 4 x T4 | QLoRA | 5 GiB |",
    )
    columns = draft_table(tmp_path, catalogue, rows)["columns"]
    assert columns["Resources"]["values"]["4 x T4"] == {"gpu_id": "t4", "n_gpus": 4}
    assert columns["Technique"]["values"]["Baseline"] == {"method": "?"}


def test_a_draft_of_a_pivot_imports_once_it_is_filled_in(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = table(
        "| Model | 4K (GiB) | 8K (GiB) |", "| Qwen-7B | 20.1 | OOM |", "| Qwen-14B | - | - |"
    )
    text = draft_text(tmp_path, catalogue, rows)
    answers = (("method: '?'", "lora"), ("gpu_id: '?'", "a100-sxm4-80gb"), ("n_gpus: '?'", "1"))
    for open_line, answer in (*answers, ("k_is: '?'", "1024"), ("scope: '?'", "total")):
        assert open_line in text
        text = text.replace(open_line, open_line.replace("'?'", answer))
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(text, encoding="utf-8")
    result = import_document(tmp_path / "doc.md", read_mapping(mapping), catalogue)
    assert result.problems == ()
    assert [
        (seen["outcome"], seen["configuration"]["seq_len"])
        for seen in result.submission["observations"]
    ] == [("ok", 4096), ("oom", 8192)]


@pytest.mark.parametrize(
    ("heading", "metrics", "units"),
    [
        ("Memory (GB) / Time (s/it)", ["peak_memory", "step_time"], ["GB", "s/step"]),
        ("Results", ["?", "?"], [None, None]),
        ("Memory (GB)", ["?", "?"], [None, None]),
    ],
)
def test_cells_of_two_bare_figures_are_two_parts(
    tmp_path: Path, catalogue: Catalogue, heading: str, metrics: list[str], units: list[str | None]
) -> None:
    rows = table("| Model | 1k | 2k |", "| Qwen-7B | 12.1 / 1.2 | OOM |")
    found = draft_table(tmp_path, catalogue, f"# {heading}\n\n{rows}")
    cell = found["pivot"][0]["cell"]
    assert [part["metric"] for part in cell["parts"]] == metrics
    assert [part.get("default_unit") for part in cell["parts"]] == units


def test_failures_among_numbers_are_of_that_column_and_are_asked_for(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = table(
        "| Memory (GB) | Our context | Theirs | Notes |",
        "| 8.5 | 2,972 | OOM | - |",
        "| 12.5 | 21,848 | 932 | failed |",
    )
    columns = draft_table(tmp_path, catalogue, rows)["columns"]
    assert columns["Theirs"] == "?"
    assert columns["Notes"] == {"values": {"failed": {"outcome": "error"}}}


def test_a_failure_in_the_place_of_a_setting_is_the_outcome(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = table("| Memory (GB) | Batch |", "| 8.5 | 4 |", "| - | CUDA OOM |")
    assert draft_table(tmp_path, catalogue, rows)["columns"]["Batch"] == {
        "to": "micro_batch_size",
        "patterns": [{"pattern": r"CUDA\ OOM", "set": {"outcome": "oom"}}],
    }


def test_a_table_in_which_something_ran_out_of_memory_is_drafted(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = table(
        "| Micro batch size | PyTorch | DeepSpeed | Speedup |",
        "| 4 | 36.34 | 50.76 | 1.4 |",
        "| 6 | OOM | 54.28 | - |",
    )
    columns = draft_table(tmp_path, catalogue, rows)["columns"]
    assert columns == {
        "Micro batch size": {"to": "micro_batch_size"},
        "PyTorch": "?",
        "DeepSpeed": "?",
    }


def test_columns_that_may_name_the_cards_of_each_row_are_asked_for(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = table(
        "| Model | Cluster | GPUs | Time (h) |",
        "| Qwen-7B | 2x8 | 8x A100-40GB | 3 |",
        "| Qwen-14B | 32x16 | 8x A100-80GB | 5 |",
    )
    found = draft_table(tmp_path, catalogue, rows)
    assert found["columns"]["Cluster"] == "?"
    assert found["columns"]["GPUs"]["values"]["8x A100-80GB"] == {
        "gpu_id": "a100-80gb",
        "n_gpus": 8,
    }
    assert found["defaults"] == {"method": "?"}


@pytest.mark.parametrize("cell", ["OOM / -", "✗", "OOM"])
def test_a_column_of_nothing_but_failures_is_part_of_the_pivot(
    tmp_path: Path, catalogue: Catalogue, cell: str
) -> None:
    rows = table("| Model | seq 2048 | seq 4096 |", f"| Qwen-7B | 23.1GB / 1.2 s/it | {cell} |")
    (pivot,) = draft_table(tmp_path, catalogue, rows)["pivot"]
    assert pivot["columns"] == "seq (.+)"
    assert [part["metric"] for part in pivot["cell"]["parts"]] == ["peak_memory", "step_time"]


def test_rows_of_a_speed_and_a_memory_lie_on_their_side(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = table(
        "| | Megatron-LM | ZeRO2 |",
        "| 训练速度 | 9.04s/it | 9.4s/it |",
        "| 显存占用 | 64GB | OOM |",
    )
    found = draft_table(tmp_path, catalogue, rows)
    assert found["transposed"] is True
    assert found["columns"]["训练速度"] == {"figure": {"metric": "step_time"}}


def test_a_list_of_what_is_known_of_one_run_lies_on_its_side(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = table(
        "| Metrica | Valor |", "| Duracion del entrenamiento | 28 minutos |",
        "| Pico de VRAM | 7,73 GB |", "| Notas | alpaca |",
    )  # fmt: skip
    found = draft_table(tmp_path, catalogue, rows)
    assert found["transposed"] is True
    assert found["columns"]["Pico de VRAM"]["figure"]["decimal"] == ","


@pytest.mark.parametrize(
    ("columns", "marks"),
    [
        ("LoRA* (GiB) | full\u2020 (GiB)", ["*", "\u2020"]),
        ("7B** memory | 13B memory", ["**"]),
        ("2*A100 | 4*A100", []),
    ],
)
def test_marks_in_the_names_of_pivoted_columns_are_asked_for(
    tmp_path: Path,
    catalogue: Catalogue,
    columns: str,
    marks: list[str],
) -> None:
    rows = table(f"| Model | {columns} |", "| Qwen-7B | 10 GiB | 20 GiB |")
    found = yaml.safe_load(draft_text(tmp_path, catalogue, rows))
    assert found.get("footnotes", {}) == dict.fromkeys(marks, "?")


def test_a_length_with_a_mark_is_a_length(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = table("| Model | 512 | 2048* |", "| Qwen-7B | 10 GiB | 20 GiB |")
    (pivot,) = draft_table(tmp_path, catalogue, rows)["pivot"]
    assert (pivot["columns"], pivot["to"]) == (r"(512|2048\*)", "seq_len")


def test_a_mark_inside_of_a_columns_name_that_means_nothing_is_told(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = table("| Model | LoRA* (GiB) | full (GiB) |", "| Qwen-7B | 10 | 20 |")
    text = draft_text(tmp_path, catalogue, rows)
    text = text.replace("  '*': '?'\n", "").replace("footnotes:", "footnotes: {}")
    text = text.replace("gpu_id: '?'", "gpu_id: a100-sxm4-80gb")
    text = text.replace("n_gpus: '?'", "n_gpus: 1").replace("scope: '?'", "scope: total")
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(text, encoding="utf-8")
    result = import_document(tmp_path / "doc.md", read_mapping(mapping), catalogue)
    assert result.problems == ()
    (note,) = [note for note in result.notes if "footnote" in note]
    assert "column 'LoRA* (GiB)': the mapping gives the footnote mark '*' no meaning" in note


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("FooTune | BarTune", {"FooTune": "?", "BarTune": "?"}),
        (
            "FooTune | LoRA",
            {"FooTune": {"method": "?"}, "LoRA": {"method": "lora"}},
        ),
    ],
)
def test_bare_figures_below_a_heading_of_memory_are_of_settings_to_be_named(
    tmp_path: Path, catalogue: Catalogue, columns: str, values: dict[str, Any]
) -> None:
    rows = "# Peak memory (GiB)\n\n" + table(
        f"| Model | Loss | {columns} |", "| Qwen-7B | 1.2 | 10 | 12 |"
    )
    (pivot,) = draft_table(tmp_path, catalogue, rows)["pivot"]
    assert pivot["values"] == values
    assert pivot["cell"]["figure"]["metric"] == "peak_memory"


def test_bare_figures_below_any_other_heading_are_nothing(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = "# Results\n\n" + table("| Model | FooTune | BarTune |", "| Qwen-7B | 10 | 12 |")
    assert "no column of any table looks measured" in draft_text(tmp_path, catalogue, rows)


@pytest.mark.parametrize(
    ("columns", "pattern", "values"),
    [
        ("7B | 8x7B", "(7B|8x7B)", {"7B": {"model_id": "?"}, "8x7B": {"model_id": "?"}}),
        (
            "Cost (Llama 2-7B) | Cost (Llama 2-13B)",
            r"Cost \((.+)\)",
            {"Llama 2-7B": {"model_id": "llama-2-7b"}, "Llama 2-13B": {"model_id": "llama-2-13b"}},
        ),
        (
            "Llama 2 7B memory | Llama 2 13B memory",
            "(.+) memory",
            {"Llama 2 7B": {"model_id": "llama-2-7b"}, "Llama 2 13B": {"model_id": "llama-2-13b"}},
        ),
    ],
)
def test_models_in_the_names_of_columns_are_named_whole(
    tmp_path: Path, catalogue: Catalogue, columns: str, pattern: str, values: dict[str, Any]
) -> None:
    rows = table(f"| Method | {columns} |", "| LoRA | 20 GB | 30 GB |")
    (pivot,) = draft_table(tmp_path, catalogue, rows)["pivot"]
    assert (pivot["columns"], pivot["values"]) == (pattern, values)


@pytest.mark.parametrize("name", ["Bits", "\u7cbe\u5ea6", "Precision"])
def test_bits_that_a_column_tells_go_before_what_a_method_usually_has(
    tmp_path: Path, catalogue: Catalogue, name: str
) -> None:
    rows = table(
        f"| Method | {name} | Memory |", "| QLoRA | 8 | 10 GB |", "| QLoRA | 4 | 6 GB |",
        "| LoRA | 16 | 16 GB |",
    )  # fmt: skip
    columns = draft_table(tmp_path, catalogue, rows)["columns"]
    assert columns["Method"]["values"] == {"QLoRA": {"method": "lora"}, "LoRA": {"method": "lora"}}
    assert columns[name]["values"]["8"] == {"quant_bits": 8}


def test_the_slash_of_a_header_of_two_rows_parts_no_figures(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    head = "<tr><th rowspan=2>Method</th><th colspan=2>Sequence Length</th></tr>"
    lengths = "<tr><th>384</th><th>512</th></tr>"
    cells = "<tr><td>LoRA</td><td>37.1G / 2.3s/it</td><td>37.3G / 2.4s/it</td></tr>"
    text = f"<table>{head}{lengths}{cells}</table>"
    (pivot,) = draft_table(tmp_path, catalogue, text)["pivot"]
    assert [part["metric"] for part in pivot["cell"]["parts"]] == ["peak_memory", "step_time"]


def test_a_link_in_a_heading_says_no_metric(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = "# [Results](https://example.org)\n\n" + table(
        "| Size | LR | KL |", "| 7B | 1e-6 | 0.01 |"
    )
    text = draft_text(tmp_path, catalogue, rows)
    assert "no column of any table looks measured" in text
    assert "title: Results" in text


def test_models_below_a_heading_of_throughput_are_measured(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = table(
        "| | Llama-3-8B (2048) | Llama-3-8B (4096) |", "| (lora) A100 | 4079.28 | 3682.15 |"
    )
    (pivot,) = draft_table(tmp_path, catalogue, f"# Throughput\n\n{rows}")["pivot"]
    assert pivot["values"] == {
        "Llama-3-8B (2048)": {"model_id": "llama-3-8b", "2048": "?"},
        "Llama-3-8B (4096)": {"model_id": "llama-3-8b", "4096": "?"},
    }
    assert pivot["cell"] == {"figure": {"metric": "?"}}
    assert "no column of any table looks measured" in draft_text(tmp_path, catalogue, rows)
