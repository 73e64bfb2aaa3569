"""A damaged part: its documents as far as they can be read, else its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.errors import StoreError
from registry.store.derive_tables import derive_tables
from registry.store.documents import find_safe, read_documents
from registry.store.parquet import read_rows
from registry.store.parts import Part
from registry.store.recover import recover_part
from registry.store.state import read_state
from registry.submission.identity import document_id
from tests.unit.store.registries import add_numbers

if TYPE_CHECKING:
    from pathlib import Path

    from registry.api import Registry

COMPOSED = "documents damaged or missing; their observations are composed from the rows"
WAY_OUT = "run `registry repair`, which rebuilds it from the parts and documents that are there"


@pytest.fixture
def parts(db: Registry) -> tuple[Part, ...]:
    """Return two parts of two documents each; the second needs configurations of the first."""
    for numbers in ((0, 1), (3, 2)):
        add_numbers(db, *numbers)
        db.fold()
    return read_state(db.location.own).parts


def read_table(part: Part, name: str) -> pa.Table:
    return pq.read_table(part.path / f"{name}.parquet", partitioning=None)


def recover(part: Part, *others: Part) -> tuple[list[str], list[str]]:
    """Return the runs of the documents of a part, sorted, and the notes without its path."""
    notes: list[str] = []
    documents = list(recover_part(part.path, [other.path for other in others], notes))
    found = [o["run_id"] for d in documents for o in d.plain["observations"]]
    return sorted(found), [note.replace(str(part.path), "PART") for note in notes]


def damage_first_document(part: Part, column: str, value: str | None) -> Path:
    table = read_table(part, "submissions")
    rows = table.to_pylist()
    rows[0][column] = value
    path = part.path / "submissions.parquet"
    fields = [pa.field(field.name, field.type) for field in table.schema]
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(fields)), path)
    return path


def test_documents_that_are_whole_are_taken_as_they_are(parts: tuple[Part, ...]) -> None:
    notes: list[str] = []
    found = list(recover_part(parts[0].path, [], notes))
    assert found == list(read_documents(parts[0]))
    assert len(found) == 2
    assert notes == []


@pytest.mark.parametrize(
    ("column", "value"), [("document", None), ("document", "{}"), ("submission_id", "0f" * 32)]
)
def test_one_damaged_document_is_composed_beside_those_that_are_whole(
    parts: tuple[Part, ...], column: str, value: str | None
) -> None:
    damage_first_document(parts[0], column, value)
    found, notes = recover(parts[0])
    assert found == ["run-0", "run-1"]
    assert notes == [f"PART: {COMPOSED}"]


def test_rows_that_parts_share_are_found_in_the_other(parts: tuple[Part, ...]) -> None:
    (parts[1].path / "submissions.parquet").unlink()
    assert recover(parts[1], parts[0])[0] == ["run-2", "run-3"]
    found, notes = recover(parts[1])
    assert found == ["run-2"]
    rows = {row["run_id"]: row for row in read_table(parts[1], "observations").to_pylist()}
    lost = rows["run-3"]
    assert notes[1:] == [
        f"PART: {COMPOSED}",
        (
            f"PART: observation {lost['observation_id']}: its configuration "
            f"{lost['configuration_id']} is in no part; it is left out"
        ),
    ]
    assert notes[0].startswith("PART/submissions.parquet: cannot be read (")


def test_a_table_that_cannot_be_read_is_named_in_one_line(parts: tuple[Part, ...]) -> None:
    for name in ("submissions", "samples"):
        (parts[0].path / f"{name}.parquet").write_bytes(b"?")
    found, notes = recover(parts[0])
    assert found == ["run-0", "run-1"]
    assert [note.partition(" (")[0] for note in notes] == [
        "PART/submissions.parquet: cannot be read",
        f"PART: {COMPOSED}",
        "PART/samples.parquet: cannot be read",
    ]
    assert not any("\n" in note for note in notes)


def test_a_document_of_another_hash_is_refused(parts: tuple[Part, ...]) -> None:
    path = damage_first_document(parts[0], "document", "{}")
    identity = read_table(parts[0], "submissions").to_pylist()[0]["submission_id"]
    with pytest.raises(StoreError) as caught:
        list(read_documents(parts[0]))
    assert str(caught.value) == (
        f"{path}: submission {identity[:12]} does not match its id; {WAY_OUT}"
    )


def test_documents_that_cannot_be_read_are_refused(parts: tuple[Part, ...]) -> None:
    path = parts[0].path / "submissions.parquet"
    path.write_bytes(b"?")
    with pytest.raises(StoreError) as caught:
        list(read_documents(parts[0]))
    assert str(caught.value).startswith(f"{path}: cannot be read (")
    assert str(caught.value).endswith(f"); {WAY_OUT}")


def test_only_a_document_that_is_read_back_whole_is_safe(parts: tuple[Part, ...]) -> None:
    ids = [row["submission_id"] for p in parts for row in read_table(p, "submissions").to_pylist()]
    assert find_safe(parts, set(ids)) == set(ids)
    assert find_safe(parts, {ids[1], "0f" * 32}) == {ids[1]}
    assert find_safe(parts, set()) == set()
    assert find_safe([Part("x", parts[0].path, "", "")], set(ids)) == set()
    damage_first_document(parts[0], "document", "{}")
    assert find_safe(parts, set(ids)) == set(ids[1:])


def lose_documents(part: Part) -> Part:
    (part.path / "submissions.parquet").unlink()
    return part


@pytest.fixture
def cited(db: Registry) -> tuple[Part, ...]:
    """Return a part with an observation, and one with a further citation of it alone."""
    for locator in ("row 0", "another row"):
        add_numbers(db, 0, locator=locator)
        db.fold()
    return read_state(db.location.own).parts


@pytest.mark.parametrize("n_lost", [1, 2])
def test_a_further_citation_is_composed_with_the_observation_of_another_part(
    cited: tuple[Part, ...], n_lost: int
) -> None:
    whole = derive_tables(read_documents(cited[0]))
    for part in cited[-n_lost:]:
        lose_documents(part)
    (document,) = recover_part(cited[1].path, [part.path for part in cited], [])
    rows = derive_tables([document])
    for name in ("observations", "measurements", "samples", "configurations", "environments"):
        assert sorted(rows[name], key=str) == sorted(whole[name], key=str), name
    assert [row["locator"] for row in rows["citations"]] == ["another row"]


def test_a_citation_of_an_observation_that_is_in_no_part_is_named(cited: tuple[Part, ...]) -> None:
    (row,) = read_table(cited[0], "observations").to_pylist()
    found, notes = recover(lose_documents(cited[1]))
    assert found == []
    assert notes[1:] == [
        f"PART: {COMPOSED}",
        f"PART: observation {row['observation_id']} is in no part; its citation is left out",
    ]


def describe_alone(db: Registry, source_id: str) -> Part:
    """Return a part that holds a model and a GPU and no observation."""
    gpu = {"gpu_id": "gpu-b", "memory_bytes": 2**30}
    source = {"source_id": source_id, "kind": "run"}
    db.add({"source": source, "models": [{"model_id": "alone", "n_params": 7}], "gpus": [gpu]})
    db.fold()
    return lose_documents(read_state(db.location.own).parts[-1])


def test_models_and_gpus_alone_are_composed_with_their_source(db: Registry) -> None:
    part = describe_alone(db, "src-b")
    notes: list[str] = []
    (document,) = recover_part(part.path, [part.path], notes)
    assert document.plain == {
        "schema_version": 1,
        "source": {"source_id": "src-b", "kind": "run"},
        "models": [{"model_id": "alone", "n_params": 7}],
        "gpus": [{"gpu_id": "gpu-b", "memory_bytes": 2**30}],
    }
    assert len(notes) == 2


def test_models_whose_source_is_in_another_part_are_put_under_one_that_is_known(
    db: Registry,
) -> None:
    add_numbers(db, 0)
    db.fold()
    (other,) = read_state(db.location.own).parts
    part = describe_alone(db, "src-a")
    notes: list[str] = []
    (document,) = recover_part(part.path, [other.path, part.path], notes)
    assert document.plain["source"] == {"source_id": "src-a", "kind": "run"}
    assert [model["model_id"] for model in document.plain["models"]] == ["alone"]
    lost = f"{part.path}: the source that describes alone, gpu-b is not known"
    assert notes[2:] == [f"{lost}; put under src-a"]
    assert list(recover_part(part.path, [part.path], notes)) == []
    assert notes[-1] == f"{lost}; left out"


def test_a_source_that_comes_with_nothing_is_composed_too(db: Registry) -> None:
    part = describe_alone(db, "src-b")
    for name in ("models", "gpus"):
        (part.path / f"{name}.parquet").unlink()
    (document,) = recover_part(part.path, [part.path], [])
    assert document.plain == {"schema_version": 1, "source": {"source_id": "src-b", "kind": "run"}}


def repeat_first_document(part: Part, times: int, filling: int, *, with_own_ids: bool) -> Path:
    """Have a part hold one text again and again, under one id or under an id for each row."""
    (first, *_) = read_table(part, "submissions").to_pylist()
    text = first["document"] + " " * filling
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * times, pa.int32()), pa.array([text]))
    ids = [f"{number:064x}" for number in range(times)]
    ids = ids if with_own_ids else [document_id(text)] * times
    path = part.path / "submissions.parquet"
    pq.write_table(pa.table({"submission_id": ids, "document": texts}), path)
    return path


@pytest.mark.parametrize("with_own_ids", [True, False])
def test_a_small_file_that_repeats_a_document_for_ever_is_not_unpacked(
    parts: tuple[Part, ...], *, with_own_ids: bool
) -> None:
    path = repeat_first_document(parts[0], 10_000, 2**20, with_own_ids=with_own_ids)
    assert path.stat().st_size < 2**20
    found, (unpacked, composed) = recover(parts[0])
    assert found == ["run-0", "run-1"]
    largest = max(64 * 2**20, 1000 * path.stat().st_size)
    assert unpacked == (
        f"PART/submissions.parquet: unpacks to more than {largest} bytes; it is not read"
    )
    assert composed == f"PART: {COMPOSED}"
    with pytest.raises(StoreError, match=r"submissions\.parquet: found a document twice"):
        list(read_documents(parts[0]))


def test_documents_are_told_to_be_there_twice_across_batches(
    parts: tuple[Part, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.store.documents._BATCH_ROWS", 1)
    repeat_first_document(parts[0], 2, 0, with_own_ids=False)
    with pytest.raises(StoreError, match=r"found document [0-9a-f]{12} twice; expected it once"):
        list(read_documents(parts[0]))


@pytest.mark.parametrize("value", [b"x" * 2**20, "x" * 2**20])
def test_what_a_column_of_any_length_repeats_is_not_unpacked(
    tmp_path: Path, value: bytes | str
) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), pa.array([value]))
    pq.write_table(pa.table({"a": column[:64]}), tmp_path / "few")
    assert len(read_rows(tmp_path / "few", 2**30) or ()) == 64
    assert read_rows(tmp_path / "few", 2**25) is None
    pq.write_table(pa.table({"a": column}), tmp_path / "large")
    assert read_rows(tmp_path / "large", 2**25) is None


def test_rows_of_numbers_that_are_packed_as_a_dictionary_are_read(tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), pa.array([7, 8]))
    pq.write_table(pa.table({"a": column}), tmp_path / "numbers")
    assert read_rows(tmp_path / "numbers", 2**20) == [{"a": 7}, {"a": 8}, {"a": 7}]
