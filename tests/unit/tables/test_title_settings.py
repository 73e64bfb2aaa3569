"""Tables that are alike but for their headings: what these say is asked for, and is not lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from registry.tables import draft_mapping, read_tables
from registry.tables.guess_words import read_settings

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Protocol

    from registry.catalogue import Catalogue
    from registry.tables import ImportResult

    class Importer(Protocol):
        def __call__(self, document: str, mapping: str, *, suffix: str = ".md") -> ImportResult: ...


ONE = "| model | memory |\n|---|---|\n| qwen-7b | {memory} GB |\n\n"
DOCUMENT = (
    "# Bench\n\n## LoRA\n\n### batch_size = 1\n\n"
    + ONE.format(memory="12.0")
    + "### NF4, batch_size = 4\n\n"
    + ONE.format(memory="22.0")
)
MAPPING = """
source: {{source_id: a}}
defaults: {{model_id: qwen-7b, method: lora, n_gpus: 1}}
columns:
  memory: {{figure: {{metric: peak_memory}}}}
ignore: [model]
tables:
  - match: {{table: 1}}
    defaults: {first}
  - match: {{table: 2}}
"""


def draft(folder: Path, catalogue: Catalogue, document: str) -> tuple[str, list[dict[str, Any]]]:
    path = folder / "doc.md"
    path.write_text(document, encoding="utf-8")
    text = draft_mapping(path, read_tables(path), catalogue)
    return text, yaml.safe_load(text)["tables"]


def test_what_headings_say_of_tables_alike_is_asked_for(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    text, (first, second) = draft(tmp_path, catalogue, DOCUMENT)
    assert first["defaults"]["micro_batch_size"] == "?"
    asked = {name: second["defaults"][name] for name in ("quant_bits", "micro_batch_size")}
    assert asked == {"quant_bits": "?", "micro_batch_size": "?"}
    assert "quant_bits: '?'  # 4, if a heading says so of the runs" in text
    assert text.count("# tables alike have other headings") == len([first, second])


def test_a_heading_of_a_table_like_no_other_is_not_read_for_settings(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    text, (table,) = draft(tmp_path, catalogue, "## NF4\n\n" + ONE.format(memory="9.0"))
    assert "quant_bits" not in table["defaults"]
    assert "tables alike" not in text


def test_an_import_notes_runs_that_only_headings_tell_apart(importer: Importer) -> None:
    notes = importer(DOCUMENT, MAPPING.format(first="{}")).notes
    (note,) = [note for note in notes if "runs of the same settings" in note]
    assert "they differ in the titles of their tables" in note
    assert "'LoRA / batch_size = 1', 'LoRA / NF4, batch_size = 4'" in note
    told = importer(DOCUMENT, MAPPING.format(first="{micro_batch_size: 1}")).notes
    assert not any("runs of the same settings" in note for note in told)


def test_bits_of_an_optimizer_in_brackets_are_not_the_bases() -> None:
    said = read_settings("AdamW (8-bit bitsandbytes)").said
    assert said == {"optimizer": "adamw_8bit"}


def test_what_headers_of_figures_say_of_their_runs_is_asked_for(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    document = (
        "| model | Memory (GB) @ BS=1 | Speed (s/it, seq_len=2048) |\n|---|---|---|\n"
        "| qwen-7b | 12.0 | 1.2 |\n"
    )
    text, (table,) = draft(tmp_path, catalogue, document)
    assert (table["defaults"]["micro_batch_size"], table["defaults"]["seq_len"]) == ("?", "?")
    assert "micro_batch_size: '?'  # 1, if a header says so of the whole row" in text
    assert "seq_len: '?'  # 2048, if a header says so of the whole row" in text


def test_a_header_says_no_setting_that_a_column_or_a_pivot_has(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    document = (
        "| model | batch size | Memory (GB), BS=1 |\n|---|---|---|\n| qwen-7b | 4 | 12.0 |\n\n"
        "| model | Memory (GB) BS=1 | Memory (GB) BS=4 |\n|---|---|---|\n| qwen-7b | 9 | 12 |\n"
    )
    _, tables = draft(tmp_path, catalogue, document)
    assert all("micro_batch_size" not in table["defaults"] for table in tables)
    assert tables[1]["pivot"][0]["to"] == "micro_batch_size"


def test_the_size_of_an_instance_is_no_number_of_cards(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    document = "| gpu | model | memory |\n|---|---|---|\n| {} | qwen-7b | 12 GB |\n"
    _, (table,) = draft(tmp_path, catalogue, document.format("8xlarge"))
    assert table["columns"]["gpu"] == {"values": {"8xlarge": {"gpu_id": "?"}}}
    assert table["defaults"]["n_gpus"] == "?"
    _, (table,) = draft(tmp_path, catalogue, document.format("8xA100"))
    assert table["columns"]["gpu"] == {"values": {"8xA100": {"gpu_id": "a100", "n_gpus": 8}}}


def test_a_draft_asks_whose_batch_it_is_where_rows_have_several_cards(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    document = "| gpu | {} | model | memory |\n|---|---|---|---|\n| {} | 64 | qwen-7b | 12 GB |\n"
    asked = "{to: micro_batch_size}  # of each card, or of all together (to: global_batch_size)?"
    assert asked in draft(tmp_path, catalogue, document.format("batch size", "8xA100"))[0]
    assert asked not in draft(tmp_path, catalogue, document.format("batch size", "1xA100"))[0]
    assert asked not in draft(tmp_path, catalogue, document.format("batch per gpu", "8xA100"))[0]


def test_whose_method_it_is_says_no_setting(tmp_path: Path, catalogue: Catalogue) -> None:
    document = "| method | model | memory |\n|---|---|---|\n| LoRA (Ours) | qwen-7b | 12 GB |\n"
    _, (table,) = draft(tmp_path, catalogue, document)
    assert table["columns"]["method"] == {"values": {"LoRA (Ours)": {"method": "lora"}}}
