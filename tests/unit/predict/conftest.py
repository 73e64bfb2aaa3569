from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from registry.catalogue import Catalogue
from registry.contract.resources import parse_yaml
from registry.predict.architecture import Accelerator, architecture_of, gpu_of
from registry.predict.calibration.calibration_file import read_calibration
from registry.predict.question import Question
from registry.store.folder import curated_dir

if TYPE_CHECKING:
    from typing import Any, Protocol

    from registry.predict.calibration.intervals import Calibration

    class Ask(Protocol):
        def __call__(self, model: str, gpu: str | None = None, **settings: Any) -> Question: ...


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    folder = curated_dir() / "catalogue"
    parts = {
        part: parse_yaml((folder / f"{part}.yaml").read_bytes()) for part in ("models", "gpus")
    }
    return Catalogue(
        models={row["model_id"]: row for row in parts["models"]},
        gpus={row["gpu_id"]: row for row in parts["gpus"]},
    )


@pytest.fixture(scope="session")
def ask(catalogue: Catalogue) -> Ask:
    """Return a question about a model and a card of the catalogue."""

    def question(model: str, gpu: str | None = None, **settings: Any) -> Question:
        card = gpu_of(catalogue.gpus[gpu]) if gpu else None
        return Question(architecture_of(catalogue.models[model]), gpu=card, **settings)

    return question


@pytest.fixture(scope="session")
def cards(catalogue: Catalogue) -> list[Accelerator]:
    rows = catalogue.gpus.values()
    return [gpu_of(row) for row in rows if row["gpu_id"] != "cpu" and row["memory_bytes"]]


@pytest.fixture(scope="session")
def calibration() -> Calibration:
    return read_calibration()
