from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.submission.derive import complete_observation
from registry.tables import ImportResult, parse_mapping
from registry.tables import import_document as import_with
from registry.tables.curated import load_curated_catalogue, read_source_documents

if TYPE_CHECKING:
    from registry.catalogue import Catalogue

RECORDS = Path(__file__).parents[3] / "records"
SEEDS = ("llama2-lora-3090", "llm-train-throughput", "qwen-finetune-profile", "swift-benchmark")


@pytest.fixture(scope="session")
def records() -> Path:
    return RECORDS


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return load_curated_catalogue(RECORDS)


@pytest.fixture(scope="session")
def seeds(catalogue: Catalogue) -> dict[str, list[dict[str, Any]]]:
    """Observations of the seed sources, with what follows from them."""
    return {
        document.plain["source"]["source_id"]: [
            complete_observation(observation) for observation in document.plain["observations"]
        ]
        for document in read_source_documents(RECORDS, catalogue, only=SEEDS)
    }


class Importer:
    """Imports a document's text under a mapping's text."""

    def __init__(self, folder: Path, catalogue: Catalogue) -> None:
        self.folder = folder
        self.catalogue = catalogue

    def __call__(self, document: str, mapping: str, *, suffix: str = ".md") -> ImportResult:
        path = self.folder / f"doc{suffix}"
        path.write_text(document, encoding="utf-8")
        return import_with(path, parse_mapping(mapping, origin="m.yaml"), self.catalogue)


@pytest.fixture
def importer(tmp_path: Path, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> Importer:
    monkeypatch.chdir(tmp_path)
    return Importer(Path(), catalogue)
