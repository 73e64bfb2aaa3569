"""The catalogue of this checkout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from registry.tables.curated import load_curated_catalogue

if TYPE_CHECKING:
    from registry.catalogue import Catalogue


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return load_curated_catalogue(Path(__file__).parents[3] / "records")
