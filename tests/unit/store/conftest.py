"""Small valid registries for the tests of the store."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from registry.store.build import build_tables
from registry.store.folder import Folder
from tests.unit.store.registries import add_numbers, make_registry, write_catalogue, write_source

if TYPE_CHECKING:
    from pathlib import Path

    from registry.api import Registry


@pytest.fixture
def db(tmp_path: Path) -> Registry:
    """Return an empty registry without the curated records."""
    return make_registry(tmp_path / "registry")


@pytest.fixture
def folder(db: Registry) -> Folder:
    """Return its folder."""
    return db.location.own


@pytest.fixture(scope="session")
def built_folded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a registry with three versions, built once. Nobody writes there."""
    made = make_registry(tmp_path_factory.mktemp("folded") / "registry")
    for number in range(3):
        add_numbers(made, number)
        made.fold()
    return made.path


@pytest.fixture
def folded(db: Registry, built_folded: Path) -> Registry:
    """Return a registry with three versions of one observation each, where ``db`` is."""
    shutil.copytree(built_folded, db.path, dirs_exist_ok=True)
    return db


@pytest.fixture(scope="session")
def built_records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return small curated records of a checkout, built once: two sources. Nobody writes there."""
    folder = tmp_path_factory.mktemp("built") / "records"
    write_catalogue(folder)
    (folder / "tables").mkdir()
    for number in (0, 1):
        write_source(folder, number)
    build_tables(folder)
    return folder


@pytest.fixture
def records(tmp_path: Path, built_records: Path) -> Folder:
    """Return a copy of them."""
    return Folder(shutil.copytree(built_records, tmp_path / "records"))
