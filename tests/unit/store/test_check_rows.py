"""Rows are checked in every part, also where citations of earlier observations came later."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.store.check import check_registry
from registry.store.check_rows import check_rows
from registry.store.ids import format_ids
from registry.store.parts import Part, PartFile
from registry.store.snapshot import read_snapshot
from tests.unit.store.registries import add_numbers, build_document

if TYPE_CHECKING:
    from registry.api import Registry


@pytest.fixture
def cited(db: Registry) -> Registry:
    """Return a registry of three parts; the later two bring citations of the first."""
    for locators in (("a",), ("b",), ("c", "d")):
        for locator in locators:
            db.add(build_document(0, locator=locator))
        add_numbers(db, 1 + len(locator))
        db.fold()
        add_numbers(db, *range(10, 10 + ord(locators[0]) - ord("a")))
        db.fold()
    return db


def test_citations_that_came_later_are_counted_by_the_check(cited: Registry) -> None:
    snapshot = read_snapshot(cited.location)
    assert len(snapshot.state.parts) > 2
    assert sum(part.rows("later_citations") for part in snapshot.state.parts) == 2
    assert check_registry(cited.location).problems == ()


def test_later_citations_of_another_number_are_named(cited: Registry) -> None:
    snapshot = read_snapshot(cited.location)
    parts = [
        replace(part, files={n: f for n, f in part.files.items() if not n.startswith("later")})
        for part in snapshot.state.parts
    ]
    assert list(check_rows(parts, snapshot)) == [
        ("results", "table results: found values of n_citations that are not the view's")
    ]


def with_ids(part: Part, table: str, data: bytes) -> Part:
    """Return a part with other ids, as if they had been written so."""
    name = f"{table}.ids"
    (part.path / name).write_bytes(data)
    file = PartFile(len(data), hashlib.sha256(data).hexdigest())
    return replace(part, files={**part.files, name: file})


@pytest.mark.parametrize("table", ["observations", "citations", "submissions"])
def test_ids_are_checked_in_a_part_without_models_too(cited: Registry, table: str) -> None:
    snapshot = read_snapshot(cited.location)
    *others, last = snapshot.state.parts
    assert last.file("models") is None
    damaged = with_ids(last, table, format_ids("observations", [{"observation_id": "0f" * 16}]))
    found = list(check_rows([*others, damaged], snapshot))
    message = f"{last.path / table}.ids: found ids that differ from those of the rows"
    assert found == [("ids", message)]


def test_missing_ids_are_named(cited: Registry) -> None:
    snapshot = read_snapshot(cited.location)
    *others, last = snapshot.state.parts
    files = {name: file for name, file in last.files.items() if name != "observations.ids"}
    found = list(check_rows([*others, replace(last, files=files)], snapshot))
    message = f"{last.path / 'observations'}.ids: found ids that differ from those of the rows"
    assert found == [("ids", message)]


def with_table(part: Part, table: str, rows: pa.Table) -> Part:
    """Return a part with other rows, as if they had been written so."""
    path = part.path / f"{table}.parquet"
    pq.write_table(rows, path)
    data = path.read_bytes()
    file = PartFile(len(data), hashlib.sha256(data).hexdigest(), rows.num_rows)
    return replace(part, files={**part.files, path.name: file})


def test_many_more_rows_than_documents_give_are_named_without_reading_them(
    cited: Registry,
) -> None:
    snapshot = read_snapshot(cited.location)
    *others, last = snapshot.state.parts
    rows = pq.read_table(last.path / "measurements.parquet").slice(0, 1)
    damaged = with_table(last, "measurements", pa.concat_tables([rows] * 20_000))
    ((kind, message),) = check_rows([*others, damaged], snapshot)
    assert kind == "rows"
    assert message.startswith("table measurements: found 200")
    assert "expected what the documents give" in message


@pytest.mark.parametrize("table", ["observations", "results"])
def test_a_column_of_another_type_is_named(cited: Registry, table: str) -> None:
    snapshot = read_snapshot(cited.location)
    *others, last = snapshot.state.parts
    rows = pq.read_table(last.path / f"{table}.parquet")
    place = rows.schema.get_field_index("source_id")
    numbers = pa.array([7] * rows.num_rows)
    damaged = with_table(last, table, rows.set_column(place, "source_id", numbers))
    found = list(check_rows([*others, damaged], snapshot))
    assert found
    assert {kind for kind, _ in found} <= {"rows", "results", "contract"}
