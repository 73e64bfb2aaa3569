"""Importers run on files written here, on fixtures of real tools, and on samples where present."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.importers import Imported, ImportOptions, read_files
from registry.submission.prepare import prepare_submission
from registry.tables.curated import load_curated_catalogue

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.catalogue import Catalogue

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return load_curated_catalogue(ROOT / "records")


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return ROOT / "tests" / "fixtures" / "importers"


@pytest.fixture(scope="session")
def samples() -> Path:
    folder = ROOT.parent / "shared" / "samples"
    if not folder.is_dir():
        pytest.skip("the sample files are not at hand")
    return folder


@pytest.fixture
def read(catalogue: Catalogue) -> Callable[..., Imported]:
    """Read paths with settings, as ``read(path, gpu_id="rtx-4090")``."""

    def reading(*paths: Path, kind: str = "auto", **overrides: str) -> Imported:
        options = ImportOptions(catalogue=catalogue, overrides=overrides)
        return read_files(paths, kind, options=options)

    return reading


@pytest.fixture
def observe(
    read: Callable[..., Imported], catalogue: Catalogue
) -> Callable[..., list[dict[str, Any]]]:
    """Return the canonical observations of paths; every submission must be valid."""

    def observing(*paths: Path, kind: str = "auto", **overrides: str) -> list[dict[str, Any]]:
        found = read(*paths, kind=kind, **overrides)
        prepared = [
            prepare_submission(submission, catalogue, origin="test")
            for submission in found.submissions
        ]
        return [row for item in prepared for row in item.document["observations"]]

    return observing


@pytest.fixture
def figure() -> Callable[..., dict[str, Any]]:
    """Return the one figure of an observation with these columns."""

    def finding(observation: dict[str, Any], metric: str, **columns: Any) -> dict[str, Any]:
        found: list[dict[str, Any]] = [
            row
            for row in observation.get("measurements", ())
            if row["metric"] == metric and columns.items() <= row.items()
        ]
        assert len(found) == 1, f"{metric} {columns}: {found}"
        return found[0]

    return finding
