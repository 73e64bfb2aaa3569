"""Readers see the folded tables and the journal alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from registry.api import Registry
from registry.store.folder import Location, create_registry

if TYPE_CHECKING:
    from pathlib import Path


def _document(number: int) -> dict[str, Any]:
    return {
        "source": {"source_id": f"run-{number}", "kind": "run", "title": 'a "quoted" title'},
        "observations": [
            {
                "configuration": {
                    "model_id": "llama-2-7b",
                    "method": "lora",
                    "lora_target_modules": ["v_proj", "q_proj"],
                    "gpu_id": "rtx-4090",
                    "n_gpus": 1,
                    "micro_batch_size": 2,
                    "grad_accum_steps": 4,
                    "seq_len": 512,
                },
                "environment": {"torch_version": "2.13.0", "packages": {"trl": "1.0"}},
                "observed_at": "2026-11-21T10:00:00Z",
                "outcome": "ok",
                "measurements": [
                    {"metric": "step_time", "value": 0.5 + number},
                    {"metric": "peak_memory", "value": "19.5 GiB", "kind": "device"},
                ],
            }
        ],
    }


def _open(path: Path) -> Registry:
    folder = create_registry(path, curated=False)
    return Registry(Location(folder))


TABLES = (
    "results",
    "observations",
    "configurations",
    "environments",
    "measurements",
    "citations",
    "sources",
    "submissions",
    "citations_wide",
    "coverage",
    "quality",
)


@pytest.mark.parametrize("relation", TABLES)
def test_pending_rows_read_as_they_will_when_folded(tmp_path: Path, relation: str) -> None:
    db = _open(tmp_path / "r")
    for number in range(2):
        db.add(_document(number))
    pending = db.query(f"from {relation} order by all").arrow()
    db.fold()
    folded = db.query(f"from {relation} order by all").arrow()
    assert pending.schema.names == folded.schema.names
    assert pending.schema.types == folded.schema.types
    assert pending.to_pylist() == folded.to_pylist()
    assert pending.num_rows > 0


def test_pending_and_folded_rows_are_read_together(tmp_path: Path) -> None:
    db = _open(tmp_path / "r")
    db.add(_document(0))
    db.fold()
    db.add(_document(1))
    rows = db.query("select seconds_per_step, model_id from results order by all").rows()
    assert rows == [
        {"seconds_per_step": 0.5, "model_id": "llama-2-7b"},
        {"seconds_per_step": 1.5, "model_id": "llama-2-7b"},
    ]


def test_a_second_source_of_a_folded_observation_counts_while_it_is_pending(
    tmp_path: Path,
) -> None:
    db = _open(tmp_path / "r")
    document = _document(0)
    db.add(document)
    db.fold()
    document["observations"][0]["citations"] = [{"locator": "page 2"}]
    db.add(document)
    assert db.query("select n_citations from results").rows() == [{"n_citations": 2}]
    db.fold()
    assert db.query("select n_citations from results").rows() == [{"n_citations": 2}]
