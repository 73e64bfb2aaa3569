"""A retracted observation leaves every view; an erased one leaves every file."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import registry.store.fold as fold_module
from registry.api import Registry
from registry.errors import StoreError, SubmissionError
from registry.store.check import check_registry
from registry.store.derive_tables import derive_tables
from registry.store.folder import Folder, Location, create_registry
from registry.store.retract import find_earlier_readings, retract_submission
from registry.store.snapshot import read_snapshot
from tests.unit.store.registries import (
    add_numbers,
    build_document,
    count_runs,
    make_registry,
    read_content,
    runs,
)

if TYPE_CHECKING:
    from pathlib import Path

REASON = "the card was shared"


def find_id(db: Registry, run_id: str) -> str:
    rows = [json.loads(text) for text in read_content(db.location)["observations"]]
    (found,) = [row["observation_id"] for row in rows if row["run_id"] == run_id]
    return str(found)


def shown(db: Registry, at: int | None = None) -> int:
    return len(read_content(db.location, at)["results"])


@pytest.mark.parametrize("is_folded", [True, False])
def test_a_retracted_observation_leaves_results_and_its_history_stays(
    folded: Registry, *, is_folded: bool
) -> None:
    identity = find_id(folded, "run-1")
    assert folded.retract(identity[:10], reason=REASON) == identity
    if is_folded:
        folded.fold()
    assert shown(folded) == 2
    assert count_runs(folded.location) == runs(0, 1, 2)
    assert shown(folded, at=3) == 3
    (text,) = read_content(folded.location)["retractions"]
    row = json.loads(text)
    assert (row["observation_id"], row["reason"]) == (identity, REASON)
    assert row["retracted_at"]
    assert check_registry(folded.location).problems == ()


def test_a_pending_observation_is_retracted_too(db: Registry) -> None:
    add_numbers(db, 1, 2)
    db.retract(find_id(db, "run-1"), reason=REASON)
    assert shown(db) == 1
    db.fold()
    assert shown(db) == 1


@pytest.mark.parametrize("prefix", ["", "zzzz"])
def test_an_id_that_means_none_or_several_is_refused(folded: Registry, prefix: str) -> None:
    n_found = 3 if prefix == "" else 0
    with pytest.raises(StoreError) as caught:
        folded.retract(prefix, reason=REASON)
    assert str(caught.value) == (
        f"{prefix}: {n_found} observation ids start with this; expected one; list them with "
        "`registry ls`"
    )


def places(root: Path, secret: str) -> list[str]:
    """Return the files below a registry that hold a text, packed documents among them."""
    found = [p for p in root.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()]
    for path in root.rglob("*.parquet"):
        rows = pq.read_table(path, partitioning=None).to_pylist()
        found += [path] if secret in str(rows) else []
    return sorted(str(path.relative_to(root)) for path in found)


@pytest.mark.parametrize("when", ["folded", "pending", "both"])
def test_an_erased_observation_is_in_no_file_any_more(db: Registry, when: str) -> None:
    secret = build_document(1, model_reported="acme-internal-7b", source_id="acme")
    secret["observations"].append(build_document(2)["observations"][0])
    add_numbers(db, 0)
    db.fold()
    db.add(secret)
    if when != "pending":
        db.fold()
    if when == "both":
        db.add({**secret, "observations": secret["observations"][:1]})
    identity = find_id(db, "run-1")
    assert places(db.path, "acme-internal-7b")
    db.retract(identity, reason="a customer asked", erase=True)
    assert places(db.path, "acme-internal-7b") == []
    assert count_runs(db.location) == runs(0, 2)
    row = json.loads(read_content(db.location)["retractions"][0])
    assert (row["observation_id"], row["reason"]) == (identity, "a customer asked")
    assert row["erased"]
    assert row["retracted_at"]
    assert check_registry(db.location).problems == ()


def test_what_was_erased_is_not_added_again(folded: Registry) -> None:
    identity = find_id(folded, "run-1")
    folded.retract(identity, reason=REASON, erase=True)
    document = build_document(1, flags=["figures_disagree"])
    with pytest.raises(SubmissionError) as caught:
        folded.add(document)
    assert str(caught.value) == (
        f"submission: observation {identity[:12]} was erased from this registry; expected other "
        "observations; leave it out"
    )
    folded.fold()
    assert count_runs(folded.location) == runs(0, 2)


@pytest.mark.parametrize("is_folded", [True, False])
def test_erasing_an_observation_leaves_the_retractions_that_came_with_it(
    db: Registry, *, is_folded: bool
) -> None:
    add_numbers(db, 1, 2)
    withdrawn = {"observation_id": find_id(db, "run-1"), "reason": REASON}
    withdrawn["retracted_at"] = "2026-01-01T00:00:00Z"
    document = {**build_document(3), "retractions": [withdrawn]}
    db.add({name: rows for name, rows in document.items() if name not in ("models", "gpus")})
    if is_folded:
        db.fold()
    assert shown(db) == 2
    db.retract(find_id(db, "run-3"), reason="private", erase=True)
    assert shown(db) == 1
    db.fold()
    assert shown(db) == 1
    assert check_registry(db.location).problems == ()


@pytest.mark.parametrize("is_folded", [True, False])
def test_what_was_erased_stays_away_when_a_merge_brings_its_document_back(
    folded: Registry, tmp_path: Path, *, is_folded: bool
) -> None:
    elsewhere = make_registry(tmp_path / "elsewhere")
    elsewhere.add(build_document(1))
    folded.retract(find_id(folded, "run-1"), reason=REASON, erase=True)
    folded.fold()
    shutil.copytree(elsewhere.path / "journal", folded.path / "journal", dirs_exist_ok=True)
    if is_folded:
        folded.fold()
    assert count_runs(folded.location) == runs(0, 2)
    assert check_registry(folded.location).problems == ()


def test_erasing_again_changes_nothing(folded: Registry) -> None:
    identity = find_id(folded, "run-1")
    folded.retract(identity, reason=REASON, erase=True)
    before = read_content(folded.location)
    assert folded.retract(identity, reason=REASON, erase=True) == identity
    assert read_content(folded.location) == before


@pytest.mark.parametrize("step", ["commit", "remove_history"])
def test_an_erasure_that_was_interrupted_is_finished_by_the_same_command(
    folded: Registry, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    folded.add(build_document(4, model_reported="acme-internal-7b"))
    folded.fold()
    identity = find_id(folded, "run-4")
    with monkeypatch.context() as patched:
        patched.setattr(fold_module, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            folded.retract(identity, reason=REASON, erase=True)
    assert places(folded.path, "acme-internal-7b")
    assert folded.retract(identity, reason=REASON, erase=True) == identity
    assert places(folded.path, "acme-internal-7b") == []


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_curated_observations_are_not_erased() -> None:
    import registry  # noqa: PLC0415 - only here

    db = registry.Registry(registry.open(curated=True).location)
    identity = json.loads(read_content(db.location)["results"][0])["observation_id"]
    with pytest.raises(StoreError, match="in the curated records, which this command cannot erase"):
        db.retract(identity, reason=REASON, erase=True)


def test_curated_observations_are_not_erased_before_they_are_in_the_tables(
    tmp_path: Path, few_records: Path
) -> None:
    records = tmp_path / "records"
    shutil.copytree(few_records, records)
    source = records / "sources" / "swift-benchmark"
    (source / "more.csv").write_text("a\n1\n", encoding="utf-8")
    own = create_registry(tmp_path / "own")
    location = Location(own, Folder(records))
    snapshot = read_snapshot(location)
    assert snapshot.curated is not None
    assert snapshot.curated.part is None or snapshot.curated.pending
    (identity, *_) = sorted(
        row["observation_id"] for row in derive_tables(snapshot.curated.pending)["observations"]
    )
    with pytest.raises(StoreError, match="in the curated records, which this command cannot erase"):
        Registry(location).retract(identity, reason=REASON, erase=True)
    assert not list(own.journal.iterdir())


def read_again(number: int, speed: float, sha256: str = "ab" * 32) -> dict[str, Any]:
    """Return a document read from a file, of two observations."""
    document = build_document(number)
    again = build_document(number + 1)
    document["source"] = {**document["source"], "sha256": sha256}
    document["observations"] += again["observations"]
    for observation in document["observations"]:
        observation["measurements"] = [{"metric": "step_time", "value": speed}]
    return document


@pytest.mark.parametrize("is_folded", [True, False])
def test_all_that_a_submission_brought_is_retracted(db: Registry, *, is_folded: bool) -> None:
    wrong, right = read_again(1, 2.0), read_again(1, 3.0)
    first, _ = db.add(wrong), db.add(right)
    if is_folded:
        db.fold()
    assert shown(db) == 4
    found = retract_submission(db.location, first.submission_id[:12], reason=REASON)
    assert len(found) == 2
    assert shown(db) == 2
    assert retract_submission(db.location, "0" * 12, reason=REASON) == ()
    assert retract_submission(db.location, "", reason=REASON) == ()  # several
    assert check_registry(db.location).problems == ()


@pytest.mark.parametrize("is_folded", [True, False])
def test_readings_of_the_same_file_are_found_until_they_are_withdrawn(
    db: Registry, *, is_folded: bool
) -> None:
    wrong, right = read_again(1, 2.0), read_again(1, 3.0)
    first = db.add(wrong).submission_id
    db.add(read_again(5, 2.0, "cd" * 32))
    if is_folded:
        db.fold()
    assert find_earlier_readings(db.location, right) == (first,)
    assert find_earlier_readings(db.location, {**right, "source": {"source_id": "x"}}) == ()
    other = {**right, "source": {**right["source"], "source_id": "elsewhere"}}
    assert find_earlier_readings(db.location, other) == ()
    retract_submission(db.location, first, reason=REASON)
    assert find_earlier_readings(db.location, right) == ()


@pytest.mark.parametrize("reason", ["", " \n"])
def test_nothing_is_withdrawn_without_a_reason(folded: Registry, reason: str) -> None:
    identity = find_id(folded, "run-1")
    with pytest.raises(StoreError) as caught:
        folded.retract(identity, reason=reason)
    assert str(caught.value) == "reason: found none; expected why what was observed does not hold"
    assert read_content(folded.location)["retractions"] == []
