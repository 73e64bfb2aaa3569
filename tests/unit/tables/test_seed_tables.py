"""The curated CSV files hold the seed documents' cells as written."""

from pathlib import Path

import pytest

from registry.tables.document import read_document
from registry.tables.raw_table import RawTable

ROOT = Path(__file__).parents[3]
SEEDS = ROOT.parent / "shared" / "seeds"
N_ROWS = {
    "qwen-finetune-profile": [14],
    "llama2-lora-3090": [5, 7, 5, 17],
    "swift-benchmark": [12, 11, 15, 4, 4, 9, 4],
    "llm-train-throughput": [15, 3, 15, 4],
}


def read_csv_files(source_id: str) -> list[RawTable]:
    paths = sorted((ROOT / "records" / "sources" / source_id).glob("*.csv"))
    assert [int(path.name[:2]) for path in paths] == list(range(1, len(paths) + 1))
    return [table for path in paths for table in read_document(path)[0]]


def cells(table: RawTable) -> list[list[str]]:
    return [[cell.text for cell in row.cells] for row in table.rows]


@pytest.mark.parametrize("source_id", N_ROWS)
def test_every_reported_row_is_in_the_csv_files(source_id: str) -> None:
    assert [len(table.rows) for table in read_csv_files(source_id)] == N_ROWS[source_id]


@pytest.mark.parametrize("source_id", N_ROWS)
def test_the_csv_files_equal_the_document_cell_by_cell(source_id: str) -> None:
    document = SEEDS / f"{source_id}.txt"
    if not document.exists():
        pytest.skip("the seed documents are not here")
    tables = read_document(document)[0]
    curated = read_csv_files(source_id)
    assert [table.columns for table in curated] == [table.columns for table in tables]
    assert [cells(table) for table in curated] == [cells(table) for table in tables]


def test_the_qwen_profile_has_four_settings_and_six_sequence_lengths() -> None:
    (table,) = read_csv_files("qwen-finetune-profile")
    lengths = [f"Sequence Length / {2**power}" for power in range(8, 14)]
    assert table.columns == ("Model Size", "Method", "#Nodes", "#GPUs per node", *lengths)
    assert [cell.text for cell in table.rows[10].cells][:5] == [
        "14B",
        "LoRA (emb)",
        "1",
        "1",
        "51.2 / 1.7s/it",
    ]


def test_a_document_of_prose_has_no_tables() -> None:
    document = SEEDS / "vram-qa.txt"
    if not document.exists():
        pytest.skip("the seed documents are not here")
    assert read_document(document)[0] == []
