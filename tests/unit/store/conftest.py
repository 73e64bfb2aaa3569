"""Small valid registries for the tests of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.store.registries import add_numbers, make_registry

if TYPE_CHECKING:
    from pathlib import Path

    from registry.api import Registry
    from registry.store.folder import Folder


@pytest.fixture
def db(tmp_path: Path) -> Registry:
    """Return an empty registry without the curated records."""
    return make_registry(tmp_path / "registry")


@pytest.fixture
def folder(db: Registry) -> Folder:
    """Return its folder."""
    return db.location.own


@pytest.fixture
def folded(db: Registry) -> Registry:
    """Return a registry with three versions of one observation each."""
    for number in range(3):
        add_numbers(db, number)
        db.fold()
    return db
