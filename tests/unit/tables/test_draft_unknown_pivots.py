"""Drafts of tables whose columns are settings that nobody but their authors knows the names of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from registry.tables import draft_mapping, read_tables

if TYPE_CHECKING:
    from pathlib import Path

    from registry.catalogue import Catalogue


def draft(folder: Path, catalogue: Catalogue, *rows: str, above: str = "") -> dict[str, Any]:
    width = rows[0].count("|") - 1
    path = folder / "doc.md"
    lines = [above, "", rows[0], "|---" * width + "|", *rows[1:]]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (found,) = yaml.safe_load(draft_mapping(path, read_tables(path), catalogue))["tables"]
    return dict(found)


def test_columns_of_which_only_units_tell_the_metric_are_settings(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = ("| Model | Plain | Fancy | State Tuning |", "| qwen-7b | 7.4 GB | 5.6 GB | 6.4 GB |")
    found = draft(tmp_path, catalogue, *rows)
    (pivot,) = found["pivot"]
    assert pivot["values"] == {"Plain": "?", "Fancy": "?", "State Tuning": "?"}
    assert pivot["cell"] == {"figure": {"metric": "?", "scope": "?"}}
    assert list(found["columns"]) == ["Model"]


def test_failures_of_one_such_column_are_not_the_rows(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = (
        *("| Model | Plain | Fancy | Fanciest |", "| qwen-7b | OOM | 7.4 GB | 5.6 GB |"),
        "| qwen-14b | OOM | 12.1 GB | 8.2 GB |",
    )
    found = draft(tmp_path, catalogue, *rows)
    assert list(found["pivot"][0]["values"]) == ["Plain", "Fancy", "Fanciest"]
    assert list(found["columns"]) == ["Model"]


def test_such_columns_may_hold_a_time_and_memory(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = ("| GPU | Plain | Fancy |", "| L40S | 0.05s / 4.4 GiB | 0.06s / 4.0 GiB |")
    (pivot,) = draft(tmp_path, catalogue, *rows)["pivot"]
    assert list(pivot["values"]) == ["Plain", "Fancy"]
    assert len(pivot["cell"]["parts"]) == len(("time", "memory"))


def test_columns_called_as_metrics_are_none(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = ("| Model | Allocated | Peak memory |", "| qwen-7b | 7.4 GB | 5.6 GB |")
    assert "pivot" not in draft(tmp_path, catalogue, *rows)


def test_a_speedup_is_no_run_of_its_own(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = (
        *("| Micro batch size | Plain | Fancy | Speedup (x) |", "| 4 | 36.3 | 50.7 | 1.4 |"),
        "| 6 | OOM | 54.2 | 1.5 |",
    )
    caption = "## Samples/second for running fine-tuning on a V100"
    (pivot,) = draft(tmp_path, catalogue, *rows, above=caption)["pivot"]
    assert list(pivot["values"]) == ["Plain", "Fancy"]
    figure = pivot["cell"]["figure"]
    assert (figure["metric"], figure["default_unit"]) == ("samples_per_second", "sample/s")


def test_words_beside_a_figure_do_not_make_a_speed_a_method(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    name = "LoRA fine-tuning throughput"
    rows = (
        *(f"| Backend | {name} |", "| a | too huge to run |", "| b | not yet |"),
        "| c | 40.35 token/s |",
    )
    columns = draft(tmp_path, catalogue, *rows)["columns"]
    assert columns[name] == {"figure": {"metric": "tokens_per_second", "scope": "?"}}


def test_a_long_text_above_the_names_of_rows_is_no_setting(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    label = "LoRA of a model on my very own dataset"
    rows = (
        *(f"| {label} | Plain backend | Fancy backend |", "| Memory (GB) | 12.1 | 8.2 |"),
        "| Throughput (token/s) | 100 | 120 |",
    )
    found = draft(tmp_path, catalogue, *rows)
    assert found["transposed"]
    assert found["columns"][label] == "?"


def test_the_stages_of_a_run_and_their_sum_are_no_runs(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = ("| Model | Step 1 | Step 2 | Total |", "| qwen-7b | 2.5hr | 0.25hr | 2.75hr |")
    assert "pivot" not in draft(tmp_path, catalogue, *rows)


def test_a_pivot_has_no_nameless_column(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = ("| Optimizer | Peak (MB) | Peak+Opt (MB) |", "| adamw | 175.0 | 762.1 |")
    assert "pivot" not in draft(tmp_path, catalogue, *rows)


def test_a_list_of_one_figure_and_what_ran_is_measured(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    rows = (
        *("| 項目 | 値 |", "| ベースモデル | qwen-7b |", "| ハードウェア | RTX 3060 12GB |"),
        "| 学習時間 | 12 時間 17 分 |",
    )
    found = draft(tmp_path, catalogue, *rows)
    assert found["transposed"]
    assert found["columns"]["学習時間"] == {"figure": {"metric": "total_time"}}
    assert found["columns"]["ベースモデル"] == {"values": {"qwen-7b": {"model_id": "qwen-7b"}}}


def test_rows_of_memory_and_of_times_are_metrics(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = (
        *(
            "| A model | Plain | Fancy |",
            "| GPU | 33.5 GB | 21.9 GB |",
            "| CPU | 190 GB | 14.9 GB |",
        ),
        "| Time/epoch | 21 hours | 20 mins |",
    )
    found = draft(tmp_path, catalogue, *rows)
    assert found["transposed"]
    assert list(found["columns"]) == ["A model", "GPU", "CPU", "Time/epoch"]
    assert {found["columns"][name]["figure"]["metric"] for name in ("GPU", "CPU")} == {"?"}


def test_footnote_marks_stay_whole_in_a_pivot(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = ("| Model | Min. LoRA VRAM[^1] | Min. Full VRAM[^2] |", "| qwen-7b | 5 GB | 21 GB |")
    found = draft(tmp_path, catalogue, *rows)
    assert list(found["pivot"][0]["values"]) == ["LoRA VRAM[^1]", "Full VRAM[^2]"]


def test_of_such_columns_the_metric_is_open(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = ("| Nodes | Plain | Fancy |", "| one | 0.50s | 0.41s |", "| two | 2s | 0.91s |")
    (pivot,) = draft(tmp_path, catalogue, *rows)["pivot"]
    assert pivot["cell"] == {"figure": {"metric": "?"}}


def test_amounts_in_g_are_no_steps_of_accumulation(tmp_path: Path, catalogue: Catalogue) -> None:
    names = ("sync (accum=1)", "sync (accum=2)", "sync off (accum=16)")
    rows = (f"| Model | {' | '.join(names)} |", "| qwen-7b | 69G | OOM | 69G |")
    found = draft(tmp_path, catalogue, *rows)
    assert list(found["columns"]) == ["Model"]
    (pivot,) = found["pivot"]
    assert pivot["cell"]["figure"]["metric"] == "?"
    assert list(pivot["values"]) == ["(accum=1)", "(accum=2)", "off (accum=16)"]


def test_speeds_of_other_things_are_of_one_run(tmp_path: Path, catalogue: Catalogue) -> None:
    rows = ("| Backend | Tokens/s | Patch tokens/s |", "| a | 15826.8 | 11977.1 |")
    assert "pivot" not in draft(tmp_path, catalogue, *rows)
