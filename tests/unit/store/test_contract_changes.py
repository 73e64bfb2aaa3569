"""What a registry answers, and what a repair keeps, where a later contract refuses documents of it.

The contract of the ``tree`` allows lower ranks than those that were measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow.parquet as pq
import pytest

from registry.catalogue import Catalogue
from registry.store import parts
from registry.store.repair import repair
from registry.store.results import compute_tables
from registry.store.state import read_state
from registry.submission.prepare import prepare_submission
from tests.unit.store.registries import (
    add_numbers,
    build_document,
    count_runs,
    fold_texts,
    make_registry,
)
from tests.unit.store.test_migration import change_contract, narrow_the_rank, run_there

if TYPE_CHECKING:
    from pathlib import Path

    from registry.api import Registry
    from registry.store.derive_tables import Rows

_STEPS = """
from registry.store.repair import repair
def look():
    rows = db.query("from observations order by run_id").rows()
    problems = [str(problem) for problem in check_registry(db.location).problems]
    return [[row["run_id"] for row in rows], len(db.query("from results")), problems]
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return change_contract(tmp_path_factory.mktemp("contract"), narrow_the_rank)


@pytest.fixture
def measured(tmp_path: Path) -> Registry:
    """Return a registry of two parts, an observation each."""
    db = make_registry(tmp_path / "r")
    for number in range(2):
        add_numbers(db, number)
        db.fold()
    return db


def run(tree: Path, db: Registry, program: str) -> Any:
    return run_there(tree, db.path, f"{_STEPS}{program}")


@pytest.mark.parametrize("work", ["fold(db.location).problems", "repair(db.location).notes"])
def test_an_entry_that_is_folded_already_is_not_left_out(
    measured: Registry, tree: Path, work: str
) -> None:
    add_numbers(measured, 2)
    (entry,) = (measured.path / "journal").iterdir()
    text = entry.read_bytes()
    measured.fold()
    entry.write_bytes(text)
    before, notes, after = run(
        tree, measured, f"a = look()\nb = list({work})\nprint(json.dumps([a, b, look()]))"
    )
    assert before == after == [["run-0", "run-1", "run-2"], 3, []]
    assert notes == []
    assert not entry.exists()


@pytest.mark.parametrize("file", ["results.parquet", "observations.ids", "submissions.ids"])
def test_a_repair_keeps_documents_whose_part_is_damaged_elsewhere(
    measured: Registry, tree: Path, file: str
) -> None:
    path = read_state(measured.location.own).parts[0].path / file
    path.write_bytes(b"x" * 16)
    notes, found = run(
        tree, measured, "a = repair(db.location).notes\nprint(json.dumps([a, look()]))"
    )
    assert found == [["run-0", "run-1"], 2, []]
    assert notes[-1] == f"{path.parent}: damaged; moved to quarantine/{path.parent.name}"
    assert not [note for note in notes if note.startswith("document ")]


def test_a_repair_admits_no_document_of_a_part_whose_documents_were_changed(
    measured: Registry, tree: Path
) -> None:
    part = read_state(measured.location.own).parts[0]
    path = part.file("submissions")
    assert path
    pq.write_table(pq.read_table(path, partitioning=None), path, compression="none")
    notes, found = run(
        tree, measured, "a = repair(db.location).notes\nprint(json.dumps([a, look()]))"
    )
    assert found == [["run-1"], 1, []]
    assert len([note for note in notes if note.startswith("document ")]) == 1


@pytest.mark.parametrize(("odd", "n_most"), [(None, 1), ("run-3", 7)])
def test_documents_of_another_contract_are_tried_together_and_halved_around_one_that_fails(
    db: Registry, monkeypatch: pytest.MonkeyPatch, odd: str | None, n_most: int
) -> None:
    texts = [
        prepare_submission(build_document(number), Catalogue(), origin="").text
        for number in range(8)
    ]
    texts = [text.replace('"outcome":"ok"', '"outcome":"of then"') for text in texts]
    with monkeypatch.context() as patched:
        patched.setattr(parts, "contract_stamp", lambda: "0" * 64)
        fold_texts(db.location.own, *texts)
    sizes: list[int] = []

    def compute(rows: Rows, *others: Any) -> Any:
        sizes.append(len(rows["submissions"]))
        if odd in [row["run_id"] for row in rows["observations"]]:
            raise duckdb.Error("odd")
        return compute_tables(rows, *others)

    monkeypatch.setattr("registry.store.repair.compute_tables", compute)
    repair(db.location)
    assert sizes[0] == 8
    assert len(sizes) <= n_most
    kept = {f"run-{number}" for number in range(8)} - {odd}
    assert set(count_runs(db.location)) == kept
