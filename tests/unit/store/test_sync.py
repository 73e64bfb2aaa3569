"""Two registries that get what only the other has: all or nothing, and what stays where it is."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.api import Registry
from registry.catalogue import Catalogue
from registry.errors import StoreError
from registry.store import retract, storage
from registry.store.folder import create_registry, find_registry
from registry.store.remote import RemoteStorage
from registry.store.repair import repair
from registry.store.sync import Synced, sync
from registry.submission.identity import canonical_json, document_id
from registry.submission.prepare import prepare_submission
from tests.unit.store.registries import (
    add_numbers,
    build_document,
    count_runs,
    fold_texts,
    make_registry,
    runs,
)

if TYPE_CHECKING:
    from collections.abc import Callable


WAY_OUT = "make it writable, with space on its disk, then repeat the command"
APART = (
    "expected one value; documents that describe or name it are left out; add those of one side "
    "again, under another id"
)


@pytest.fixture
def mine(tmp_path: Path) -> Registry:
    """Return a registry of one run."""
    made = make_registry(tmp_path / "mine")
    add_numbers(made, 1)
    return made


@pytest.fixture
def theirs(tmp_path: Path) -> Registry:
    """Return a registry of two other runs."""
    made = make_registry(tmp_path / "theirs")
    add_numbers(made, 2, 3)
    return made


@pytest.mark.parametrize("is_folded", [False, True])
def test_what_one_side_erased_is_not_taken_from_another_document_of_the_other(
    mine: Registry, theirs: Registry, monkeypatch: pytest.MonkeyPatch, *, is_folded: bool
) -> None:
    document = build_document(1)
    document["observations"][0]["provenance"] = {"note": "another submission of the same"}
    theirs.add(document)
    if not is_folded:  # it was killed before it folded
        monkeypatch.setattr(retract, "_erase", lambda _location: None)
    rows = mine.query("select observation_id from observations").rows()
    mine.retract(rows[0]["observation_id"], reason="private", erase=True)
    sync(mine.location.own, theirs.location.own)
    assert count_runs(mine.location) == runs(2, 3)
    entries = [path.read_text() for path in mine.location.own.journal.glob("*.json")]
    assert entries
    assert not any("another submission of the same" in entry for entry in entries)


def test_a_dry_run_needs_no_right_to_write(
    mine: Registry, theirs: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(location: Any) -> None:
        raise StoreError(f"{location.own.path}: read-only")

    monkeypatch.setattr("registry.store.sync.ensure_writable", refuse)
    assert [side.n_new for side in merge(mine, theirs, dry_run=True).sides] == [2, 1]
    with pytest.raises(StoreError, match="read-only"):
        merge(mine, theirs)


def merge(*registries: Registry, dry_run: bool = False) -> Synced:
    first, second = (registry.location.own for registry in registries)
    return sync(first, second, dry_run=dry_run)


def journal(registry: Registry) -> list[str]:
    """Return all names in a journal, temporary ones too."""
    return sorted(path.name for path in registry.location.own.journal.iterdir())


def recorded(document: Any) -> str:
    """Return a document in the form in which it is recorded."""
    return prepare_submission(document, Catalogue(), origin="").text


def new(done: Synced) -> list[int]:
    return [side.n_new for side in done.sides]


@pytest.mark.parametrize("is_first", [True, False])
def test_where_one_side_cannot_be_written_neither_gets_anything(
    mine: Registry, theirs: Registry, monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    write: Callable[[Path, bytes], None] = storage._write_through

    def refuse(path: Path, data: bytes) -> None:
        if path.is_relative_to(theirs.path):
            raise PermissionError(errno.EACCES, "Permission denied")
        write(path, data)

    monkeypatch.setattr(storage, "_write_through", refuse)
    before = journal(mine), journal(theirs)
    with pytest.raises(StoreError) as caught:
        merge(*((theirs, mine) if is_first else (mine, theirs)))
    assert str(caught.value) == (
        f"{theirs.path}: cannot be written: Permission denied; neither registry got a document; "
        f"{WAY_OUT}"
    )
    assert (journal(mine), journal(theirs)) == before


def test_a_side_that_fails_at_the_end_says_what_the_other_got(
    mine: Registry, theirs: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    name: Callable[..., bool] = storage._name

    def fill(temporary: Path, path: Path, *, replace: bool) -> bool:
        if path.is_relative_to(theirs.path):
            raise OSError(errno.ENOSPC, "No space left on device")
        return name(temporary, path, replace=replace)

    with monkeypatch.context() as full:
        full.setattr(storage, "_name", fill)
        with pytest.raises(StoreError) as caught:
            merge(mine, theirs)
    assert str(caught.value) == (
        f"{theirs.path}: cannot be written: No space left on device; it may lack some of what it "
        f"gets; {mine.path} got 2 documents; {WAY_OUT}"
    )
    assert (len(journal(mine)), len(journal(theirs))) == (3, 2)
    assert new(merge(mine, theirs)) == [0, 1]


def test_object_storage_that_fails_is_told_before_a_folder_gets_anything(
    tmp_path: Path, mine: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"file://{tmp_path}/shared"
    create_registry(Path(address), curated=False)
    shared = Registry(find_registry(address))
    add_numbers(shared, 2)

    def refuse(_storage: RemoteStorage, _name: str, _data: bytes) -> None:
        raise StoreError(f"{address}: not reached; try again")

    monkeypatch.setattr(RemoteStorage, "send", refuse)
    before = journal(mine)
    with pytest.raises(StoreError) as caught:
        merge(mine, shared)
    assert str(caught.value) == (
        f"{address}: not reached; try again; it may lack some of what it gets; the other registry "
        "got nothing; repeat the command for the rest"
    )
    assert journal(mine) == before


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[]", "JSON of a list"),
        ('"x"', "JSON of a str"),
        ("null", "JSON of a NoneType"),
        ("{", "no JSON ("),
        ("[" * 100_000 + "]" * 100_000, "no JSON (maximum recursion depth"),
        ('{"source":[]}', "a document that"),
        ('{"retractions":[1]}', "a document that"),
        ('{"models":[{"n_params":1}]}', "a document that"),
        ('{"observations":{}}', "a document that"),
        ('{"observations":[{"configuration":{},"samples":{}}]}', "a document that"),
    ],
)
def test_a_folded_text_that_is_no_document_is_an_error_whose_way_out_works(
    mine: Registry, theirs: Registry, text: str, found: str
) -> None:
    good = recorded(build_document(5))
    fold_texts(theirs.location.own, text, good)
    path = next(theirs.path.glob("tables/parts/*/submissions.parquet"))
    for pair in ((mine, theirs), (theirs, mine)):
        with pytest.raises(StoreError) as caught:
            merge(*pair)
        assert str(caught.value).startswith(
            f"{path}: submission {document_id(text)[:12]}: found {found}"
        )
        assert str(caught.value).endswith(
            "; run `registry repair`, which rebuilds it from the parts and documents that are there"
        )
    assert (len(journal(mine)), len(journal(theirs))) == (1, 2)
    repair(theirs.location)
    assert new(merge(mine, theirs)) == [3, 1]
    assert count_runs(mine.location) == count_runs(theirs.location) == runs(1, 2, 3, 5)


def without_method() -> dict[str, Any]:
    document = build_document(5)
    del document["observations"][0]["configuration"]["method"]
    return document


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"source":{"source_id":1}}', "source."),
        ('{"observations":[{"configuration":{}}],"source":{"source_id":"x"}}', "observations[0]"),
        (canonical_json(without_method()), "observations[0].configuration.method: "),
    ],
)
def test_a_folded_document_that_is_not_valid_is_named_and_not_brought(
    mine: Registry, theirs: Registry, text: str, reason: str
) -> None:
    good = recorded(build_document(5))
    fold_texts(theirs.location.own, text, good)
    done = merge(mine, theirs)
    start = f"{theirs.path}: submission {document_id(text)[:12]}: {reason}"
    [problem] = done.problems
    assert problem.startswith(start)
    assert problem.endswith(
        "; it is left out; where it is damaged, `registry repair` moves it to quarantine/"
    )
    assert new(done) == [3, 1]
    again = merge(mine, theirs)
    assert (new(again), again.problems) == ([0, 0], done.problems)
    assert count_runs(mine.location) == runs(1, 2, 3, 5)
    repair(theirs.location)
    assert merge(mine, theirs).problems == ()


def test_a_folded_document_that_no_journal_takes_is_not_brought(
    mine: Registry, theirs: Registry
) -> None:
    good = recorded(build_document(5))
    fold_texts(theirs.location.own, f'{{"source":1,{good[1:]}')
    [problem] = merge(mine, theirs).problems
    assert ": key 'source' appears twice in one object; expected once; " in problem
    assert count_runs(mine.location) == runs(1, 2, 3)


def describe(number: int, *, n_params: int = 1_000, memory: int = 24, **choices: Any) -> Any:
    """Return a submission that describes its model and GPU as chosen."""
    return {
        **build_document(number),
        "models": [{"model_id": "tiny", "n_params": n_params}],
        "gpus": [{"gpu_id": "gpu-a", "memory_bytes": memory * 2**30}],
        **choices,
    }


def facts(registry: Registry) -> list[dict[str, Any]]:
    sql = (
        "select run_id, n_params, memory_bytes from observations join configurations "
        "using (configuration_id) join models using (model_id) join gpus using (gpu_id) order by 1"
    )
    return registry.query(sql).rows()


@pytest.mark.parametrize("folded", [True, False])
def test_what_the_two_describe_differently_stays_where_it_is(
    tmp_path: Path, *, folded: bool
) -> None:
    mine, theirs = make_registry(tmp_path / "mine"), make_registry(tmp_path / "theirs")
    for number, registry, n_params in ((1, mine, 1_000), (2, theirs, 2_000)):
        registry.add(describe(number, n_params=n_params, memory=number * 24))
        registry.add(  # it names them, and describes neither
            describe(number + 2, models=[], gpus=[])
        )
    mine.add(describe(5, models=[{"model_id": "other", "n_params": 1}], gpus=[]))
    if folded:
        mine.fold()
        theirs.fold()
    before = facts(mine), facts(theirs)
    done = merge(mine, theirs)
    assert done.problems == (
        f"model 'tiny': n_params is 1000 in {mine.path} and 2000 in {theirs.path}; {APART}",
        (
            f"gpu 'gpu-a': memory_bytes is 25769803776 in {mine.path} and 51539607552 in "
            f"{theirs.path}; {APART}"
        ),
    )
    assert new(done) == [0, 0]
    assert (facts(mine), facts(theirs)) == before
    assert merge(mine, theirs) == done


def test_what_they_describe_alike_or_apart_from_one_another_is_brought(tmp_path: Path) -> None:
    mine, theirs = make_registry(tmp_path / "mine"), make_registry(tmp_path / "theirs")
    card: dict[str, Any] = {"gpu_id": "gpu-b", "memory_bytes": 2**36}
    mine.add(describe(1))
    contradicting = describe(2, n_params=2_000, gpus=[card])
    contradicting["observations"][0]["configuration"] |= {"gpu_id": "gpu-b"}
    theirs.add(contradicting)
    of_gpu_b = describe(3, models=[{"model_id": "other", "n_params": 1}], gpus=[])
    of_gpu_b["observations"][0]["configuration"] |= {"model_id": "other", "gpu_id": "gpu-b"}
    theirs.add(of_gpu_b)
    alike = describe(4, models=[{"model_id": "third", "n_params": 3}])
    alike["observations"][0]["configuration"] |= {"model_id": "third"}
    theirs.add(alike)
    done = merge(mine, theirs)
    # what only a document that stays describes is not known on the other side
    assert len(done.problems) == 2
    assert done.problems[0].startswith("model 'tiny': n_params is 1000 in ")
    assert "unknown gpu 'gpu-b'" in done.problems[1]
    assert new(done) == [1, 0]
    assert count_runs(mine.location) == runs(1, 4)
    assert mine.fold().problems == ()


def test_of_two_descriptions_on_one_side_only_the_one_that_counts_there_is_brought(
    tmp_path: Path,
) -> None:
    mine, theirs = make_registry(tmp_path / "mine"), make_registry(tmp_path / "theirs")
    folder = theirs.location.own
    for number in (1_000, 2_000):
        text = recorded(describe(number, n_params=number))
        (folder.journal / f"{document_id(text)}.json").write_text(text, encoding="utf-8")
    before = {row["n_params"] for row in facts(theirs)}
    done = merge(mine, theirs)
    [problem] = done.problems
    assert f" in {theirs.path} and " in problem
    assert " in another document there; " in problem
    assert new(done) == [1, 0]
    assert {row["n_params"] for row in facts(mine)} == before
