"""Every file in tests/examples is a test: valid ones are taken, invalid ones get their message."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from registry.errors import SubmissionError
from registry.reading.json_reader import read_json_file
from registry.submission.prepare import Prepared, prepare_submission
from registry.tables.curated import load_curated_catalogue

if TYPE_CHECKING:
    from registry.catalogue import Catalogue

TESTS = Path(__file__).parents[2]
VALID = sorted((TESTS / "examples" / "valid").glob("*.json"))
INVALID = sorted((TESTS / "examples" / "invalid").glob("*.json"))


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_curated_catalogue(TESTS.parent / "records")


def _prepare(path: Path, catalogue: Catalogue) -> Prepared:
    return prepare_submission(read_json_file(path), catalogue, origin=str(path))


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_valid_example_is_taken_and_keeps_its_id(path: Path, catalogue: Catalogue) -> None:
    prepared = _prepare(path, catalogue)
    again = prepare_submission(prepared.document, catalogue, origin="again")
    assert again.submission_id == prepared.submission_id


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_invalid_example_gets_its_message(path: Path, catalogue: Catalogue) -> None:
    with pytest.raises(SubmissionError) as caught:
        _prepare(path, catalogue)
    expected = path.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    assert caught.value.problems == expected
    assert str(caught.value) == "\n".join(f"{path}: {line}" for line in expected)


def test_examples_are_pairs() -> None:
    messages = {path.stem for path in (TESTS / "examples" / "invalid").glob("*.txt")}
    assert messages == {path.stem for path in INVALID}
    assert VALID
