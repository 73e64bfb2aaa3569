"""The records are reviewed: what contradicts is open until settled; the pages are built."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

CHECKOUT = Path(__file__).parents[2]

CSV = "batch,memory\n1,20 GiB\n2,10 GiB\n"

MAPPING = """\
source: {source_id: odd, kind: document, title: Odd, url: https://example.org, licence: MIT}
defaults: {model_id: llama-2-7b, method: lora, gpu_id: rtx-3090, n_gpus: 1}
columns:
  batch: {to: micro_batch_size}
  memory: {figure: {metric: peak_memory, kind: device}}
tables: [{match: {table: 1}}]
"""

SETTLED = """\
- kind: less memory at a larger batch
  metric: peak_memory
  n: 1
  settled: kept
  because: the cells say so
"""


@pytest.fixture
def records(work: Path) -> Path:
    """Return records with one source, whose larger batch needs half the memory."""
    path = work / "checkout" / "records"
    odd = path / "sources" / "odd"
    odd.mkdir(parents=True)
    (path.parent / "docs").mkdir()
    (path / "tables").mkdir()
    shutil.copytree(CHECKOUT / "records" / "catalogue", path / "catalogue")
    (odd / "01-odd.csv").write_text(CSV, encoding="utf-8")
    (odd / "mapping.yaml").write_text(MAPPING, encoding="utf-8")
    return path


def test_an_open_finding_fails_the_check_until_it_is_settled(run: Run, records: Path) -> None:
    assert run("build", "--registry", records).returncode == 0
    checked = run("check", "--registry", records)
    assert checked.returncode == 1
    assert (
        "review: odd: less memory at a larger batch (peak_memory): 1 observation" in checked.stdout
    )
    settled = records / "sources" / "odd" / "review.yaml"
    assert str(settled) in checked.stdout
    settled.write_text(SETTLED, encoding="utf-8")
    assert run("check", "--registry", records).returncode == 0


def test_the_build_writes_both_pages_and_its_check_finds_a_changed_one(
    run: Run, records: Path
) -> None:
    assert run("build", "--registry", records).returncode == 0
    page, docs = records / "REVIEW.md", records.parent / "docs" / "sources.md"
    assert "- `odd`: less memory at a larger batch" in page.read_text(encoding="utf-8")
    assert "| [odd](https://example.org) | 2 | 0 | 2 | rtx-3090 |" in docs.read_text(
        encoding="utf-8"
    )
    assert run("build", "--check", "--registry", records).returncode == 0
    docs.write_text("nothing", encoding="utf-8")
    checked = run("build", "--check", "--registry", records)
    assert checked.returncode == 1
    assert "sources.md" in checked.stdout


def test_the_check_of_a_source_shows_what_contradicts(run: Run, records: Path) -> None:
    shown = run("source", "check", "odd", "--registry", records)
    assert shown.returncode == 0
    assert "less memory at a larger batch (peak_memory): 1 observation, 0.5 times" in shown.stdout


def test_sources_lists_one_line_each(run: Run, records: Path) -> None:
    listed = run("sources", "-f", "json", "--registry", records)
    assert listed.returncode == 0
    (row,) = json.loads(listed.stdout)
    assert row == {
        "source_id": "odd",
        "n": 2,
        "n_oom": 0,
        "n_peak": 2,
        "cards": "rtx-3090",
        "methods": "LoRA",
        "metrics": "peak_memory",
        "licence": "MIT",
        "url": "https://example.org",
        "title": "Odd",
    }
