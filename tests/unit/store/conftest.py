"""Small valid registries for the tests of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from registry.catalogue import Catalogue
from registry.store.folder import Folder
from registry.store.journal import write_entry
from registry.submission.prepare import Prepared, prepare_submission

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CATALOGUE = Catalogue(
    models={"tiny": {"model_id": "tiny", "n_params": 1_000}},
    gpus={"gpu-a": {"gpu_id": "gpu-a", "memory_bytes": 24 * 2**30}},
)


def build_document(
    number: int = 0, *, source_id: str = "src-a", locator: str | None = None
) -> dict[str, Any]:
    """Return one small submission; ``number`` tells its run from others."""
    return {
        "schema_version": 1,
        "source": {"source_id": source_id, "kind": "run"},
        "models": [{"model_id": "tiny", "n_params": 1_000}],
        "gpus": [{"gpu_id": "gpu-a", "memory_bytes": 24 * 2**30}],
        "observations": [
            {
                "outcome": "ok",
                "run_id": f"run-{number}",
                "observed_at": "2024-05-01T10:00:00Z",
                "flags": ["short_run"],
                "provenance": {"command": "train"},
                "configuration": {
                    "model_id": "tiny",
                    "method": "lora",
                    "lora_rank": 8 + number % 3,
                    "lora_target_modules": ["q_proj", "v_proj"],
                    "gpu_id": "gpu-a",
                    "n_gpus": 1,
                    "micro_batch_size": 2,
                    "grad_accum_steps": 4,
                },
                "environment": {"framework": "transformers", "torch_version": "2.5.1"},
                "measurements": [
                    {"metric": "peak_memory", "kind": "reserved", "statistic": "max", "value": 2e9},
                    {"metric": "step_time", "value": 1.5 + number},
                ],
                "citations": [
                    {"locator": locator or f"row {number}", "row": 1, "cells": {"a": "1.5"}}
                ],
                "samples": [{"step": 1, "seconds": 1.5}, {"step": 2, "seconds": 1.4}],
            }
        ],
    }


def prepare(document: dict[str, Any]) -> Prepared:
    return prepare_submission(document, CATALOGUE, origin="test")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Return an empty registry."""
    registry = Folder(tmp_path / "registry")
    registry.tables.mkdir(parents=True)
    registry.journal.mkdir()
    return registry


@pytest.fixture
def document() -> Callable[..., dict[str, Any]]:
    return build_document


@pytest.fixture
def submission() -> Callable[..., Prepared]:
    """Return a function that builds valid submissions."""

    def build(number: int = 0, **choices: Any) -> Prepared:
        return prepare(build_document(number, **choices))

    return build


@pytest.fixture
def add(submission: Callable[..., Prepared]) -> Callable[..., str]:
    """Return a function that records a submission in a registry's journal."""

    def record(folder: Folder, number: int = 0, **choices: Any) -> str:
        prepared = submission(number, **choices)
        write_entry(folder, prepared.submission_id, prepared.text)
        return prepared.submission_id

    return record
