"""The journal: every entry is judged as when it was added, and a bad one stops nobody."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from registry.errors import StoreError, SubmissionError
from registry.store.check import check_registry
from registry.store.fold import fold
from registry.store.journal import (
    BadEntry,
    entry_name,
    list_entries,
    quarantine,
    read_entries,
)
from registry.store.repair import repair
from registry.store.snapshot import load_catalogue, read_snapshot
from tests.unit.store.registries import (
    add_numbers,
    build_document,
    count_runs,
    runs,
    write_entry,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.api import Registry
    from registry.store.folder import Folder

    Plant = Callable[[Folder], str]

NAME = f"{'0f' * 32}.json"


def configured(**columns: Any) -> dict[str, Any]:
    document = build_document(7)
    document["observations"][0]["configuration"] |= columns
    return document


def unknown_outcome(folder: Folder) -> str:
    return f"{write_entry(folder, build_document(7, outcome='banana'))}.json"


def negative_length(folder: Folder) -> str:
    return f"{write_entry(folder, configured(seq_len=-7))}.json"


def overflowing_counts(folder: Folder) -> str:
    huge = 9 * 10**18
    return f"{write_entry(folder, configured(micro_batch_size=huge, grad_accum_steps=huge))}.json"


def overflowing_product(folder: Folder) -> str:
    columns = {"micro_batch_size": 10**8, "grad_accum_steps": 10**8}
    return f"{write_entry(folder, configured(**columns))}.json"


def a_list(folder: Folder) -> str:
    return f"{write_entry(folder, [1])}.json"


def a_foreign_object(folder: Folder) -> str:
    return f"{write_entry(folder, {'a': 1})}.json"


def a_number(folder: Folder) -> str:
    return f"{write_entry(folder, '1')}.json"


def no_json(folder: Folder) -> str:
    return f"{write_entry(folder, '{')}.json"


def nested_deep(folder: Folder) -> str:
    return f"{write_entry(folder, '[' * 100_000)}.json"


def odd_descriptions(folder: Folder) -> str:
    document = {**build_document(7), "models": [1, {"model_id": 3}], "gpus": {"gpu_id": "x"}}
    return f"{write_entry(folder, document)}.json"


def not_utf8(folder: Folder) -> str:
    data = b'{"a":"\xff"}'
    name = f"{hashlib.sha256(data).hexdigest()}.json"
    (folder.journal / name).write_bytes(data)
    return name


def another_hash(folder: Folder) -> str:
    (folder.journal / NAME).write_text(json.dumps(build_document(7)), encoding="utf-8")
    return NAME


def emptied(folder: Folder) -> str:
    (folder.journal / NAME).write_bytes(b"")
    return NAME


def a_pipe(folder: Folder) -> str:
    os.mkfifo(folder.journal / NAME)
    return NAME


def a_folder(folder: Folder) -> str:
    (folder.journal / NAME).mkdir()
    return NAME


def a_link(folder: Folder) -> str:
    target = folder.path.parent / "elsewhere.json"
    target.write_text(json.dumps(build_document(7)), encoding="utf-8")
    (folder.journal / NAME).symlink_to(target)
    return NAME


def another_name(folder: Folder) -> str:
    (folder.journal / "notes.txt").write_text("mine", encoding="utf-8")
    return "notes.txt"


BAD = [
    (unknown_outcome, "observations[0].outcome: found 'banana'; expected one of ok, oom, "),
    (negative_length, "observations[0].configuration.seq_len: found -7; expected at least 1"),
    (overflowing_counts, "grad_accum_steps: found 9000000000000000000; expected at most 100000000"),
    (
        overflowing_product,
        (
            "global_batch_size: found 10000000000000000, which follows from the others; "
            "expected at most 100000000000"
        ),
    ),
    (a_list, "the document: found [1]; expected "),
    (a_foreign_object, "a: unknown column; expected schema_version, source, models, "),
    (a_number, "the document: found 1; expected "),
    (no_json, "line 1, column 2: expecting property name"),
    (nested_deep, "nested"),
    (odd_descriptions, "models[0]: found 1; expected "),
    (not_utf8, "its content does not match its name"),
    (another_hash, "its content does not match its name"),
    (emptied, "its content does not match its name"),
    (a_pipe, "found not a regular file; expected a regular file that the registry wrote"),
    (a_folder, "found not a regular file; expected a regular file that the registry wrote"),
    (a_link, "expected a regular file that the registry wrote"),
    (another_name, "expected a journal entry's name (64 digits and .json)"),
]


@pytest.mark.parametrize(("plant", "reason"), BAD, ids=[plant.__name__ for plant, _ in BAD])
@pytest.mark.parametrize("mend", [fold, repair])
def test_a_bad_entry_is_named_and_stops_nobody(
    db: Registry, plant: Plant, reason: str, mend: Callable[..., object]
) -> None:
    folder = db.location.own
    add_numbers(db, 1)
    name = plant(folder)
    (problem,) = read_snapshot(db.location).journal.problems
    assert problem.startswith(f"journal/{name}: ")
    assert reason in problem
    assert problem.endswith(
        "; it is left out of all answers; submit it again with `registry add`, or "
        "have `registry fold` move the file to quarantine/"
    )
    assert "\n" not in problem
    assert [str(p) for p in check_registry(db.location).problems] == [f"journal: {problem}"]
    add_numbers(db, 2)
    assert count_runs(db.location) == runs(1, 2)
    mend(db.location)
    assert count_runs(db.location) == runs(1, 2)
    assert folder.storage.list("quarantine") == [name]
    assert folder.storage.list("journal") == []
    assert check_registry(db.location).problems == ()


def test_a_fold_names_what_it_moved_to_quarantine(db: Registry) -> None:
    name = a_list(db.location.own)
    (problem,) = fold(db.location).problems
    assert problem.startswith(f"journal/{name}: the document: found [1]; ")


@pytest.mark.parametrize("mend", [fold, repair])
def test_a_damaged_entry_whose_document_is_folded_is_kept_in_quarantine(
    db: Registry, mend: Callable[..., object]
) -> None:
    folder = db.location.own
    (identity,) = add_numbers(db, 1)
    db.fold()
    folder.storage.put(entry_name(identity), b"damaged")
    mend(db.location)
    assert list_entries(folder) == []
    assert folder.storage.get(f"quarantine/{identity}.json") == b"damaged"
    assert count_runs(db.location) == runs(1)


def test_an_entry_that_another_process_moved_is_passed_over(db: Registry) -> None:
    folder = db.location.own
    name = a_list(folder)
    gone = BadEntry(f"{'0' * 64}.json", "odd")
    (message,) = quarantine(folder, [gone, BadEntry(name, "a list")])
    assert message == f"journal/{name}: a list; moved to quarantine/{name}"


def test_nothing_is_overwritten_in_quarantine(db: Registry) -> None:
    folder = db.location.own
    for _ in range(3):
        emptied(folder)
        fold(db.location)
    assert folder.storage.list("quarantine") == [NAME, f"{NAME}.2", f"{NAME}.3"]


def test_an_entry_of_a_newer_release_is_named_and_stays(db: Registry) -> None:
    folder = db.location.own
    add_numbers(db, 1)
    newer = write_entry(folder, {**build_document(7), "schema_version": 2})
    result = fold(db.location)
    assert result.n_submissions == 1
    assert result.problems == (
        (
            f"journal/{newer}.json: schema_version: found 2; expected version 1 of the submission "
            "format; a newer one needs a newer peft-registry; it is left out until you upgrade"
        ),
    )
    assert list_entries(folder) == [newer]
    assert folder.storage.list("quarantine") == []
    assert count_runs(db.location) == runs(1)


def test_an_entry_that_may_not_be_read_stays(db: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    (identity,) = add_numbers(db, 1)
    name = f"{identity}.json"
    get = type(db.location.own.storage).get

    def refuse(storage: Any, wanted: str) -> bytes:
        if wanted == f"journal/{name}":
            raise StoreError(f"{wanted}: Permission denied")
        return get(storage, wanted)

    with monkeypatch.context() as patch:
        patch.setattr(type(db.location.own.storage), "get", refuse)
        patch.setattr(os, "access", lambda *_: False)
        assert "Permission denied" in " ".join(fold(db.location).problems)
    assert (db.path / "journal" / name).exists()
    fold(db.location)
    assert count_runs(db.location) == runs(1)


@pytest.mark.parametrize("harm", [lambda _: b"", lambda data: data[:-10], lambda data: data + b" "])
def test_adding_the_same_again_restores_a_damaged_entry(
    db: Registry, harm: Callable[[bytes], bytes]
) -> None:
    (submission_id,) = add_numbers(db, 1)
    path = db.location.own.storage.path(entry_name(submission_id))
    whole = path.read_bytes()
    path.write_bytes(harm(whole))
    assert count_runs(db.location) == {}
    assert db.add(build_document(1)).is_new
    assert path.read_bytes() == whole
    assert count_runs(db.location) == runs(1)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (
            {"micro_batch_size": 9 * 10**18},
            (
                "submission: observations[0].configuration.micro_batch_size: found "
                "9000000000000000000; expected at most 100000000"
            ),
        ),
        (
            {"micro_batch_size": 10**8, "grad_accum_steps": 10**8},
            (
                "submission: observations[0].configuration.global_batch_size: found "
                "10000000000000000, which follows from the others; expected at most 100000000000"
            ),
        ),
        (
            {"n_gpus": None, "n_nodes": 100_000, "gpus_per_node": 10_000},
            (
                "submission: observations[0].configuration.n_gpus: found 1000000000, which follows "
                "from the others; expected at most 1000000"
            ),
        ),
    ],
)
def test_a_derived_value_out_of_range_is_refused_like_a_stated_one(
    db: Registry, columns: dict[str, Any], problem: str
) -> None:
    document = configured(**columns)
    document["observations"][0]["configuration"] = {
        name: value
        for name, value in document["observations"][0]["configuration"].items()
        if value is not None
    }
    with pytest.raises(SubmissionError) as caught:
        db.add(document)
    assert problem in caught.value.problems
    assert list_entries(db.location.own) == []


def test_a_derived_rate_out_of_range_is_refused(db: Registry) -> None:
    document = build_document(1, measurements=[{"metric": "sample_time", "value": 1e-300}])
    with pytest.raises(SubmissionError) as caught:
        db.add(document)
    assert (
        "samples_per_second, derived as 1 / time per sample: found 9.999999999999999e+299; "
        in str(caught.value)
    )


def test_an_entry_that_vanishes_while_it_is_read_was_folded(db: Registry) -> None:
    assert read_entries(db.location.own, [NAME]).texts == {}


def test_a_hidden_file_in_the_journal_is_none_of_its_entries(db: Registry, folder: Folder) -> None:
    add_numbers(db, 1)
    for name in (".nfs0001", "notes.txt"):  # the first is what a network file system leaves
        (folder.journal / name).write_text("x", encoding="utf-8")
    found = read_entries(folder)
    assert ([bad.name for bad in found.bad], len(found.texts)) == (["notes.txt"], 1)


def test_the_catalogue_of_a_registry_has_what_its_documents_describe(db: Registry) -> None:
    add_numbers(db, 1)
    known = load_catalogue(db.location)
    assert (known.models["tiny"]["n_params"], known.resolve_gpu("gpu-a")) == (1_000, "gpu-a")
