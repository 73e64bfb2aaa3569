"""What docs/importers.md shows works: its importer reads its fixture, and its tests are green."""

from __future__ import annotations

import importlib.util
import re
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.importers import IMPORTERS, ImportOptions, read_files
from registry.submission.prepare import prepare_submission
from registry.tables.curated import load_curated_catalogue
from registry_cli.commands.add_command import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "importers.md").read_text(encoding="utf-8")
LONGEST = 150


def block_after(words: str) -> str:
    found = re.search(r"```\w+\n(.*?)```", PAGE[PAGE.index(words) :], flags=re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the page's importer, written to a file, imported and registered."""
    file = tmp_path / "nanogpt.py"
    file.write_text(block_after("`registry/importers/nanogpt.py`"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("nanogpt_of_the_page", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    others = dict(IMPORTERS)
    monkeypatch.setitem(IMPORTERS, "nanogpt", module.NanogptImporter())
    assert "nanogpt" not in others
    return module


@pytest.fixture
def fixtures(tmp_path: Path) -> Path:
    folder = tmp_path / "fixtures"
    log = folder / "nanogpt" / "train.log"
    log.parent.mkdir(parents=True)
    log.write_text(block_after("`tests/fixtures/importers/nanogpt/train.log`"), encoding="utf-8")
    return folder


def helpers(tmp_path: Path, fixtures: Path) -> dict[str, Any]:
    """Return what the page's tests ask for, as the importers' conftest has it."""
    catalogue = load_curated_catalogue(ROOT / "records")

    def read(*paths: Path, **overrides: str) -> Any:
        return read_files(paths, options=ImportOptions(catalogue=catalogue, overrides=overrides))

    def observe(*paths: Path, **overrides: str) -> list[dict[str, Any]]:
        return [
            row
            for submission in read(*paths, **overrides).submissions
            for row in prepare_submission(submission, catalogue, origin="page").document[
                "observations"
            ]
        ]

    def figure(run: dict[str, Any], metric: str) -> dict[str, Any]:
        (found,) = [row for row in run["measurements"] if row["metric"] == metric]
        return dict(found)

    folder = tmp_path / "work"
    folder.mkdir()
    return {
        "fixtures": fixtures, "read": read, "observe": observe, "figure": figure,
        "tmp_path": folder,
    }  # fmt: skip


@pytest.mark.usefixtures("module")
def test_the_tests_of_the_page_are_green(tmp_path: Path, fixtures: Path) -> None:
    names: dict[str, Callable[..., None]] = {}
    exec(block_after("`tests/unit/importers/test_nanogpt.py`"), names)  # noqa: S102 - our own page
    tests = [test for name, test in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    given = helpers(tmp_path, fixtures)
    for test in tests:
        test(**{name: given[name] for name in signature(test).parameters})


def test_the_importer_of_the_page_is_short() -> None:
    assert len(block_after("`registry/importers/nanogpt.py`").splitlines()) < LONGEST


def test_the_page_names_what_is_there() -> None:
    named = re.findall(r"`(shared/\w+\.py)`", PAGE)
    assert named
    assert all((ROOT / "registry" / "importers" / name).is_file() for name in named)


def test_the_command_names_every_importer() -> None:
    assert {*KINDS} == {"auto", "submission", "tables", *IMPORTERS}


def test_contributing_leads_to_the_page() -> None:
    assert "docs/importers.md" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
